/*
 * Tests of the CUDA kernels against reference.c, on the first GPU.
 *
 *     qmoe_cuda_test MODULES [SEED [CASES]]
 *
 * Every case runs four times: with all experts in device memory, with all of them read in place from memory of the host,
 * mixed and in stages of some experts, and replayed from a graph after experts have changed places. All have to give the
 * same bits, and those have to be near the reference.
 */
#include "cuda_harness.h"
#include "model.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the largest output. */
static const double tolerance[3] = {1e-5, 2e-3, 1.5e-2};

static int failures;
static double worst[3];
static uint64_t hash = 0xcbf29ce484222325u;

static int type_index(int32_t type) {
    return type == EB_FLOAT ? 0 : type == EB_FLOAT16 ? 1 : 2;
}

static int64_t element_bytes(int32_t type) {
    return type == EB_FLOAT ? 4 : 2;
}

/* Of the case that runs; published shapes are -1, -2, ..., long rows -100. */
static int case_number;

static void describe(const struct model *m, const char *what) {
    const eb_qmoe_spec *s = &m->spec;
    const struct model_options *o = &m->options;
    fprintf(stderr,
            "FAILED: case %d, %s: hidden %d inter %d experts %d top_k %d bits %d block %d act %d fusion %d fc3 %d io %d scales %d "
            "routing %d normalize %d layout %d limit %g tokens %lld zp %d%d%d bias %d%d%d router_weights %d misalignment %d\n",
            case_number, what, s->hidden, s->inter, s->experts, s->top_k, s->bits, s->block_size, s->activation, s->swiglu_fusion,
            s->has_fc3, s->io_type, s->scale_type, s->routing, s->normalize, s->layout, (double)s->limit,
            (long long)o->tokens, o->zero_point[0], o->zero_point[1], o->zero_point[2], o->bias[0], o->bias[1],
            o->bias[2], o->router_weights, o->misalignment);
}

/* Where a tensor of an expert is, on both sides. */
struct tensor {
    const void *source;
    int64_t bytes;
    int64_t offset;
};

/* An expert's tensors with their sizes and places, 12 of them, absent ones with 0 bytes. */
static int64_t lay_out(const struct model *m, const eb_expert_row *row, struct tensor tensors[12]) {
    const eb_qmoe_spec *s = &m->spec;
    int64_t at = 0;
    for (int which = 0; which < 3; which++) {
        int fused = s->activation == EB_SWIGLU && s->swiglu_fusion;
        int64_t rows = which == 1 ? s->hidden : which == 0 && fused ? 2 * s->inter : s->inter;
        int64_t columns = which == 1 ? s->inter : s->hidden;
        int64_t blocks = s->block_size ? (columns + s->block_size - 1) / s->block_size : 1;
        int64_t per_byte = 8 / s->bits;
        int64_t zero_points = s->block_size ? rows * ((blocks + per_byte - 1) / per_byte)
                                            : (rows + per_byte - 1) / per_byte;
        struct tensor all[4] = {
            {row->weight[which], rows * columns / per_byte, 0},
            {row->scale[which], rows * blocks * element_bytes(s->scale_type), 0},
            {row->zero_point[which], zero_points, 0},
            {row->bias[which], rows * element_bytes(s->io_type), 0},
        };
        for (int i = 0; i < 4; i++) {
            if (all[i].source == NULL) {
                all[i].bytes = 0;
            }
            all[i].offset = at;
            tensors[4 * which + i] = all[i];
            at += (all[i].bytes + 63) / 64 * 64;
        }
    }
    return at;
}

