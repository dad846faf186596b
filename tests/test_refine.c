/* test_refine.c - links change while a group runs; all ranks change their choices at one call. */
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

#include "algo/refine.h"
#include "core/base.h"
#include "core/op.h"
#include "sim/world_sim.h"
#include "support/sample.h"
#include "support/world.h"

enum { RANKS_MAX = 8, CALLS_MAX = 8 * TCI_REFINE_CALLS };

/* Which plan each rank has carried each ordered call out by. */
static const struct tci_plan *taken[RANKS_MAX][CALLS_MAX];
static bool (*admit)(struct tci_comm *comm, struct tci_op *op);

static bool watch(struct tci_comm *comm, struct tci_op *op)
{
    if (!admit(comm, op))
        return false;
    assert_true(op->args.tag < CALLS_MAX);
    taken[comm->rank][op->args.tag] = op->args.plan;
    return true;
}

static struct sim_world *open_world(uint32_t size, double jitter, uint64_t seed)
{
    struct sim_world_config config;
    struct sim_world *world;

    sim_world_config_default(&config);
    config.net.jitter = jitter;
    config.net.seed = seed;
    world = sim_world_new(size, &config);
    assert_non_null(world);
    memset(taken, 0, sizeof(taken));
    for (uint32_t r = 0; r < size; r++) {
        assert_true(tci_refine_open(tci_comm_of(sim_group(world, r)), 1));
        admit = tci_comm_of(sim_group(world, r))->tuning.admit;
        assert_non_null(admit);
        tci_comm_of(sim_group(world, r))->tuning.admit = watch;
    }
    return world;
}

static void check_alike(uint32_t size, uint64_t calls)
{
    for (uint64_t n = 0; n < calls; n++)
        for (uint32_t r = 0; r < size; r++)
            if (taken[r][n] == NULL || taken[r][n] != taken[0][n])
                fail_msg("call %llu: rank %u takes %s, rank 0 %s", (unsigned long long)n, r,
                         taken[r][n] == NULL ? "nothing" : taken[r][n]->name, taken[0][n]->name);
}

static void settle(struct sim_world *world, tc_future **futures, size_t count)
{
    assert_true(sim_world_run(world, futures, count, TCI_NEVER));
    for (size_t i = 0; i < count; i++) {
        if (futures[i] != NULL && tc_future_test(futures[i]) != TC_OK)
            fail_msg("%s", tc_future_error(futures[i])->message);
        tc_future_release(futures[i]);
    }
}

/* Messages between two ranks take so much longer. */
static void slow_link(struct sim_world *world, uint32_t a, uint32_t b, uint64_t longer_ns)
{
    sim_net_delay(world->net, a, b, longer_ns);
    sim_net_delay(world->net, b, a, longer_ns);
}

/* ---- One call after the other --------------------------------------------------------------- */

enum { COUNT = 20000 }; /* f32: with four ranks near the border between two plans */

static void call_in_turn(struct sim_world *world, uint64_t calls)
{
    static float data[RANKS_MAX][COUNT];
    tc_future *futures[RANKS_MAX];

    for (uint64_t n = 0; n < calls; n++) {
        for (uint32_t r = 0; r < world->size; r++)
            futures[r] = tc_allreduce_async(sim_group(world, r), TC_TAG_ORDERED, data[r], data[r],
                                            COUNT, TC_DTYPE_F32, TC_REDUCE_MAX, NULL);
        settle(world, futures, world->size);
        sim_world_idle(world); /* what is measured is not disturbed */
    }
}

static void a_link_that_slows_down_changes_the_choice_of_all_at_one_call(void **state)
{
    enum { SIZE = 4, PART = 3 * TCI_REFINE_CALLS };
    struct sim_world *world = open_world(SIZE, 0, 1);
    const struct tci_plan *before, *after;

    (void)state;
    call_in_turn(world, PART - 100);
    before = taken[0][PART - 101];
    slow_link(world, 2, 3, 300000);
    call_in_turn(world, PART);
    after = taken[0][2 * PART - 101];
    assert_string_equal(before->name, "direct");
    assert_string_equal(after->name, "oneshot");
    slow_link(world, 2, 3, 0);
    call_in_turn(world, 2 * TCI_REFINE_CALLS + 100);
    assert_ptr_equal(taken[0][2 * PART + 2 * TCI_REFINE_CALLS - 1], before);

    check_alike(SIZE, 2 * PART + 2 * TCI_REFINE_CALLS);
    for (uint64_t n = TCI_REFINE_CALLS; n < 2 * PART; n++)
        if (n % TCI_REFINE_CALLS != 0)
            assert_ptr_equal(taken[0][n], taken[0][n - 1]);
    sim_world_free(world);
}

