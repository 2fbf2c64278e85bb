#include "emulation.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

namespace emulation {

Index thread, block, block_size, grid_size;

namespace {

constexpr size_t STACK_BYTES = 64 << 10;
constexpr size_t SHARED_BYTES = 256 << 10;
constexpr unsigned WARP = 32;

/* Of threads that wait for each other. */
struct Meeting {
    int arrived = 0;
    unsigned number = 0;
};

/* A barrier in shared memory. */
struct Barrier {
    int arrivals;
    int pending;
    long bytes;
    unsigned phase;
};

struct Fiber {
    ucontext_t begin;
    jmp_buf resume;
    std::vector<char> stack;
    bool begun;
    bool ended;
    /* What it waits for, if anything. */
    const Meeting *meeting;
    unsigned meeting_number;
    uint64_t *barrier;
    unsigned phase;
};

struct Bulk {
    void *to;
    const void *from;
    int bytes;
    uint64_t *barrier;
};

Kernel kernel;
const void *parameters;
std::vector<Fiber> fibers;
Fiber *current;
jmp_buf scheduler;
unsigned running;
Meeting block_meeting, some_meeting;
std::vector<Meeting> warp_meetings;
std::vector<Exchange> exchanges;
std::unordered_map<uint64_t *, Barrier> barriers;
std::vector<Bulk> bulks;
alignas(1024) uint8_t shared[SHARED_BYTES];
uint64_t random_state = 1;

unsigned random_below(unsigned bound) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % bound;
}

[[noreturn]] void fail(const char *what) {
    fprintf(stderr, "emulation: %s (block %u of %u, thread %u)\n", what, block.x, grid_size.x, thread.x);
    /* Without the destructors, one of which would free the stack that this is on. */
    _Exit(4);
}

void suspend() {
    if (_setjmp(current->resume) == 0) {
        _longjmp(scheduler, 1);
    }
}

void meet(Meeting &meeting, int threads) {
    if (++meeting.arrived == threads) {
        meeting.arrived = 0;
        meeting.number++;
        return;
    }
    current->meeting = &meeting;
    current->meeting_number = meeting.number;
    suspend();
    current->meeting = nullptr;
}

Barrier &barrier_at(uint64_t *address) {
    auto found = barriers.find(address);
    if (found == barriers.end()) {
        fail("a barrier that was not initialised");
    }
    return found->second;
}

void end_phase_if_complete(Barrier &barrier) {
    if (barrier.pending < 0) {
        fail("more arrivals at a barrier than it was initialised for");
    }
    if (barrier.pending == 0 && barrier.bytes == 0) {
        barrier.pending = barrier.arrivals;
        barrier.phase++;
    }
}

bool has_passed(uint64_t *barrier, unsigned phase) {
    return (barrier_at(barrier).phase & 1) != phase;
}

bool can_run(const Fiber &fiber) {
    if (fiber.ended) {
        return false;
    }
    if (fiber.meeting != nullptr) {
        return fiber.meeting->number != fiber.meeting_number;
    }
    return fiber.barrier == nullptr || has_passed(fiber.barrier, fiber.phase);
}

void fiber_main() {
    kernel(parameters);
    current->ended = true;
    running--;
    _longjmp(scheduler, 1);
}

void resume(unsigned number) {
    current = &fibers[number];
    thread = {number};
    if (_setjmp(scheduler) != 0) {
        return;
    }
    if (current->begun) {
        _longjmp(current->resume, 1);
    }
    current->begun = true;
    setcontext(&current->begin);
}

/* One of the bulk copies that are under way. */
void finish_a_copy() {
    std::swap(bulks[random_below((unsigned)bulks.size())], bulks.back());
    Bulk copy = bulks.back();
    bulks.pop_back();
    memcpy(copy.to, copy.from, (size_t)copy.bytes);
    Barrier &barrier = barrier_at(copy.barrier);
    barrier.bytes -= copy.bytes;
    end_phase_if_complete(barrier);
}

void begin_block(unsigned threads) {
    unsigned warps = threads / WARP;
    barriers.clear();
    block_meeting = some_meeting = {};
    warp_meetings.assign(warps, {});
    exchanges.assign(warps, {});
    memset(shared, 0x5a, sizeof shared);
    if (fibers.size() < threads) {
        fibers.resize(threads);
    }
    for (unsigned i = 0; i < threads; i++) {
        Fiber &fiber = fibers[i];
        fiber.stack.resize(STACK_BYTES);
        fiber.begun = fiber.ended = false;
        fiber.meeting = nullptr;
        fiber.barrier = nullptr;
        getcontext(&fiber.begin);
        fiber.begin.uc_stack.ss_sp = fiber.stack.data();
        fiber.begin.uc_stack.ss_size = STACK_BYTES;
        fiber.begin.uc_link = nullptr;
        makecontext(&fiber.begin, fiber_main, 0);
    }
    running = threads;
}

/* Gives every thread of some of the warps a turn; false if none could run. */
bool run_some_warps(unsigned threads) {
    bool ran = false;
    unsigned warps = threads / WARP;
    unsigned first = random_below(warps);
    for (unsigned i = 0; i < warps; i++) {
        if (random_below(4) == 0) {
            continue;
        }
        unsigned warp = (first + i) % warps;
        for (unsigned lane = 0; lane < WARP; lane++) {
            if (can_run(fibers[warp * WARP + lane])) {
                resume(warp * WARP + lane);
                ran = true;
            }
        }
        if (!bulks.empty() && random_below(2) == 0) {
            finish_a_copy();
            ran = true;
        }
    }
    return ran;
}

void run_block(unsigned threads) {
    begin_block(threads);
    while (running > 0) {
        if (run_some_warps(threads)) {
            continue;
        }
        if (!bulks.empty()) {
            finish_a_copy();
        } else if (std::none_of(fibers.begin(), fibers.begin() + threads, can_run)) {
            fail("every thread waits");
        }
    }
    if (!bulks.empty()) {
        fail("a copy is under way when the block has ended");
    }
}

}

