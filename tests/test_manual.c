/* test_manual.c - a loop that nobody's thread turns: waiters share it, or poll(2) drives it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/comm.h"
#include "core/mux.h"
#include "net/shm.h"
#include "support/threads.h"
#include "support/world.h"

static void open_manual(struct world *world, int size)
{
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    world_open(world, size, &config);
}

static tc_future *sum_on(struct world *world, int rank, uint64_t tag, int64_t *value)
{
    return tc_allreduce_async(world->group[rank], tag, value, value, 1, TC_DTYPE_I64, TC_REDUCE_SUM,
                              NULL);
}

static void no_thread_is_made(void **state)
{
    struct world world;
    int64_t values[2] = {1, 2};
    tc_future *futures[2];
    unsigned threads = count_threads();

    (void)state;
    open_manual(&world, 2);
    for (int r = 0; r < 2; r++)
        futures[r] = sum_on(&world, r, 1, &values[r]);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(world_wait(&world, futures[r]), TC_OK);
        assert_int_equal(values[r], 3);
        tc_future_release(futures[r]);
    }
    assert_int_equal(count_threads(), threads);
    world_close(&world);
}

/* ---- Threads that share a loop -------------------------------------------------------------- */

enum { SHARERS = 4, ROUNDS = 100 };

struct sharer {
    pthread_t thread;
    struct world *world;
    int rank, index;
    int bad;
};

/* Waits for its own futures: whoever waits turns the loop for all. */
static void *share(void *arg)
{
    struct sharer *me = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int64_t value = me->rank + i;
        tc_future *future = sum_on(me->world, me->rank, (uint64_t)(me->index * ROUNDS + i), &value);
        me->bad += tc_future_wait(future, 60000) != TC_OK;
        me->bad += value != 2 * i + 1;
        tc_future_release(future);
    }
    return NULL;
}

static void threads_share_a_loop_that_each_of_them_turns(void **state)
{
    struct sharer sharers[2][SHARERS];
    struct world world;

    (void)state;
    open_manual(&world, 2);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < SHARERS; i++) {
            sharers[r][i] = (struct sharer){.world = &world, .rank = r, .index = i};
            assert_int_equal(pthread_create(&sharers[r][i].thread, NULL, share, &sharers[r][i]), 0);
        }
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < SHARERS; i++) {
            pthread_join(sharers[r][i].thread, NULL);
            assert_int_equal(sharers[r][i].bad, 0);
        }
    world_close(&world);
}

/* ---- Waits that end with the next message ---------------------------------------------------- */

/* Both ranks' messages lie there when the first of them waits, so no wait takes a whole turn, and
 * who calls last need not wait at all.  What else there is has its turn all the same: a call that
 * the other rank never makes comes to its deadline. */
static void come_to_a_deadline(int first)
{
    struct world world;
    tc_options brief;
    tc_future *lonely;

    open_manual(&world, 2);
    tc_options_default(&brief);
    brief.timeout_ms = 200;
    lonely = tc_barrier_async(world.group[0], 1000000, &brief);
    for (uint64_t tag = 0; tc_future_test(lonely) == TC_PENDING; tag++) {
        int64_t values[2] = {(int64_t)tag, 1};
        tc_future *futures[2];

        for (int i = 0; i < 2; i++)
            futures[first ^ i] = sum_on(&world, first ^ i, tag % 1000, &values[first ^ i]);
        /* Once the ranks have met, neither needs the other's turn any more. */
        for (int r = 0; r < 2 && tag < 100; r++)
            assert_int_equal(world_wait(&world, futures[r]), TC_OK);
        for (int i = 1; i >= 0; i--)
            assert_int_equal(tc_future_wait(futures[first ^ i], -1), TC_OK);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(values[r], (int64_t)tag + 1);
            tc_future_release(futures[r]);
        }
    }
    assert_int_equal(tc_future_test(lonely), TC_ERR_TIMEOUT);
    assert_non_null(strstr(tc_future_error(lonely)->message, "rank 1"));
    tc_future_release(lonely);
    world_close(&world);
}