static const char *started[RANKS_MAX];

static void note_start(struct tci_comm *comm, const struct tci_call *call, const char *algorithm)
{
    (void)call;
    started[comm->rank] = algorithm;
}

/* One of all ranks, as those in turn but for its tag; each rank has taken this plan. */
static void call_with_a_tag(struct sim_world *world, const char *plan)
{
    static float data[RANKS_MAX][COUNT];
    tc_future *futures[RANKS_MAX];

    for (uint32_t r = 0; r < world->size; r++) {
        tci_comm_of(sim_group(world, r))->on_start = note_start;
        futures[r] = tc_allreduce_async(sim_group(world, r), 7, data[r], data[r], COUNT,
                                        TC_DTYPE_F32, TC_REDUCE_MAX, NULL);
        assert_string_equal(started[r], plan);
    }
    settle(world, futures, world->size);
    sim_world_idle(world);
}

/* Whoever has just made an ordered call takes up nothing of it. */
static void tagged_calls_keep_the_choices_of_the_beginning(void **state)
{
    enum { SIZE = 4, PART = 3 * TCI_REFINE_CALLS };
    struct sim_world *world = open_world(SIZE, 0, 1);

    (void)state;
    call_with_a_tag(world, "direct");
    call_in_turn(world, PART - 100);
    slow_link(world, 2, 3, 300000);
    call_in_turn(world, PART);
    assert_string_equal(taken[0][2 * PART - 101]->name, "oneshot");
    for (int i = 0; i < 3; i++) {
        call_with_a_tag(world, "direct");
        call_in_turn(world, 2);
        assert_string_equal(taken[0][2 * PART - 99 + 2 * i]->name, "oneshot");
    }
    sim_world_free(world);
}

static void a_group_that_is_not_refined_keeps_its_choices(void **state)
{
    struct sim_world *world = sim_world_new(4, NULL);
    struct tci_comm *comm = tci_comm_of(sim_group(world, 1));

    (void)state;
    slow_link(world, 2, 3, 300000);
    call_in_turn(world, 2 * TCI_REFINE_CALLS);
    assert_null(comm->tuning.admit);
    assert_int_equal(tci_refine_every_ms(comm), 0);
    sim_world_free(world);
}

/* ---- A rank that does not come --------------------------------------------------------------- */

enum { AHEAD = 2 * TCI_REFINE_CALLS + 40 };

static void nothing(void *arg)
{
    (void)arg;
}

/* Rank 0 sends broadcasts that nobody receives yet, past the call where it has to know what the
 * ranks agree on. */
static struct sim_world *run_ahead(tc_future **futures, int timeout_ms)
{
    static float data;
    struct sim_world *world = open_world(2, 0, 1);
    tc_options options;

    tc_options_default(&options);
    options.timeout_ms = timeout_ms;
    sim_world_at(world, 0, 2 * TCI_NS_PER_MS, nothing, NULL); /* it is time to measure */
    sim_world_idle(world);
    for (int n = 0; n < AHEAD; n++)
        futures[n] = tc_broadcast_async(sim_group(world, 0), TC_TAG_ORDERED, &data, 1, TC_DTYPE_F32,
                                        0, &options);
    assert_false(sim_world_run(world, futures, AHEAD, 4 * TCI_NS_PER_MS));
    return world;
}

