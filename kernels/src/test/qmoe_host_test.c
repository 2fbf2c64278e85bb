/*
 * Tests of the host kernels against reference.c.
 *
 *     qmoe_host_test [SEED]      runs all tests on the tier in use and prints one line
 *     qmoe_host_test --tier      prints the tier in use
 */
#include "../host/half.h"
#include "model.h"
#include "reference.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the largest output, for float32 results. */
#define TOLERANCE 1e-5

static int checks;
static int failures;
static int cases;
static double worst_float_error;

static void check(int ok, const char *what, const char *detail) {
    checks++;
    if (!ok && failures++ < 20) {
        fprintf(stderr, "FAILED: %s (%s)\n", what, detail);
    }
}

static const char *describe(const struct model *m) {
    static char text[400];
    const eb_qmoe_spec *s = &m->spec;
    const struct model_options *o = &m->options;
    snprintf(text, sizeof text,
             "hidden %d inter %d experts %d top_k %d bits %d block %d act %d fusion %d fc3 %d io %d scales %d "
             "routing %d normalize %d limit %g tokens %lld zp %d%d%d bias %d%d%d router_weights %d misalignment %d",
             s->hidden, s->inter, s->experts, s->top_k, s->bits, s->block_size, s->activation, s->swiglu_fusion,
             s->has_fc3, s->io_type, s->scale_type, s->routing, s->normalize, (double)s->limit, (long long)o->tokens,
             o->zero_point[0], o->zero_point[1], o->zero_point[2], o->bias[0], o->bias[1], o->bias[2],
             o->router_weights, o->misalignment);
    return text;
}

enum order { ASCENDING, DESCENDING, TWO_THREADS };

struct half_of_tasks {
    eb_qmoe_run *run;
    void (*task)(void *, size_t);
    int64_t count;
    int64_t first;
};

static void *run_half(void *argument) {
    struct half_of_tasks *half = argument;
    for (int64_t i = half->first; i < half->count; i += 2) {
        half->task(half->run, (size_t)i);
    }
    return NULL;
}

static void run_tasks(eb_qmoe_run *run, void (*task)(void *, size_t), int64_t count, enum order order) {
    if (order == TWO_THREADS) {
        struct half_of_tasks halves[2] = {{run, task, count, 0}, {run, task, count, 1}};
        pthread_t thread;
        pthread_create(&thread, NULL, run_half, &halves[1]);
        run_half(&halves[0]);
        pthread_join(thread, NULL);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        task(run, (size_t)(order == DESCENDING ? count - 1 - i : i));
    }
}

/* All tasks of a prepared run: at once, or in descending order in stages of 1, 2, 3 ... experts. */
static void run_all_tasks(eb_qmoe_run *run, enum order order) {
    int64_t stage = order == DESCENDING ? 1 : run->active_experts;
    do {
        int64_t end = run->first_active + stage++;
        run->end_active = end < run->active_experts ? end : run->active_experts;
        int64_t fc1_tasks = (run->end_active - run->first_active) * run->fc1_tasks_per_expert;
        run_tasks(run, expertbank_qmoe_fc1, fc1_tasks, order);
        run_tasks(run, expertbank_qmoe_fc2, run->fc2_tasks, order);
        run->first_active = run->end_active;
    } while (run->end_active < run->active_experts);
}

static int64_t output_bytes(const struct model *m) {
    return m->options.tokens * m->spec.hidden * (m->spec.io_type == EB_FLOAT ? 4 : 2);
}

/* Runs into a fresh workspace filled with `garbage`; the caller frees the output. Routes go where they are wanted. */
static uint8_t *run_kernels(struct model *m, enum order order, int garbage, int32_t *experts, float *weights) {
    eb_qmoe_run run = m->run;
    int64_t bytes = expertbank_qmoe_workspace_bytes(&m->spec, m->options.tokens);
    check(bytes > 0 && bytes % 64 == 0, "workspace size", describe(m));
    run.workspace = aligned_alloc(64, (size_t)bytes);
    run.workspace_bytes = bytes;
    memset(run.workspace, garbage, (size_t)bytes);
    uint8_t *allocation = malloc((size_t)(output_bytes(m) + m->options.misalignment));
    run.output = allocation + m->options.misalignment;
    memset(run.output, garbage, (size_t)output_bytes(m));
    check(expertbank_qmoe_prepare(&run) == 0, "prepare", describe(m));
    check(run.fc1_tasks == run.active_experts * run.fc1_tasks_per_expert, "fc1 tasks", describe(m));
    run_all_tasks(&run, order);
    size_t routes = (size_t)(m->options.tokens * m->spec.top_k);
    if (experts != NULL) {
        memcpy(experts, run.route_expert, routes * sizeof *experts);
        memcpy(weights, run.route_weight, routes * sizeof *weights);
    }
    free(run.workspace);
    memmove(allocation, run.output, (size_t)output_bytes(m));
    return allocation;
}

