/* test_sim_spent.c - more tags than are counted: one that has failed is not used again. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "group/group.h"
#include "sim/world_sim.h"

enum { MEMBERS = 4, AT_ONCE = 512 };

static tc_future *sum(struct sim_world *world, uint32_t rank, uint64_t tag, float *data)
{
    return tc_allreduce_async(sim_group(world, rank), tag, data, data, 1, TC_DTYPE_F32,
                              TC_REDUCE_SUM, NULL);
}

static void end_all(struct sim_world *world, tc_future **futures, uint32_t count,
                    tc_status_t expected)
{
    assert_true(sim_world_run(world, futures, count, TCI_NEVER));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(tc_future_test(futures[i]), expected);
        tc_future_release(futures[i]);
    }
}

/* `count` tags, a step from each to the next. */
static void use_tags(struct sim_world *world, uint64_t count, uint64_t step)
{
    static float data[MEMBERS][AT_ONCE];
    static tc_future *futures[MEMBERS * AT_ONCE];

    for (uint64_t tag = 0; tag < count; tag += AT_ONCE) {
        for (uint32_t i = 0; i < MEMBERS * AT_ONCE; i++)
            futures[i] = sum(world, i % MEMBERS, (tag + i / MEMBERS) * step,
                             &data[i % MEMBERS][i / MEMBERS]);
        end_all(world, futures, MEMBERS * AT_ONCE, TC_OK);
    }
}

static void sum_on(struct sim_world *world, uint32_t rank, uint64_t tag, float *data,
                   tc_status_t expected, int culprit)
{
    tc_future *future = sum(world, rank, tag, data);

    assert_true(sim_world_run(world, &future, 1, TCI_NEVER));
    assert_int_equal(tc_future_test(future), expected);
    assert_int_equal(tc_future_error(future)->rank, culprit);
    tc_future_release(future);
}

static void sum_on_all(struct sim_world *world, uint64_t tag, float each, tc_status_t expected)
{
    tc_future *futures[MEMBERS];
    float data[MEMBERS];

    for (uint32_t r = 0; r < MEMBERS; r++) {
        data[r] = each;
        futures[r] = sum(world, r, tag, &data[r]);
    }
    end_all(world, futures, MEMBERS, expected);
    for (uint32_t r = 0; r < MEMBERS; r++)
        assert_true(expected != TC_OK || data[r] == MEMBERS * each);
}

/* The last rank is late for a call that the others have given up: neither it nor what it sends may
 * meet another call under that tag. */
static void a_failed_tag_that_is_not_counted_is_not_used_again(void **state)
{
    struct sim_world *world = sim_world_new(MEMBERS, NULL);
    tc_future *futures[MEMBERS - 1];
    float data[MEMBERS] = {1, 1, 1, 1};
    uint64_t tag = 1500; /* among the lowest, as those are that become unknown first */

    (void)state;
    use_tags(world, TCI_TAGS_IDLE_MAX + 2 * TCI_USES_RUNS, 1000);
    for (uint32_t r = 0; r < MEMBERS - 1; r++)
        futures[r] = sum(world, r, tag, &data[r]);
    sim_world_run(world, futures, MEMBERS - 1, world->clock.now_ns + TCI_NS_PER_MS);
    tc_future_cancel(futures[0]);
    end_all(world, futures, MEMBERS - 1, TC_ERR_CANCELLED);

    sum_on(world, MEMBERS - 1, tag, &data[MEMBERS - 1], TC_ERR_CANCELLED, 0);
    sum_on_all(world, tag, 100, TC_ERR_INVALID_ARG);
    sum_on_all(world, tag + 1, 100, TC_OK);
    sum_on_all(world, tag + 1, 7, TC_OK);
    sum_on_all(world, TCI_TAGS_IDLE_MAX * 1000000ull, 7, TC_OK); /* beyond them all is as ever */
    assert_int_equal(sim_net_early(world->net), 0);
    sim_world_free(world);
}

/* As if a rank had had so many. */
static void forget_counts(struct sim_world *world, uint32_t rank)
{
    sim_group(world, rank)->comm.tags.has_forgotten = true;
}

/* Whatever is idle next is put away. */
static void fill_memory(struct sim_world *world)
{
    for (uint32_t r = 0; r < MEMBERS; r++)
        sim_group(world, r)->comm.tags.idle_count = TCI_TAGS_IDLE_NEAR;
}

