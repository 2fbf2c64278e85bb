/*
 * Times of the CUDA kernels on the first GPU: microseconds per layer, and the part of the bandwidth that a plain read
 * reaches in the same run. Layers take turns and routes are random, so that weights come from memory, not from a cache.
 *
 *     qmoe_cuda_bench MODULES READ_BANDWIDTH_MODULE [hidden inter experts top_k layers [bits]]
 */
#include "../test/cuda_harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 64
#define MAX_TOKENS 512
#define ON_DEVICE(address) ((void *)(uintptr_t)(address))

static CUstream stream;
static CUevent begin, end;
static eb_cuda_limits limits;
static eb_qmoe_spec spec = {.hidden = 2880, .inter = 2880, .experts = 32, .top_k = 4, .bits = 4, .block_size = 32,
                            .activation = EB_SWIGLU, .swiglu_fusion = 1, .io_type = EB_FLOAT16,
                            .scale_type = EB_FLOAT16, .routing = EB_ROUTING_ORT_CUDA, .normalize = 1,
                            .layout = EB_LAYOUT_SM80, .alpha = 1.702f, .beta = 1.0f, .limit = 7.0f};
static int layers = 8;
static int64_t expert_bytes;
static CUdeviceptr resident;
static uint8_t *cold;

static uint64_t random_state = 1;

static uint64_t random_bits(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return z ^ z >> 31;
}

static double finish_timing(int runs) {
    float milliseconds;
    CHECK(gpuRecord(end, stream));
    CHECK(gpuAwaitStream(stream));
    CHECK(gpuElapsed(&milliseconds, begin, end));
    return milliseconds * 1e3 / runs;
}

