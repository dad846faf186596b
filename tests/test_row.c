/* test_row.c - groups over descriptors that the caller gives: a ring of them, or one a pair. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, waits */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/base.h"
#include "group/ring_group.h"
#include "support/row_world.h"

enum { COUNT = 1024 };

static struct row_rank ranks[ROW_RANKS_MAX];

static tc_status_t wait_for(tc_future *future)
{
    tc_status_t status = tc_future_wait(future, -1);

    tc_future_release(future);
    return status;
}

/* ---- What goes along ------------------------------------------------------------------------ */

static float value(int rank, int i)
{
    return (float)(rank + 1) * 1.37f + (float)(i % 97) / 7.0f;
}

/* Sums of every kind are equal on all ranks: each gathers what all have. */
static void reduce(struct row_rank *self, const tc_options *options)
{
    static const tc_reduce_op_t ops[] = {TC_REDUCE_SUM, TC_REDUCE_AVG, TC_REDUCE_MAX,
                                         TC_REDUCE_MIN};
    float *x = malloc(COUNT * sizeof(float)), *all = malloc(ROW_RANKS_MAX * COUNT * sizeof(float));

    for (size_t k = 0; k < TCI_LEN(ops); k++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = value(self->rank, i);
        WANT(wait_for(tc_allreduce_async(self->group, TC_TAG_ORDERED, x, x, COUNT, TC_DTYPE_F32,
                                         ops[k], options)) == TC_OK);
        WANT(wait_for(tc_allgather_async(self->group, TC_TAG_ORDERED, x, all, COUNT, TC_DTYPE_F32,
                                         NULL)) == TC_OK);
        for (int r = 0; r < self->size; r++)
            WANT(memcmp(all + r * COUNT, x, COUNT * sizeof(float)) == 0);
        WANT(x[5] > 1.0f && x[5] < 100.0f);
    }
    free(x);
    free(all);
}

static void move(struct row_rank *self)
{
    int32_t x[COUNT];

    for (int root = 0; root < self->size; root++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = self->rank == root ? 100 * root + i : -1;
        WANT(wait_for(tc_broadcast_async(self->group, (uint64_t)root, x, COUNT, TC_DTYPE_I32, root,
                                         NULL)) == TC_OK);
        WANT(x[0] == 100 * root && x[COUNT - 1] == 100 * root + COUNT - 1);
    }
    WANT(wait_for(tc_barrier_async(self->group, TC_TAG_ORDERED, NULL)) == TC_OK);
}

static void exchange_with_right(struct row_rank *self)
{
    int right = (self->rank + 1) % self->size, left = (self->rank + self->size - 1) % self->size;
    int32_t out = self->rank, in = -1;
    tc_future *sent = tc_send_async(self->group, 7, &out, 1, TC_DTYPE_I32, right, NULL);

    WANT(wait_for(tc_recv_async(self->group, 7, &in, 1, TC_DTYPE_I32, left, NULL)) == TC_OK);
    WANT(wait_for(sent) == TC_OK);
    WANT(in == left);
}

static void use_ring(struct row_rank *self)
{
    reduce(self, NULL);
    move(self);
    exchange_with_right(self);
}

static void a_ring_of_descriptors_carries_plans_along_it(void **state)
{
    static const int numerics[] = {TC_NUMERICS_CANONICAL, TC_NUMERICS_FAST};

    (void)state;
    for (size_t k = 0; k < TCI_LEN(numerics); k++)
        for (int size = 2; size <= 6; size++) {
            row_world_link(ranks, size, ROW_RING);
            for (int r = 0; r < size; r++) {
                ranks[r].body = use_ring;
                ranks[r].numerics = numerics[k];
            }
            row_world_run_well(ranks, size);
        }
}

/* Canonical, and any plan: here every pair is linked. */
static void use_all(struct row_rank *self)
{
    tc_options options;
    uint8_t x[ROW_RANKS_MAX], y[ROW_RANKS_MAX];

    tc_options_default(&options);
    reduce(self, NULL);
    options.algorithm = "direct";
    reduce(self, &options);
    move(self);
    exchange_with_right(self);
    memset(x, self->rank, sizeof x);
    WANT(wait_for(tc_alltoall_async(self->group, TC_TAG_ORDERED, x, y, 1, TC_DTYPE_U8, NULL)) ==
         TC_OK);
    for (int r = 0; r < self->size; r++)
        WANT(y[r] == r);
}