/* The others are in a call that rank 0 cancels; the last rank comes so much later, and may have had
 * all that it needs.  How it ends there. */
static tc_status_t fail_on_all(struct sim_world *world, uint64_t tag, uint64_t late_ns)
{
    uint64_t begin_ns = world->clock.now_ns + TCI_NS_PER_MS;
    tc_future *futures[MEMBERS];
    float data[MEMBERS] = {1, 1, 1, 1};
    tc_status_t status;

    for (uint32_t r = 0; r < MEMBERS - 1; r++)
        futures[r] = sum(world, r, tag, &data[r]);
    sim_world_run(world, futures, MEMBERS - 1, begin_ns);
    tc_future_cancel(futures[0]);
    sim_world_run(world, futures, MEMBERS - 1, begin_ns + late_ns);
    futures[MEMBERS - 1] = sum(world, MEMBERS - 1, tag, &data[MEMBERS - 1]);
    assert_true(sim_world_run(world, futures, MEMBERS, TCI_NEVER));
    status = tc_future_test(futures[MEMBERS - 1]);
    for (uint32_t r = 0; r < MEMBERS; r++) {
        assert_true(r == MEMBERS - 1 || tc_future_test(futures[r]) == TC_ERR_CANCELLED);
        tc_future_release(futures[r]);
    }
    return status;
}

static void expect_small(struct sim_world *world)
{
    for (uint32_t r = 0; r < MEMBERS; r++) {
        const struct tci_tags *tags = &sim_group(world, r)->comm.tags;

        assert_true(HASH_COUNT(tags->table) <= TCI_TAGS_IDLE_NEAR + AT_ONCE);
        assert_true(tags->past.count <= AT_ONCE);
        assert_false(tags->has_forgotten);
    }
}

/* Numbers that go up, as in a loop that trains: one is used anew when it has left the table, by a
 * call that fails, and one that does not. */
static void neighbours_are_counted_however_many(void **state)
{
    struct sim_world *world = sim_world_new(MEMBERS, NULL);
    const char *effort = getenv("TCDIST_TEST_EFFORT");
    bool is_full = effort != NULL && strcmp(effort, "full") == 0;
    uint64_t count = is_full ? 2 * TCI_TAGS_IDLE_MAX : 4 * TCI_TAGS_IDLE_NEAR;

    (void)state;
    use_tags(world, count, 1);
    expect_small(world);
    for (uint64_t tag = 5; tag < 3 * count; tag += count) { /* an old one, and two new ones */
        assert_int_equal(fail_on_all(world, tag, 0), TC_ERR_CANCELLED);
        sum_on_all(world, tag, 100, TC_OK);
        sum_on_all(world, tag, 7, TC_OK);
    }
    assert_int_equal(sim_net_early(world->net), 0);
    sim_world_free(world);
}

/* What a failed call has left goes with the tag: who is late, and what it sends, meet no other. */
static void failed_ones_that_are_put_away_stay_apart(void **state)
{
    struct sim_world *world = sim_world_new(MEMBERS, NULL);
    enum { FAILED = 600, FIRST = 1000000 };

    (void)state;
    for (uint64_t tag = FIRST; tag < FIRST + FAILED; tag++)
        assert_int_equal(fail_on_all(world, tag, tag % 5000), TC_ERR_CANCELLED);
    use_tags(world, TCI_TAGS_IDLE_NEAR + AT_ONCE, 1);
    expect_small(world);
    for (uint32_t r = 0; r < MEMBERS; r++) {
        struct tci_tag_name name = {FIRST, TCI_ALL_PEERS, TCI_SPACE_TAGGED};
        struct tci_tags *tags = &sim_group(world, r)->comm.tags;

        assert_null(tci_tags_find(tags, &name));
        assert_int_equal(tci_tags_uses(tags, &name), 1);
    }
    for (uint64_t tag = FIRST; tag < FIRST + FAILED; tag++)
        sum_on_all(world, tag, 3, TC_OK);
    assert_int_equal(sim_net_early(world->net), 0);
    sim_world_free(world);
}

/* As before, but the late rank comes before it hears of the end; the call is the first under its
 * tag, or one like it has ended well. */
