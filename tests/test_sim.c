/* test_sim.c - every plan of the table, on simulated ranks, against plain loops. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 1500, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/base.h"
#include "sim_batch.h"

/* The exact reference takes its time, for each rank. */
static bool may_be_exact(const struct sim_batch *batch, const struct tci_plan *plan,
                         const struct coll_case *what)
{
    return plan->whole && what->count * (size_t)batch->world->size <= 4000;
}

/* One plan on one count: in place and not, with all numerics that it may, several operators. */
static void add_kind(struct sim_batch *batch, const struct tci_plan *plan, struct coll_case what)
{
    static const struct {
        tc_dtype_t dtype;
        tc_reduce_op_t op;
    } ways[] = {{TC_DTYPE_F32, TC_REDUCE_SUM}, {TC_DTYPE_I16, TC_REDUCE_MAX}};
    bool folds = coll_folds(what.kind);

    for (size_t w = 0; w < (folds ? TCI_LEN(ways) : 1); w++)
        for (int in_place = what.kind == COLL_BROADCAST; in_place < 2; in_place++)
            for (int numerics = 1; numerics <= (folds ? 3 : 1); numerics++) {
                if (folds && ((numerics == TC_NUMERICS_CANONICAL && !plan->canonical) ||
                              (numerics == TC_NUMERICS_EXACT && !may_be_exact(batch, plan, &what))))
                    continue;
                what.dtype = ways[w].dtype;
                what.op = ways[w].op;
                what.in_place = in_place;
                what.numerics = numerics;
                what.root = (int)((what.count + w) % batch->world->size);
                if (!in_place || coll_can_be_in_place(what.kind))
                    sim_batch_add(batch, what);
            }
}

static void add_plan(struct sim_batch *batch, const struct tci_plan *plan, size_t count)
{
    struct coll_case what = {.count = count, .algorithm = plan->name};
    enum coll_kind kinds[2];
    int n = sim_kinds_of(plan, kinds);

    for (int k = 0; k < n; k++) {
        what.kind = kinds[k];
        add_kind(batch, plan, what);
    }
}

static uint64_t all_plans(uint32_t size, const struct sim_world_config *config,
                          const size_t *counts, size_t n_counts)
{
    uint64_t live = tci_alloc_live(), total;
    struct sim_batch *batch = calloc(1, sizeof(*batch));

    assert_non_null(batch);
    batch->world = sim_world_new(size, config);
    batch->random = 88172645463325252u + size;
    for (size_t c = 0; c < n_counts; c++)
        for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
            add_plan(batch, *plan, counts[c]);
    if (batch->count > 0)
        sim_batch_flush(batch);
    sim_world_free(batch->world);
    total = batch->total;
    free(batch);
    assert_int_equal(tci_alloc_live(), live);
    return total;
}

static void every_plan_on_1_to_17_ranks(void **state)
{
    uint64_t total = 0;

    (void)state;
    for (uint32_t n = 1; n <= 17; n += test_effort() == 0 && n > 5 ? 3 : 1) {
        const size_t counts[] = {0, 1, n - 1, n + 1, 1000};

        total += all_plans(n, NULL, counts, TCI_LEN(counts));
    }
    print_message("%llu collectives\n", (unsigned long long)total);
}

static void every_plan_on_64_ranks(void **state)
{
    const size_t counts[] = {65, 1, 63, 1000};

    (void)state;
    all_plans(64, NULL, counts, test_effort() == 0 ? 1 : TCI_LEN(counts));
}

static void every_plan_in_several_lanes_with_credits(void **state)
{
    const size_t counts[] = {test_effort() == 0 ? 18001 : 70001};
    struct sim_world_config config;

    (void)state;
    sim_world_config_default(&config);
    config.segment_bytes = test_effort() == 0 ? 8192 : 32768;
    config.net.eager_max = 512;
    for (uint32_t n = 2; n <= 9; n += test_effort() == 0 ? 3 : 1)
        all_plans(n, &config, counts, TCI_LEN(counts));
}

