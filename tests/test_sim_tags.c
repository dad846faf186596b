/* test_sim_tags.c - tags in any order, again, cancelled, behind futures; random storms. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "sim/world_sim.h"
#include "support/coll_case.h"

static void expect_ok(tc_future *future)
{
    if (tc_future_test(future) != TC_OK)
        fail_msg("%s",
                 tc_future_error(future) == NULL ? "pending" : tc_future_error(future)->message);
}

static tc_future *sum(struct sim_world *world, uint32_t rank, uint64_t tag, float *data,
                      size_t count, const tc_options *options)
{
    return tc_allreduce_async(sim_group(world, rank), tag, data, data, count, TC_DTYPE_F32,
                              TC_REDUCE_SUM, options);
}

/* ---- Many at once --------------------------------------------------------------------------- */

enum { AT_ONCE = 16, LARGE = 64 * 1024 };

/* Bytes of scratch that rank 0 has had at a time: ranks start alike, or in opposite orders. */
static size_t scratch_of_many(bool is_reversed)
{
    static float data[2][AT_ONCE][LARGE];
    tc_future *futures[2 * AT_ONCE];
    struct sim_world_config config;
    struct sim_world *world;
    size_t bytes;

    sim_world_config_default(&config);
    config.algorithm = "oneshot"; /* whole payloads */
    world = sim_world_new(2, &config);
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            uint32_t i = r == 1 && is_reversed ? AT_ONCE - 1 - k : k;

            data[r][i][LARGE - 1] = (float)(r + i);
            futures[r * AT_ONCE + k] = sum(world, r, i, data[r][i], LARGE, NULL);
        }
    assert_true(sim_world_run(world, futures, 2 * AT_ONCE, TCI_NEVER));
    for (uint32_t k = 0; k < 2 * AT_ONCE; k++) {
        expect_ok(futures[k]);
        tc_future_release(futures[k]);
        assert_true(data[k / AT_ONCE][k % AT_ONCE][LARGE - 1] == (float)(1 + 2 * (k % AT_ONCE)));
    }
    bytes = sim_context(world, 0)->scratch.kept_bytes;
    sim_world_free(world);
    return bytes;
}

static void many_large_operations_have_scratch_for_those_that_come(void **state)
{
    (void)state;
    assert_in_range(scratch_of_many(false), sizeof(float[LARGE]), 4 * sizeof(float[LARGE]));
    assert_in_range(scratch_of_many(true), sizeof(float[LARGE]), AT_ONCE * sizeof(float[LARGE]));
}

/* ---- One tag, used again -------------------------------------------------------------------- */

static void a_tag_is_busy_until_it_is_released(void **state)
{
    struct sim_world *world = sim_world_new(2, NULL);
    tc_future *futures[2], *busy;
    float data[2] = {1, 2};
    tc_options options;

    (void)state;
    tc_options_default(&options);
    options.auto_release = false;
    for (uint32_t r = 0; r < 2; r++)
        futures[r] = sum(world, r, 4, &data[r], 1, &options);
    busy = sum(world, 0, 4, &data[0], 1, &options);
    assert_int_equal(tc_future_test(busy), TC_ERR_BUSY);
    assert_int_equal(tc_tag_release(sim_group(world, 0), 4), TC_ERR_BUSY);
    tc_future_release(busy);
    assert_true(sim_world_run(world, futures, 2, TCI_NEVER));
    busy = sum(world, 0, 4, &data[0], 1, &options);
    assert_int_equal(tc_future_test(busy), TC_ERR_BUSY);
    tc_future_release(busy);
    for (uint32_t r = 0; r < 2; r++) {
        expect_ok(futures[r]);
        tc_future_release(futures[r]);
        assert_int_equal(tc_tag_release(sim_group(world, r), 4), TC_OK);
        assert_int_equal(tc_tag_release(sim_group(world, r), 4), TC_ERR_INVALID_ARG);
        futures[r] = sum(world, r, 4, &data[r], 1, &options);
    }
    assert_true(sim_world_run(world, futures, 2, TCI_NEVER));
    for (uint32_t r = 0; r < 2; r++) {
        expect_ok(futures[r]);
        tc_future_release(futures[r]);
        assert_true(data[r] == 6);
    }
    sim_world_free(world);
}

