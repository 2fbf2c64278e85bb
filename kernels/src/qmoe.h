/*
 * What a QMoE node is, for the kernels of every device. All addresses are raw, every struct is plain C: Java mirrors them
 * field by field.
 */
#ifndef EXPERTBANK_QMOE_H
#define EXPERTBANK_QMOE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define EB_EXPORT __attribute__((visibility("default")))
#else
#define EB_EXPORT
#endif

/* ONNX element types. */
enum { EB_FLOAT = 1, EB_FLOAT16 = 10, EB_BFLOAT16 = 16 };

enum { EB_RELU = 0, EB_GELU = 1, EB_SILU = 2, EB_SWIGLU = 3, EB_IDENTITY = 4 };

/* Which ONNX Runtime execution provider's routing rules apply. */
enum { EB_ROUTING_ORT_CPU = 0, EB_ROUTING_ORT_CUDA = 1 };

/*
 * How weights are stored. Plain: [N, K], packed along K, low bits first. SM80: the interleaved tiles of models exported
 * for ONNX Runtime's CUDA provider (src/cuda/layout.cuh has the closed form).
 */
enum { EB_LAYOUT_PLAIN = 0, EB_LAYOUT_SM80 = 1 };

/* Addresses of one expert's tensors, [0] fc1, [1] fc2, [2] fc3; NULL where the node has none. */
typedef struct {
    const void *weight[3];
    const void *scale[3];
    const void *zero_point[3];
    const void *bias[3];
} eb_expert_row;

/* What is fixed when a node is compiled. */
typedef struct {
    int32_t hidden;         /* H */
    int32_t inter;          /* I */
    int32_t experts;        /* E */
    int32_t top_k;          /* 1..E */
    int32_t bits;           /* 2, 4, 8 */
    int32_t block_size;     /* weights per scale along K; 0: one scale per output row */
    int32_t activation;     /* EB_RELU ... */
    int32_t swiglu_fusion;  /* 0: fc3 holds the linear half, 1: interleaved, 2: halves */
    int32_t has_fc3;        /* 1: out = act(fc1) * fc3 */
    int32_t io_type;        /* of input, router, biases, router_weights, output */
    int32_t scale_type;     /* of all scales */
    int32_t routing;        /* EB_ROUTING_ORT_CPU ... */
    int32_t normalize;      /* normalize_routing_weights */
    int32_t layout;         /* EB_LAYOUT_PLAIN ... */
    float alpha;            /* activation_alpha */
    float beta;             /* activation_beta */
    float limit;            /* swiglu_limit; +inf when absent */
} eb_qmoe_spec;

/*
 * What the routing steps of all layers record: these words, then the counters of every layer. Runs that share a record
 * may be concurrent.
 */
enum {
    EB_WINDOW_EPOCH = 0,
    EB_WINDOW_REQUEST = 1,
    EB_WINDOW_DEVICE = 2,
    EB_WINDOW_OVERFLOW = 3, /* 1 once a counter has saturated */
    EB_WINDOW_POISON = 4,   /* 1 once a row was routed to an expert that does not exist */
    EB_WINDOW_COUNT = 5,    /* routes of all layers */
    EB_WINDOW_HEADER_WORDS = 6
};

#endif
