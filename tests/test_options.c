/* test_options.c - how one operation is carried out: after, priority, numerics, algorithm. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, serial, also rdma */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/world.h"

enum { RANKS = 3 };

static struct world world;

static int open_world(void **state)
{
    (void)state;
    world_open(&world, RANKS, NULL);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(&world);
    return 0;
}

static void finish(tc_future *future)
{
    if (world_wait(&world, future) != TC_OK)
        fail_msg("%s", tc_future_error(future)->message);
    tc_future_release(future);
}

static tc_options defaults(void)
{
    tc_options options;

    memset(&options, 0xff, sizeof(options));
    tc_options_default(&options);
    return options;
}

static tc_future *sum_on(int rank, uint64_t tag, int32_t *value, const tc_options *options)
{
    return tc_allreduce_async(world.group[rank], tag, value, value, 1, TC_DTYPE_I32, TC_REDUCE_SUM,
                              options);
}

static void the_defaults_are_those_of_the_header(void **state)
{
    tc_options options = defaults();

    (void)state;
    assert_int_equal(options.abi_version, TC_OPTIONS_ABI_VERSION);
    assert_int_equal(options.priority, 0);
    assert_int_equal(options.timeout_ms, 0);
    assert_null(options.after);
    assert_int_equal(options.n_after, 0);
    assert_true(options.auto_release);
    assert_int_equal(options.numerics, TC_NUMERICS_DEFAULT);
    assert_null(options.algorithm);
    tc_options_default(NULL);
}

/* ---- After ---------------------------------------------------------------------------------- */

static void *settle(void *promise)
{
    tc_promise_settle(promise, TC_OK);
    return NULL;
}

/* Ranks below `gated` wait for promises that another thread settles; the others begin at once. */
static void gate(int gated, size_t promises)
{
    tc_future *gates[RANKS][4], *futures[RANKS], *note;
    int32_t values[RANKS], word = 1, heard = 0;
    pthread_t thread;

    for (int r = 0; r < RANKS; r++) {
        tc_options options = defaults();
        values[r] = -1;
        for (size_t p = 0; p < promises; p++)
            gates[r][p] = tc_promise_create(world.context[r]);
        options.after = gates[r];
        options.n_after = promises;
        if (r >= gated)
            values[r] = r; /* the data is ready */
        futures[r] = sum_on(r, 4, &values[r], r < gated ? &options : NULL);
        memset(&options, 0xff, sizeof(options)); /* it was copied */
    }
    note = tc_recv_async(world.group[1], 9, &heard, 1, TC_DTYPE_I32, 0, NULL);
    finish(tc_send_async(world.group[0], 9, &word, 1, TC_DTYPE_I32, 1, NULL));
    finish(note); /* the loops have turned */
    for (int r = 0; r < gated; r++) {
        values[r] = r; /* the data is written only now: it may not have been read */
        for (size_t p = 0; p < promises; p++) {
            assert_int_equal(tc_future_test(futures[r]), TC_PENDING);
            assert_int_equal(pthread_create(&thread, NULL, settle, gates[r][p]), 0);
            pthread_join(thread, NULL);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        finish(futures[r]);
        assert_int_equal(values[r], 0 + 1 + 2);
        for (size_t p = 0; p < promises; p++)
            tc_future_release(gates[r][p]);
    }
}

static void promises_settled_elsewhere_gate_an_allreduce(void **state)
{
    (void)state;
    for (int gated = 1; gated <= RANKS; gated++)
        for (size_t promises = 1; promises <= 4; promises++)
            gate(gated, promises);
}

static void what_is_settled_already_holds_nothing_up(void **state)
{
    tc_future *futures[RANKS], *done[RANKS];
    int32_t values[RANKS] = {1, 2, 3};

    (void)state;
    for (int r = 0; r < RANKS; r++) {
        tc_options options = defaults();
        done[r] = tc_promise_create(world.context[r]);
        assert_int_equal(tc_promise_settle(done[r], TC_OK), TC_OK);
        tc_future *both[] = {done[r], done[r]}; /* one may stand there twice */
        options.after = both;
        options.n_after = 2;
        futures[r] = sum_on(r, 1, &values[r], &options);
        tc_future_release(done[r]); /* the operation keeps it */
    }
    for (int r = 0; r < RANKS; r++) {
        finish(futures[r]);
        assert_int_equal(values[r], 6);
    }
}

static void operations_may_stand_in_a_row(void **state)
{
    enum { ROW = 50 };
    tc_future *futures[RANKS][ROW];
    int32_t values[RANKS] = {1, 1, 1};

    (void)state;
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < ROW; i++) {
            tc_options options = defaults();
            options.after = i > 0 ? &futures[r][i - 1] : NULL;
            options.n_after = i > 0;
            futures[r][i] = tc_allreduce_async(world.group[r], (uint64_t)i, &values[r], &values[r],
                                               1, TC_DTYPE_I32, TC_REDUCE_MAX, &options);
        }
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < ROW; i++)
            finish(futures[r][i]);
    assert_int_equal(values[2], 1);
}