static void one_that_comes_as_the_others_fail_meets_no_later_call(void **state)
{
    for (uint64_t at = 0; at < 20000; at += 1000) {
        struct sim_world *world = sim_world_new(MEMBERS, NULL);

        for (uint32_t r = 0; r < MEMBERS; r++)
            forget_counts(world, r);
        if (at % 2000 != 0)
            sum_on_all(world, 9, 3, TC_OK);
        fill_memory(world);
        assert_int_equal(fail_on_all(world, 9, at), TC_ERR_CANCELLED);
        sim_world_idle(world);
        assert_int_equal(sim_net_early(world->net), 0);
        sum_on_all(world, 9, 100, TC_ERR_INVALID_ARG);
        sum_on_all(world, 10, 100, TC_OK);
        sum_on_all(world, 9, 100, TC_ERR_INVALID_ARG); /* that is kept for good */
        assert_int_equal(sim_net_early(world->net), 0);
        sim_world_free(world);
    }
    (void)state;
}

static void who_counts_uses_hears_that_another_refuses(void **state)
{
    struct sim_world *world = sim_world_new(MEMBERS, NULL);

    (void)state;
    forget_counts(world, 0);
    (void)fail_on_all(world, 9, 0);
    sum_on_all(world, 9, 100, TC_ERR_INVALID_ARG);
    sim_world_free(world);
}

/* Nor does it keep what they have sent it. */
static void who_counts_no_uses_keeps_no_message_of_a_failed_one(void **state)
{
    for (uint64_t at = 0; at < 20000; at += 1000) {
        struct sim_world *world = sim_world_new(MEMBERS, NULL);

        forget_counts(world, MEMBERS - 1);
        (void)fail_on_all(world, 9, at);
        sim_world_idle(world);
        assert_int_equal(sim_net_early(world->net), 0);
        sim_world_free(world);
    }
    (void)state;
}

static void who_counts_no_uses_and_never_comes_keeps_no_message(void **state)
{
    struct sim_world *world = sim_world_new(MEMBERS, NULL);
    tc_future *futures[MEMBERS - 1];
    float data[MEMBERS] = {1, 1, 1, 1};

    (void)state;
    forget_counts(world, MEMBERS - 1);
    for (uint32_t r = 0; r < MEMBERS - 1; r++)
        futures[r] = sum(world, r, 9, &data[r]);
    sim_world_run(world, futures, MEMBERS - 1, TCI_NS_PER_MS);
    assert_int_not_equal(sim_net_early(world->net), 0);
    tc_future_cancel(futures[0]);
    end_all(world, futures, MEMBERS - 1, TC_ERR_CANCELLED);
    sim_world_idle(world);
    assert_int_equal(sim_net_early(world->net), 0);
    sim_world_free(world);
}

/* Messages alone have made its tag known there. */
static void who_has_not_entered_a_call_that_is_not_counted_is_named(void **state)
{
    struct sim_world *world = sim_world_new(MEMBERS, NULL);
    tc_future *futures[MEMBERS - 1];
    float data[MEMBERS] = {1, 1, 1, 1};

    (void)state;
    for (uint32_t r = 0; r < MEMBERS; r++)
        forget_counts(world, r);
    for (uint32_t r = 0; r < MEMBERS - 1; r++)
        futures[r] = sum(world, r, 9, &data[r]);
    assert_true(sim_world_run(world, futures, MEMBERS - 1, TCI_NEVER));
    for (uint32_t r = 0; r < MEMBERS - 1; r++) {
        assert_int_equal(tc_future_test(futures[r]), TC_ERR_TIMEOUT);
        assert_int_equal(tc_future_error(futures[r])->rank, MEMBERS - 1);
        tc_future_release(futures[r]);
    }
    sim_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_tag_that_is_not_counted_is_not_used_again),
        cmocka_unit_test(neighbours_are_counted_however_many),
        cmocka_unit_test(failed_ones_that_are_put_away_stay_apart),
        cmocka_unit_test(one_that_comes_as_the_others_fail_meets_no_later_call),
        cmocka_unit_test(who_counts_uses_hears_that_another_refuses),
        cmocka_unit_test(who_counts_no_uses_keeps_no_message_of_a_failed_one),
        cmocka_unit_test(who_counts_no_uses_and_never_comes_keeps_no_message),
        cmocka_unit_test(who_has_not_entered_a_call_that_is_not_counted_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