/* Pipelines cut a long segment into pieces; a little window and credits hold them up. */
static void pipelines_in_pieces(void **state)
{
    struct sim_world_config config;
    struct sim_batch *batch = calloc(1, sizeof(*batch));

    (void)state;
    assert_non_null(batch);
    sim_world_config_default(&config);
    for (uint32_t n = 2; n <= 9; n += test_effort() == 0 ? 3 : 1) {
        config.window = n % 2 == 0 ? TCI_WINDOW : 5;
        batch->world = sim_world_new(n, &config);
        batch->random = n;
        for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
            if ((*plan)->depth != NULL)
                add_plan(batch, *plan, test_effort() == 0 ? 100003 : 400001);
        if (batch->count > 0)
            sim_batch_flush(batch);
        sim_world_free(batch->world);
    }
    print_message("%llu collectives\n", (unsigned long long)batch->total);
    free(batch);
}

/* Plans that look at hosts, with ranks on one to five of them: in order, in turns, in no order. */
static void plans_for_several_hosts_on_2_to_17_ranks(void **state)
{
    enum { SIZE_MAX_HERE = 17, LAYOUTS = 6 };
    uint64_t hosts[SIZE_MAX_HERE];
    struct sim_world_config config;
    struct sim_batch *batch = calloc(1, sizeof(*batch));

    (void)state;
    assert_non_null(batch);
    sim_world_config_default(&config);
    config.hosts = hosts;
    for (uint32_t n = 2; n <= SIZE_MAX_HERE; n += test_effort() == 0 ? 5 : 1)
        for (uint32_t layout = 0; layout < LAYOUTS; layout++) {
            for (uint32_t r = 0; r < n; r++)
                hosts[r] = layout < 2 ? r / (layout + 2) : ((uint64_t)r * r + layout) % layout;
            batch->world = sim_world_new(n, &config);
            batch->random = n + layout;
            for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
                if ((*plan)->by_host)
                    add_plan(batch, *plan, 1000 + layout);
            if (batch->count > 0)
                sim_batch_flush(batch);
            sim_world_free(batch->world);
        }
    print_message("%llu collectives\n", (unsigned long long)batch->total);
    free(batch);
}

static void every_plan_over_links_that_jitter(void **state)
{
    const size_t counts[] = {7, 5000};
    struct sim_world_config config;

    (void)state;
    sim_world_config_default(&config);
    config.segment_bytes = 2048;
    config.net.eager_max = 256;
    config.net.jitter = 20;
    for (uint64_t seed = 1; seed <= (test_effort() == 0 ? 2 : 5); seed++) {
        config.net.seed = seed;
        all_plans(5, &config, counts, TCI_LEN(counts));
        all_plans(8, &config, counts, TCI_LEN(counts));
    }
}

/* ---- From rank to rank ---------------------------------------------------------------------- */

/* Every rank sends to every rank, itself too, and receives from all: receives first, sends first,
 * or as chance has it. */
static void exchange(uint32_t n, size_t count, uint64_t seed, tc_future **futures, float *data)
{
    struct sim_world_config config;
    size_t pairs = (size_t)n * n, started = 0;
    uint64_t random = seed;
    int *order = calloc(2 * pairs, sizeof(*order));

    sim_world_config_default(&config);
    config.net.jitter = (double)seed;
    config.net.seed = seed;
    struct sim_world *world = sim_world_new(n, &config);
    sim_shuffle(order, (int)(2 * pairs), &random);
    for (size_t i = 0; i < 2 * pairs; i++) {
        size_t what = (size_t)order[i], pair = what % pairs;
        uint32_t from = (uint32_t)(pair / n), to = (uint32_t)(pair % n);
        bool is_send = what >= pairs;
        float *at = data + what * count;

        for (size_t k = 0; k < count; k++)
            at[k] = is_send ? (float)(pair * 1000 + k) : -1;
        futures[started++] =
            is_send
                ? tc_send_async(sim_group(world, from), 3, at, count, TC_DTYPE_F32, (int)to, NULL)
                : tc_recv_async(sim_group(world, to), 3, at, count, TC_DTYPE_F32, (int)from, NULL);
    }
    assert_true(sim_world_run(world, futures, started, TCI_NEVER));
    for (size_t i = 0; i < started; i++) {
        if (tc_future_test(futures[i]) != TC_OK)
            fail_msg("%u ranks, %zu floats, seed %llu: %s", n, count, (unsigned long long)seed,
                     tc_future_error(futures[i])->message);
        tc_future_release(futures[i]);
    }
    assert_memory_equal(data, data + pairs * count, pairs * count * sizeof(*data));
    sim_world_free(world);
    free(order);
}