static void check_routes(struct model *m, const int32_t *experts, const float *weights) {
    int32_t top_k = m->spec.top_k;
    int32_t *expected = malloc(sizeof *expected * (size_t)top_k);
    double *expected_weight = malloc(sizeof *expected_weight * (size_t)top_k);
    int same = 1;
    int close = 1;
    for (int64_t token = 0; token < m->options.tokens; token++) {
        reference_route(&m->run, token, expected, expected_weight);
        for (int32_t i = 0; i < top_k; i++) {
            same &= experts[token * top_k + i] == expected[i];
            close &= fabs((double)weights[token * top_k + i] - expected_weight[i]) <= 2e-6 * fabs(expected_weight[i]);
        }
    }
    check(same, "routed experts", describe(m));
    check(close, "route weights", describe(m));
    free(expected);
    free(expected_weight);
}

static void check_output(struct model *m, const uint8_t *output) {
    int64_t count = m->options.tokens * m->spec.hidden;
    double *expected = malloc(sizeof *expected * (size_t)count);
    reference_run(&m->run, expected);
    double largest = 0;
    double worst = 0;
    int rounded = 1;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
    }
    /* Half a unit in the last place of the output type, and half of the smallest subnormal. */
    double half_unit = m->spec.io_type == EB_FLOAT ? 0 : m->spec.io_type == EB_FLOAT16 ? 0x1p-11 : 0x1p-8;
    double subnormal = m->spec.io_type == EB_FLOAT16 ? 0x1p-25 : 0;
    for (int64_t i = 0; i < count; i++) {
        double error = fabs(reference_element(m->spec.io_type, output, i) - expected[i]);
        worst = fmax(worst, isnan(error) ? INFINITY : error);
        rounded &= error <= TOLERANCE * largest + half_unit * fabs(expected[i]) * (1 + 1e-5) + subnormal;
    }
    check(rounded, "output", describe(m));
    if (m->spec.io_type == EB_FLOAT && largest > 0) {
        worst_float_error = fmax(worst_float_error, worst / largest);
    }
    free(expected);
}

/* All checks of one model. */
static void verify(struct model *m) {
    size_t routes = (size_t)(m->options.tokens * m->spec.top_k);
    int32_t *experts = malloc(sizeof *experts * routes);
    float *weights = malloc(sizeof *weights * routes);
    cases++;
    model_hide_unrouted(m);
    uint8_t *output = run_kernels(m, ASCENDING, 0xff, experts, weights);
    check_routes(m, experts, weights);
    check_output(m, output);
    enum order order = cases % 8 == 0 ? TWO_THREADS : DESCENDING;
    uint8_t *again = run_kernels(m, order, 0x55, NULL, NULL);
    check(memcmp(output, again, (size_t)output_bytes(m)) == 0, "same bits in another task order", describe(m));
    free(output);
    free(again);
    free(experts);
    free(weights);
}

static int32_t random_type(struct random *random) {
    static const int32_t types[] = {EB_FLOAT, EB_FLOAT16, EB_BFLOAT16};
    return types[random_between(random, 0, 2)];
}

/* activation, swiglu_fusion, has_fc3 */
static const int32_t activations[][3] = {
    {EB_RELU, 0, 0}, {EB_GELU, 0, 0}, {EB_SILU, 0, 0}, {EB_IDENTITY, 0, 0}, {EB_SWIGLU, 1, 0},
    {EB_SWIGLU, 2, 0}, {EB_SWIGLU, 0, 1}, {EB_SILU, 0, 1}, {EB_GELU, 0, 1}, {EB_RELU, 0, 1},
};

static int64_t random_size(struct random *random, int bits) {
    int64_t per_byte = 8 / bits;
    int64_t largest = random_between(random, 0, 3) == 0 ? 320 : 96;
    return per_byte * random_between(random, 1, largest / per_byte);
}