static void a_descriptor_for_each_pair_carries_everything(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        row_world_link(ranks, size, ROW_FULL);
        for (int r = 0; r < size; r++)
            ranks[r].body = use_all;
        row_world_run_well(ranks, size);
    }
}

static void a_ring_of_three_links_all(void **state)
{
    (void)state;
    row_world_link(ranks, 3, ROW_RING);
    for (int r = 0; r < 3; r++)
        ranks[r].body = use_all;
    row_world_run_well(ranks, 3);
}

static void two_ranks_may_share_one_pair(void **state)
{
    int ends[2];

    (void)state;
    row_world_link(ranks, 2, ROW_FULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (int r = 0; r < 2; r++) {
        close(atoi(strpbrk(ranks[r].url, "0123456789")));
        snprintf(ranks[r].url, ROW_URL_BYTES, "fd://%d", ends[r]);
        ranks[r].body = use_all;
    }
    row_world_run_well(ranks, 2);
    assert_int_equal(fcntl(ends[0], F_GETFD), -1); /* taken over, and closed */
}

/* ---- What does not ------------------------------------------------------------------------- */

static void ask_too_much(struct row_rank *self)
{
    tc_options options;
    uint8_t x[ROW_RANKS_MAX] = {0}, y[ROW_RANKS_MAX];
    tc_dist_ctx *part = NULL;

    tc_options_default(&options);
    WANT(wait_for(tc_alltoall_async(self->group, 1, x, y, 1, TC_DTYPE_U8, NULL)) ==
         TC_ERR_UNSUPPORTED);
    WANT(strstr(tc_last_error()->message, "links between all ranks") != NULL);
    options.algorithm = "direct";
    WANT(wait_for(tc_allreduce_async(self->group, 1, x, x, 1, TC_DTYPE_U8, TC_REDUCE_SUM,
                                     &options)) == TC_ERR_UNSUPPORTED);
    WANT(strstr(tc_last_error()->message, "neighbours alone") != NULL);
    WANT(wait_for(tc_reduce_scatter_async(self->group, 1, x, y, 1, TC_DTYPE_U8, TC_REDUCE_SUM,
                                          NULL)) == TC_ERR_UNSUPPORTED);
    WANT(strstr(tc_last_error()->message, "TC_NUMERICS_FAST") != NULL);
    WANT(wait_for(tc_send_async(self->group, 1, x, 1, TC_DTYPE_U8, (self->rank + 2) % self->size,
                                NULL)) == TC_ERR_UNSUPPORTED);
    WANT(tc_dist_split(self->group, 0, 0, &part) == TC_ERR_UNSUPPORTED);
    WANT(tc_barrier(self->group) == TC_OK); /* the group is fine */
}

static void what_needs_other_links_is_refused(void **state)
{
    (void)state;
    row_world_link(ranks, 5, ROW_RING);
    for (int r = 0; r < 5; r++)
        ranks[r].body = ask_too_much;
    row_world_run_well(ranks, 5);
}

/* Every plan that a ring may be asked for talks to neighbours alone. */
static void plans_of_the_ring_go_along_it(void **state)
{
    int seen = 0;

    (void)state;
    for (size_t p = 0; tci_plans[p] != NULL; p++) {
        if (!tci_ring_has(tci_plans[p]->coll, tci_plans[p]->name))
            continue;
        seen++;
        for (uint32_t n = 2; n <= 9; n++)
            for (uint32_t at = 0; at < n * n; at++) {
                struct tci_shape shape = {
                    .rank = at / n, .size = n, .root = at % n, .radix = 2, .cuts = 3};

                for (uint32_t i = 0; i < tci_plans[p]->steps(&shape); i++) {
                    struct tci_step step = {0};

                    tci_plans[p]->step(&shape, i, &step);
                    if (step.kind <= TCI_STEP_RECV_REDUCE)
                        assert_true((step.peer + 1) % n == shape.rank ||
                                    (shape.rank + 1) % n == step.peer);
                }
            }
    }
    assert_true(seen >= 5);
}

/* ---- When it goes wrong -------------------------------------------------------------------- */

/* Rank 2 ends the whole thing for itself; nobody else has a link with all others. */
static void leave_suddenly(struct row_rank *self)
{
    if (self->rank == 2)
        tc_dist_close(self->group);
    else
        WANT(wait_for(tc_barrier_async(self->group, 1, NULL)) == TC_ERR_PEER_LOST);
    if (self->rank == 2)
        self->status = TC_ERR_CLOSED;
}

static void a_rank_that_leaves_is_named_all_around(void **state)
{
    (void)state;
    row_world_link(ranks, 6, ROW_RING);
    for (int r = 0; r < 6; r++)
        ranks[r].body = leave_suddenly;

    row_world_run(ranks, 6);

    for (int r = 0; r < 6; r++) {
        assert_true(ranks[r].is_right);
        if (r != 2)
            assert_int_equal(ranks[r].culprit, 2);
    }
}

/* News of a failed call and questions at a deadline go by way of the ranks between. */
static void stay_away(struct row_rank *self)
{
    tc_options options;

    tc_options_default(&options);
    options.timeout_ms = 2000;
    if (self->rank != 3) {
        WANT(wait_for(tc_barrier_async(self->group, 1, &options)) == TC_ERR_TIMEOUT);
        WANT(tc_last_error()->rank == 3);
    }
    WANT(wait_for(tc_barrier_async(self->group, 2, NULL)) == TC_OK);
}

static void a_rank_that_stays_away_is_named_all_around(void **state)
{
    (void)state;
    row_world_link(ranks, 6, ROW_RING);
    for (int r = 0; r < 6; r++)
        ranks[r].body = stay_away;
    row_world_run_well(ranks, 6);
}

static void differ(struct row_rank *self)
{
    float x[4] = {0};
    tc_status_t status = wait_for(
        tc_broadcast_async(self->group, 1, x, self->rank == 4 ? 3 : 4, TC_DTYPE_F32, 0, NULL));

    WANT(status == TC_OK || status == TC_ERR_MISMATCH);
    self->arg = status == TC_OK ? NULL : self;
    WANT(wait_for(tc_barrier_async(self->group, 2, NULL)) == TC_OK);
}

/* Who only passes on may be done before it hears of that; leaving the group tells it then. */
static void calls_that_differ_are_told_along_the_ring(void **state)
{
    (void)state;
    row_world_link(ranks, 6, ROW_RING);
    for (int r = 0; r < 6; r++)
        ranks[r].body = differ;

    row_world_run(ranks, 6);

    for (int r = 0; r < 6; r++) {
        assert_true(ranks[r].is_right);
        assert_true(ranks[r].arg != NULL || ranks[r].status == TC_ERR_MISMATCH);
    }
}

static void a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    row_world_link(ranks, 5, ROW_RING);
    for (int r = 0; r < 5; r++)
        ranks[r].timeout_ms = r == 0 ? 300 : 20000;

    /* Rank 2 does not begin. */
    for (int r = 3; r < 5; r++)
        ranks[r - 1] = ranks[r];
    row_world_run(ranks, 4);

    for (int r = 0; r < 4; r++) {
        assert_int_equal(ranks[r].status, TC_ERR_TIMEOUT);
        assert_int_equal(ranks[r].culprit, 2);
        assert_non_null(strstr(ranks[r].why, "rank 2 of 5"));
    }
}