enum { STEPS = 200, TAGS = 3, RANKS = 5 };

/* A rank that goes from step to step on its own: whoever is ahead waits for nobody but the plan. */
struct runner {
    struct sim_world *world;
    uint32_t rank;
    float data[TAGS];
    int step[TAGS], bad;
    struct link {
        struct runner *runner;
        int tag;
    } links[TAGS];
};

static void next_step(tc_future *future, void *arg)
{
    struct link *link = arg;
    struct runner *runner = link->runner;
    float *data = &runner->data[link->tag];
    int step = runner->step[link->tag]++;

    if (future != NULL && (tc_future_test(future) != TC_OK || *data != (float)(10 + 5 * step - 5)))
        runner->bad++;
    if (step == STEPS)
        return;
    *data = (float)(runner->rank + (uint32_t)step); /* sums to 10 + 5 * step */
    future =
        tc_barrier_async(sim_group(runner->world, runner->rank), 100 + (uint64_t)link->tag, NULL);
    tc_future_release(future); /* nobody waits for it: ranks run ahead of each other */
    if (step % 7 == 3)
        future = tc_allreduce_async(sim_group(runner->world, runner->rank),
                                    TC_TAG_ORDERED + 1 + (uint64_t)link->tag, data, data, 1,
                                    TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    else
        future = sum(runner->world, runner->rank, (uint64_t)link->tag, data, 1, NULL);
    assert_int_equal(tc_future_then(future, next_step, link), TC_OK);
    tc_future_release(future);
}

static void ranks_run_ahead_under_the_same_tags(void **state)
{
    struct sim_world_config config;
    uint64_t live = tci_alloc_live();

    (void)state;
    sim_world_config_default(&config);
    config.net.jitter = 30;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct runner runners[RANKS] = {{0}};

        config.net.seed = seed;
        struct sim_world *world = sim_world_new(RANKS, &config);
        for (uint32_t r = 0; r < RANKS; r++) {
            runners[r].world = world;
            runners[r].rank = r;
            for (int t = 0; t < TAGS; t++) {
                runners[r].links[t] = (struct link){&runners[r], t};
                next_step(NULL, &runners[r].links[t]);
            }
        }
        sim_world_idle(world);
        for (uint32_t r = 0; r < RANKS; r++)
            for (int t = 0; t < TAGS; t++) {
                assert_int_equal(runners[r].bad, 0);
                assert_int_equal(runners[r].step[t], STEPS + 1);
            }
        sim_world_free(world);
    }
    assert_int_equal(tci_alloc_live(), live);
}

/* ---- Futures before and after --------------------------------------------------------------- */

static void an_operation_starts_behind_its_futures(void **state)
{
    struct sim_world *world = sim_world_new(3, NULL);
    tc_future *gate = tc_promise_create(sim_context(world, 1)), *futures[3];
    float data[3] = {1, 2, 3};
    tc_options options;

    (void)state;
    assert_non_null(gate);
    tc_options_default(&options);
    for (uint32_t r = 0; r < 3; r++) {
        options.after = &gate;
        options.n_after = r == 1;
        futures[r] = sum(world, r, 1, &data[r], 1, &options);
    }
    assert_false(sim_world_run(world, futures, 3, 1000 * TCI_NS_PER_MS));
    data[1] = 20; /* it has not been read yet */
    tc_promise_settle(gate, TC_OK);
    assert_true(sim_world_run(world, futures, 3, 2000 * TCI_NS_PER_MS));
    for (uint32_t r = 0; r < 3; r++) {
        expect_ok(futures[r]);
        assert_true(data[r] == 24);
        tc_future_release(futures[r]);
    }
    tc_future_release(gate);
    sim_world_free(world);
}