/* The byte layout of ONNX Runtime's CUDA exports, element by element from its definition. */
static void to_sm80(int bits, int64_t rows, int64_t columns, const uint8_t *plain, uint8_t *swizzled) {
    static const int order4[32] = {0, 1, 8, 9, 16, 17, 24, 25, 2, 3, 10, 11, 18, 19, 26, 27,
                                   4, 5, 12, 13, 20, 21, 28, 29, 6, 7, 14, 15, 22, 23, 30, 31};
    static const int order8[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
    static const int slot8[4] = {0, 2, 1, 3};
    int period = bits == 4 ? 32 : 16, per_word = 32 / bits, interleave = bits == 4 ? 4 : 2, words = 64 / per_word;
    const int *order = bits == 4 ? order4 : order8;
    memset(swizzled, 0, (size_t)(rows * columns * bits / 8));
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t k = 0; k < columns; k++) {
            int place = 0;
            while (order[place] != k % period) {
                place++;
            }
            int64_t permuted = k / period * period + place;
            int64_t word_row = permuted / per_word;
            int i = (int)(permuted % per_word);
            int64_t word = n / interleave * (columns / per_word) * interleave + interleave * words * (word_row / words)
                         + words * (n % interleave) + word_row % words;
            int slot = bits == 8 ? slot8[i] : i % 2 == 0 ? i / 2 : (i - 1) / 2 + 4;
            int64_t bit = (n * columns + k) * bits;
            unsigned q = plain[bit / 8] >> bit % 8 & ((1u << bits) - 1);
            swizzled[word * 4 + slot * bits / 8] |= (uint8_t)(q << slot * bits % 8);
        }
    }
}

static void copy_expert(const struct model *m, const struct tensor tensors[12], uint8_t *to) {
    for (int i = 0; i < 12; i++) {
        const struct tensor *t = &tensors[i];
        if (t->bytes == 0) {
            continue;
        }
        if (i % 4 == 0 && m->spec.layout == EB_LAYOUT_SM80) {
            int64_t columns = i == 4 ? m->spec.inter : m->spec.hidden;
            to_sm80(m->spec.bits, t->bytes * 8 / m->spec.bits / columns, columns, t->source, to + t->offset);
        } else {
            memcpy(to + t->offset, t->source, (size_t)t->bytes);
        }
    }
}

static void point_to(const struct tensor tensors[12], uint64_t slot, eb_expert_row *row) {
    for (int which = 0; which < 3; which++) {
        const void **fields[4] = {&row->weight[which], &row->scale[which], &row->zero_point[which], &row->bias[which]};
        for (int i = 0; i < 4; i++) {
            const struct tensor *t = &tensors[4 * which + i];
            *fields[i] = t->bytes == 0 ? NULL : (const void *)(uintptr_t)(slot + (uint64_t)t->offset);
        }
    }
}

/* One model on both sides. */
struct device_model {
    struct model *m;
    eb_cuda_plan plan;
    eb_cuda_run run;
    CUdeviceptr resident;
    uint8_t *cold;              /* registered */
    eb_expert_row *rows;        /* registered, read by the kernels */
    int64_t expert_bytes;
    struct tensor tensors[12];
    CUdeviceptr buffers[6];
    int buffer_count;
    CUstream stream;
};

static CUdeviceptr upload(struct device_model *d, const void *data, int64_t bytes) {
    CUdeviceptr buffer;
    CHECK(gpuAlloc(&buffer, (size_t)bytes));
    d->buffers[d->buffer_count++] = buffer;
    if (data != NULL) {
        CHECK(gpuToDevice(buffer, data, (size_t)bytes));
    } else {
        CHECK(gpuSet(buffer, 0, (size_t)bytes));
    }
    return buffer;
}

#define ON_DEVICE(address) ((void *)(uintptr_t)(address))

