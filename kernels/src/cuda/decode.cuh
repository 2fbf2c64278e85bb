/*
 * Few tokens for each expert: every weight is read once and multiplied with all of an expert's tokens. Bound by memory.
 *
 * A block takes tiles of 16 rows of one expert, one after the other. Two of its warps stream whole rows through shared memory
 * (long reads of consecutive bytes, which PCIe needs as much as device memory does); others multiply, and with few columns one
 * more adds up and stores what they come to, while they go on with the next tile.
 */
#ifndef EXPERTBANK_DECODE_CUH
#define EXPERTBANK_DECODE_CUH

#include "decode_product.cuh"

#if __CUDA_ARCH__ >= 900

/* Whether a warp of its own finishes tiles: with so few columns, one warp is enough. */
template <int COLUMN_TILES>
constexpr bool HAS_FINISHER = COLUMN_TILES == 1;

/* Warps take turns with the stages that they fill. */
template <int BITS, int COLUMN_TILES>
__device__ __forceinline__ void fill_stages(const DecodeLayout<BITS, COLUMN_TILES> &at, int number) {
    using Filler = DecodeFiller<BITS, COLUMN_TILES>;
    Filler filler(at, number, EB_CUDA_FILLING_WARPS);
    int lane = threadIdx.x % 32;
    typename Filler::Part first_part = filler.first_part(lane);
    typename Filler::Part second_part = filler.second_part(lane);
    if (number > 0 && !filler.done()) {
        /* Else the first stage would share the memory's bandwidth with the second, and come as late as that. */
        await_barrier(at.full, 0);
    }
    for (; !filler.done(); filler.advance()) {
        int slot = filler.slot;
        if (at.chunks > 1) {
            first_part = filler.first_part(lane);
            second_part = filler.second_part(lane);
        }
        typename Filler::Span first = filler.span(first_part);
        await_barrier(at.empty + slot, filler.phase() ^ 1);
        filler.start(first);
        typename Filler::Span second = filler.span(second_part);
        filler.start(second);
        filler.describe(first, second);
        filler.copy_bytes(lane, 32);
        arrive(at.full + slot);
    }
}

/* The stages as those see them who read what has been filled: one after the other. */
template <int BITS, int COLUMN_TILES>
struct FilledStages {
    const DecodeLayout<BITS, COLUMN_TILES> &at;
    int slot;
    unsigned phases;            /* of the barrier of each slot, one bit each */

    __device__ __forceinline__ FilledStages(const DecodeLayout<BITS, COLUMN_TILES> &at) : at(at), slot(0), phases(0) {}

    /* Waits until the stage is full. */
    __device__ __forceinline__ void await() {
        await_barrier(at.full + slot, phases >> slot & 1);
        phases ^= 1u << slot;
    }

    /* Gives the stage back, and goes on to the next. */
    __device__ __forceinline__ void leave() {
        arrive(at.empty + slot);
        slot = at.next_slot(slot);
    }
};

/* Multiplies stages, by the first warps, and finishes tiles. */
template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void multiply_and_finish(const DecodeLayout<BITS, COLUMN_TILES> &at) {
    const Decoder<IO, BITS, COLUMN_TILES> decoder(at);
    FilledStages<BITS, COLUMN_TILES> stages(at);
    float total[COLUMN_TILES][4] = {};
    int buffer = 0;
    for (int tile = blockIdx.x; tile < at.tiles; tile += gridDim.x) {
        for (int chunk = 0; chunk < at.chunks; chunk++) {
            stages.await();
            decoder.multiply_stage(stages.slot, chunk, buffer, total);
            stages.leave();
        }
    }
}

/*
 * Multiplies stages, by the first warps, and leaves their sums to the warp that finishes tiles. A stage begins before the sums
 * of the one before it are stored, so that its activations are on their way meanwhile.
 */
template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void multiply_stages(const DecodeLayout<BITS, COLUMN_TILES> &at) {
    const Decoder<IO, BITS, COLUMN_TILES> decoder(at);
    typename Decoder<IO, BITS, COLUMN_TILES>::Lane lane;
    FilledStages<BITS, COLUMN_TILES> stages(at);
    float total[COLUMN_TILES][4] = {};
    int buffer = 0;
    unsigned uses = 0;
    int tile = blockIdx.x;
    int chunk = 0;
    if (tile < at.tiles) {
        stages.await();
        decoder.begin(stages.slot, chunk, lane);
    }
    while (tile < at.tiles) {
        bool mine = at.info(stages.slot).tile >= 0;
        if (mine) {
            decoder.multiply(stages.slot, chunk, lane, total);
        }
        bool last = chunk == at.chunks - 1;
        stages.leave();
        chunk = last ? 0 : chunk + 1;
        tile += last ? gridDim.x : 0;
        if (tile < at.tiles) {
            stages.await();
            decoder.begin(stages.slot, chunk, lane);
        }
        if (mine && last) {
            await_barrier(at.taken + buffer, (uses >> buffer & 1) ^ 1);
            uses ^= 1u << buffer;
            decoder.store_sums(buffer, total);
            arrive(at.summed + buffer);
            buffer ^= 1;
            decoder.clear(total);
        }
    }
}

