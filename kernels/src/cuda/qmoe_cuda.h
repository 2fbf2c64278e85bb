/*
 * The CUDA kernels' interface: com.microsoft::QMoE over an address table, on one GPU.
 *
 * Free of any framework. The caller owns every buffer, the stream and the loaded kernels; this library only says what to
 * launch. One run is
 *
 *     expertbank_cuda_plan(spec, tokens, limits, &plan)         what to launch, and how much workspace it needs
 *     expertbank_cuda_place(&plan, workspace, &run)             once for a run and workspace
 *     launch plan.route[...], plan.compute[...], plan.combine   in this order, on one stream, each with the
 *                                                               run, its step set, as its one parameter, by value
 *
 * From compute capability 9.0 on, launches should allow programmatic stream serialization: every kernel waits for the one
 * before by itself, after it has started.
 *
 * compute can be launched in stages, each with its own range [first_expert, end_expert) and its own rows: it reads the rows
 * of the experts in its range only. Nothing is ever read back by the host between launches, so that a run can be captured
 * into a graph; the addresses in `rows` are read when the graph is replayed.
 *
 * The same inputs give the same bits wherever experts are and whatever the stages.
 */
#ifndef EXPERTBANK_QMOE_CUDA_H
#define EXPERTBANK_QMOE_CUDA_H

#include "../qmoe.h"

/* Tokens that one run may have; a caller with more makes several runs. */
#define EB_CUDA_MAX_RUN_TOKENS 2048

/*
 * Threads of a block. Those with few tokens have two warps more that do the copying, and decode has one more that adds up what
 * the others come to.
 */
#define EB_CUDA_THREADS 256
#define EB_CUDA_FILLING_WARPS 2
#define EB_CUDA_FEW_THREADS (EB_CUDA_THREADS + 32 * EB_CUDA_FILLING_WARPS)
#define EB_CUDA_DECODE_THREADS (EB_CUDA_FEW_THREADS + 32)

/* Experts for which the route kernel groups routes itself. */
#define EB_CUDA_SHARED_EXPERTS 512

/* Pieces of 16 bytes of an address row; rows begin at a multiple of 16. */
#define EB_CUDA_ROW_PIECES ((int32_t)(sizeof(eb_expert_row) / 16))

/* Input elements of a block of the route kernel that packs. */
#define EB_CUDA_PACK_ELEMENTS 1024

/*
 * Columns of tokens that a block multiplies its weights with: a run of at most 8 tokens is decode; with few tokens for each
 * expert weights still stream, and where there are more than these columns they stream twice, which costs less than more
 * registers do; with more tokens a run is a matrix product, of 16-bit activations only.
 */
#define EB_CUDA_DECODE_COLUMNS 8
#define EB_CUDA_FEW_COLUMNS 16
#define EB_CUDA_PREFILL_COLUMNS 64

/* Stages of the pipeline through shared memory, at most. */
#define EB_CUDA_MAX_STAGES 4

/* Tiles of tokens that a block of decode keeps in shared memory, and their size. */
#define EB_CUDA_KNOWN_TILES 32
#define EB_CUDA_TOKEN_TILE_BYTES(columns) (80 + 4 * (columns))

/* Bytes of the biases of a tile in a stage: two windows of at most 16 of them. */
#define EB_CUDA_BIAS_BYTES 192

/* A bulk copy over the link is as fast as the link only if source and target are equally aligned to lines of so many bytes. */
#define EB_CUDA_LINE_BYTES 128

/*
 * Bytes between the bands of rows of a stage of decode: as many that at most two rows of a warp's load are in the same banks,
 * and room to align a band as its source is.
 */
#define EB_CUDA_BAND_PADDING (EB_CUDA_LINE_BYTES + 32)

/* Bytes of shared memory for the barriers of decode, and the number of its tiles of tokens. */
#define EB_CUDA_BARRIER_BYTES 128

/* Bytes of shared memory with which decode describes one of its stages. */
#define EB_CUDA_INFO_BYTES(columns) ((8 * (columns) + 272 + 63) / 64 * 64)

/* Tokens of one expert that its weights are multiplied with together. */
typedef struct {
    int32_t expert;
    int32_t first;      /* of the expert's routes */
    int32_t columns;
    int32_t reserved;   /* it is read in one piece of 16 bytes */
} eb_cuda_token_tile;

/* What `step` means to the kernels that compute experts. */
enum { EB_CUDA_FC1 = 0, EB_CUDA_FC2 = 1 };

