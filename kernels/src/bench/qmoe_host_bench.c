/*
 * Times the host kernels on one layer: hidden = inter = 2880, 32 experts, top 4, SwiGLU with biases, float32 in and
 * out. Runs rotate through all experts, so that weights come from memory.
 *
 *     qmoe_host_bench [threads [bits [block_size [zero_points [seconds per line]]]]]
 */
#include "../host/qmoe_host.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HIDDEN = 2880, INTER = 2880, EXPERTS = 32, TOP_K = 4, MOST_THREADS = 256 };

static int threads = 2;
static double seconds_per_line = 1.0;

static double clock_seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void) {
    return clock_seconds(CLOCK_MONOTONIC);
}

/* Time that the threads really had a core: what a run costs on a machine with other work. */
static double cpu_now(void) {
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

/* The threads run tasks of one phase after another; the main thread is one of them. */
static struct {
    pthread_barrier_t start;
    pthread_barrier_t end;
    void (*task)(void *, size_t);
    void *argument;
    int64_t count;
    atomic_llong next;
    int stop;
} pool;

static void work(void) {
    for (int64_t i; (i = atomic_fetch_add(&pool.next, 1)) < pool.count;) {
        pool.task(pool.argument, (size_t)i);
    }
}

static void *worker(void *unused) {
    (void)unused;
    for (;;) {
        pthread_barrier_wait(&pool.start);
        if (pool.stop) {
            return NULL;
        }
        work();
        pthread_barrier_wait(&pool.end);
    }
}

static void run_phase(void (*task)(void *, size_t), void *argument, int64_t count) {
    pool.task = task;
    pool.argument = argument;
    pool.count = count;
    atomic_store(&pool.next, 0);
    pthread_barrier_wait(&pool.start);
    work();
    pthread_barrier_wait(&pool.end);
}

/* The bank: every expert's tensors in one allocation, as they are in a model file. */
struct bank {
    uint8_t *bytes;
    int64_t size;
    int64_t expert_bytes;           /* without biases */
    eb_expert_row rows[EXPERTS];
};

static void fill(uint8_t *bytes, int64_t count) {
    uint64_t state = 88172645463325252u;
    for (int64_t i = 0; i + 8 <= count; i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(bytes + i, &state, 8);
    }
}

static void fill_scales(uint8_t *bytes, int64_t count) {
    const uint16_t scale = 0x1400; /* 2^-10 */
    for (int64_t i = 0; i < count; i++) {
        memcpy(bytes + 2 * i, &scale, 2);
    }
}

static void create_bank(struct bank *bank, const eb_qmoe_spec *spec, int zero_points) {
    int64_t rows[2] = {2 * INTER, HIDDEN};
    int64_t columns[2] = {HIDDEN, INTER};
    int64_t per_byte = 8 / spec->bits;
    int64_t weights[2], scales[2], zeros[2], biases[2];
    int64_t one = 0;
    bank->expert_bytes = 0;
    for (int m = 0; m < 2; m++) {
        int64_t blocks = spec->block_size ? (columns[m] + spec->block_size - 1) / spec->block_size : 1;
        weights[m] = rows[m] * columns[m] / per_byte;
        scales[m] = rows[m] * blocks * 2;
        zeros[m] = !zero_points ? 0 : spec->block_size ? rows[m] * ((blocks + per_byte - 1) / per_byte)
                                                       : (rows[m] + per_byte - 1) / per_byte;
        biases[m] = rows[m] * 4;
        bank->expert_bytes += weights[m] + scales[m] + zeros[m];
        one += weights[m] + scales[m] + zeros[m] + biases[m];
    }
    bank->size = one * EXPERTS;
    bank->bytes = aligned_alloc(4096, (size_t)((bank->size + 4095) / 4096 * 4096));
    fill(bank->bytes, bank->size);
    memset(bank->rows, 0, sizeof bank->rows);
    uint8_t *at = bank->bytes;
    for (int e = 0; e < EXPERTS; e++) {
        for (int m = 0; m < 2; m++) {
            bank->rows[e].weight[m] = at;
            at += weights[m];
            bank->rows[e].scale[m] = at;
            fill_scales(at, scales[m] / 2);
            at += scales[m];
            bank->rows[e].zero_point[m] = zero_points ? at : NULL;
            at += zeros[m];
            bank->rows[e].bias[m] = memset(at, 0, (size_t)biases[m]);
            at += biases[m];
        }
    }
}

/* Reads the bank with 64-byte strides of plain loads; a task is one 4 MiB piece. */
static void read_piece(void *argument, size_t task) {
    const struct bank *bank = argument;
    int64_t piece = 4 << 20;
    int64_t first = (int64_t)task * piece;
    int64_t end = first + piece < bank->size ? first + piece : bank->size;
    uint64_t sum[8] = {0};
    for (int64_t i = first; i + 64 <= end; i += 64) {
        uint64_t words[8];
        memcpy(words, bank->bytes + i, 64);
        for (int w = 0; w < 8; w++) {
            sum[w] ^= words[w];
        }
    }
    static volatile uint64_t sink;
    sink = sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
    (void)sink;
}

static double read_bandwidth(struct bank *bank) {
    double best = INFINITY;
    for (double until = now() + seconds_per_line; now() < until;) {
        double start = now();
        run_phase(read_piece, bank, (bank->size + (4 << 20) - 1) / (4 << 20));
        best = fmin(best, now() - start);
    }
    return (double)bank->size / best;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A single token goes to the experts after those of the run before; each of many goes to random ones. */
static void route(float *router, int64_t tokens, int64_t run) {
    for (int64_t t = 0; t < tokens; t++) {
        for (int e = 0; e < EXPERTS; e++) {
            router[t * EXPERTS + e] = tokens > 1 ? (float)rand() / (float)RAND_MAX : 0.0f;
        }
        for (int k = 0; tokens == 1 && k < TOP_K; k++) {
            router[(run * TOP_K + k) % EXPERTS] = 5.0f;
        }
    }
}

static int routed_experts(const eb_qmoe_run *run) {
    char routed[EXPERTS] = {0};
    int count = 0;
    for (int64_t i = 0; i < run->tokens * TOP_K; i++) {
        int32_t e = run->route_expert[i];
        if (e >= 0 && !routed[e]) {
            routed[e] = 1;
            count++;
        }
    }
    return count;
}

static void time_tokens(struct bank *bank, const eb_qmoe_spec *spec, int64_t tokens, double bandwidth) {
    int64_t bytes = expertbank_qmoe_workspace_bytes(spec, tokens);
    float *input = malloc(sizeof(float) * (size_t)(tokens * HIDDEN));
    float *router = malloc(sizeof(float) * (size_t)(tokens * EXPERTS));
    eb_qmoe_run run = {.spec = spec, .rows = bank->rows, .input = input, .router = router, .tokens = tokens,
                       .workspace = aligned_alloc(64, (size_t)bytes), .workspace_bytes = bytes,
                       .output = malloc(sizeof(float) * (size_t)(tokens * HIDDEN))};
    for (int64_t i = 0; i < tokens * HIDDEN; i++) {
        input[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    }
    enum { MOST = 2000 };
    static double times[MOST];
    double cpu = INFINITY;
    int count = 0;
    double prepare = INFINITY, fc1 = 0, fc2 = 0, active = 0;
    for (double until = now() + seconds_per_line; count < MOST && (now() < until || count < 5); count++) {
        route(router, tokens, count);
        double start = now();
        double cpu_start = cpu_now();
        if (expertbank_qmoe_prepare(&run) != 0) {
            fprintf(stderr, "qmoe_host_bench: prepare refused the run\n");
            exit(1);
        }
        double prepared = now();
        run_phase(expertbank_qmoe_fc1, &run, run.fc1_tasks);
        double middle = now();
        run_phase(expertbank_qmoe_fc2, &run, run.fc2_tasks);
        times[count] = now() - start;
        cpu = fmin(cpu, (cpu_now() - cpu_start) / threads);
        prepare = fmin(prepare, prepared - start);
        fc1 += middle - prepared;
        fc2 += times[count] - (middle - start);
        active += routed_experts(&run);
    }
    qsort(times, (size_t)count, sizeof *times, compare);
    double streamed = active / count * (double)bank->expert_bytes;
    double flops = 2.0 * (double)tokens * TOP_K * 3.0 * HIDDEN * INTER;
    printf("%4lld tokens: best %8.3f ms, median %8.3f, CPU %8.3f per thread (fc1 %2.0f %%, prepare %.3f ms); at best %6.1f MB streamed, "
           "%5.1f GB/s = %3.0f %% of read, %6.1f GFLOP/s\n",
           (long long)tokens, times[0] * 1e3, times[count / 2] * 1e3, cpu * 1e3, 100 * fc1 / (fc1 + fc2), prepare * 1e3, streamed * 1e-6,
           streamed / times[0] * 1e-9, 100 * streamed / times[0] / bandwidth, flops / times[0] * 1e-9);
    fflush(stdout);
    free(input);
    free(router);
    free(run.workspace);
    free(run.output);
}

int main(int argc, char **argv) {
    threads = argc > 1 ? atoi(argv[1]) : 2;
    eb_qmoe_spec spec = {.hidden = HIDDEN, .inter = INTER, .experts = EXPERTS, .top_k = TOP_K,
                         .bits = argc > 2 ? atoi(argv[2]) : 4, .block_size = argc > 3 ? atoi(argv[3]) : 32,
                         .activation = EB_SWIGLU, .swiglu_fusion = 1, .io_type = EB_FLOAT, .scale_type = EB_FLOAT16,
                         .alpha = 1.702f, .beta = 1.0f, .limit = 7.0f};
    int zero_points = argc > 4 && atoi(argv[4]);
    seconds_per_line = argc > 5 ? atof(argv[5]) : 1.0;
    if (threads < 1 || threads > MOST_THREADS || expertbank_qmoe_workspace_bytes(&spec, 1) < 0) {
        fprintf(stderr, "usage: qmoe_host_bench [threads [bits [block_size [zero_points [seconds per line]]]]]\n");
        return 2;
    }
    pthread_t workers[MOST_THREADS];
    pthread_barrier_init(&pool.start, NULL, (unsigned)threads);
    pthread_barrier_init(&pool.end, NULL, (unsigned)threads);
    for (int i = 1; i < threads; i++) {
        pthread_create(&workers[i], NULL, worker, NULL);
    }
    static struct bank bank;
    create_bank(&bank, &spec, zero_points);
    double bandwidth = read_bandwidth(&bank);
    printf("tier %s, %d threads, int%d, block %d, zero points %s: bank %.1f MB, plain read %.1f GB/s\n",
           expertbank_qmoe_tier(), threads, spec.bits, spec.block_size, zero_points ? "yes" : "no",
           (double)bank.size * 1e-6, bandwidth * 1e-9);
    static const int64_t token_counts[] = {1, 2, 4, 8, 16, 32, 64, 128, 512};
    for (size_t i = 0; i < sizeof token_counts / sizeof *token_counts; i++) {
        time_tokens(&bank, &spec, token_counts[i], bandwidth);
    }
    pool.stop = 1;
    if (threads > 1) {
        pthread_barrier_wait(&pool.start);
    }
    for (int i = 1; i < threads; i++) {
        pthread_join(workers[i], NULL);
    }
    free(bank.bytes);
    return 0;
}
