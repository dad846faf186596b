/* test_sim_alloc.c - the n-th allocation of a small world fails, for every n. */
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

enum { RANKS = 3, CALLS = 9, COUNT = 3000, TIMEOUT_MS = 1000 };

struct buffers {
    float send[RANKS][RANKS * COUNT], recv[RANKS][RANKS * COUNT];
};

/* What a rank calls: every collective, a send, a receive, one behind another. */
static void start_all(struct sim_world *world, uint32_t r, struct buffers *buffers,
                      tc_future **futures)
{
    tc_dist_ctx *group = sim_group(world, r);
    float *send = buffers->send[r], *recv = buffers->recv[r];
    int next = (int)(r + 1) % RANKS, before = (int)(r + RANKS - 1) % RANKS;
    tc_options fast, behind;

    tc_options_default(&fast);
    fast.numerics = TC_NUMERICS_FAST;
    tc_options_default(&behind);
    futures[0] = tc_barrier_async(group, 1, NULL);
    futures[1] = tc_allreduce_async(group, 2, send, recv, COUNT, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    fast.algorithm = "ring";
    futures[2] =
        tc_allreduce_async(group, 3, send, recv, COUNT, TC_DTYPE_F32, TC_REDUCE_SUM, &fast);
    fast.algorithm = "tree";
    futures[3] = tc_allreduce_async(group, 4, send, recv, 7, TC_DTYPE_F32, TC_REDUCE_SUM, &fast);
    futures[4] = tc_allgather_async(group, 5, send, recv, COUNT, TC_DTYPE_F32, NULL);
    futures[5] = tc_reduce_scatter_async(group, TC_TAG_ORDERED, send, recv, COUNT, TC_DTYPE_F32,
                                         TC_REDUCE_MAX, NULL);
    behind.after = futures;
    behind.n_after = 2;
    futures[6] = tc_broadcast_async(group, 7, recv, COUNT, TC_DTYPE_F32, 1, &behind);
    futures[7] = tc_send_async(group, 8, send, COUNT, TC_DTYPE_F32, next, NULL);
    futures[8] = tc_recv_async(group, 8, recv, COUNT, TC_DTYPE_F32, before, NULL);
}

/* Every future has settled in time, and a failure is one that lack of memory explains. */
static void check(struct sim_world *world, tc_future *const *futures, uint64_t n, bool *all_ok)
{
    *all_ok = true;
    for (int i = 0; i < RANKS * CALLS; i++) {
        tc_status_t status = tc_future_test(futures[i]);

        if (status == TC_PENDING)
            fail_msg("allocation %llu: call %d of rank %d hangs", (unsigned long long)n, i % CALLS,
                     i / CALLS);
        if (status != TC_OK && status != TC_ERR_ALLOC && status != TC_ERR_TIMEOUT)
            fail_msg("allocation %llu: call %d of rank %d: %s", (unsigned long long)n, i % CALLS,
                     i / CALLS, tc_future_error(futures[i])->message);
        *all_ok = *all_ok && status == TC_OK;
    }
    assert_true(world->clock.now_ns <= (TIMEOUT_MS + 100) * TCI_NS_PER_MS);
}

/* False: nothing failed. */
static bool run(struct buffers *buffers, uint64_t n, bool forever)
{
    uint64_t live = tci_alloc_live();
    struct sim_world_config config;
    struct sim_world *world;
    tc_future *futures[RANKS * CALLS];
    bool all_ok = false;

    sim_world_config_default(&config);
    config.segment_bytes = 4096;
    config.net.eager_max = 1024;
    config.timeout_ms = TIMEOUT_MS;
    tci_alloc_fail_at(n, forever);
    world = sim_world_new(RANKS, &config);
    if (world != NULL) {
        for (uint32_t r = 0; r < RANKS; r++)
            start_all(world, r, buffers, &futures[r * CALLS]);
        sim_world_idle(world);
        check(world, futures, n, &all_ok);
        for (int i = 0; i < RANKS * CALLS; i++)
            tc_future_release(futures[i]);
        sim_world_free(world);
    }
    tci_alloc_fail_at(0, 0);
    assert_int_equal(tci_alloc_live(), live);
    return !all_ok;
}

static void one_allocation_fails(void **state)
{
    struct buffers *buffers = calloc(1, sizeof(*buffers));
    uint64_t n = 1, unharmed = 0, total;

    (void)state;
    assert_non_null(buffers);
    total = tci_alloc_total();
    assert_false(run(buffers, 0, false));
    total = tci_alloc_total() - total;
    for (; n <= total + 1; n++)
        unharmed += !run(buffers, n, false);
    print_message("%llu allocations, %llu of them are not missed\n", (unsigned long long)total,
                  (unsigned long long)unharmed);
    assert_false(run(buffers, total + 1000, false));
    free(buffers);
}

static void all_allocations_from_one_on_fail(void **state)
{
    struct buffers *buffers = calloc(1, sizeof(*buffers));
    uint64_t n = 1;

    (void)state;
    assert_non_null(buffers);
    while (run(buffers, n, true))
        n++;
    free(buffers);
}

/* What comes before its receive is not lost with what there is no memory for then. */
static void a_message_ahead_of_its_receive_arrives_or_is_missed(void **state)
{
    float values[2] = {7, 0};

    (void)state;
    for (uint64_t n = 1, total = 0; n == 1 || n <= total; n++) {
        struct sim_world *world = sim_world_new(2, NULL);
        uint64_t before = tci_alloc_total();
        tc_future *send, *recv;
        tc_status_t status;

        assert_non_null(world);
        send = tc_send_async(sim_group(world, 0), 1, &values[0], 1, TC_DTYPE_F32, 1, NULL);
        tci_alloc_fail_at(n, false);
        sim_world_idle(world);
        tci_alloc_fail_at(0, 0);
        total = tci_max(total, tci_alloc_total() - before);
        recv = tc_recv_async(sim_group(world, 1), 1, &values[1], 1, TC_DTYPE_F32, 0, NULL);
        sim_world_idle(world);
        status = tc_future_test(recv);
        if (tc_future_test(send) == TC_OK)
            assert_true(status == TC_OK || status == TC_ERR_ALLOC);
        tc_future_release(send);
        tc_future_release(recv);
        sim_world_free(world);
    }
}

static void expect_explained(tc_status_t status)
{
    assert_true(status == TC_OK || status == TC_ERR_ALLOC || status == TC_ERR_TIMEOUT);
}

/* A send to oneself and its receive end, each by the other if not by itself. */
static void a_send_to_itself_ends_with_its_receive(void **state)
{
    for (uint64_t n = 0, total = 0; n <= total; n++) {
        struct sim_world *world = sim_world_new(1, NULL);
        uint64_t before = tci_alloc_total();
        float values[2] = {7, 0};
        tc_future *send, *recv;

        assert_non_null(world);
        tci_alloc_fail_at(n, false);
        send = tc_send_async(sim_group(world, 0), TC_TAG_ORDERED, &values[0], 1, TC_DTYPE_F32, 0,
                             NULL);
        sim_world_run(world, &send, 1, TCI_NS_PER_MS);
        recv = tc_recv_async(sim_group(world, 0), TC_TAG_ORDERED, &values[1], 1, TC_DTYPE_F32, 0,
                             NULL);
        sim_world_idle(world);
        tci_alloc_fail_at(0, 0);
        total = tci_max(total, tci_alloc_total() - before);
        expect_explained(tc_future_test(send));
        expect_explained(tc_future_test(recv));
        assert_true(tc_future_test(recv) != TC_OK || values[1] == values[0]);
        tc_future_release(send);
        tc_future_release(recv);
        sim_world_free(world);
    }
    (void)state;
}

static tc_future *sum(struct sim_world *world, uint32_t rank, float *value)
{
    return tc_allreduce_async(sim_group(world, rank), TC_TAG_ORDERED, value, value, 1, TC_DTYPE_F32,
                              TC_REDUCE_SUM, NULL);
}

/* Who has no memory for an ordered call that has begun says so to those who have not come yet. */
static void an_ordered_call_without_memory_ends_for_all(void **state)
{
    for (uint64_t n = 0, total = 0; n <= total; n++) {
        struct sim_world *world = sim_world_new(2, NULL);
        uint64_t before = tci_alloc_total();
        float values[2] = {1, 2};
        tc_future *futures[2];
        bool has_begun;

        assert_non_null(world);
        tci_alloc_fail_at(n, false);
        futures[0] = sum(world, 0, &values[0]);
        has_begun = tc_future_test(futures[0]) == TC_PENDING;
        if (sim_world_run(world, futures, 1, TCI_NS_PER_MS))
            sim_world_idle(world); /* all that it has told is known */
        tci_alloc_fail_at(0, 0);
        total = tci_max(total, tci_alloc_total() - before);
        futures[1] = sum(world, 1, &values[1]);
        sim_world_idle(world);
        if (has_begun)
            assert_int_equal(tc_future_test(futures[1]), tc_future_test(futures[0]));
        tc_future_release(futures[0]);
        tc_future_release(futures[1]);
        sim_world_free(world);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_allocation_fails),
        cmocka_unit_test(all_allocations_from_one_on_fail),
        cmocka_unit_test(a_message_ahead_of_its_receive_arrives_or_is_missed),
        cmocka_unit_test(a_send_to_itself_ends_with_its_receive),
        cmocka_unit_test(an_ordered_call_without_memory_ends_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
