/* test_recall.c - a call that is nearly the one before is not taken for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "support/world.h"

enum { RANKS = 2, COUNT = 24 };

enum what { ALLREDUCE, BROADCAST, ALLGATHER };

struct call {
    enum what what;
    size_t count;
    tc_dtype_t dtype; /* I32 or I64 */
    tc_reduce_op_t op;
    int root;
    bool in_place;
};

static struct world world;
static unsigned calls; /* made so far: the tag, and other values for each */

static int64_t value_of(int rank, size_t i)
{
    return (int64_t)calls * 1000 + (rank == 0 ? 7 : -3) * (int64_t)i + rank;
}

static void put(void *at, tc_dtype_t dtype, size_t i, int64_t value)
{
    if (dtype == TC_DTYPE_I32)
        ((int32_t *)at)[i] = (int32_t)value;
    else
        ((int64_t *)at)[i] = value;
}

static int64_t get(const void *at, tc_dtype_t dtype, size_t i)
{
    return dtype == TC_DTYPE_I32 ? ((const int32_t *)at)[i] : ((const int64_t *)at)[i];
}

static int64_t expected(const struct call *call, size_t i)
{
    int64_t a = value_of(0, i), b = value_of(1, i);

    if (call->what == ALLGATHER)
        return value_of((int)(i / call->count), i % call->count);
    if (call->what == BROADCAST)
        return call->root == 0 ? a : b;
    return call->op == TC_REDUCE_SUM ? a + b : a > b ? a : b;
}

static tc_future *start(int rank, const struct call *call, const void *send, void *recv)
{
    char *own = recv;

    if (call->what == BROADCAST)
        return tc_broadcast_async(world.group[rank], calls, recv, call->count, call->dtype,
                                  call->root, NULL);
    if (call->what == ALLREDUCE)
        return tc_allreduce_async(world.group[rank], calls, call->in_place ? recv : send, recv,
                                  call->count, call->dtype, call->op, NULL);
    own += (size_t)rank * call->count * (call->dtype == TC_DTYPE_I32 ? 4 : 8);
    return tc_allgather_async(world.group[rank], calls, call->in_place ? own : send, recv,
                              call->count, call->dtype, NULL);
}

/* What is at i of what a rank receives in, before the call. */
static int64_t before(int rank, const struct call *call, size_t i)
{
    size_t own = call->what == ALLGATHER ? (size_t)rank * call->count : 0;
    bool is_input = call->in_place || call->what == BROADCAST;

    if (call->what == ALLGATHER && (i < own || i >= own + call->count))
        is_input = false;
    return is_input ? value_of(rank, i - own) : -99;
}

/* The elements called for are right, and the next one is as it was. */
static void make(const struct call *call)
{
    static int64_t send[RANKS][COUNT], recv[RANKS][COUNT];
    size_t count = call->what == ALLGATHER ? RANKS * call->count : call->count;
    tc_future *futures[RANKS];

    calls++;
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < COUNT; i++) {
            put(send[r], call->dtype, i, value_of(r, i));
            put(recv[r], call->dtype, i, before(r, call, i));
        }
    for (int r = 0; r < RANKS; r++)
        futures[r] = start(r, call, send[r], recv[r]);
    for (int r = 0; r < RANKS; r++) {
        if (world_wait(&world, futures[r]) != TC_OK)
            fail_msg("%s", tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(get(recv[r], call->dtype, i), expected(call, i));
        assert_int_equal(get(recv[r], call->dtype, count), before(r, call, count));
    }
}

/* The first again and again, and between it others that differ from it in one thing. */
static void each_field_counts(void **state)
{
    static const struct call base = {ALLREDUCE, 8, TC_DTYPE_I32, TC_REDUCE_SUM, 0, true};
    static const struct call others[] = {{ALLREDUCE, 9, TC_DTYPE_I32, TC_REDUCE_SUM, 0, true},
                                         {ALLREDUCE, 7, TC_DTYPE_I32, TC_REDUCE_SUM, 0, true},
                                         {ALLREDUCE, 8, TC_DTYPE_I64, TC_REDUCE_SUM, 0, true},
                                         {ALLREDUCE, 8, TC_DTYPE_I32, TC_REDUCE_MAX, 0, true},
                                         {ALLREDUCE, 8, TC_DTYPE_I32, TC_REDUCE_SUM, 0, false},
                                         {BROADCAST, 8, TC_DTYPE_I32, TC_REDUCE_SUM, 0, true}};
    /* In place a rank's own block is there already, and else it has to come there. */
    static const struct call places[] = {{ALLGATHER, 8, TC_DTYPE_I32, TC_REDUCE_SUM, 0, true},
                                         {ALLGATHER, 8, TC_DTYPE_I32, TC_REDUCE_SUM, 0, false}};
    static const struct call roots[] = {{BROADCAST, 8, TC_DTYPE_I32, TC_REDUCE_SUM, 0, true},
                                        {BROADCAST, 8, TC_DTYPE_I32, TC_REDUCE_SUM, 1, true}};

    (void)state;
    for (int mode = TC_LOOP_THREAD; mode <= TC_LOOP_MANUAL; mode++) {
        tc_config config;

        tc_config_default(&config);
        config.loop_mode = mode;
        world_open(&world, RANKS, &config);
        for (size_t k = 0; k < TCI_LEN(others); k++) {
            make(&base);
            make(&base);
            make(&others[k]);
            make(&others[k]);
        }
        for (int k = 0; k < 6; k++)
            make(&roots[k % 2]);
        for (int k = 0; k < 6; k++)
            make(&places[k % 2]);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