static void what_fails_before_fails_what_comes_after_on_every_rank(void **state)
{
    tc_future *futures[RANKS], *promise = tc_promise_create(world.context[1]);
    int32_t values[RANKS] = {0};
    tc_options options = defaults();

    (void)state;
    options.after = &promise;
    options.n_after = 1;
    for (int r = 0; r < RANKS; r++)
        futures[r] = sum_on(r, 77, &values[r], r == 1 ? &options : NULL);
    assert_int_equal(tc_promise_settle(promise, TC_ERR_NO_DEVICE), TC_OK);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(world_wait(&world, futures[r]), TC_ERR_NO_DEVICE);
        assert_int_equal(tc_future_error(futures[r])->rank, 1);
        tc_future_release(futures[r]);
    }
    tc_future_release(promise);
    assert_int_equal(tc_dist_health(world.group[0], NULL), TC_OK);
}

/* ---- Priority ------------------------------------------------------------------------------- */

static atomic_int settled;

static void note_place(tc_future *future, void *arg)
{
    (void)future;
    *(int *)arg = atomic_fetch_add(&settled, 1);
}

static void a_small_one_of_high_priority_overtakes_a_bulk_one(void **state)
{
    enum { BULK = 64 << 20, SMALL = 1024 };
    tc_buffer *buffers[RANKS];
    tc_future *bulk[2], *small[2];
    float little[2][SMALL];
    int place_bulk[2] = {-1, -1}, place_small[2] = {-1, -1};
    struct world two;

    (void)state;
    world_open(&two, 2, NULL);
    atomic_store(&settled, 0);
    for (int r = 0; r < 2; r++) {
        void *data;
        assert_int_equal(tc_buffer_alloc(two.context[r], BULK, &buffers[r]), TC_OK);
        assert_int_equal(tc_buffer_map(buffers[r], &data), TC_OK);
        bulk[r] = tc_allreduce_async(two.group[r], 1, data, data, BULK / 4, TC_DTYPE_F32,
                                     TC_REDUCE_SUM, NULL);
        assert_int_equal(tc_future_then(bulk[r], note_place, &place_bulk[r]), TC_OK);
    }
    for (int r = 0; r < 2; r++) {
        tc_options options = defaults();
        options.priority = 127;
        memset(little[r], 0, sizeof(little[r]));
        little[r][5] = 2;
        small[r] = tc_allreduce_async(two.group[r], 2, little[r], little[r], SMALL, TC_DTYPE_F32,
                                      TC_REDUCE_SUM, &options);
        assert_int_equal(tc_future_then(small[r], note_place, &place_small[r]), TC_OK);
    }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(world_wait(&two, small[r]), TC_OK);
        assert_int_equal(world_wait(&two, bulk[r]), TC_OK);
        assert_true(little[r][5] == 4);
        tc_future_release(small[r]);
        tc_future_release(bulk[r]);
    }
    for (int r = 0; r < 2; r++)
        assert_int_equal(tc_buffer_free(two.context[r], buffers[r]), TC_OK);
    world_close(&two);                                      /* and every continuation has run */
    assert_true(place_small[0] >= 0 && place_small[0] < 2); /* both before either bulk one */
    assert_true(place_small[1] >= 0 && place_small[1] < 2);
}

/* ---- Refused -------------------------------------------------------------------------------- */

struct refusal {
    tc_options options;
    tc_status_t status;
    const char *message;
    tc_dtype_t dtype;
    tc_reduce_op_t op;
};