/* One run, passed to every kernel by value. The caller fills the first group, expertbank_cuda_place the second. */
typedef struct {
    eb_qmoe_spec spec;
    const eb_expert_row *rows;      /* [experts]; read by route only, may be memory of the host */
    const void *input;              /* [tokens, hidden] */
    const void *router;             /* [tokens, experts], logits */
    const void *router_weights;     /* [tokens, experts] or NULL */
    void *output;                   /* [tokens, hidden] */
    uint32_t *window_header;        /* [EB_WINDOW_HEADER_WORDS] or NULL: nothing is recorded */
    uint32_t *window_counts;        /* [experts], this layer's; used when there is a header */
    int32_t *selected_expert;       /* [tokens, top_k] or NULL: the routes, also those that are dropped */
    int32_t tokens;                 /* 1..EB_CUDA_MAX_RUN_TOKENS */
    int32_t first_expert;           /* compute takes the experts from here ... */
    int32_t end_expert;             /* ... to before here */
    int32_t step;                   /* the launch's */
    uint64_t slots_begin;           /* addresses from here ... */
    uint64_t slots_end;             /* ... to before here are memory of the device; others are read over the link */

    int32_t fused_grouping;         /* 1: route groups the routes itself */
    int32_t route_blocks;           /* of the route kernel that choose experts; others copy rows and pack the input */
    int32_t tile_columns;           /* tokens of a tile */
    int32_t max_tiles;              /* of tokens */
    int32_t stages;                 /* of the pipeline through shared memory */
    int32_t block_shift;            /* the block of a group of 32 weights is its number >> block_shift; -1: blocks of 16 */
    int32_t decode_chunk;           /* groups of 32 weights of a row that a stage of decode holds */
    int32_t scale_stride;           /* bytes that the scales of a row take in a stage, at most */
    int32_t zero_point_stride;      /* likewise; 0 when no expert can have zero points */
    eb_expert_row *run_rows;        /* [experts]: the rows as this run sees them */
    int32_t *route_expert;          /* [tokens, top_k], -1 where a route was dropped */
    float *route_weight;            /* [tokens, top_k] */
    uint32_t *keys;                 /* [tokens, experts] when there are too many experts for shared memory */
    int32_t *expert_count;          /* [experts]: routes */
    int32_t *expert_list;           /* [experts, tokens]: its routes, as token * top_k + rank, ascending */
    int32_t *tile_count;            /* of token_tiles; [1] counts the finished blocks of the group kernel */
    eb_cuda_token_tile *token_tiles;        /* [max_tiles], by expert, ascending */
    uint16_t *x;                    /* [parts, tokens, hidden rounded up to 32], in packed order */
    uint16_t *inner;                /* [parts, tokens * top_k, inter rounded up to 32]: activation(fc1), packed */
    float *y;                       /* [tokens * top_k, hidden]: fc2 */
} eb_cuda_run;

/* What the GPU has. */
typedef struct {
    int32_t multiprocessors;
    int32_t shared_bytes_per_block;             /* with opt-in */
    int32_t shared_bytes_per_multiprocessor;
} eb_cuda_limits;

typedef struct {
    int32_t kernel;                 /* for expertbank_cuda_kernel_name */
    int32_t step;                   /* EB_CUDA_FC1 ..., for the run */
    int32_t blocks;
    int32_t threads;                /* of a block */
    int32_t shared_bytes;           /* dynamic */
} eb_cuda_launch;

typedef struct {
    int64_t workspace_bytes;        /* 256-byte aligned, zeroed once when it is allocated */
    int64_t routes;                 /* how many of `route` there are */
    eb_cuda_launch route[2];
    eb_cuda_launch compute[2];
    eb_cuda_launch combine;
    eb_cuda_run run;                /* everything of the second group but the addresses */
} eb_cuda_plan;

/* sizeof eb_expert_row, eb_qmoe_spec, eb_cuda_run, eb_cuda_plan, so that a mirror can check itself. */
EB_EXPORT void expertbank_cuda_abi(int64_t sizes[4]);

/* The kernel's name in the module; NULL after the last. */
EB_EXPORT const char *expertbank_cuda_kernel_name(int32_t kernel);

/* 0, or 1 when the kernels do not compute this specification, tokens are out of range, or the GPU is too small. */
EB_EXPORT int32_t expertbank_cuda_plan(const eb_qmoe_spec *spec, int32_t zero_points, int64_t tokens,
                                       const eb_cuda_limits *limits, eb_cuda_plan *plan);

/* Fills the second group of `run`, whose spec and tokens have to be the plan's. */
EB_EXPORT void expertbank_cuda_place(const eb_cuda_plan *plan, uint64_t workspace, eb_cuda_run *run);

#endif
