/*
 * Choosing experts, grouping the routes by expert, and adding up what the experts give.
 *
 * The route kernel has three kinds of blocks, which do not wait for each other: the first run.route_blocks choose experts,
 * a warp for each token; the next copy the address rows; the others pack the input.
 */
#include "layout.cuh"
#include "mma.cuh"

#define WARPS (EB_CUDA_THREADS / 32)

/* Experts whose logits are kept in shared memory, and for which routes are grouped in the route kernel. */
#define SHARED_EXPERTS EB_CUDA_SHARED_EXPERTS

/* Input elements of a block that packs. */
#define PACK_ELEMENTS EB_CUDA_PACK_ELEMENTS

/*
 * A number's place in the order of choice: larger for what is chosen earlier. A number that is none comes last; 0 is left for
 * what has been chosen already.
 */
__device__ static uint32_t order_key(float logit) {
    uint32_t bits = __float_as_uint(logit + 0.0f);
    if (logit != logit) {
        return 1;
    }
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ static float logit_of(uint32_t key) {
    return key == 1 ? __uint_as_float(0x7fc00000u) : __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ static uint32_t largest_of_warp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(~0u, value);
#else
    for (int distance = 16; distance > 0; distance /= 2) {
        uint32_t other = __shfl_xor_sync(~0u, value, distance);
        value = other > value ? other : value;
    }
    return value;
#endif
}

__device__ static float sum_of_warp(float value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(~0u, value, distance);
    }
    return value;
}

/* exp(logit - largest) in [0, 1], defined for infinities and NaN. */
__device__ static float softmax_numerator(float logit, float largest) {
    if (logit != logit || logit == -INFINITY) {
        return 0.0f;
    }
    return logit == largest ? 1.0f : expf(logit - largest);
}

/* Ranks whose routes a warp keeps in its lanes. */
#define LANE_RANKS 32

/* What counters were before a token's routes were added. One that wraps around is worth nothing any more. */
struct Counted {
    uint32_t expert;
    uint32_t all;

    __device__ bool wrapped(int top_k) const {
        return expert == ~0u || all > ~0u - (uint32_t)top_k;
    }
};

/* Records a route, before weights drop any: residency is about which experts a row wants. */
__device__ static uint32_t record_route(const eb_cuda_run &run, int64_t route, int expert) {
    if (run.selected_expert != nullptr) {
        run.selected_expert[route] = expert;
    }
    if (run.window_header == nullptr) {
        return 0;
    }
    if (expert < 0 || expert >= run.spec.experts) {
        run.window_header[EB_WINDOW_POISON] = 1;
        return 0;
    }
    return atomicAdd(run.window_counts + expert, 1);
}

/* A token's routes are counted at once: a counter of the header is shared by all. */
__device__ static uint32_t count_routes(const eb_cuda_run &run) {
    bool counts = run.window_header != nullptr && threadIdx.x % 32 == 0;
    return counts ? atomicAdd(run.window_header + EB_WINDOW_COUNT, (uint32_t)run.spec.top_k) : 0;
}

/* What divides the weights of a token's routes, and what they have to exceed. */
struct Weighting {
    float divisor;
    bool divides;
    float smallest;

    __device__ Weighting(const eb_qmoe_spec &spec, bool given, float all, float selected) {
        bool cuda = spec.routing == EB_ROUTING_ORT_CUDA;
        divisor = selected;
        if (cuda && !(spec.normalize && selected / all > 1e-6f)) {
            divisor = all;
        } else if (given && !spec.normalize) {
            divisor = 1.0f;
        }
        divides = given ? divisor != 0.0f : divisor > 0.0f;
        smallest = cuda ? 0.0f : 1e-8f;
    }

    /* Stores a route; returns its expert, or -1 where it is dropped. */
    __device__ int store(const eb_cuda_run &run, int64_t route, int expert, float weight) const {
        float divided = divides ? weight / divisor : 0.0f;
        bool kept = divided > smallest;
        run.route_weight[route] = kept ? divided : 0.0f;
        run.route_expert[route] = kept ? expert : -1;
        return kept ? expert : -1;
    }
};

/*
 * The routes of one token, by a warp. keys: the order keys of the token's logits. Ties go to the higher index or to the lower
 * one: `flip` turns indices round so that the larger is always first. kept: [top_k], the experts of what is not dropped, or
 * NULL. The counters' answers are for later: waiting for them here would hold up everyone.
 */