static void open_model(struct device_model *d, struct model *m, const eb_cuda_limits *limits, CUstream stream) {
    const eb_qmoe_spec *s = &m->spec;
    memset(d, 0, sizeof *d);
    d->m = m;
    d->stream = stream;
    int zero_points = m->options.zero_point[0] || m->options.zero_point[1] || m->options.zero_point[2];
    if (expertbank_cuda_plan(s, zero_points, m->options.tokens, limits, &d->plan) != 0) {
        describe(m, "no plan");
        exit(1);
    }
    d->expert_bytes = lay_out(m, &m->rows[0], d->tensors);
    CHECK(gpuHostAlloc((void **)&d->cold, (size_t)(d->expert_bytes * s->experts), CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(gpuHostAlloc((void **)&d->rows, (size_t)s->experts * sizeof *d->rows, CU_MEMHOSTALLOC_DEVICEMAP));
    for (int e = 0; e < s->experts; e++) {
        lay_out(m, &m->rows[e], d->tensors);
        copy_expert(m, d->tensors, d->cold + e * d->expert_bytes);
    }
    d->resident = upload(d, d->cold, d->expert_bytes * s->experts);
    d->run.slots_begin = d->resident;
    d->run.slots_end = d->resident + (uint64_t)(d->expert_bytes * s->experts);
    int64_t tokens = m->options.tokens;
    d->run.spec = *s;
    d->run.tokens = (int32_t)tokens;
    d->run.rows = d->rows;
    d->run.input = ON_DEVICE(upload(d, m->run.input, tokens * s->hidden * element_bytes(s->io_type)));
    int64_t router_bytes = tokens * s->experts * element_bytes(s->io_type);
    d->run.router = ON_DEVICE(upload(d, m->run.router, router_bytes));
    if (m->run.router_weights != NULL) {
        d->run.router_weights = ON_DEVICE(upload(d, m->run.router_weights, router_bytes));
    }
    d->run.output = ON_DEVICE(upload(d, NULL, tokens * s->hidden * element_bytes(s->io_type)));
    expertbank_cuda_place(&d->plan, upload(d, NULL, d->plan.workspace_bytes), &d->run);
    d->run.end_expert = s->experts;
    /* The stream does not wait for what was copied and set outside of it. */
    CHECK(gpuSynchronize());
}

static void close_model(struct device_model *d) {
    CHECK(gpuSynchronize());
    for (int i = 0; i < d->buffer_count; i++) {
        CHECK(gpuFree(d->buffers[i]));
    }
    CHECK(gpuHostFree(d->cold));
    CHECK(gpuHostFree(d->rows));
}

/* Puts every expert into device memory whose bit of `pattern` (by number modulo 64) is set, and leaves the others. */
static void place_experts(struct device_model *d, uint64_t pattern) {
    for (int e = 0; e < d->m->spec.experts; e++) {
        uint64_t offset = (uint64_t)e * (uint64_t)d->expert_bytes;
        point_to(d->tensors, pattern >> e % 64 & 1 ? d->resident + offset : (uint64_t)(uintptr_t)d->cold + offset,
                 &d->rows[e]);
    }
}

static void launch_run(struct device_model *d, int stages) {
    for (int i = 0; i < d->plan.routes; i++) {
        cuda_launch(&d->plan.route[i], &d->run, d->stream);
    }
    int experts = d->m->spec.experts;
    for (int stage = 0; stage < stages; stage++) {
        d->run.first_expert = experts * stage / stages;
        d->run.end_expert = experts * (stage + 1) / stages;
        cuda_launch(&d->plan.compute[0], &d->run, d->stream);
        cuda_launch(&d->plan.compute[1], &d->run, d->stream);
    }
    cuda_launch(&d->plan.combine, &d->run, d->stream);
}

static uint8_t *fetch(struct device_model *d) {
    int64_t bytes = d->m->options.tokens * d->m->spec.hidden * element_bytes(d->m->spec.io_type);
    uint8_t *output = malloc((size_t)bytes);
    CHECK(gpuAwaitStream(d->stream));
    CHECK(gpuToHost(output, (CUdeviceptr)(uintptr_t)d->run.output, (size_t)bytes));
    CHECK(gpuSet((CUdeviceptr)(uintptr_t)d->run.output, 0xee, (size_t)bytes));
    CHECK(gpuSynchronize());
    return output;
}

static void check_same(struct device_model *d, const uint8_t *expected, const char *what) {
    uint8_t *output = fetch(d);
    int64_t bytes = d->m->options.tokens * d->m->spec.hidden * element_bytes(d->m->spec.io_type);
    if (memcmp(output, expected, (size_t)bytes) != 0 && failures++ < 20) {
        describe(d->m, what);
    }
    free(output);
}

static void check_near(struct device_model *d, const uint8_t *output) {
    const eb_qmoe_spec *s = &d->m->spec;
    int64_t count = d->m->options.tokens * s->hidden;
    double *expected = malloc(sizeof(double) * (size_t)count);
    reference_run(&d->m->run, expected);
    double largest = 0, error = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs(reference_element(s->io_type, output, i) - expected[i]);
        largest = fmax(largest, fabs(expected[i]));
        error = difference > error || isnan(difference) ? difference : error;
    }
    double relative = largest > 0 ? error / largest : error;
    int type = type_index(s->io_type);
    if (!(relative <= tolerance[type]) && failures++ < 20) {
        fprintf(stderr, "error %g of the largest output %g\n", relative, largest);
        describe(d->m, "far from the reference");
    }
    worst[type] = fmax(worst[type], relative);
    for (int64_t i = 0; i < count * element_bytes(s->io_type); i++) {
        hash = (hash ^ output[i]) * 0x100000001b3u;
    }
    free(expected);
}

/* Counters and recorded routes against the reference's choice. */
static void check_telemetry(struct device_model *d) {
    const eb_qmoe_spec *s = &d->m->spec;
    int64_t routes = d->m->options.tokens * s->top_k;
    size_t words = (size_t)EB_WINDOW_HEADER_WORDS + (size_t)s->experts;
    CUdeviceptr window, selected;
    CHECK(gpuAlloc(&window, 4 * words));
    CHECK(gpuSet(window, 0, 4 * words));
    CHECK(gpuAlloc(&selected, 4 * (size_t)routes));
    CHECK(gpuSynchronize());
    d->run.window_header = ON_DEVICE(window);
    d->run.window_counts = (uint32_t *)ON_DEVICE(window) + EB_WINDOW_HEADER_WORDS;
    d->run.selected_expert = ON_DEVICE(selected);
    launch_run(d, 1);
    CHECK(gpuAwaitStream(d->stream));
    uint32_t *counts = malloc(4 * words);
    int32_t *chosen = malloc(4 * (size_t)routes);
    uint32_t *expected = calloc((size_t)s->experts, 4);
    CHECK(gpuToHost(counts, window, 4 * words));
    CHECK(gpuToHost(chosen, selected, 4 * (size_t)routes));
    int bad = counts[EB_WINDOW_COUNT] != routes || counts[EB_WINDOW_POISON] != 0 || counts[EB_WINDOW_OVERFLOW] != 0;
    for (int64_t r = 0; r < routes; r++) {
        bad |= chosen[r] < 0 || chosen[r] >= s->experts;
        if (!bad) {
            expected[chosen[r]]++;
        }
    }
    for (int e = 0; e < s->experts && !bad; e++) {
        bad |= counts[EB_WINDOW_HEADER_WORDS + e] != expected[e];
    }
    int32_t *experts = malloc(4 * (size_t)s->top_k);
    double *weights = malloc(8 * (size_t)s->top_k);
    for (int64_t t = 0; t < d->m->options.tokens && !bad; t++) {
        reference_route(&d->m->run, t, experts, weights);
        for (int i = 0; i < s->top_k; i++) {
            bad |= experts[i] >= 0 && experts[i] != chosen[t * s->top_k + i];
        }
    }
    /* One route before the end: a counter that wraps around says so. */
    uint32_t last = ~0u;
    CHECK(gpuToDevice(window + 4 * EB_WINDOW_COUNT, &last, sizeof last));
    CHECK(gpuSynchronize());
    launch_run(d, 1);
    CHECK(gpuAwaitStream(d->stream));
    CHECK(gpuToHost(counts, window, 4 * words));
    bad |= counts[EB_WINDOW_OVERFLOW] != 1 || counts[EB_WINDOW_POISON] != 0;
    if (bad && failures++ < 20) {
        describe(d->m, "telemetry");
    }
    d->run.window_header = NULL;
    d->run.selected_expert = NULL;
    free(experts);
    free(weights);
    free(expected);
    free(chosen);
    free(counts);
    CHECK(gpuFree(window));
    CHECK(gpuFree(selected));
}

static void run_case(struct random *random, const eb_qmoe_spec *spec, const struct model_options *options,
                     const eb_cuda_limits *limits, CUstream stream) {
    struct model m;
    struct device_model d;
    model_create(&m, spec, options, random);
    open_model(&d, &m, limits, stream);
    place_experts(&d, ~(uint64_t)0);
    launch_run(&d, 1);
    uint8_t *output = fetch(&d);
    check_near(&d, output);
    place_experts(&d, 0);
    launch_run(&d, 1);
    check_same(&d, output, "read in place");
    place_experts(&d, random_bits(random));
    launch_run(&d, 3);
    check_same(&d, output, "mixed, in stages");

    CUgraph graph;
    CUgraphExec exec;
    CHECK(gpuBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch_run(&d, 1);
    CHECK(gpuEndCapture(stream, &graph));
    CHECK(gpuInstantiate(&exec, graph, 0));
    place_experts(&d, random_bits(random));
    CHECK(gpuReplay(exec, stream));
    check_same(&d, output, "replayed after experts have moved");
    check_telemetry(&d);
    free(output);
    close_model(&d);
    model_free(&m);
}

static int32_t pick(struct random *random, const int32_t *values, int count) {
    return values[random_between(random, 0, count - 1)];
}

/* Each case is drawn for itself, so that it can be repeated alone. */
static void random_case(uint64_t seed, int number, const eb_cuda_limits *limits, CUstream stream) {
    struct random own = {seed ^ (uint64_t)(number + 1) * 0x9e3779b97f4a7c15u};
    struct random *random = &own;
    case_number = number;
    static const int32_t types[3] = {EB_FLOAT, EB_FLOAT16, EB_BFLOAT16};
    static const int32_t bit_widths[3] = {2, 4, 8};
    static const int32_t blocks[6] = {0, 16, 32, 64, 128, 256};
    static const int32_t few_tokens[5] = {1, 2, 3, 7, 8};
    static const int32_t many_tokens[5] = {9, 16, 33, 70, 150};
    eb_qmoe_spec spec = {
        .experts = (int32_t)random_between(random, 1, number % 10 == 9 ? 600 : 24),
        .bits = bit_widths[number % 3],
        .block_size = pick(random, blocks, 6),
        .activation = (int32_t)random_between(random, EB_RELU, EB_IDENTITY),
        .io_type = types[number / 3 % 3],
        .scale_type = types[random_between(random, 0, 2)],
        .routing = (int32_t)random_between(random, 0, 1),
        .normalize = (int32_t)random_between(random, 0, 1),
        .alpha = 1.702f,
        .beta = 1.0f,
        .limit = random_between(random, 0, 1) ? 7.0f : INFINITY,
    };
    int32_t per_byte = 8 / spec.bits;
    int aligned = (int)random_between(random, 0, 3);
    int32_t unit = aligned == 0 ? per_byte : 64;
    int large = spec.experts <= 24 && number % 7 == 6;
    int32_t extent = spec.experts > 24 ? 2 : large ? 30 : 6;
    spec.hidden = unit * (int32_t)random_between(random, 1, aligned == 0 ? 40 : extent);
    spec.inter = unit * (int32_t)random_between(random, 1, aligned == 0 ? 40 : extent);
    if (spec.activation == EB_SWIGLU) {
        spec.swiglu_fusion = (int32_t)random_between(random, 0, 2);
        spec.has_fc3 = spec.swiglu_fusion == 0;
    } else {
        spec.has_fc3 = (int32_t)random_between(random, 0, 1);
    }
    if (unit == 64 && spec.bits != 2 && spec.block_size != 16 && random_between(random, 0, 1)) {
        spec.layout = EB_LAYOUT_SM80;
    }
    spec.top_k = (int32_t)random_between(random, 1, spec.experts < 8 ? spec.experts : 8);
    struct model_options options = {
        .tokens = large || random_between(random, 0, 2) ? pick(random, few_tokens, 5) : pick(random, many_tokens, 5),
        .router_weights = random_between(random, 0, 3) == 0,
    };
    for (int i = 0; i < 3; i++) {
        options.zero_point[i] = random_between(random, 0, 2) == 0;
        options.bias[i] = (int)random_between(random, 0, 1);
    }
    run_case(random, &spec, &options, limits, stream);
}

/* Published models' shapes, with few experts: hidden, inter, layout, tokens. */
static void published_shapes(uint64_t seed, const eb_cuda_limits *limits, CUstream stream) {
    struct random random = {seed};
    static const int32_t cases[7][4] = {{2880, 2880, EB_LAYOUT_PLAIN, 1}, {2880, 2880, EB_LAYOUT_SM80, 9},
                                        {2880, 2880, EB_LAYOUT_SM80, 2},  {2048, 768, EB_LAYOUT_PLAIN, 140},
                                        {2048, 768, EB_LAYOUT_SM80, 8},   {7168, 2048, EB_LAYOUT_PLAIN, 2},
                                        /* Three tiles and more for each block, with rows of as many stages as there are. */
                                        {7168, 2048, EB_LAYOUT_PLAIN, 8}};
    for (int i = 0; i < 7; i++) {
        eb_qmoe_spec spec = {.hidden = cases[i][0], .inter = cases[i][1], .experts = 3, .top_k = 2, .bits = 4,
                             .block_size = 32, .activation = EB_SWIGLU, .swiglu_fusion = 1, .io_type = EB_FLOAT16,
                             .scale_type = EB_FLOAT16, .routing = EB_ROUTING_ORT_CUDA, .normalize = 1,
                             .layout = cases[i][2], .alpha = 1.702f, .beta = 1.0f, .limit = 7.0f};
        struct model_options options = {.tokens = cases[i][3], .bias = {1, 1, 0}};
        case_number = -1 - i;
        run_case(&random, &spec, &options, limits, stream);
    }
}

/* Rows of more stages than there are and several tiles for each block, where there is little shared memory. */
static void long_rows(uint64_t seed, const eb_cuda_limits *limits, CUstream stream) {
    struct random random = {seed};
    eb_qmoe_spec spec = {.hidden = 1536, .inter = 64, .experts = 3, .top_k = 2, .bits = 8, .block_size = 32,
                         .activation = EB_SILU, .io_type = EB_FLOAT16, .scale_type = EB_FLOAT16,
                         .routing = EB_ROUTING_ORT_CPU, .normalize = 1, .limit = INFINITY};
    struct model_options options = {.tokens = 2};
    case_number = -100;
    run_case(&random, &spec, &options, limits, stream);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: qmoe_cuda_test MODULES [SEED [CASES [FIRST]]]\n");
        return 2;
    }
    uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 0) : 20260101;
    int cases = count > 3 ? atoi(arguments[3]) : 360;
    int first = count > 4 ? atoi(arguments[4]) : 0;
    eb_cuda_limits limits;
    CUstream stream;
    cuda_open(arguments[1], &limits);
    CHECK(gpuNewStream(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = first; i < first + cases; i++) {
        random_case(seed, i, &limits, stream);
    }
    long_rows(seed, &limits, stream);
    if (cases >= 100) {
        published_shapes(seed, &limits, stream);
    }
    printf("qmoe_cuda_test: %d random cases, %d failures, largest error of the largest output: float %.2g, float16 %.2g, "
           "bfloat16 %.2g; output hash %016llx\n",
           cases, failures, worst[0], worst[1], worst[2], (unsigned long long)hash);
    return failures != 0;
}