static void a_call_that_is_kept_can_end(void **state)
{
    tc_future *futures[AHEAD];
    struct sim_world *world = run_ahead(futures, 50);

    (void)state;
    for (int n = 0; n < AHEAD; n++)
        assert_int_equal(tc_future_test(futures[n]), n < 2 * TCI_REFINE_CALLS ? TC_OK : TC_PENDING);
    tc_future_cancel(futures[AHEAD - 1]);
    assert_true(sim_world_run(world, futures + AHEAD - 1, 1, 5 * TCI_NS_PER_MS));
    assert_int_equal(tc_future_test(futures[AHEAD - 1]), TC_ERR_CANCELLED);
    assert_true(sim_world_run(world, futures, AHEAD, TCI_NEVER));
    assert_int_equal(tc_future_test(futures[AHEAD - 2]), TC_ERR_TIMEOUT);
    assert_non_null(strstr(tc_future_error(futures[AHEAD - 2])->message, "ordered calls ahead"));
    for (int n = 0; n < AHEAD; n++)
        tc_future_release(futures[n]);
    sim_world_free(world);
}

static void a_rank_that_is_lost_ends_what_is_kept(void **state)
{
    tc_future *futures[AHEAD];
    struct sim_world *world = run_ahead(futures, -1);

    (void)state;
    sim_world_kill_at(world, 1, 5 * TCI_NS_PER_MS);
    assert_true(sim_world_run(world, futures, AHEAD, TCI_NEVER));
    for (int n = 2 * TCI_REFINE_CALLS; n < AHEAD; n++) {
        assert_int_equal(tc_future_test(futures[n]), TC_ERR_PEER_LOST);
        assert_int_equal(tc_future_error(futures[n])->rank, 1);
    }
    for (int n = 0; n < AHEAD; n++)
        tc_future_release(futures[n]);
    sim_world_free(world);
}

static void who_comes_late_is_waited_for(void **state)
{
    tc_future *futures[AHEAD], *late[AHEAD];
    struct sim_world *world = run_ahead(futures, -1);
    float data;

    (void)state;
    for (int n = 0; n < AHEAD; n++)
        late[n] = tc_broadcast_async(sim_group(world, 1), TC_TAG_ORDERED, &data, 1, TC_DTYPE_F32, 0,
                                     NULL);
    settle(world, futures, AHEAD);
    settle(world, late, AHEAD);
    check_alike(2, AHEAD);
    sim_world_free(world);
}

/* ---- Asked for ------------------------------------------------------------------------------ */

/* tc_dist_tune is a border for all calls: it waits for the round that one before it has begun. */
static void a_measurement_that_is_asked_for_comes_after_the_round(void **state)
{
    enum { SIZE = 4, ROUND = TCI_REFINE_CALLS };
    struct sim_world *world = open_world(SIZE, 1, 5);
    static float data[SIZE][COUNT];
    tc_future *futures[SIZE], *calls[SIZE];

    (void)state;
    slow_link(world, 0, 1, 300000);
    for (int part = 0; part < 3; part++) {
        call_in_turn(world, ROUND);
        for (uint32_t r = 0; r < SIZE; r++) {
            calls[r] = tc_allreduce_async(sim_group(world, r), TC_TAG_ORDERED, data[r], data[r],
                                          COUNT, TC_DTYPE_F32, TC_REDUCE_MAX, NULL);
            futures[r] = tc_dist_tune_async(sim_group(world, r));
        }
        settle(world, futures, SIZE);
        settle(world, calls, SIZE);
        slow_link(world, 0, 1, (uint64_t)part * 200000);
    }
    call_in_turn(world, 2 * ROUND);
    check_alike(SIZE, 5 * ROUND + 3);
    sim_world_free(world);
}

/* ---- Far ahead, and in any order ------------------------------------------------------------ */

enum { STORM_CALLS = 5 * TCI_REFINE_CALLS, STORM_COUNT = 3000 };

struct storm {
    struct sim_world *world;
    uint64_t random;
    float *data; /* [rank][call]: the first element is the sum's, then others */
    tc_future *futures[RANKS_MAX][STORM_CALLS], *tagged[RANKS_MAX][STORM_CALLS];
    struct storm_rank {
        struct storm *storm;
        uint32_t rank;
        int next;
        uint64_t random;
    } ranks[RANKS_MAX];
};

static int count_of(int n)
{
    return 1 + (int)((unsigned)n * 2654435761u % STORM_COUNT);
}