__device__ static Counted route_token(const eb_cuda_run &run, uint32_t *keys, int token, int *kept) {
    const eb_qmoe_spec &spec = run.spec;
    int lane = threadIdx.x % 32;
    bool cuda = spec.routing == EB_ROUTING_ORT_CUDA;
    uint32_t flip = cuda ? ~0u : 0u;
    bool given = !cuda && run.router_weights != nullptr;
    bool in_lanes = spec.top_k <= LANE_RANKS;
    int64_t logits = (int64_t)token * spec.experts;
    int64_t routes = (int64_t)token * spec.top_k;
    float all = 0.0f;
    float largest = 0.0f;
    float selected = 0.0f;
    int lane_expert = -1;
    float lane_weight = 0.0f;
    Counted counted = {0, count_routes(run)};
    for (int rank = 0; rank < spec.top_k; rank++) {
        uint32_t best = 0;
        uint32_t index = 0;
        for (int e = lane; e < spec.experts; e += 32) {
            uint32_t key = keys[e];
            if (key > best || (key == best && key != 0 && !cuda)) {
                best = key;
                index = (uint32_t)e;
            }
        }
        uint32_t key = largest_of_warp(best);
        /* Indices are stored one up, so that 0 is nobody's. */
        uint32_t candidate = best == key ? (flip ^ (index + 1)) : 0;
        int expert = (int)(flip ^ largest_of_warp(candidate)) - 1;
        float logit = logit_of(key);
        largest = rank == 0 ? logit : largest;
        if (cuda && rank == 0) {
            float sum = 0.0f;
            for (int e = lane; e < spec.experts; e += 32) {
                sum += softmax_numerator(logit_of(keys[e]), largest);
            }
            all = sum_of_warp(sum);
        }
        float weight = given ? load_element(spec.io_type, run.router_weights, logits + expert)
                             : softmax_numerator(logit, largest);
        selected += weight;
        __syncwarp();
        if (lane == 0) {
            keys[expert] = 0;
        }
        if (lane == rank % LANE_RANKS) {
            lane_expert = expert;
            lane_weight = weight;
            if (!in_lanes) {
                run.route_expert[routes + rank] = expert;
                run.route_weight[routes + rank] = weight;
            }
        }
        __syncwarp();
    }
    Weighting weighting(spec, given, all, selected);
    for (int rank = lane; rank < spec.top_k; rank += 32) {
        int expert = in_lanes ? lane_expert : run.route_expert[routes + rank];
        float weight = in_lanes ? lane_weight : run.route_weight[routes + rank];
        uint32_t before = record_route(run, routes + rank, expert);
        counted.expert = before > counted.expert ? before : counted.expert;
        int stored = weighting.store(run, routes + rank, expert, weight);
        if (kept != nullptr) {
            kept[rank] = stored;
        }
    }
    return counted;
}

__device__ static void store_tile(const eb_cuda_run &run, int tile, int expert, int first, int columns) {
    reinterpret_cast<int4 *>(run.token_tiles)[tile] = make_int4(expert, first, columns, 0);
}

/* What grouping a few tokens' routes needs. */
struct Grouping {
    uint32_t tokens[SHARED_EXPERTS];                                /* those that chose an expert, one bit each */
    uint16_t route[SHARED_EXPERTS][EB_CUDA_DECODE_COLUMNS];
    int warp_active[WARPS];
};

/*
 * Lists the routes of every expert, and a tile for every expert that has any; one block, at most 8 tokens. kept: [tokens, top_k]
 * in shared memory, or NULL.
 */