static void a_future_that_fails_fails_what_starts_behind_it(void **state)
{
    struct sim_world *world = sim_world_new(3, NULL);
    tc_future *gate = tc_promise_create(sim_context(world, 1)), *futures[3];
    float data[3] = {1, 2, 3};
    tc_options options;

    (void)state;
    tc_options_default(&options);
    for (uint32_t r = 0; r < 3; r++) {
        options.after = &gate;
        options.n_after = r == 1;
        futures[r] = sum(world, r, 1, &data[r], 1, &options);
    }
    tc_promise_settle(gate, TC_ERR_DISPATCH);
    assert_true(sim_world_run(world, futures, 3, TCI_NEVER));
    assert_true(world->clock.now_ns < TCI_NS_PER_MS);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(tc_future_test(futures[r]), TC_ERR_DISPATCH);
        assert_int_equal(tc_future_error(futures[r])->rank, 1);
        tc_future_release(futures[r]);
    }
    tc_future_release(gate);
    sim_world_free(world);
}

static void an_urgent_collective_overtakes_a_bulk_one(void **state)
{
    enum { BULK = 4 << 20 };
    struct sim_world_config config;
    uint64_t at[2][2]; /* [urgent][of the small one, of the bulk] */
    float *data = calloc(BULK, sizeof(*data));
    float small[4][256] = {{0}};

    (void)state;
    sim_world_config_default(&config);
    config.net.no_data = true;
    for (int urgent = 0; urgent < 2; urgent++) {
        struct sim_world *world = sim_world_new(4, &config);
        tc_future *bulk[4], *quick[4];
        tc_options options;

        tc_options_default(&options);
        options.priority = urgent ? 10 : 0;
        for (uint32_t r = 0; r < 4; r++)
            bulk[r] = sum(world, r, 1, data, BULK, NULL);
        sim_world_run(world, bulk, 4, TCI_NS_PER_MS);
        for (uint32_t r = 0; r < 4; r++)
            quick[r] = sum(world, r, 2, small[r], 256, &options);
        assert_true(sim_world_run(world, quick, 4, TCI_NEVER));
        at[urgent][0] = world->clock.now_ns;
        assert_true(sim_world_run(world, bulk, 4, TCI_NEVER));
        at[urgent][1] = world->clock.now_ns;
        for (uint32_t r = 0; r < 4; r++) {
            expect_ok(bulk[r]);
            expect_ok(quick[r]);
            tc_future_release(bulk[r]);
            tc_future_release(quick[r]);
        }
        sim_world_free(world);
    }
    free(data);
    print_message("small one after %.3f ms, urgent %.3f ms; bulk %.3f and %.3f ms\n",
                  (double)at[0][0] * 1e-6, (double)at[1][0] * 1e-6, (double)at[0][1] * 1e-6,
                  (double)at[1][1] * 1e-6);
    assert_true(at[1][0] < at[0][0]);
    assert_true(at[1][1] <= at[0][1] + at[0][1] / 20);
}

static void a_cancel_ends_it_for_all_and_names_who_did(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 40000; at += 900) {
        struct sim_world *world = sim_world_new(6, NULL);
        tc_future *futures[6];
        static float data[6][20000];

        for (uint32_t r = 0; r < 6; r++)
            futures[r] = sum(world, r, 1, data[r], 20000, NULL);
        sim_world_run(world, futures, 6, at);
        tc_future_cancel(futures[4]);
        assert_true(sim_world_run(world, futures, 6, TCI_NEVER));
        assert_true(world->clock.now_ns < TCI_NS_PER_MS);
        for (uint32_t r = 0; r < 6; r++) {
            if (tc_future_test(futures[r]) != TC_OK) {
                assert_int_equal(tc_future_test(futures[r]), TC_ERR_CANCELLED);
                assert_int_equal(tc_future_error(futures[r])->rank, 4);
            }
            tc_future_release(futures[r]);
            futures[r] = sum(world, r, 1, data[r], 20000, NULL);
        }
        assert_true(sim_world_run(world, futures, 6, TCI_NEVER));
        for (uint32_t r = 0; r < 6; r++) {
            expect_ok(futures[r]);
            tc_future_release(futures[r]);
        }
        assert_int_equal(sim_net_early(world->net), 0);
        sim_world_free(world);
    }
}

/* ---- Storms --------------------------------------------------------------------------------- */

enum { STORM_OPS = 150, STORM_RANKS_MAX = 9 };

/* One operation of one rank: started at its time, perhaps cancelled at another. */
struct shot {
    struct storm *storm;
    int op;
    uint32_t rank;
};