void launch(Kernel launched, const void *with, unsigned blocks, unsigned threads) {
    kernel = launched;
    parameters = with;
    grid_size = {blocks};
    block_size = {threads};
    if (threads % WARP != 0) {
        fail("a block that is no whole number of warps");
    }
    for (unsigned i = 0; i < blocks; i++) {
        block = {i};
        run_block(threads);
    }
}

uint8_t *shared_memory() {
    return shared;
}

void maybe_yield() {
    if (random_below(8) == 0) {
        suspend();
    }
}

void sync_block() {
    meet(block_meeting, (int)running);
}

void sync_some(int threads) {
    meet(some_meeting, threads);
}

void sync_warp() {
    meet(warp_meetings[thread.x / WARP], WARP);
}

Exchange exchange(uint64_t mine) {
    Exchange &all = exchanges[thread.x / WARP];
    all.of_lane[thread.x % WARP] = mine;
    sync_warp();
    Exchange result = all;
    sync_warp();
    return result;
}

void init_barrier(uint64_t *barrier, int arrivals) {
    barriers[barrier] = {arrivals, arrivals, 0, 0};
}

void arrive(uint64_t *barrier) {
    Barrier &at = barrier_at(barrier);
    at.pending--;
    end_phase_if_complete(at);
    maybe_yield();
}

void expect_bytes(uint64_t *barrier, int bytes) {
    barrier_at(barrier).bytes += bytes;
}

void await_barrier(uint64_t *barrier, unsigned phase) {
    maybe_yield();
    if (!has_passed(barrier, phase)) {
        current->barrier = barrier;
        current->phase = phase;
        suspend();
        current->barrier = nullptr;
    }
}

void copy_bulk(void *to, const void *from, int bytes, uint64_t *barrier) {
    if (((uintptr_t)to | (uintptr_t)from | (uintptr_t)bytes) % 16 != 0) {
        fail("a bulk copy of what is not aligned to 16 bytes");
    }
    if ((uint8_t *)to < shared || (uint8_t *)to + bytes > shared + SHARED_BYTES) {
        fail("a bulk copy to where no shared memory is");
    }
    memset(to, 0xa5, (size_t)bytes);
    bulks.push_back({to, from, bytes, barrier});
}

}