__device__ static void group_few(const eb_cuda_run &run, Grouping &grouping, const int *kept) {
    const eb_qmoe_spec &spec = run.spec;
    for (int e = threadIdx.x; e < spec.experts; e += EB_CUDA_THREADS) {
        grouping.tokens[e] = 0;
    }
    __syncthreads();
    int routes = run.tokens * spec.top_k;
    for (int r = threadIdx.x; r < routes; r += EB_CUDA_THREADS) {
        int expert = kept != nullptr ? kept[r] : run.route_expert[r];
        if (expert >= 0) {
            atomicOr(&grouping.tokens[expert], 1u << (r / spec.top_k));
            grouping.route[expert][r / spec.top_k] = (uint16_t)r;
        }
    }
    __syncthreads();
    int active = 0;
    for (int first = 0; first < spec.experts; first += EB_CUDA_THREADS) {
        int e = first + threadIdx.x;
        uint32_t tokens = e < spec.experts ? grouping.tokens[e] : 0;
        unsigned ballot = __ballot_sync(~0u, tokens != 0);
        if (threadIdx.x % 32 == 0) {
            grouping.warp_active[threadIdx.x / 32] = __popc(ballot);
        }
        __syncthreads();
        int before = active + __popc(ballot & ((1u << (threadIdx.x % 32)) - 1));
        for (int warp = 0; warp < WARPS; warp++) {
            before += warp < (int)threadIdx.x / 32 ? grouping.warp_active[warp] : 0;
            active += grouping.warp_active[warp];
        }
        __syncthreads();
        if (e < spec.experts) {
            run.expert_count[e] = __popc(tokens);
        }
        if (tokens != 0) {
            store_tile(run, before, e, 0, __popc(tokens));
            int place = 0;
            for (int token = 0; token < run.tokens; token++) {
                if (tokens >> token & 1) {
                    run.expert_list[(int64_t)e * run.tokens + place++] = grouping.route[e][token];
                }
            }
        }
    }
    if (threadIdx.x == 0) {
        run.tile_count[0] = active;
    }
}

/*
 * The rows may be memory of the host: every thread has one read under way. They do not change during a run, and the last to
 * read the copy was a kernel before the one before, so this does not wait for the one that still ends.
 */
__device__ static void copy_rows(const eb_cuda_run &run, int block) {
    int i = block * EB_CUDA_THREADS + threadIdx.x;
    if (i < run.spec.experts * EB_CUDA_ROW_PIECES) {
        reinterpret_cast<uint4 *>(run.run_rows)[i] = __ldcv(reinterpret_cast<const uint4 *>(run.rows) + i);
    }
}