struct storm {
    struct sim_world *world;
    uint32_t size;
    struct coll_run runs[STORM_OPS];
    bool is_cancelled[STORM_OPS];
    int victim; /* a rank that is killed; -1: none */
    struct shot shots[STORM_OPS][STORM_RANKS_MAX];
};

static void fire(void *arg)
{
    struct shot *shot = arg;

    coll_start(&shot->storm->runs[shot->op], sim_group(shot->storm->world, shot->rank),
               (int)shot->rank);
}

static void cancel(void *arg)
{
    struct shot *shot = arg;

    tc_future_cancel(shot->storm->runs[shot->op].future[shot->rank]);
}

static struct coll_case any_case(uint64_t *random, uint32_t size, int op)
{
    struct coll_case what = {.kind = (enum coll_kind)(sim_random(random) % COLL_KINDS),
                             .count = sim_random(random) % 300,
                             .dtype = TC_DTYPE_F32,
                             .op = sim_random(random) % 2 ? TC_REDUCE_SUM : TC_REDUCE_MAX,
                             .root = (int)(sim_random(random) % size),
                             .in_place = sim_random(random) % 2,
                             .tag = (uint64_t)op,
                             .seed = (unsigned)sim_random(random)};

    if (sim_random(random) % 8 == 0)
        what.count = 3000 + sim_random(random) % 9000;
    if (what.kind == COLL_BROADCAST)
        what.in_place = true;
    if (!coll_can_be_in_place(what.kind))
        what.in_place = false;
    return what;
}

static void plan_op(struct storm *storm, int op, uint64_t *random)
{
    struct coll_case what = any_case(random, storm->size, op);

    coll_prepare(&storm->runs[op], &what, (int)storm->size);
    storm->is_cancelled[op] = sim_random(random) % 6 == 0;
    for (uint32_t r = 0; r < storm->size; r++) {
        uint64_t at = sim_random(random) % (2 * TCI_NS_PER_MS);

        storm->shots[op][r] = (struct shot){storm, op, r};
        sim_world_at(storm->world, r, at, fire, &storm->shots[op][r]);
        if (storm->is_cancelled[op] && sim_random(random) % storm->size == 0)
            sim_world_at(storm->world, r, at + sim_random(random) % (TCI_NS_PER_MS / 10), cancel,
                         &storm->shots[op][r]);
    }
}

static struct storm *storm_new(uint64_t seed, bool kills)
{
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    struct storm *storm = calloc(1, sizeof(*storm));
    struct sim_world_config config;

    assert_non_null(storm);
    storm->size = 2 + (uint32_t)(sim_random(&random) % (STORM_RANKS_MAX - 1));
    sim_world_config_default(&config);
    config.net.seed = seed;
    config.net.jitter = (double)(sim_random(&random) % 50);
    config.net.eager_max = 64u << sim_random(&random) % 8;
    config.segment_bytes = (size_t)512 << sim_random(&random) % 8;
    storm->world = sim_world_new(storm->size, &config);
    for (int op = 0; op < STORM_OPS; op++)
        plan_op(storm, op, &random);
    storm->victim = kills ? (int)(sim_random(&random) % storm->size) : -1;
    if (kills)
        sim_world_kill_at(storm->world, (uint32_t)storm->victim,
                          sim_random(&random) % (4 * TCI_NS_PER_MS));
    return storm;
}

/* Whether an end is one that the storm explains, and names who is to blame. */
static bool is_explained(const struct storm *storm, int op, tc_future *future)
{
    const tc_error *error = tc_future_error(future);

    switch (tc_future_test(future)) {
    case TC_OK:
        return true;
    case TC_ERR_CANCELLED:
        return storm->is_cancelled[op] && error->rank >= 0 && error->rank < (int)storm->size;
    case TC_ERR_PEER_LOST:
        return storm->victim >= 0 && error->rank == storm->victim;
    default:
        return false;
    }
}

