/* test_blocking.c - the blocking calls over buffers, with a loop thread and without. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, serial */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/world.h"

enum { RANKS = 3, COUNT = 1000 };

/* A rank is a thread: it owns its context, and turns it where nobody else does. */
struct rank {
    pthread_t thread;
    int index, mode;
    const char *url;
    tc_context *context;
    tc_dist_ctx *group;
    tc_buffer *one, *all; /* COUNT elements, and COUNT for each rank */
    int32_t *one_data, *all_data;
    int line; /* of the first thing that went wrong */
};

#define CHECK(rank, holds)                                                                         \
    do {                                                                                           \
        if (!(holds) && (rank)->line == 0)                                                         \
            (rank)->line = __LINE__;                                                               \
    } while (0)

static void fill(struct rank *me)
{
    for (int i = 0; i < COUNT; i++)
        me->one_data[i] = me->index * 1000 + i;
    for (int i = 0; i < COUNT * RANKS; i++)
        me->all_data[i] = me->index + i;
}

static void collect(struct rank *me)
{
    fill(me);
    CHECK(me, tc_allreduce(me->group, me->one, COUNT, TC_DTYPE_I32, TC_REDUCE_SUM) == TC_OK);
    for (int i = 0; i < COUNT; i++)
        CHECK(me, me->one_data[i] == 3000 + 3 * i);
    fill(me);
    CHECK(me, tc_broadcast(me->group, me->one, COUNT - 1, TC_DTYPE_I32, 2) == TC_OK);
    CHECK(me, me->one_data[COUNT - 2] == 2000 + COUNT - 2);
    CHECK(me, me->one_data[COUNT - 1] == me->index * 1000 + COUNT - 1); /* beyond n: untouched */
    fill(me);
    CHECK(me, tc_allgather(me->group, me->one, me->all, COUNT, TC_DTYPE_I32) == TC_OK);
    for (int i = 0; i < COUNT * RANKS; i++)
        CHECK(me, me->all_data[i] == i / COUNT * 1000 + i % COUNT);
    fill(me);
    CHECK(me, tc_reduce_scatter(me->group, me->all, me->one, COUNT, TC_DTYPE_I32, TC_REDUCE_MAX) ==
                  TC_OK);
    for (int i = 0; i < COUNT; i++)
        CHECK(me, me->one_data[i] == 2 + me->index * COUNT + i);
    CHECK(me, tc_barrier(me->group) == TC_OK);
}

/* Round the ring; rank 0 begins, so that nobody waits for ever. */
static void pass_on(struct rank *me)
{
    int right = (me->index + 1) % RANKS, left = (me->index + RANKS - 1) % RANKS;

    fill(me);
    if (me->index == 0)
        CHECK(me, tc_send(me->group, me->one, COUNT, TC_DTYPE_I32, right) == TC_OK);
    CHECK(me, tc_recv(me->group, me->one, COUNT, TC_DTYPE_I32, left) == TC_OK);
    CHECK(me, me->one_data[7] == 7); /* rank 0's, all the way */
    if (me->index != 0)
        CHECK(me, tc_send(me->group, me->one, COUNT, TC_DTYPE_I32, right) == TC_OK);
    CHECK(me, tc_send(me->group, me->one, 0, TC_DTYPE_I32, right) == TC_OK);
    CHECK(me, tc_recv(me->group, me->one, 0, TC_DTYPE_I32, left) == TC_OK);
}

static void is_refused(struct rank *me, tc_status_t status, const char *operation, const char *word)
{
    CHECK(me, status == TC_ERR_INVALID_ARG);
    CHECK(me, tc_last_error() != NULL && tc_last_error()->status == status);
    CHECK(me, strcmp(tc_last_error()->operation, operation) == 0);
    CHECK(me, strstr(tc_last_error()->message, word) != NULL);
}

static void refuse(struct rank *me)
{
    const tc_dtype_t type = TC_DTYPE_I32;
    const size_t more = COUNT + 1;

    is_refused(me, tc_allreduce(me->group, me->one, more, type, TC_REDUCE_SUM), "allreduce",
               "1001 elements of i32 do not fit in 4000 bytes");
    is_refused(me, tc_broadcast(me->group, me->one, more, type, 0), "broadcast", "4000 bytes");
    is_refused(me, tc_allgather(me->group, me->one, me->one, COUNT, type), "allgather",
               "3 x 1000 elements");
    is_refused(me, tc_allgather(me->group, me->one, me->all, more, type), "allgather", "1001");
    is_refused(me, tc_reduce_scatter(me->group, me->one, me->one, COUNT, type, TC_REDUCE_SUM),
               "reduce_scatter", "3 x 1000 elements");
    is_refused(me, tc_send(me->group, me->one, more, type, 0), "send", "4000 bytes");
    is_refused(me, tc_recv(me->group, me->one, SIZE_MAX, type, 0), "recv", "4000 bytes");
    is_refused(me, tc_allreduce(me->group, NULL, 1, type, TC_REDUCE_SUM), "allreduce", "NULL");
    is_refused(me, tc_broadcast(me->group, me->one, 1, type, RANKS), "broadcast", "root 3");
    is_refused(me, tc_send(me->group, me->one, 1, type, RANKS), "send", "peer 3");
    CHECK(me, tc_allreduce(NULL, me->one, 1, type, TC_REDUCE_SUM) == TC_ERR_INVALID_ARG);
    CHECK(me, tc_barrier(NULL) == TC_ERR_INVALID_ARG);
    CHECK(me, tc_allreduce(me->group, me->one, 1, (tc_dtype_t)8, TC_REDUCE_SUM) ==
                  TC_ERR_UNSUPPORTED_DTYPE);
}