static void combinations_without_meaning_are_refused_in_words(void **state)
{
    tc_future *nothing = NULL;
    tc_options plain = defaults();
    struct refusal cases[16] = {{.options = plain}};
    size_t n = 0;
    int32_t value[1] = {1};

#define REFUSE(field, what, ...)                                                                   \
    cases[n] = (struct refusal){plain, __VA_ARGS__, TC_DTYPE_F32, TC_REDUCE_SUM};                  \
    cases[n++].options.field = (what)
    REFUSE(abi_version, 2, TC_ERR_ABI_MISMATCH,
           "allreduce: options of version 2, the library has 1: fill them with tc_options_default");
    REFUSE(priority, 128, TC_ERR_INVALID_ARG, "allreduce: priority 128 is not in -128 … 127");
    REFUSE(priority, -129, TC_ERR_INVALID_ARG, "allreduce: priority -129 is not in -128 … 127");
    REFUSE(timeout_ms, -2, TC_ERR_INVALID_ARG, "allreduce: timeout_ms -2 is negative");
    REFUSE(numerics, 4, TC_ERR_INVALID_ARG, "allreduce: numerics 4 is no tc_numerics_t");
    REFUSE(n_after, 3, TC_ERR_INVALID_ARG, "allreduce: after is NULL, n_after 3");
    REFUSE(n_after, 1, TC_ERR_INVALID_ARG, "allreduce: after[0] is NULL");
    cases[n - 1].options.after = &nothing;
    REFUSE(algorithm, "ring", TC_ERR_UNSUPPORTED,
           "allreduce: algorithm \"ring\" does not fold in rank order: ask for TC_NUMERICS_FAST; "
           "these keep what is promised: oneshot, direct, ");
    REFUSE(algorithm, "tree", TC_ERR_UNSUPPORTED,
           "allreduce: algorithm \"tree\" does not fold in rank order: ask for TC_NUMERICS_FAST; "
           "these keep what is promised: oneshot, direct, ");
    REFUSE(algorithm, "magic", TC_ERR_INVALID_ARG,
           "allreduce has no algorithm \"magic\"; it has: oneshot, direct, ring, tree");
    REFUSE(algorithm, "ring", TC_ERR_UNSUPPORTED,
           "allreduce: algorithm \"ring\" cannot average integers, whose partial sums may wrap; "
           "these keep what is promised: oneshot, direct, ");
    cases[n - 1].options.numerics = TC_NUMERICS_FAST;
    cases[n - 1].dtype = TC_DTYPE_I32;
    cases[n - 1].op = TC_REDUCE_AVG;
    REFUSE(algorithm, "ring", TC_ERR_UNSUPPORTED,
           "allreduce: algorithm \"ring\" rounds sums of some ranks: ask for TC_NUMERICS_CANONICAL "
           "or TC_NUMERICS_FAST; these keep what is promised: oneshot, direct, ");
    cases[n - 1].options.numerics = TC_NUMERICS_EXACT;
    REFUSE(numerics, TC_NUMERICS_EXACT, TC_ERR_UNSUPPORTED,
           "allreduce: a product of f32 cannot be kept exactly: ask for TC_NUMERICS_CANONICAL");
    cases[n - 1].op = TC_REDUCE_PROD;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        tc_future *future = tc_allreduce_async(world.group[0], 31, value, value, 1, cases[i].dtype,
                                               cases[i].op, &cases[i].options);
        assert_int_equal(tc_future_test(future), cases[i].status);
        /* A list of algorithms goes on with those that are newer than this test. */
        if (strstr(tc_future_error(future)->message, cases[i].message) !=
            tc_future_error(future)->message)
            assert_string_equal(tc_future_error(future)->message, cases[i].message);
        assert_string_equal(tc_future_error(future)->operation, "allreduce");
        tc_future_release(future);
    }
}

static void expect_refused(tc_future *future, tc_status_t status, const char *message)
{
    assert_int_equal(tc_future_test(future), status);
    assert_string_equal(tc_future_error(future)->message, message);
    tc_future_release(future);
}