/* Every future settles; where nothing went wrong the values are right. */
static void storm_of(uint64_t seed, bool kills)
{
    uint64_t live = tci_alloc_live();
    struct storm *storm = storm_new(seed, kills);
    bool is_done[STORM_OPS];

    sim_world_idle(storm->world);
    for (int op = 0; op < STORM_OPS; op++) {
        is_done[op] = true;
        for (uint32_t r = 0; r < storm->size; r++) {
            tc_future *future = storm->runs[op].future[r];

            is_done[op] = is_done[op] && tc_future_test(future) == TC_OK;
            if ((int)r != storm->victim && !is_explained(storm, op, future))
                fail_msg("TCDIST_SIM_SEED=%llu%s, operation %d, rank %u: %s",
                         (unsigned long long)seed, kills ? " with a kill" : "", op, r,
                         tc_future_error(future) == NULL ? "it hangs"
                                                         : tc_future_error(future)->message);
        }
    }
    assert_true(storm->world->clock.now_ns < 1000 * TCI_NS_PER_MS);
    if (!kills && sim_net_early(storm->world->net) != 0)
        fail_msg("TCDIST_SIM_SEED=%llu: messages are left over", (unsigned long long)seed);
    sim_world_free(storm->world);
    for (int op = 0; op < STORM_OPS; op++) {
        if (!is_done[op])
            coll_drop(&storm->runs[op]);
        else
            coll_check(&storm->runs[op]);
    }
    free(storm);
    assert_int_equal(tci_alloc_live(), live);
}

static void storms(bool kills)
{
    static const uint64_t seeds[] = {10, 40, 1000}; /* quick, normal, full */
    const char *one = getenv("TCDIST_SIM_SEED");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t last = one != NULL ? first : seeds[test_effort()];

    for (uint64_t seed = first; seed <= last; seed++)
        storm_of(seed, kills);
}

static void storms_settle_every_future(void **state)
{
    (void)state;
    storms(false);
}

static void storms_with_a_killed_rank_settle_every_future(void **state)
{
    (void)state;
    storms(true);
}

/* ---- Ordered calls that end out of order ---------------------------------------------------- */

/* Rank 1 sends its part of the first call when both ranks are done with hundreds of later ones, and
 * rank 0 has still not posted its receive. */
static void an_ordered_call_that_many_overtake_ends_well(void **state)
{
    enum { LATER = 600 };
    struct sim_world *world = sim_world_new(2, NULL);
    tc_future *gates[2], *first[2];
    static tc_future *later[2 * LATER];
    float data[2] = {1, 2}, others[2] = {0};
    tc_options options;

    (void)state;
    tc_options_default(&options);
    for (uint32_t r = 0; r < 2; r++) {
        gates[r] = tc_promise_create(sim_context(world, r));
        options.after = &gates[r];
        options.n_after = 1;
        first[r] = sum(world, r, TC_TAG_ORDERED, &data[r], 1, &options);
        for (size_t n = 0; n < LATER; n++)
            later[r * LATER + n] = sum(world, r, TC_TAG_ORDERED, &others[r], 1, NULL);
    }
    assert_true(sim_world_run(world, later, TCI_LEN(later), TCI_NEVER));
    tc_promise_settle(gates[1], TC_OK);
    assert_false(sim_world_run(world, first, 2, world->clock.now_ns + TCI_NS_PER_MS));
    tc_promise_settle(gates[0], TC_OK);
    assert_true(sim_world_run(world, first, 2, TCI_NEVER));

    for (size_t n = 0; n < TCI_LEN(later); n++) {
        expect_ok(later[n]);
        tc_future_release(later[n]);
    }
    for (uint32_t r = 0; r < 2; r++) {
        expect_ok(first[r]);
        assert_true(data[r] == 3);
        tc_future_release(first[r]);
        tc_future_release(gates[r]);
    }
    sim_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_large_operations_have_scratch_for_those_that_come),
        cmocka_unit_test(a_tag_is_busy_until_it_is_released),
        cmocka_unit_test(ranks_run_ahead_under_the_same_tags),
        cmocka_unit_test(an_operation_starts_behind_its_futures),
        cmocka_unit_test(a_future_that_fails_fails_what_starts_behind_it),
        cmocka_unit_test(an_urgent_collective_overtakes_a_bulk_one),
        cmocka_unit_test(a_cancel_ends_it_for_all_and_names_who_did),
        cmocka_unit_test(an_ordered_call_that_many_overtake_ends_well),
        cmocka_unit_test(storms_settle_every_future),
        cmocka_unit_test(storms_with_a_killed_rank_settle_every_future),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