static void ends_that_are_swapped_are_told(void **state)
{
    char url[ROW_URL_BYTES];

    (void)state;
    row_world_link(ranks, 4, ROW_RING);
    strcpy(url, ranks[1].url);
    strcpy(ranks[1].url, ranks[2].url);
    strcpy(ranks[2].url, url);

    row_world_run(ranks, 4);

    for (int r = 0; r < 4; r++)
        assert_int_equal(ranks[r].status, TC_ERR_RENDEZVOUS);
    assert_non_null(strstr(ranks[0].why, "leads to rank"));
}

static void sizes_that_differ_are_told(void **state)
{
    (void)state;
    row_world_link(ranks, 4, ROW_RING);
    ranks[1].size = 5;

    row_world_run(ranks, 4);

    for (int r = 0; r < 4; r++)
        if (ranks[r].status != TC_ERR_RENDEZVOUS)
            fail_msg("rank %d: %s", r, ranks[r].why);
}

static uint64_t fail_at;

static void begin_to_fail(void)
{
    tci_alloc_fail_at(fail_at, 0);
}

/* Whoever has no memory ends the group for all; nobody waits, and nothing is kept. */
static void missing_memory_ends_the_group_for_all(void **state)
{
    uint64_t before = tci_alloc_live();
    bool is_whole = false;

    (void)state;
    row_world_before = begin_to_fail;
    for (fail_at = 1; !is_whole; fail_at++) {
        assert_true(fail_at < 1000);
        row_world_link(ranks, 4, ROW_RING);
        for (int r = 0; r < 4; r++)
            ranks[r].timeout_ms = 10000;
        row_world_run(ranks, 4);
        tci_alloc_fail_at(0, 0);
        is_whole = true;
        for (int r = 0; r < 4; r++) {
            is_whole = is_whole && ranks[r].status == TC_OK;
            assert_int_not_equal(ranks[r].status, TC_ERR_TIMEOUT);
        }
        assert_int_equal(tci_alloc_live(), before);
    }
    row_world_before = NULL;
}