static eb_qmoe_spec random_spec(struct random *random, int32_t bits, int32_t block, const int32_t activation[3]) {
    eb_qmoe_spec spec = {
        .hidden = (int32_t)random_size(random, bits),
        .inter = (int32_t)random_size(random, bits),
        .experts = (int32_t)random_between(random, 1, 7),
        .bits = bits,
        .block_size = block,
        .activation = activation[0],
        .swiglu_fusion = activation[1],
        .has_fc3 = activation[2],
        .io_type = random_type(random),
        .scale_type = random_type(random),
        .routing = (int32_t)random_between(random, 0, 1),
        .normalize = (int32_t)random_between(random, 0, 1),
        .alpha = 1.0f,
        .limit = INFINITY,
    };
    spec.top_k = (int32_t)random_between(random, 1, spec.experts);
    if (spec.activation == EB_SWIGLU && random_between(random, 0, 1)) {
        spec.alpha = 1.702f;
        spec.beta = 1.0f;
        spec.limit = 0.75f;
    }
    return spec;
}

static struct model_options random_options(struct random *random, int zero_points) {
    struct model_options options = {
        .tokens = random_between(random, 0, 5) == 0 ? random_between(random, 9, 70) : random_between(random, 1, 8),
        .zero_point = {zero_points & 1, zero_points >> 1 & 1, zero_points >> 2 & 1},
        .router_weights = (int)random_between(random, 0, 1),
        .misalignment = (int)random_between(random, 0, 3),
    };
    for (int i = 0; i < 3; i++) {
        options.bias[i] = (int)random_between(random, 0, 1);
    }
    return options;
}

static void test_grid(struct random *random) {
    static const int32_t bit_widths[] = {2, 4, 8};
    static const int32_t blocks[] = {0, 16, 32, 64, 512};
    for (size_t b = 0; b < 3; b++) {
        for (size_t block = 0; block < 5; block++) {
            for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
                for (int zero_points = 0; zero_points < 8; zero_points++) {
                    struct model m;
                    eb_qmoe_spec spec = random_spec(random, bit_widths[b], blocks[block], activations[a]);
                    struct model_options options = random_options(random, zero_points);
                    model_create(&m, &spec, &options, random);
                    verify(&m);
                    model_free(&m);
                }
            }
        }
    }
}

/* Rows longer than the segments in which the kernels take them, with activations whose mean is far from zero. */
static void test_long_rows(struct random *random) {
    for (int i = 0; i < 24; i++) {
        struct model m;
        int32_t bits = 2 << i % 3;
        eb_qmoe_spec spec = random_spec(random, bits, i % 2 ? 0 : 32, activations[4]);
        struct model_options options = random_options(random, i / 2 % 2 ? 7 : 0);
        spec.hidden = i % 4 < 2 ? 4100 + 8 * i : 24;
        spec.inter = i % 4 < 2 ? 24 : 4100 + 8 * i;
        spec.experts = 2;
        spec.top_k = 1;
        spec.io_type = EB_FLOAT;
        options.tokens = i % 8 < 4 ? 2 : 14;
        options.input_mean = 1.0;
        model_create(&m, &spec, &options, random);
        verify(&m);
        model_free(&m);
    }
}

/* Few logits, so that ties are common, with infinities and NaN among them. */
static void test_special_logits(struct random *random) {
    static const double values[] = {-INFINITY, NAN, INFINITY, 0, 1, -50, 3000};
    for (int i = 0; i < 120; i++) {
        struct model m;
        eb_qmoe_spec spec = random_spec(random, 4, 32, activations[2]);
        struct model_options options = random_options(random, 0);
        spec.hidden = 8;
        spec.inter = 8;
        spec.experts = (int32_t)random_between(random, 2, 12);
        spec.top_k = (int32_t)random_between(random, 1, spec.experts);
        model_create(&m, &spec, &options, random);
        for (int64_t at = 0; at < options.tokens * spec.experts; at++) {
            model_set(&m, m.run.router, at, values[random_between(random, 0, i % 4 + 3)]);
        }
        if (options.router_weights && i % 3 == 0) {
            for (int64_t at = 0; at < options.tokens * spec.experts; at++) {
                model_set(&m, m.run.router_weights, at, values[random_between(random, 3, 4)]);
            }
        }
        verify(&m);
        model_free(&m);
    }
}

struct routing_case {
    const char *what;
    int32_t routing;
    int32_t normalize;
    int32_t top_k;
    double logits[4];
    int32_t experts[2];
    float weights[2];
};