static double read_bandwidth(CUfunction kernel, uint64_t from, uint64_t bytes, CUdeviceptr out) {
    struct {
        uint64_t from, count, out;
    } run = {from, bytes / 16, out};
    void *parameters[] = {&run};
    double best = 0;
    for (int i = 0; i < 4; i++) {
        CHECK(gpuRecord(begin, stream));
        CHECK(gpuLaunch(kernel, (unsigned)limits.multiprocessors * 8, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
        double rate = (double)bytes / finish_timing(1) / 1e3;
        best = rate > best ? rate : best;
    }
    return best;
}

/* fc1 weight, scale, bias, fc2 weight, scale, bias: 256-byte aligned in a slot. */
static void slot_layout(int64_t offsets[6]) {
    int64_t sizes[6] = {2 * (int64_t)spec.inter * spec.hidden * spec.bits / 8,
                        2 * (int64_t)spec.inter * (spec.hidden / 32) * 2, 2 * (int64_t)spec.inter * 2,
                        (int64_t)spec.hidden * spec.inter * spec.bits / 8,
                        (int64_t)spec.hidden * (spec.inter / 32) * 2, (int64_t)spec.hidden * 2};
    int64_t at = 0;
    for (int i = 0; i < 6; i++) {
        offsets[i] = at;
        at += (sizes[i] + 255) / 256 * 256;
    }
    expert_bytes = at;
}

static void point_rows(eb_expert_row *rows, int layer, uint64_t base) {
    int64_t offsets[6];
    slot_layout(offsets);
    memset(rows, 0, sizeof *rows * (size_t)spec.experts);
    for (int e = 0; e < spec.experts; e++) {
        uint64_t slot = base + (uint64_t)(layer * spec.experts + e) * (uint64_t)expert_bytes;
        for (int m = 0; m < 2; m++) {
            rows[e].weight[m] = ON_DEVICE(slot + (uint64_t)offsets[3 * m]);
            rows[e].scale[m] = ON_DEVICE(slot + (uint64_t)offsets[3 * m + 1]);
            rows[e].bias[m] = ON_DEVICE(slot + (uint64_t)offsets[3 * m + 2]);
        }
    }
}

/* Scales and biases are small numbers, weights any bits. */
static void fill_bank(void) {
    int64_t offsets[6];
    slot_layout(offsets);
    uint16_t scale = 0x1419; /* 0.001 */
    uint8_t *first = cold;
    for (int64_t i = 0; i < expert_bytes / 8; i++) {
        ((uint64_t *)first)[i] = random_bits();
    }
    int64_t ranges[2][2] = {{offsets[1], offsets[3]}, {offsets[4], expert_bytes}};
    for (int r = 0; r < 2; r++) {
        for (int64_t i = ranges[r][0]; i + 2 <= ranges[r][1]; i += 2) {
            memcpy(first + i, &scale, 2);
        }
    }
    for (int64_t e = 1; e < (int64_t)spec.experts * layers; e++) {
        memcpy(cold + e * expert_bytes, first, (size_t)expert_bytes);
    }
}

struct layer {
    eb_cuda_plan plan;
    eb_cuda_run run;
    CUdeviceptr workspace;
    int distinct;
};

static struct layer all[MAX_LAYERS];
static eb_expert_row *tables;
static CUdeviceptr input, output, router, window;

static void prepare(int tokens) {
    int64_t count = (int64_t)layers * tokens * spec.experts;
    uint16_t *logits = malloc((size_t)count * 2);
    for (int64_t i = 0; i < count; i++) {
        logits[i] = (uint16_t)(0x3000 + random_bits() % 0x1800);
    }
    CHECK(gpuToDevice(router, logits, (size_t)count * 2));
    free(logits);
    for (int l = 0; l < layers; l++) {
        struct layer *layer = &all[l];
        if (expertbank_cuda_plan(&spec, 0, tokens, &limits, &layer->plan) != 0) {
            fprintf(stderr, "no plan\n");
            exit(1);
        }
        if (layer->workspace != 0) {
            CHECK(gpuFree(layer->workspace));
        }
        CHECK(gpuAlloc(&layer->workspace, (size_t)layer->plan.workspace_bytes));
        CHECK(gpuSet(layer->workspace, 0, (size_t)layer->plan.workspace_bytes));
        memset(&layer->run, 0, sizeof layer->run);
        layer->run.spec = spec;
        layer->run.tokens = tokens;
        layer->run.slots_begin = resident;
        layer->run.slots_end = resident + (uint64_t)expert_bytes * (uint64_t)spec.experts * (uint64_t)layers;
        layer->run.rows = tables + (size_t)l * (size_t)spec.experts;
        layer->run.input = ON_DEVICE(input);
        layer->run.output = ON_DEVICE(output);
        layer->run.router = ON_DEVICE(router + (uint64_t)l * (uint64_t)tokens * (uint64_t)spec.experts * 2);
        layer->run.end_expert = spec.experts;
        layer->run.window_header = ON_DEVICE(window);
        layer->run.window_counts = (uint32_t *)ON_DEVICE(window) + EB_WINDOW_HEADER_WORDS + l * spec.experts;
        expertbank_cuda_place(&layer->plan, layer->workspace, &layer->run);
    }
    /* The stream does not wait for what was copied and set outside of it. */
    CHECK(gpuSynchronize());
}

enum part { ROUTE = 1, FC1 = 2, FC2 = 4, COMBINE = 8 };

static void launch_parts(struct layer *layer, int parts) {
    for (int i = 0; parts & ROUTE && i < layer->plan.routes; i++) {
        cuda_launch(&layer->plan.route[i], &layer->run, stream);
    }
    for (int i = 0; i < 2; i++) {
        if (parts & (FC1 << i)) {
            cuda_launch(&layer->plan.compute[i], &layer->run, stream);
        }
    }
    if (parts & COMBINE) {
        cuda_launch(&layer->plan.combine, &layer->run, stream);
    }
}

/* Microseconds per layer. */
static double time_parts(int parts, int rounds) {
    for (int warm = 0; warm < 2; warm++) {
        for (int l = 0; l < layers; l++) {
            launch_parts(&all[l], ROUTE | FC1 | FC2 | COMBINE);
        }
    }
    CHECK(gpuAwaitStream(stream));
    CHECK(gpuRecord(begin, stream));
    for (int round = 0; round < rounds; round++) {
        for (int l = 0; l < layers; l++) {
            launch_parts(&all[l], parts);
        }
    }
    return finish_timing(rounds * layers);
}

/* The same in a graph, which leaves out the launches. */
static double time_graph(int rounds) {
    CUgraph graph;
    CUgraphExec exec;
    CHECK(gpuBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int l = 0; l < layers; l++) {
        launch_parts(&all[l], ROUTE | FC1 | FC2 | COMBINE);
    }
    CHECK(gpuEndCapture(stream, &graph));
    CHECK(gpuInstantiate(&exec, graph, 0));
    CHECK(gpuReplay(exec, stream));
    CHECK(gpuRecord(begin, stream));
    for (int round = 0; round < rounds; round++) {
        CHECK(gpuReplay(exec, stream));
    }
    return finish_timing(rounds * layers);
}

static double active_bytes(void) {
    int64_t active = 0;
    int32_t *counts = malloc(4 * (size_t)spec.experts);
    for (int l = 0; l < layers; l++) {
        CHECK(gpuToHost(counts, (CUdeviceptr)(uintptr_t)all[l].run.expert_count, 4 * (size_t)spec.experts));
        for (int e = 0; e < spec.experts; e++) {
            active += counts[e] > 0;
        }
    }
    free(counts);
    return (double)active / layers * (double)expert_bytes;
}

int main(int count, char **arguments) {
    if (count < 3) {
        fprintf(stderr, "usage: qmoe_cuda_bench MODULES READ_BANDWIDTH_MODULE [hidden inter experts top_k layers [bits]]\n");
        return 2;
    }
    if (count > 7) {
        spec.hidden = atoi(arguments[3]);
        spec.inter = atoi(arguments[4]);
        spec.experts = atoi(arguments[5]);
        spec.top_k = atoi(arguments[6]);
        layers = atoi(arguments[7]);
    }
    if (count > 8) {
        spec.bits = atoi(arguments[8]);
    }
    cuda_open(arguments[1], &limits);
    CHECK(gpuNewStream(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(gpuNewEvent(&begin, 0));
    CHECK(gpuNewEvent(&end, 0));
    CUfunction read = cuda_bench_function(arguments[2], "eb_read_bandwidth");
    int64_t offsets[6];
    slot_layout(offsets);
    uint64_t bytes = (uint64_t)expert_bytes * (uint64_t)spec.experts * (uint64_t)layers;
    CHECK(gpuHostAlloc((void **)&cold, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
    fill_bank();
    CHECK(gpuAlloc(&resident, bytes));
    CHECK(gpuToDevice(resident, cold, bytes));
    CHECK(gpuHostAlloc((void **)&tables, sizeof *tables * (size_t)(spec.experts * layers), CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(gpuAlloc(&input, (size_t)MAX_TOKENS * (size_t)spec.hidden * 2));
    CHECK(gpuSet(input, 0x2c, (size_t)MAX_TOKENS * (size_t)spec.hidden * 2));
    CHECK(gpuAlloc(&output, (size_t)MAX_TOKENS * (size_t)spec.hidden * 2));
    size_t window_bytes = 4 * ((size_t)EB_WINDOW_HEADER_WORDS + (size_t)(layers * spec.experts));
    CHECK(gpuAlloc(&window, window_bytes));
    CHECK(gpuSet(window, 0, window_bytes));
    CHECK(gpuAlloc(&router, (size_t)layers * MAX_TOKENS * (size_t)spec.experts * 2));
    double device_rate = read_bandwidth(read, resident, bytes, output);
    double host_rate = read_bandwidth(read, (uint64_t)(uintptr_t)cold, bytes < 4000000000u ? bytes : 4000000000u, output);
    printf("hidden %d inter %d experts %d top %d, int%d block 32, %d layers, expert %.2f MB; plain read %.0f GB/s from the "
           "device, %.1f GB/s in place\n",
           spec.hidden, spec.inter, spec.experts, spec.top_k, spec.bits, layers, (double)expert_bytes / 1e6, device_rate,
           host_rate);
    for (int layout = 1; layout >= 0; layout--) {
        spec.layout = layout;
        for (int l = 0; l < layers; l++) {
            point_rows(tables + (size_t)l * (size_t)spec.experts, l, resident);
        }
        static const int token_counts[] = {1, 2, 4, 8, 16, 64, 512};
        for (size_t i = 0; i < sizeof token_counts / sizeof *token_counts; i++) {
            int tokens = token_counts[i];
            prepare(tokens);
            int rounds = tokens > 64 ? 5 : 20;
            double total = time_parts(ROUTE | FC1 | FC2 | COMBINE, rounds);
            double graph = time_graph(rounds);
            double moved = active_bytes();
            printf("%s resident %4d tokens: %8.1f us per layer, %8.1f in a graph (route %.1f, fc1 %.1f, fc2 %.1f, combine "
                   "%.1f), %.0f %% of the read bandwidth, %.0f TFLOP/s\n",
                   layout ? "sm80 " : "plain", tokens, total, graph, time_parts(ROUTE, rounds), time_parts(FC1, rounds),
                   time_parts(FC2, rounds), time_parts(COMBINE, rounds), 100 * moved / graph / 1e3 / device_rate,
                   6.0 * tokens * spec.top_k * spec.hidden * (double)spec.inter / graph / 1e6);
        }
        for (int l = 0; l < layers; l++) {
            point_rows(tables + (size_t)l * (size_t)spec.experts, l, (uint64_t)(uintptr_t)cold);
        }
        for (int tokens = 1; tokens <= 64; tokens *= 8) {
            prepare(tokens);
            double fc1 = time_parts(FC1, 1), fc2 = time_parts(FC2, 1);
            double graph = time_graph(2);
            double moved = active_bytes();
            printf("%s in place %4d tokens: %8.1f us per layer, %.1f GB/s, %.0f %% of the plain read (fc1 %.1f us, fc2 %.1f us)\n",
                   layout ? "sm80 " : "plain", tokens, graph, moved / graph / 1e3, 100 * moved / graph / 1e3 / host_rate,
                   fc1, fc2);
        }
    }
    return 0;
}
