#include "qmoe_host.h"

#include "routing.h"
#include "tier.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

static int has_float16_conversion(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & (1u << 29));
}
#endif

/* The tiers this CPU can run, best first, then NULL. */
static void list_tiers(const struct tier *tiers[4]) {
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_float16_conversion()) {
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
            tiers[count++] = &tier_avx512;
        }
        tiers[count++] = &tier_avx2;
    }
    tiers[count++] = &tier_baseline;
#else
    tiers[count++] = &tier_neon;
#endif
    tiers[count] = NULL;
}

static const struct tier *choose_tier(void) {
    const struct tier *tiers[4];
    list_tiers(tiers);
    const char *forced = getenv("EXPERTBANK_HOST_TIER");
    for (int i = 0; forced != NULL && tiers[i] != NULL; i++) {
        if (strcmp(tiers[i]->name, forced) == 0) {
            return tiers[i];
        }
    }
    return tiers[0];
}

static const struct tier *current_tier(void) {
    static const struct tier *_Atomic chosen;
    const struct tier *tier = atomic_load_explicit(&chosen, memory_order_acquire);
    if (tier == NULL) {
        /* Two threads may both choose first; the earlier store stays for good. */
        const struct tier *fresh = choose_tier();
        if (atomic_compare_exchange_strong(&chosen, &tier, fresh)) {
            tier = fresh;
        }
    }
    return tier;
}

void expertbank_qmoe_abi(int64_t sizes[3]) {
    sizes[0] = (int64_t)sizeof(eb_expert_row);
    sizes[1] = (int64_t)sizeof(eb_qmoe_spec);
    sizes[2] = (int64_t)sizeof(eb_qmoe_run);
}

const char *expertbank_qmoe_tier(void) {
    return current_tier()->name;
}

static int tokens_in_range(int64_t tokens) {
    return tokens >= 1 && tokens <= EB_MAX_RUN_TOKENS;
}

int64_t expertbank_qmoe_workspace_bytes(const eb_qmoe_spec *spec, int64_t tokens) {
    if (!eb_spec_is_supported(spec) || spec->layout != EB_LAYOUT_PLAIN || !tokens_in_range(tokens)) {
        return -1;
    }
    struct run_state unused;
    return lay_out_run(spec, tokens, current_tier()->lanes, NULL, &unused);
}

int32_t expertbank_qmoe_prepare(eb_qmoe_run *run) {
    int64_t needed = expertbank_qmoe_workspace_bytes(run->spec, run->tokens);
    if (needed < 0 || run->workspace_bytes < needed) {
        return 1;
    }
    const struct tier *tier = current_tier();
    struct run_state *state = run->workspace;
    lay_out_run(run->spec, run->tokens, tier->lanes, run->workspace, state);
    route_tokens(run, state);
    tier->arrange_input(run, state);
    run->state = state;
    run->route_expert = state->route_expert;
    run->route_weight = state->route_weight;
    run->active_experts = state->active_experts;
    run->active_expert = state->active_expert;
    run->first_active = 0;
    run->end_active = state->active_experts;
    run->fc1_tasks_per_expert = state->inter_tiles;
    run->fc1_tasks = state->active_experts * state->inter_tiles;
    run->fc2_tasks = state->hidden_tiles;
    return 0;
}

void expertbank_qmoe_fc1(void *run, size_t task) {
    current_tier()->fc1(run, task);
}

void expertbank_qmoe_fc2(void *run, size_t task) {
    current_tier()->fc2(run, task);
}
