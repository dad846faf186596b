/* test_order.c - fast sums: one order a plan, on all ranks and every run, and which one it is. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/base.h"
#include "sim/world_sim.h"
#include "support/sample.h"

enum { RANKS_MAX = 17, COUNT = 257 };

/* What all ranks give and get. */
struct sums {
    float in[RANKS_MAX][COUNT], out[RANKS_MAX][COUNT];
};

/* Random signs, and magnitudes from 2^-12 to 2^12, so that each order rounds in its own way. */
static void fill(struct sums *sums, struct sample *random)
{
    for (uint32_t r = 0; r < RANKS_MAX; r++)
        for (uint32_t i = 0; i < COUNT; i++) {
            float value = 1 + (float)sample_below(random, 1 << 23) * 0x1p-23F;

            value = ldexpf(value, (int)sample_below(random, 25) - 12);
            sums->in[r][i] = sample_below(random, 2) != 0 ? value : -value;
        }
}

/* All ranks all-reduce with a plan.  Odd ranks work in place where `mixed` is set. */
static void all_reduce(const struct tci_plan *plan, uint32_t ranks,
                       const struct sim_world_config *config, bool mixed, struct sums *sums)
{
    struct sim_world *world = sim_world_new(ranks, config);
    tc_future *futures[RANKS_MAX];
    tc_options options;

    assert_non_null(world);
    tc_options_default(&options);
    options.algorithm = plan->name;
    options.numerics = TC_NUMERICS_FAST;
    for (uint32_t r = 0; r < ranks; r++) {
        bool in_place = mixed && r % 2 == 1;

        memcpy(sums->out[r], sums->in[r], sizeof(sums->in[r]));
        futures[r] =
            tc_allreduce_async(sim_group(world, r), 1, in_place ? sums->out[r] : sums->in[r],
                               sums->out[r], COUNT, TC_DTYPE_F32, TC_REDUCE_SUM, &options);
    }
    if (!sim_world_run(world, futures, ranks, TCI_NEVER))
        fail_msg("%s of %u ranks hangs", plan->name, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        assert_int_equal(tc_future_test(futures[r]), TC_OK);
        tc_future_release(futures[r]);
        if (memcmp(sums->out[r], sums->out[0], sizeof(sums->out[0])) != 0)
            fail_msg("%s of %u ranks: rank %u has other bits than rank 0", plan->name, ranks, r);
    }
    sim_world_free(world);
}

/* However the terms are put in order, n - 1 additions round each at most once. */
static void check_bound(const struct tci_plan *plan, uint32_t ranks, const struct sums *sums)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        double sum = 0, absolute = 0, bound;

        for (uint32_t r = 0; r < ranks; r++) {
            sum += (double)sums->in[r][i];
            absolute += fabs((double)sums->in[r][i]);
        }
        bound = 1.01 * (ranks - 1) * 0x1p-24 * absolute;
        if (fabs((double)sums->out[0][i] - sum) > bound)
            fail_msg("%s of %u ranks: element %u is %a, the sum %a", plan->name, ranks, i,
                     (double)sums->out[0][i], sum);
    }
}

/* ---- The orders ------------------------------------------------------------------------------ */

/* From rank to rank, rounded after each. */
static float in_rank_order(const struct sums *sums, uint32_t ranks, uint32_t i)
{
    volatile float sum = sums->in[0][i];

    for (uint32_t r = 1; r < ranks; r++)
        sum += sums->in[r][i];
    return sum;
}

/* Pairs of neighbours, pairs of these, …; of more ranks than a power of two, the first ones are
 * pairs before that. */
static float balanced(const struct sums *sums, uint32_t ranks, uint32_t i)
{
    volatile float at[RANKS_MAX];
    uint32_t places = 1, folded;

    while (2 * places <= ranks)
        places *= 2;
    folded = ranks - places;
    for (uint32_t p = 0; p < places; p++) {
        at[p] = sums->in[p < folded ? 2 * p : p + folded][i];
        if (p < folded)
            at[p] += sums->in[2 * p + 1][i];
    }
    for (; places > 1; places /= 2)
        for (uint32_t p = 0; p < places / 2; p++) {
            at[p] = at[2 * p];
            at[p] += at[2 * p + 1];
        }
    return at[0];
}

static const struct {
    const char *algorithm;
    float (*sum)(const struct sums *sums, uint32_t ranks, uint32_t i);
} orders[] = {
    {"chain", in_rank_order},
    {"recursive_doubling", balanced},
    {"halving_doubling", balanced},
};

static void check_order(const struct tci_plan *plan, uint32_t ranks, const struct sums *sums)
{
    for (size_t o = 0; o < TCI_LEN(orders); o++)
        for (uint32_t i = 0; strcmp(orders[o].algorithm, plan->name) == 0 && i < COUNT; i++)
            if (orders[o].sum(sums, ranks, i) != sums->out[0][i])
                fail_msg("%s of %u ranks: element %u is %a, its order gives %a", plan->name, ranks,
                         i, (double)sums->out[0][i], (double)orders[o].sum(sums, ranks, i));
}

/* ---- One plan -------------------------------------------------------------------------------- */

/* In one segment and in several, timed in one way and in others, in place and not. */
static void try_plan(const struct tci_plan *plan, uint32_t ranks, struct sums *sums)
{
    static float first[COUNT];
    struct sim_world_config config;

    sim_world_config_default(&config);
    all_reduce(plan, ranks, &config, false, sums);
    check_bound(plan, ranks, sums);
    check_order(plan, ranks, sums);
    memcpy(first, sums->out[0], sizeof(first));

    config.net.jitter = 20;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        config.net.seed = seed;
        config.window = seed == 3 ? 2 : TCI_WINDOW;
        all_reduce(plan, ranks, &config, true, sums);
        if (memcmp(first, sums->out[0], sizeof(first)) != 0)
            fail_msg("%s of %u ranks: other bits with timing %u", plan->name, ranks,
                     (unsigned)seed);
    }
}

static void fast_sums_have_one_order(void **state)
{
    static struct sums sums;
    struct sample random = sample_begin(1);
    unsigned plans = 0;

    (void)state;
    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++) {
        if ((*plan)->coll != TCI_COLL_ALLREDUCE)
            continue;
        plans++;
        for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
            fill(&sums, &random);
            try_plan(*plan, ranks, &sums);
        }
    }
    print_message("%u plans, 2 to %u ranks\n", plans, RANKS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_sums_have_one_order),
    };

    test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