static void urls_are_checked(void **state)
{
    static const struct {
        const char *url;
        int size, rank, backend;
        const char *says;
    } cases[] = {
        {"fd://", 2, 0, TC_DIST_RING, "no descriptor"},
        {"fd://x", 2, 0, TC_DIST_RING, "no descriptor"},
        {"fd://+3", 2, 0, TC_DIST_RING, "no descriptor"},
        {"fd://99999999999", 2, 0, TC_DIST_RING, "no descriptor"},
        {"fd://9999", 2, 0, TC_DIST_RING, "no connected stream socket"},
        {"fd://%d", 1, 0, TC_DIST_RING, "two ranks and more"},
        {"fd://%d", 3, 0, TC_DIST_RING, "1 descriptors"},
        {"fd://%d,%d", 3, 0, TC_DIST_RING, "twice"},
        {"fd://-,%d", 2, 1, TC_DIST_RING, "place 1"},
        {"fd://-,-", 2, 0, TC_DIST_RING, "place 0"},
        {"fd://-,%d", 3, 0, TC_DIST_RING, "one descriptor for each of 3"},
        {"fd://%d", 2, 0, TC_DIST_GLOO, "backend RING"},
        {"fd://%d", 2, 0, TC_DIST_SINGLE, "SINGLE"},
    };
    tc_context *context;
    int ends[2];

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (size_t k = 0; k < TCI_LEN(cases); k++) {
        tc_dist_ctx *group = NULL;
        const char *at = strstr(cases[k].url, "%d");
        char url[64];

        if (at == NULL)
            snprintf(url, sizeof url, "%s", cases[k].url);
        else if (strstr(at + 1, "%d") == NULL)
            snprintf(url, sizeof url, "%.*s%d", (int)(at - cases[k].url), cases[k].url, ends[0]);
        else
            snprintf(url, sizeof url, "fd://%d,%d", ends[0], ends[0]);
        assert_int_equal(tc_dist_init(context, (tc_dist_backend_t)cases[k].backend, cases[k].size,
                                      cases[k].rank, url, &group),
                         TC_ERR_INVALID_ARG);
        if (strstr(tc_last_error()->message, cases[k].says) == NULL)
            fail_msg("%s: %s", url, tc_last_error()->message);
    }
    assert_int_not_equal(fcntl(ends[0], F_GETFD), -1); /* still the caller's */
    close(ends[0]);
    close(ends[1]);
    tc_shutdown(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_of_descriptors_carries_plans_along_it),
        cmocka_unit_test(a_descriptor_for_each_pair_carries_everything),
        cmocka_unit_test(a_ring_of_three_links_all),
        cmocka_unit_test(two_ranks_may_share_one_pair),
        cmocka_unit_test(what_needs_other_links_is_refused),
        cmocka_unit_test(plans_of_the_ring_go_along_it),
        cmocka_unit_test(a_rank_that_leaves_is_named_all_around),
        cmocka_unit_test(a_rank_that_stays_away_is_named_all_around),
        cmocka_unit_test(calls_that_differ_are_told_along_the_ring),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
        cmocka_unit_test(ends_that_are_swapped_are_told),
        cmocka_unit_test(sizes_that_differ_are_told),
        cmocka_unit_test(missing_memory_ends_the_group_for_all),
        cmocka_unit_test(urls_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