static void every_rank_sends_to_every_rank(void **state)
{
    static const size_t counts[] = {1, 5000, 600000};
    uint64_t live = tci_alloc_live();

    (void)state;
    for (uint32_t n = 2; n <= 5; n += 3)
        for (size_t c = 0; c < TCI_LEN(counts); c++) {
            size_t calls = 2 * (size_t)n * n;
            tc_future **futures = calloc(calls, sizeof(*futures));
            float *data = calloc(calls * counts[c], sizeof(*data));

            for (uint64_t seed = 1; seed < 5; seed++)
                exchange(n, counts[c], seed, futures, data);
            free(futures);
            free(data);
        }
    assert_int_equal(tci_alloc_live(), live);
}

/* ---- Time ----------------------------------------------------------------------------------- */

/* All ranks all-reduce `count` floats once; gives the time it took. */
static uint64_t time_of(const char *algorithm, size_t count, const struct sim_world_config *config)
{
    struct coll_run run;
    struct coll_case what = {.kind = COLL_ALLREDUCE,
                             .count = count,
                             .dtype = TC_DTYPE_F32,
                             .numerics = TC_NUMERICS_FAST,
                             .algorithm = algorithm};
    struct sim_world *world = sim_world_new(8, config);
    struct sim_batch batch = {.world = world};
    uint64_t now;

    coll_prepare(&run, &what, 8);
    for (uint32_t r = 0; r < 8; r++)
        coll_start(&run, sim_group(world, r), (int)r);
    sim_batch_settle(&batch, &run);
    now = world->clock.now_ns;
    coll_check(&run);
    sim_world_free(world);
    return now;
}

static void a_run_is_repeated_to_the_nanosecond(void **state)
{
    struct sim_world_config config;
    uint64_t first, other;

    (void)state;
    sim_world_config_default(&config);
    config.net.jitter = 3;
    first = time_of("direct", 5000, &config);
    assert_int_equal(time_of("direct", 5000, &config), first);
    config.net.seed = 2;
    other = time_of("direct", 5000, &config);
    assert_int_not_equal(other, first);
}

static void a_ring_comes_near_the_bandwidth_of_its_links(void **state)
{
    struct sim_world_config config;
    size_t count = 1 << 20;
    double bound;

    (void)state;
    sim_world_config_default(&config);
    config.segment_bytes = 1 << 19;
    bound = 2.0 * 7 / 8 * (double)count * 4 * config.net.byte_ns;
    double took = (double)time_of("ring", count, &config);
    print_message("ring of 8, 4 MiB: %.3f ms, %.0f %% of the bound\n", took * 1e-6,
                  100 * bound / took);
    assert_true(took >= bound);
    assert_true(took < 1.25 * bound);
}

static void a_barrier_waits_for_the_last_rank(void **state)
{
    struct sim_world *world = sim_world_new(13, NULL);
    tc_future *futures[13] = {NULL};

    (void)state;
    for (uint32_t r = 0; r < 12; r++)
        futures[r] = tc_barrier_async(sim_group(world, r), 5, NULL);
    assert_false(sim_world_run(world, futures, 12, 100 * TCI_NS_PER_MS));
    for (uint32_t r = 0; r < 12; r++)
        assert_int_equal(tc_future_test(futures[r]), TC_PENDING);
    futures[12] = tc_barrier_async(sim_group(world, 12), 5, NULL);
    assert_true(sim_world_run(world, futures, 13, TCI_NEVER));
    for (uint32_t r = 0; r < 13; r++) {
        assert_int_equal(tc_future_test(futures[r]), TC_OK);
        tc_future_release(futures[r]);
    }
    sim_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_on_1_to_17_ranks),
        cmocka_unit_test(every_plan_on_64_ranks),
        cmocka_unit_test(every_plan_in_several_lanes_with_credits),
        cmocka_unit_test(plans_for_several_hosts_on_2_to_17_ranks),
        cmocka_unit_test(pipelines_in_pieces),
        cmocka_unit_test(every_plan_over_links_that_jitter),
        cmocka_unit_test(every_rank_sends_to_every_rank),
        cmocka_unit_test(a_run_is_repeated_to_the_nanosecond),
        cmocka_unit_test(a_ring_comes_near_the_bandwidth_of_its_links),
        cmocka_unit_test(a_barrier_waits_for_the_last_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