/* Of kinds that end on one rank before others have begun, and of those that cannot. */
static tc_future *call(struct storm *storm, uint32_t rank, uint64_t tag, int n, float *data)
{
    tc_dist_ctx *group = sim_group(storm->world, rank);
    int count = count_of(n);
    tc_options options;

    tc_options_default(&options);
    options.numerics = n % 11 == 5 ? TC_NUMERICS_FAST : TC_NUMERICS_CANONICAL;
    options.algorithm = n % 13 == 7 ? "direct" : NULL;
    if (n % 3 == 1)
        return tc_broadcast_async(group, tag, data, (size_t)count, TC_DTYPE_F32,
                                  n % (int)storm->world->size, &options);
    return tc_allreduce_async(group, tag, data, data, (size_t)count, TC_DTYPE_F32, TC_REDUCE_MAX,
                              &options);
}

/* Some calls at once, and later again: a rank is up to all calls ahead. */
static void go_on(void *arg)
{
    struct storm_rank *rank = arg;
    struct storm *storm = rank->storm;
    int burst = 1 + (int)(sim_random(&rank->random) % 600);
    float *data = storm->data + (size_t)rank->rank * STORM_COUNT;

    for (; burst > 0 && rank->next < STORM_CALLS; burst--, rank->next++) {
        int n = rank->next;

        storm->futures[rank->rank][n] = call(storm, rank->rank, TC_TAG_ORDERED, n, data);
        if (n % 4 == 0)
            storm->tagged[rank->rank][n] = call(storm, rank->rank, (uint64_t)n, n, data);
    }
    if (rank->next < STORM_CALLS)
        sim_world_at(storm->world, rank->rank,
                     storm->world->clock.now_ns + sim_random(&rank->random) % 4000000, go_on, rank);
}

static void change_a_link(void *arg)
{
    struct storm *storm = arg;
    uint32_t a = (uint32_t)(sim_random(&storm->random) % storm->world->size);
    uint32_t b = (a + 1) % storm->world->size;

    slow_link(storm->world, a, b, sim_random(&storm->random) % 400000);
    if (storm->ranks[0].next < STORM_CALLS)
        sim_world_at(storm->world, a, storm->world->clock.now_ns + 3000000, change_a_link, storm);
}

static uint64_t weather(uint32_t size, uint64_t seed)
{
    static struct storm storm;
    uint64_t changes;

    storm = (struct storm){.random = seed * 2 + 1};
    storm.data = calloc((size_t)size * STORM_COUNT, sizeof(*storm.data));
    assert_non_null(storm.data);
    storm.world = open_world(size, 2, seed + 1);
    for (uint32_t r = 0; r < size; r++) {
        storm.ranks[r] = (struct storm_rank){&storm, r, 0, seed * 31 + r + 1};
        sim_world_at(storm.world, r, sim_random(&storm.random) % 2000000, go_on, &storm.ranks[r]);
    }
    change_a_link(&storm);
    sim_world_idle(storm.world);
    for (uint32_t r = 0; r < size; r++) {
        settle(storm.world, storm.futures[r], STORM_CALLS);
        settle(storm.world, storm.tagged[r], STORM_CALLS);
    }
    check_alike(size, STORM_CALLS);
    changes = tci_refine_changes(tci_comm_of(sim_group(storm.world, 0)));
    assert_int_equal(sim_net_early(storm.world->net), 0);
    sim_world_free(storm.world);
    free(storm.data);
    return changes;
}

static void no_calls_differ_whatever_the_links_do(void **state)
{
    static const int storms[] = {4, 16, 300};
    uint64_t seed = test_seed(), changes = 0;

    (void)state;
    for (int s = 0; s < storms[test_effort()]; s++) {
        uint32_t size = 2 + (uint32_t)((seed + (uint64_t)s) % (RANKS_MAX - 1));

        changes += weather(size, seed + (uint64_t)s);
    }
    print_message("%llu changes of choices\n", (unsigned long long)changes);
    assert_true(changes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_slows_down_changes_the_choice_of_all_at_one_call),
        cmocka_unit_test(tagged_calls_keep_the_choices_of_the_beginning),
        cmocka_unit_test(a_group_that_is_not_refined_keeps_its_choices),
        cmocka_unit_test(a_call_that_is_kept_can_end),
        cmocka_unit_test(a_rank_that_is_lost_ends_what_is_kept),
        cmocka_unit_test(who_comes_late_is_waited_for),
        cmocka_unit_test(a_measurement_that_is_asked_for_comes_after_the_round),
        cmocka_unit_test(no_calls_differ_whatever_the_links_do),
    };

    test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