/* Every way to wait, from where waiting would stop the loop. */
static void wait_inside(tc_future *future, void *arg)
{
    struct rank *me = arg;
    tc_dist_ctx *group = NULL;

    CHECK(me, tc_future_wait(future, -1) != TC_PENDING);
    is_refused(me, tc_allreduce(me->group, me->one, 1, TC_DTYPE_I32, TC_REDUCE_SUM), "allreduce",
               "continuation");
    is_refused(me, tc_broadcast(me->group, me->one, 1, TC_DTYPE_I32, 0), "broadcast",
               "continuation");
    is_refused(me, tc_allgather(me->group, me->one, me->all, 1, TC_DTYPE_I32), "allgather",
               "continuation");
    is_refused(me, tc_reduce_scatter(me->group, me->all, me->one, 1, TC_DTYPE_I32, TC_REDUCE_SUM),
               "reduce_scatter", "continuation");
    is_refused(me, tc_send(me->group, me->one, 1, TC_DTYPE_I32, 0), "send", "continuation");
    is_refused(me, tc_recv(me->group, me->one, 1, TC_DTYPE_I32, 0), "recv", "continuation");
    is_refused(me, tc_barrier(me->group), "barrier", "continuation");
    is_refused(me, tc_dist_init(me->context, TC_DIST_SINGLE, 1, 0, NULL, &group), "dist_init",
               "continuation");
    is_refused(me, tc_dist_init_env(me->context, &group), "dist_init_env", "continuation");
    is_refused(me, tc_dist_finalize(me->group), "dist_finalize", "continuation");
    is_refused(me, tc_shutdown(me->context), "shutdown", "continuation");
    CHECK(me, tc_poll(me->context, 0) == TC_ERR_INVALID_ARG);
    tc_future *promise = tc_promise_create(me->context);
    is_refused(me, tc_future_wait(promise, 10), "future_wait", "continuation");
    tc_promise_settle(promise, TC_OK);
    tc_future_release(promise);
}

static void *be_a_rank(void *arg)
{
    struct rank *me = arg;
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = me->mode;
    CHECK(me, tc_init_config(&config, &me->context) == TC_OK);
    CHECK(me,
          tc_dist_init(me->context, TC_DIST_ANY, RANKS, me->index, me->url, &me->group) == TC_OK);
    CHECK(me, tc_buffer_alloc(me->context, COUNT * sizeof(int32_t), &me->one) == TC_OK);
    CHECK(me, tc_buffer_alloc(me->context, COUNT * RANKS * sizeof(int32_t), &me->all) == TC_OK);
    if (me->line != 0)
        return NULL;
    tc_buffer_map(me->one, (void **)&me->one_data);
    tc_buffer_map(me->all, (void **)&me->all_data);
    for (int i = 0; i < 5; i++) {
        collect(me);
        refuse(me); /* takes no number of the group's: the others need not do the same */
        pass_on(me);
    }
    tc_future *first = tc_barrier_async(me->group, 1, NULL), *second;
    CHECK(me, tc_future_then(first, wait_inside, me) == TC_OK);
    CHECK(me, tc_future_wait(first, 60000) == TC_OK);
    second = tc_barrier_async(me->group, 2, NULL);
    CHECK(me, tc_future_wait(second, 60000) == TC_OK);
    collect(me); /* what was refused has taken no number, and left no operation */
    pass_on(me);
    tc_future_release(first);
    tc_future_release(second);
    CHECK(me, tc_dist_finalize(me->group) == TC_OK);
    tc_buffer_free(me->context, me->one);
    tc_buffer_free(me->context, me->all);
    CHECK(me, tc_shutdown(me->context) == TC_OK);
    return NULL;
}

static void run(int mode)
{
    struct rank ranks[RANKS];
    char url[64];

    close(world_listen(url, sizeof(url)));
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){.index = r, .mode = mode, .url = url};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, be_a_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(ranks[r].line, 0);
}

static void blocking_calls_with_a_loop_thread(void **state)
{
    (void)state;
    run(TC_LOOP_THREAD);
}

static void blocking_calls_that_turn_the_loop_themselves(void **state)
{
    (void)state;
    run(TC_LOOP_MANUAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocking_calls_with_a_loop_thread),
        cmocka_unit_test(blocking_calls_that_turn_the_loop_themselves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