template <int IO>
__device__ static void pack(const eb_cuda_run &run, int block, uint16_t *shared) {
    constexpr int PARTS = Numeric<IO>::PARTS;
    const eb_qmoe_spec &spec = run.spec;
    int stride = round_up(spec.hidden, GROUP);
    int blocks_per_token = (stride + PACK_ELEMENTS - 1) / PACK_ELEMENTS;
    int token = block / blocks_per_token;
    int first = block % blocks_per_token * PACK_ELEMENTS;
    int count = stride - first < PACK_ELEMENTS ? stride - first : PACK_ELEMENTS;
    for (int i = threadIdx.x; i < count; i += EB_CUDA_THREADS) {
        int k = first + i;
        float value = k < spec.hidden ? load_element(spec.io_type, run.input, (int64_t)token * spec.hidden + k) : 0.0f;
        uint16_t parts[PARTS];
        split<IO>(value, parts);
        for (int part = 0; part < PARTS; part++) {
            shared[part * PACK_ELEMENTS + packed_position(spec.layout, spec.bits, i)] = parts[part];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < PARTS * count / 8; i += EB_CUDA_THREADS) {
        int part = i / (count / 8);
        int at = i % (count / 8) * 8;
        uint16_t *to = run.x + (part * (int64_t)run.tokens + token) * stride + first + at;
        *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(shared + part * PACK_ELEMENTS + at);
    }
}

extern "C" __global__ void __launch_bounds__(EB_CUDA_THREADS) eb_route(const __grid_constant__ eb_cuda_run run) {
    __shared__ union {
        uint32_t keys[WARPS][SHARED_EXPERTS];
        Grouping grouping;
        __align__(16) uint16_t packed[3 * PACK_ELEMENTS];
    } shared;
    __shared__ int kept[WARPS * LANE_RANKS];
    int block = blockIdx.x;
    int row_blocks = (run.spec.experts * EB_CUDA_ROW_PIECES + EB_CUDA_THREADS - 1) / EB_CUDA_THREADS;
    if (block >= run.route_blocks && block < run.route_blocks + row_blocks) {
        copy_rows(run, block - run.route_blocks);
        return;
    }
    follow_the_kernel_before();
    if (block >= run.route_blocks) {
        block -= run.route_blocks + row_blocks;
        switch (run.spec.io_type) {
        case EB_FLOAT: pack<EB_FLOAT>(run, block, shared.packed); break;
        case EB_FLOAT16: pack<EB_FLOAT16>(run, block, shared.packed); break;
        default: pack<EB_BFLOAT16>(run, block, shared.packed); break;
        }
        return;
    }
    int warp = threadIdx.x / 32;
    int token = block * WARPS + warp;
    bool keeps = run.fused_grouping && run.spec.top_k <= LANE_RANKS;
    Counted counted = {0, 0};
    if (token < run.tokens) {
        uint32_t *keys = run.spec.experts <= SHARED_EXPERTS ? shared.keys[warp]
                                                            : run.keys + (int64_t)token * run.spec.experts;
        for (int e = threadIdx.x % 32; e < run.spec.experts; e += 32) {
            keys[e] = order_key(load_element(run.spec.io_type, run.router, (int64_t)token * run.spec.experts + e));
        }
        __syncwarp();
        counted = route_token(run, keys, token, keeps ? kept + token * run.spec.top_k : nullptr);
    }
    if (run.fused_grouping) {
        __syncthreads();
        group_few(run, shared.grouping, keeps ? kept : nullptr);
    }
    if (run.window_header != nullptr && counted.wrapped(run.spec.top_k)) {
        run.window_header[EB_WINDOW_OVERFLOW] = 1;
    }
}

/* The tiles of all experts, by the block that finishes last. */
__device__ static void list_tiles(const eb_cuda_run &run) {
    __shared__ int warp_tiles[WARPS];
    int before = 0;
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    for (int first = 0; first < run.spec.experts; first += EB_CUDA_THREADS) {
        int e = first + threadIdx.x;
        int count = e < run.spec.experts ? __ldcg(run.expert_count + e) : 0;
        int tiles = (count + run.tile_columns - 1) / run.tile_columns;
        int through = tiles;
        for (int distance = 1; distance < 32; distance *= 2) {
            int lower = __shfl_up_sync(~0u, through, distance);
            through += lane >= distance ? lower : 0;
        }
        if (lane == 31) {
            warp_tiles[warp] = through;
        }
        __syncthreads();
        int tile = before + through - tiles;
        for (int w = 0; w < WARPS; w++) {
            tile += w < warp ? warp_tiles[w] : 0;
            before += warp_tiles[w];
        }
        __syncthreads();
        for (int i = 0; i < tiles; i++) {
            int first_route = i * run.tile_columns;
            store_tile(run, tile + i, e, first_route, min(run.tile_columns, count - first_route));
        }
    }
    if (threadIdx.x == 0) {
        run.tile_count[0] = before;
        run.tile_count[1] = 0;
    }
}

/* Lists the routes of every expert, a warp for each. */
extern "C" __global__ void __launch_bounds__(EB_CUDA_THREADS) eb_group(const __grid_constant__ eb_cuda_run run) {
    __shared__ bool last;
    follow_the_kernel_before();
    int expert = blockIdx.x * WARPS + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (expert < run.spec.experts) {
        int routes = run.tokens * run.spec.top_k;
        int32_t *list = run.expert_list + (int64_t)expert * run.tokens;
        int count = 0;
        for (int first = 0; first < routes; first += 32) {
            int r = first + lane;
            bool mine = r < routes && run.route_expert[r] == expert;
            unsigned ballot = __ballot_sync(~0u, mine);
            if (mine) {
                list[count + __popc(ballot & ((1u << lane) - 1))] = r;
            }
            count += __popc(ballot);
        }
        if (lane == 0) {
            run.expert_count[expert] = count;
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(run.tile_count + 1, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        list_tiles(run);
    }
}

/* output = the sum of what a token's experts give, by their weights, in the order of choice. */
extern "C" __global__ void __launch_bounds__(EB_CUDA_THREADS) eb_combine(const __grid_constant__ eb_cuda_run run) {
    follow_the_kernel_before();
    const eb_qmoe_spec &spec = run.spec;
    int blocks_per_token = (spec.hidden + EB_CUDA_THREADS - 1) / EB_CUDA_THREADS;
    int64_t token = blockIdx.x / blocks_per_token;
    int column = blockIdx.x % blocks_per_token * EB_CUDA_THREADS + threadIdx.x;
    if (column >= spec.hidden) {
        return;
    }
    float sum = 0.0f;
    for (int rank = 0; rank < spec.top_k; rank++) {
        int64_t route = token * spec.top_k + rank;
        if (run.route_expert[route] >= 0) {
            sum += run.route_weight[route] * run.y[route * spec.hidden + column];
        }
    }
    store_element(spec.io_type, run.output, token * spec.hidden + column, sum);
}