static void arguments_without_meaning_are_refused_in_words(void **state)
{
    tc_dist_ctx *group = world.group[0];
    float data[4 * RANKS] = {0};

    (void)state;
    expect_refused(tc_broadcast_async(group, 1, data, 4, TC_DTYPE_F32, RANKS, NULL),
                   TC_ERR_INVALID_ARG, "broadcast: root 3 is not in 0 … 2");
    expect_refused(tc_broadcast_async(group, 1, data, 4, TC_DTYPE_F32, -5, NULL),
                   TC_ERR_INVALID_ARG, "broadcast: root -5 is not in 0 … 2");
    expect_refused(tc_broadcast_async(group, 1, NULL, 4, TC_DTYPE_F32, 0, NULL), TC_ERR_INVALID_ARG,
                   "broadcast: the buffer is NULL, the count is 4");
    expect_refused(tc_allgather_async(group, 1, NULL, data, 4, TC_DTYPE_F32, NULL),
                   TC_ERR_INVALID_ARG, "allgather: send is NULL, the count is 4");
    expect_refused(tc_allgather_async(group, 1, data, data, SIZE_MAX / 2, TC_DTYPE_F32, NULL),
                   TC_ERR_INVALID_ARG,
                   "allgather: count 9223372036854775807 is more than memory can hold");
    expect_refused(tc_allreduce_async(group, 1, data, data, 4, (tc_dtype_t)6, TC_REDUCE_SUM, NULL),
                   TC_ERR_UNSUPPORTED_DTYPE, "allreduce: element type 6 is not carried");
    expect_refused(tc_allreduce_async(group, 1, data, data, 4, TC_DTYPE_F32, TC_REDUCE_BXOR, NULL),
                   TC_ERR_UNSUPPORTED, "allreduce: operator bxor (7) is not defined for f32");
    expect_refused(
        tc_reduce_scatter_async(group, 1, data, data, 4, TC_DTYPE_F32, (tc_reduce_op_t)55, NULL),
        TC_ERR_INVALID_ARG, "reduce_scatter: operator unknown (55) is not defined for f32");
    assert_int_equal(tc_future_test(tc_barrier_async(NULL, 1, NULL)), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_tag_release(NULL, 1), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_health(group, NULL), TC_OK);
}

/* A count, and that of the only block, of which no machine has the memory: alone a rank would begin
 * to copy. */
static void a_lone_rank_refuses_counts_beyond_memory(void **state)
{
    const size_t counts[] = {SIZE_MAX, SIZE_MAX / 4, SIZE_MAX / 8, SIZE_MAX / 256};
    const tc_dtype_t f32 = TC_DTYPE_F32;
    struct world alone;
    float data[4] = {0}, more[4] = {0};

    (void)state;
    world_open(&alone, 1, NULL);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        tc_dist_ctx *group = alone.group[0];
        size_t n = counts[i];
        tc_future *futures[] = {
            tc_allreduce_async(group, 1, data, more, n, f32, TC_REDUCE_SUM, NULL),
            tc_reduce_async(group, 1, data, more, n, f32, TC_REDUCE_SUM, 0, NULL),
            tc_reduce_scatter_async(group, 1, data, more, n, f32, TC_REDUCE_SUM, NULL),
            tc_broadcast_async(group, 1, data, n, f32, 0, NULL),
            tc_allgather_async(group, 1, data, more, n, f32, NULL),
            tc_gather_async(group, 1, data, more, n, f32, 0, NULL),
            tc_scatter_async(group, 1, data, more, n, f32, 0, NULL),
            tc_alltoall_async(group, 1, data, more, n, f32, NULL),
            tc_allgatherv_async(group, 1, data, n, more, &n, NULL, f32, NULL),
            tc_reduce_scatterv_async(group, 1, data, more, &n, f32, TC_REDUCE_SUM, NULL),
            tc_alltoallv_async(group, 1, data, &n, NULL, more, &n, NULL, f32, NULL),
            tc_send_async(group, 1, data, n, f32, 0, NULL),
            tc_recv_async(group, 1, data, n, f32, 0, NULL),
        };

        for (size_t f = 0; f < sizeof(futures) / sizeof(futures[0]); f++) {
            assert_int_equal(tc_future_test(futures[f]), TC_ERR_INVALID_ARG);
            assert_non_null(strstr(tc_future_error(futures[f])->message, "than memory can hold"));
            tc_future_release(futures[f]);
        }
    }
    world_close(&alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_those_of_the_header),
        cmocka_unit_test(promises_settled_elsewhere_gate_an_allreduce),
        cmocka_unit_test(what_is_settled_already_holds_nothing_up),
        cmocka_unit_test(operations_may_stand_in_a_row),
        cmocka_unit_test(what_fails_before_fails_what_comes_after_on_every_rank),
        cmocka_unit_test(a_small_one_of_high_priority_overtakes_a_bulk_one),
        cmocka_unit_test(combinations_without_meaning_are_refused_in_words),
        cmocka_unit_test(arguments_without_meaning_are_refused_in_words),
        cmocka_unit_test(a_lone_rank_refuses_counts_beyond_memory),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
