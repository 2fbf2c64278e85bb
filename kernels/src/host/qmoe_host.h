/*
 * The host kernels' interface: com.microsoft::QMoE over an address table, on the CPU.
 *
 * Free of any framework: plain pointers in, plain pointers out. The caller owns every buffer; no
 * function but the two for slots allocates, and none locks or keeps a pointer after it returns. One run is
 *
 *     expertbank_qmoe_prepare(run);                                  once, on one thread
 *     for i in [0, run->fc1_tasks): expertbank_qmoe_fc1(run, i);     any threads, any order
 *     for i in [0, run->fc2_tasks): expertbank_qmoe_fc2(run, i);     after all of fc1
 *
 * or the same in stages: between prepare and the tasks, set first_active and end_active to successive ranges that begin at
 * 0 and end at active_experts. Each stage has (end_active - first_active) * fc1_tasks_per_expert tasks of fc1, then
 * fc2_tasks of fc2, and reads only the rows of its own experts.
 *
 * The output bits do not depend on the number of threads, the order of tasks, or the stages.
 *
 * The structures are mirrored by dev.expertbank.qmoe.device.host.HostKernels; sizes and offsets are
 * checked there against expertbank_qmoe_abi().
 */
#ifndef EXPERTBANK_QMOE_HOST_H
#define EXPERTBANK_QMOE_HOST_H

#include "../qmoe.h"

/* Tokens that one run may have; a caller with more makes several runs. */
#define EB_MAX_RUN_TOKENS 512

/* One run. The caller fills the first group; prepare fills the second. */
typedef struct {
    const eb_qmoe_spec *spec;
    const eb_expert_row *rows;      /* [experts] */
    const void *input;              /* [tokens, hidden] */
    const void *router;             /* [tokens, experts], logits */
    const void *router_weights;     /* [tokens, experts] or NULL */
    void *output;                   /* [tokens, hidden] */
    void *workspace;                /* 64-byte aligned */
    int64_t workspace_bytes;        /* at least expertbank_qmoe_workspace_bytes(spec, tokens) */
    int64_t tokens;                 /* 1..EB_MAX_RUN_TOKENS */
    uint32_t *window_header;        /* [EB_WINDOW_HEADER_WORDS] or NULL: nothing is recorded */
    uint32_t *window_counts;        /* [experts], this layer's; used when there is a header */
    int32_t *selected_expert;       /* [tokens, top_k] or NULL: the routes, also those that are dropped */

    int64_t fc1_tasks;
    int64_t fc2_tasks;
    int64_t fc1_tasks_per_expert;
    int64_t active_experts;         /* experts with at least one route */
    const int32_t *active_expert;   /* [active_experts], ascending, in workspace */
    int64_t first_active;           /* fc1 and fc2 compute the active experts from here ... */
    int64_t end_active;             /* ... to before here: all of them, unless the caller makes stages */
    const int32_t *route_expert;    /* [tokens, top_k] in workspace, -1 where a route was dropped */
    const float *route_weight;      /* [tokens, top_k] in workspace */
    void *state;                    /* private to the kernels, in workspace */
} eb_qmoe_run;

/* sizeof the three structures, in the order above, so that a mirror can check itself. */
EB_EXPORT void expertbank_qmoe_abi(int64_t sizes[3]);

/*
 * Name of the instruction tier in use: "avx512", "avx2", "neon" or "baseline". It is chosen at the first call of any
 * function and never changes: the best one the CPU has, or the one that EXPERTBANK_HOST_TIER names if the CPU has it.
 */
EB_EXPORT const char *expertbank_qmoe_tier(void);

/*
 * Bytes of workspace for a run of `tokens`; -1 when the specification is not one that the kernels compute (README.md
 * lists them) or tokens are out of range.
 */
EB_EXPORT int64_t expertbank_qmoe_workspace_bytes(const eb_qmoe_spec *spec, int64_t tokens);

/* 0, or 1 when the specification, tokens or workspace_bytes are out of range (nothing is written then). */
EB_EXPORT int32_t expertbank_qmoe_prepare(eb_qmoe_run *run);

/*
 * Zeroed memory of its own, which goes back to the system when it is freed; `bytes` in whole pages. NULL when there is
 * none.
 */
EB_EXPORT void *expertbank_slot_commit(int64_t bytes);

/* 0, or 1 when the memory could not be given back and is still there. */
EB_EXPORT int32_t expertbank_slot_release(void *slot, int64_t bytes);

EB_EXPORT int64_t expertbank_page_bytes(void);

EB_EXPORT void expertbank_qmoe_fc1(void *run, size_t task);
EB_EXPORT void expertbank_qmoe_fc2(void *run, size_t task);

#endif