/* Routes worked out by hand. */
static void test_known_routes(struct random *random) {
    static const struct routing_case known[] = {
        {"ties go to the higher index", EB_ROUTING_ORT_CPU, 0, 2, {1, 1, 1, 0}, {2, 1}, {0.5f, 0.5f}},
        {"ties go to the lower index", EB_ROUTING_ORT_CUDA, 1, 2, {0, 1, 1, 1}, {1, 2}, {0.5f, 0.5f}},
        {"softmax over the selected", EB_ROUTING_ORT_CPU, 0, 1, {0, 0, 0, 0}, {3, 0}, {1.0f, 0}},
        {"softmax over all", EB_ROUTING_ORT_CUDA, 0, 1, {0, 0, 0, 0}, {0, 0}, {0.25f, 0}},
        {"masked", EB_ROUTING_ORT_CPU, 0, 2, {-INFINITY, 2, -INFINITY, -INFINITY}, {1, -1}, {1.0f, 0}},
        {"all masked", EB_ROUTING_ORT_CPU, 0, 2, {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {-1, -1}, {0, 0}},
        {"all masked", EB_ROUTING_ORT_CUDA, 1, 2, {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {-1, -1}, {0, 0}},
        {"NaN is never chosen over a number", EB_ROUTING_ORT_CPU, 0, 2, {NAN, 5, NAN, 5}, {3, 1}, {0.5f, 0.5f}},
        {"all NaN", EB_ROUTING_ORT_CPU, 0, 2, {NAN, NAN, NAN, NAN}, {-1, -1}, {0, 0}},
        {"a tiny weight is dropped", EB_ROUTING_ORT_CPU, 0, 2, {0, 0, 30, 10}, {2, -1}, {1.0f, 0}},
        {"+inf takes all", EB_ROUTING_ORT_CPU, 0, 2, {INFINITY, 9, 8, 7}, {0, -1}, {1.0f, 0}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct routing_case *c = &known[i];
        struct model m;
        eb_qmoe_spec spec = random_spec(random, 4, 0, activations[3]);
        struct model_options options = {.tokens = 1};
        int32_t experts[2];
        float weights[2];
        spec.io_type = EB_FLOAT;
        spec.experts = 4;
        spec.top_k = c->top_k;
        spec.routing = c->routing;
        spec.normalize = c->normalize;
        model_create(&m, &spec, &options, random);
        for (int e = 0; e < 4; e++) {
            model_set(&m, m.run.router, e, c->logits[e]);
        }
        uint8_t *output = run_kernels(&m, ASCENDING, 0xff, experts, weights);
        for (int k = 0; k < c->top_k; k++) {
            check(experts[k] == c->experts[k] && fabsf(weights[k] - c->weights[k]) < 1e-7f, "known routes", c->what);
        }
        check_output(&m, output);
        free(output);
        model_free(&m);
    }
}

/* Every selected expert is counted, also where its weight drops the route; counters saturate and say so. */
static void test_route_window(struct random *random) {
    struct model m;
    eb_qmoe_spec spec = random_spec(random, 4, 0, activations[3]);
    struct model_options options = {.tokens = 3};
    int32_t selected[6];
    uint32_t window[EB_WINDOW_HEADER_WORDS + 4] = {7, 1, 2, 0, 0, 0, UINT32_MAX - 1, 0, 0, 0};
    spec.io_type = EB_FLOAT;
    spec.experts = 4;
    spec.top_k = 2;
    spec.routing = EB_ROUTING_ORT_CPU;
    model_create(&m, &spec, &options, random);
    for (int token = 0; token < 3; token++) {
        for (int e = 0; e < 4; e++) {
            model_set(&m, m.run.router, token * 4 + e, e == 0 ? 60 : e == 2 ? 1 : -1);
        }
    }
    uint8_t *quiet = run_kernels(&m, ASCENDING, 0, NULL, NULL);
    m.run.window_header = window;
    m.run.window_counts = window + EB_WINDOW_HEADER_WORDS;
    m.run.selected_expert = selected;
    uint8_t *counted = run_kernels(&m, ASCENDING, 0, NULL, NULL);
    const uint32_t *counts = m.run.window_counts;
    check(memcmp(quiet, counted, (size_t)output_bytes(&m)) == 0, "recording leaves the output alone", describe(&m));
    check(counts[0] == UINT32_MAX && counts[1] == 0 && counts[2] == 3 && counts[3] == 0, "counters", "saturated");
    check(window[0] == 7 && window[1] == 1 && window[2] == 2, "header", "identity is the caller's");
    check(window[EB_WINDOW_OVERFLOW] == 1 && window[EB_WINDOW_POISON] == 0, "header", "overflow is sticky");
    check(window[EB_WINDOW_COUNT] == 4, "header", "routes that were counted");
    for (int token = 0; token < 3; token++) {
        check(selected[token * 2] == 0 && selected[token * 2 + 1] == 2, "selected experts", "dropped ones too");
    }
    free(quiet);
    free(counted);
    model_free(&m);
}

static void test_slots(void) {
    int64_t page = expertbank_page_bytes();
    char *slot = expertbank_slot_commit(3 * page);
    check(page > 0 && slot != NULL && (uintptr_t)slot % 64 == 0, "slot", "committed and aligned");
    check(slot[0] == 0 && slot[3 * page - 1] == 0, "slot", "zeroed");
    memset(slot, 1, (size_t)(3 * page));
    check(expertbank_slot_release(slot, 3 * page) == 0, "slot", "released");
    check(expertbank_slot_release((char *)page + 1, page) == 1, "slot", "a release that fails says so");
    check(expertbank_slot_commit(0) == NULL && expertbank_slot_commit(INT64_MAX) == NULL, "slot", "refused");
}

/* bits, block, act, io and the rest of a case at its limits are refused before anything is written. */
static void test_refusals(struct random *random) {
    struct model m;
    eb_qmoe_spec good = random_spec(random, 4, 32, activations[4]);
    struct model_options options = {.tokens = 3};
    model_create(&m, &good, &options, random);
    int64_t bytes = expertbank_qmoe_workspace_bytes(&good, 3);
    uint8_t *workspace = aligned_alloc(64, (size_t)bytes);
    memset(workspace, 0x7e, (size_t)bytes);
    for (int i = 0; i < 12; i++) {
        eb_qmoe_spec spec = good;
        eb_qmoe_run run = m.run;
        run.spec = &spec;
        run.workspace = workspace;
        run.workspace_bytes = bytes;
        switch (i) {
        case 0: run.tokens = 0; break;
        case 1: run.tokens = EB_MAX_RUN_TOKENS + 1; break;
        case 2: run.workspace_bytes--; break;
        case 3: spec.bits = 3; break;
        case 4: spec.block_size = 24; break;
        case 5: spec.hidden = 0; break;
        case 6: spec.inter = 3; break;
        case 7: spec.top_k = spec.experts + 1; break;
        case 8: spec.io_type = 7; break;
        case 9: spec.has_fc3 = 1; break;
        case 10: spec.activation = 5; break;
        default: spec.swiglu_fusion = 0; break;
        }
        char detail[40];
        snprintf(detail, sizeof detail, "refusal %d", i);
        check(expertbank_qmoe_prepare(&run) == 1, "prepare refuses", detail);
    }
    int untouched = 1;
    for (int64_t i = 0; i < bytes; i++) {
        untouched &= workspace[i] == 0x7e;
    }
    check(untouched, "a refused run writes nothing", "workspace");
    free(workspace);
    model_free(&m);
}

static void test_conversions(struct random *random) {
    int widened = 1;
    int narrowed = 1;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t half = (uint16_t)bits;
        double expected16 = reference_element(EB_FLOAT16, &half, 0);
        double expected_b = reference_element(EB_BFLOAT16, &half, 0);
        double got16 = float16_to_float(half);
        double got_b = bfloat16_to_float(half);
        widened &= (isnan(expected16) && isnan(got16)) || (expected16 == got16 && !signbit(got16) == !signbit(expected16));
        widened &= (isnan(expected_b) && isnan(got_b)) || expected_b == got_b;
    }
    for (uint32_t i = 0; i < 2000000; i++) {
        /* All values halfway between neighbours are among multiples of 2^12 and 2^15. */
        uint32_t bits = i % 3 == 0 ? (uint32_t)random_bits(random) : i * 0x1000u + (i % 3 - 1u);
        float value = float_of_bits(bits);
        if (!isnan(value)) {
            narrowed &= float_to_float16(value) == reference_encode(EB_FLOAT16, value);
            narrowed &= float_to_bfloat16(value) == reference_encode(EB_BFLOAT16, value);
        } else {
            narrowed &= isnan(float16_to_float(float_to_float16(value)));
            narrowed &= isnan(bfloat16_to_float(float_to_bfloat16(value)));
        }
    }
    check(widened, "float16 and bfloat16 to float", "all values");
    check(narrowed, "float to float16 and bfloat16", "ties, random bits");
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--tier") == 0) {
        puts(expertbank_qmoe_tier());
        return 0;
    }
    struct random random = {argc > 1 ? strtoull(argv[1], NULL, 0) : 20260101};
    uint64_t seed = random.state;
    test_conversions(&random);
    test_known_routes(&random);
    test_route_window(&random);
    test_slots();
    test_refusals(&random);
    test_special_logits(&random);
    test_long_rows(&random);
    test_grid(&random);
    printf("kernels: tier %s, seed %llu: %d models, %d checks, %d failed; worst float32 error %.1e of max|y|\n",
           expertbank_qmoe_tier(), (unsigned long long)seed, cases, checks, failures, worst_float_error);
    return failures != 0;
}