static void a_deadline_comes_among_waits_that_end_at_once(void **state)
{
    (void)state;
    come_to_a_deadline(0);
    come_to_a_deadline(1);
}

/* ---- poll(2) alone -------------------------------------------------------------------------- */

/* Sleep until one of the loops has work, and do it; the one place that waits. */
static void turn_by_poll(tc_context *const *contexts, int count)
{
    struct pollfd fds[2];
    int timeout_ms = 60000;

    for (int i = 0; i < count; i++) {
        int due_ms = tc_timeout_ms(contexts[i]);
        fds[i] = (struct pollfd){.fd = tc_fd(contexts[i]), .events = POLLIN};
        assert_true(fds[i].fd >= 0);
        if (due_ms >= 0 && due_ms < timeout_ms)
            timeout_ms = due_ms;
    }
    assert_true(poll(fds, (nfds_t)count, timeout_ms) >= 0);
    for (int i = 0; i < count; i++)
        assert_int_equal(tc_dispatch(contexts[i]), TC_OK);
}

static void poll_alone_drives_a_group_of_two(void **state)
{
    enum { COUNT = 300000 };
    static float data[2][COUNT];
    tc_context *contexts[2];
    tc_dist_ctx *groups[2] = {NULL, NULL};
    tc_future *futures[2];
    tc_dist_options options;
    tc_config config;
    char url[64];
    int fd = world_listen(url, sizeof(url));

    (void)state;
    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    for (int r = 0; r < 2; r++) {
        assert_int_equal(tc_init_config(&config, &contexts[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = 2;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(contexts[r], &options, &groups[r]);
    }
    for (int r = 0; r < 2; r++) {
        while (tc_future_test(futures[r]) == TC_PENDING)
            turn_by_poll(contexts, 2);
        assert_int_equal(tc_future_test(futures[r]), TC_OK);
        tc_future_release(futures[r]);
    }
    for (int i = 0; i < 20; i++) {
        size_t count = i % 2 == 0 ? 1 : COUNT;
        for (int r = 0; r < 2; r++) {
            data[r][count - 1] = (float)(r + i);
            futures[r] = tc_allreduce_async(groups[r], (uint64_t)i, data[r], data[r], count,
                                            TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        }
        for (int r = 0; r < 2; r++) {
            while (tc_future_test(futures[r]) == TC_PENDING)
                turn_by_poll(contexts, 2);
            assert_int_equal(tc_future_test(futures[r]), TC_OK);
            assert_true(data[r][count - 1] == (float)(2 * i + 1));
            tc_future_release(futures[r]);
        }
    }
    /* A deadline comes without a byte on any descriptor. */
    tc_options brief;
    tc_options_default(&brief);
    brief.timeout_ms = 30;
    futures[0] = tc_barrier_async(groups[0], 1000, &brief);
    while (tc_future_test(futures[0]) == TC_PENDING)
        turn_by_poll(contexts, 2);
    assert_int_equal(tc_future_test(futures[0]), TC_ERR_TIMEOUT);
    tc_future_release(futures[0]);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(tc_dist_close(groups[r]), TC_OK);
        assert_int_equal(tc_shutdown(contexts[r]), TC_OK);
    }
}

/* Whether what a rank puts for its peer is there at once, and no system has to carry it. */
static bool is_near(tc_dist_ctx *group, uint32_t peer)
{
    const char *why;

    return strcmp(tci_shm_way(tci_mux_of(tci_comm_of(group)->transport)->below, peer, &why),
                  "shared memory") == 0;
}

static tc_future *sum_by(struct world *world, int rank, const char *algorithm, int64_t *value)
{
    tc_options options;

    tc_options_default(&options);
    options.numerics = TC_NUMERICS_FAST;
    options.algorithm = algorithm;
    return tc_allreduce_async(world->group[rank], TC_TAG_ORDERED, value, value, 1, TC_DTYPE_I64,
                              TC_REDUCE_SUM, &options);
}

/* Rank 1 waits for rank 0, and its loop has nothing to do; the call of rank 0, whose loop is not
 * turned, brings it something. */
static void wake_by_a_call(const char *algorithm)
{
    int64_t values[2] = {1, 2};
    struct pollfd woken;
    tc_future *futures[2];
    struct world world;

    open_manual(&world, 2);
    for (int i = 0; i < 2; i++) { /* the first one makes the link */
        futures[1] = sum_by(&world, 1, algorithm, &values[1]);
        woken = (struct pollfd){.fd = tc_fd(world.context[1]), .events = POLLIN};
        while (poll(&woken, 1, 0) > 0)
            assert_int_equal(tc_dispatch(world.context[1]), TC_OK);
        futures[0] = sum_by(&world, 0, algorithm, &values[0]);
        if (i > 0)
            assert_int_equal(poll(&woken, 1, is_near(world.group[0], 1) ? 0 : 60000), 1);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(world_wait(&world, futures[r]), TC_OK);
            tc_future_release(futures[r]);
        }
    }
    world_close(&world);
}

/* Where all messages leave at once, and where one comes after the other. */
static void a_call_wakes_a_peer_that_sleeps(void **state)
{
    (void)state;
    wake_by_a_call(NULL);
    wake_by_a_call("ring");
}

/* ---- Continuations -------------------------------------------------------------------------- */

struct chain {
    tc_dist_ctx *group;
    tc_future *end; /* a promise */
    int64_t value;
    int rank, left;
};

static void next_link(tc_future *future, void *arg)
{
    struct chain *chain = arg;

    if (future != NULL && tc_future_test(future) != TC_OK) {
        tc_promise_settle(chain->end, tc_future_test(future));
        return;
    }
    if (chain->left-- == 0) {
        tc_promise_settle(chain->end, TC_OK);
        return;
    }
    chain->value = chain->rank == 0 ? chain->value + 1 : chain->value;
    tc_future *next = tc_allreduce_async(chain->group, TC_TAG_ORDERED, &chain->value, &chain->value,
                                         1, TC_DTYPE_I64, TC_REDUCE_MAX, NULL);
    if (tc_future_then(next, next_link, chain) != TC_OK)
        tc_promise_settle(chain->end, TC_ERR_INTERNAL);
    tc_future_release(next);
}

static void run_chain(int mode)
{
    struct chain chains[2];
    struct world world;
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = mode;
    world_open(&world, 2, &config);
    for (int r = 0; r < 2; r++) {
        chains[r] = (struct chain){.group = world.group[r],
                                   .end = tc_promise_create(world.context[r]),
                                   .rank = r,
                                   .left = 1000};
        next_link(NULL, &chains[r]);
    }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(world_wait(&world, chains[r].end), TC_OK);
        assert_int_equal(chains[r].value, 1000);
        tc_future_release(chains[r].end);
    }
    world_close(&world);
}

static void a_chain_of_a_thousand_allreduces_needs_no_waiter(void **state)
{
    (void)state;
    run_chain(TC_LOOP_THREAD);
    run_chain(TC_LOOP_MANUAL);
}

/* ---- What the other modes refuse ------------------------------------------------------------ */

static void a_loop_with_a_thread_is_not_turned_by_others(void **state)
{
    tc_context *context = NULL;

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);
    assert_int_equal(tc_poll(context, 0), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dispatch(context), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_fd(context), -1);
    assert_int_equal(tc_timeout_ms(context), -1);
    assert_int_equal(tc_shutdown(context), TC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_thread_is_made),
        cmocka_unit_test(threads_share_a_loop_that_each_of_them_turns),
        cmocka_unit_test(a_deadline_comes_among_waits_that_end_at_once),
        cmocka_unit_test(poll_alone_drives_a_group_of_two),
        cmocka_unit_test(a_call_wakes_a_peer_that_sleeps),
        cmocka_unit_test(a_chain_of_a_thousand_allreduces_needs_no_waiter),
        cmocka_unit_test(a_loop_with_a_thread_is_not_turned_by_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