/* Adds up what the others have multiplied, by one warp, while they go on with the next tile. */
template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void finish_tiles(const DecodeLayout<BITS, COLUMN_TILES> &at) {
    constexpr int COLUMNS = DecodeLayout<BITS, COLUMN_TILES>::COLUMNS;
    constexpr int PAIRS = TILE_ROWS / 2 * COLUMNS / 32;     /* of rows, for each lane */
    int place = threadIdx.x % 8;
    int first_column = threadIdx.x % 32 / 8;
    FilledStages<BITS, COLUMN_TILES> stages(at);
    int buffer = 0;
    unsigned uses = 0;
    for (int tile = blockIdx.x; tile < at.tiles; tile += gridDim.x) {
        for (int chunk = 0; chunk < at.chunks; chunk++) {
            stages.await();
            const typename DecodeLayout<BITS, COLUMN_TILES>::Info &stage = at.info(stages.slot);
            int row_tile = stage.tile;
            int columns = stage.columns;
            float low[PAIRS], high[PAIRS];
            int route[PAIRS];
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                low[i] = at.bias(stages.slot, place);
                high[i] = at.bias(stages.slot, place + 8);
                route[i] = stage.route[first_column + 4 * i];
            }
            stages.leave();
            if (row_tile < 0 || chunk < at.chunks - 1) {
                continue;
            }
            await_barrier(at.summed + buffer, uses >> buffer & 1);
            uses ^= 1u << buffer;
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                at.add_sums(buffer, place, first_column + 4 * i, low[i], high[i]);
            }
            arrive(at.taken + buffer);
            buffer ^= 1;
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                if (first_column + 4 * i < columns) {
                    store_pair<IO, BITS>(at.run, at.step, row_tile, place, route[i], low[i], high[i]);
                }
            }
        }
    }
}

/* The first warps multiply, the next ones fill, and with few columns the last one finishes; barriers hand over. */
template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void decode_experts(const eb_cuda_run &run) {
    DYNAMIC_SHARED(shared);
    DecodeLayout<BITS, COLUMN_TILES> at(run, shared);
    if ((int)threadIdx.x < run.stages) {
        init_barrier(at.full + threadIdx.x, 32);
        init_barrier(at.empty + threadIdx.x, 32 * (WARPS + HAS_FINISHER<COLUMN_TILES>));
    }
    if (HAS_FINISHER<COLUMN_TILES> && threadIdx.x < 2) {
        init_barrier(at.summed + threadIdx.x, 32 * WARPS);
        init_barrier(at.taken + threadIdx.x, 32);
    }
    fence_barriers();
    /* What fc2 copies does not depend on fc1, only what it multiplies with: it starts to copy while fc1 still ends. */
    bool early = run.step == EB_CUDA_FC2;
    if (!early) {
        await_the_kernel_before();
    }
    let_the_next_kernel_start();
    at.find_all();
    int warp = threadIdx.x / 32;
    if (warp >= WARPS && warp < WARPS + EB_CUDA_FILLING_WARPS) {
        fill_stages(at, warp - WARPS);
        return;
    }
    if (early) {
        await_the_kernel_before();
    }
    if constexpr (!HAS_FINISHER<COLUMN_TILES>) {
        multiply_and_finish<IO>(at);
    } else if (warp < WARPS) {
        multiply_stages<IO>(at);
    } else {
        finish_tiles<IO>(at);
    }
}

#else

/* All warps fill, some stages ahead of what they multiply. */
template <int BITS, int COLUMN_TILES>
__device__ __forceinline__ void fill_next(DecodeFiller<BITS, COLUMN_TILES> &filler) {
    if (!filler.done()) {
        int lane = threadIdx.x % 32;
        uint8_t *stage = filler.at.stage(filler.slot);
        if (threadIdx.x < 32) {
            filler.describe(filler.span(filler.first_part(lane)), filler.span(filler.second_part(lane)));
        }
        filler.copy_bytes(threadIdx.x, blockDim.x);
        /* What are a lane's copies elsewhere are a warp's here, one after the other. */
        for (int i = threadIdx.x / 32; i < 32; i += blockDim.x / 32) {
            copy_by_warp(filler.span(filler.first_part(i)).copy(stage), lane);
            copy_by_warp(filler.span(filler.second_part(i)).copy(stage), lane);
        }
        filler.advance();
    }
    end_stage_copies();
}

template <int IO, int BITS, int COLUMN_TILES>
__device__ __forceinline__ void decode_experts(const eb_cuda_run &run) {
    DYNAMIC_SHARED(shared);
    DecodeLayout<BITS, COLUMN_TILES> at(run, shared);
    at.find_all();
    DecodeFiller<BITS, COLUMN_TILES> filler(at, 0, 1);
    const Decoder<IO, BITS, COLUMN_TILES> decoder(at);
    for (int i = 0; i < run.stages - 1; i++) {
        fill_next(filler);
    }
    float total[COLUMN_TILES][4] = {};
    int slot = 0;
    int buffer = 0;
    for (int tile = blockIdx.x; tile < at.tiles; tile += gridDim.x) {
        for (int chunk = 0; chunk < at.chunks; chunk++) {
            await_stage_copies(run.stages - 2);
            __syncthreads();
            /* Everyone has left the stage before this one, so its memory can be filled. */
            fill_next(filler);
            if (threadIdx.x < EB_CUDA_THREADS) {
                decoder.multiply_stage(slot, chunk, buffer, total);
            }
            slot = at.next_slot(slot);
        }
    }
}

#endif

#endif
