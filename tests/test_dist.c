/* test_dist.c - groups are formed, asked and left as dist.h says. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, serial, also rdma */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "support/world.h"

static tc_context *begin(void)
{
    tc_context *context = NULL;

    assert_int_equal(tc_init(&context), TC_OK);
    return context;
}

static size_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* ---- Arguments ------------------------------------------------------------------------------ */

struct refusal {
    int backend, size, rank;
    const char *url;
    tc_status_t status;
    const char *value, *remedy; /* both stand in the message */
};

static const struct refusal refusals[] = {
    {7, 1, 0, NULL, TC_ERR_INVALID_ARG, "backend 7", "SINGLE (0), RING (1), GLOO (2), ANY (16)"},
    {TC_DIST_ANY, 0, 0, NULL, TC_ERR_INVALID_ARG, "world size 0", "0 … world size - 1"},
    {TC_DIST_ANY, -4, 0, NULL, TC_ERR_INVALID_ARG, "world size -4", "0 … world size - 1"},
    {TC_DIST_ANY, 2, 2, "tcp://127.0.0.1:1", TC_ERR_INVALID_ARG, "rank 2", "world size - 1"},
    {TC_DIST_ANY, 2, -1, "tcp://127.0.0.1:1", TC_ERR_INVALID_ARG, "rank -1", "world size - 1"},
    {TC_DIST_SINGLE, 2, 0, "tcp://127.0.0.1:1", TC_ERR_INVALID_ARG, "SINGLE", "not 2"},
    {TC_DIST_ANY, 2, 0, NULL, TC_ERR_INVALID_ARG, "2 ranks", "tcp://host:port"},
    {TC_DIST_ANY, 2, 0, "single://", TC_ERR_INVALID_ARG, "single://", "not 2"},
    {TC_DIST_ANY, 2, 0, "", TC_ERR_INVALID_ARG, "\"\"", "tcp://"},
    {TC_DIST_ANY, 2, 0, "udp://h:1", TC_ERR_INVALID_ARG, "udp://h:1", "fd:// and single://"},
    {TC_DIST_ANY, 2, 0, "127.0.0.1:80", TC_ERR_INVALID_ARG, "127.0.0.1:80", "tcp://"},
    {TC_DIST_ANY, 2, 0, "tcp://h", TC_ERR_INVALID_ARG, "tcp://h", "host:port"},
    {TC_DIST_ANY, 2, 0, "tcp://h:99999", TC_ERR_INVALID_ARG, "99999", "beyond 65535"},
    {TC_DIST_ANY, 2, 0, "tcp://h:0", TC_ERR_INVALID_ARG, "port 0", "1 to 65535"},
    {TC_DIST_ANY, 2, 0, "tcp://::1:80", TC_ERR_INVALID_ARG, "tcp://::1:80", "tcp://[::1]:4100"},
    {TC_DIST_ANY, 1, 0, "nonsense", TC_ERR_INVALID_ARG, "nonsense", "tcp://"},
    {TC_DIST_ANY, 2, 0, "tb5://host", TC_ERR_INVALID_ARG, "tb5://host", "host/cluster"},
    {TC_DIST_ANY, 2, 0, "rdma://host", TC_ERR_INVALID_ARG, "rdma://host", "host:port"},
    {TC_DIST_ANY, 2, 0, "file:///", TC_ERR_INVALID_ARG, "file:///", "path"},
    {TC_DIST_ANY, 2, 0, "env://", TC_ERR_INVALID_ARG, "env://", "says rank 0 of 1"},
};

static void bad_arguments_are_refused_with_the_value_and_the_remedy(void **state)
{
    tc_context *context = begin();

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *what = &refusals[i];
        tc_dist_ctx *group = (tc_dist_ctx *)context; /* shows that it is left alone */
        tc_status_t status = tc_dist_init(context, (tc_dist_backend_t)what->backend, what->size,
                                          what->rank, what->url, &group);
        const tc_error *why = tc_last_error();

        if (status != what->status || why == NULL || strstr(why->message, what->value) == NULL ||
            strstr(why->message, what->remedy) == NULL)
            fail_msg("case %zu: %d, %s", i, status, why == NULL ? "no words" : why->message);
        assert_int_equal(why->status, what->status);
        assert_string_equal(why->operation, "dist_init");
        assert_ptr_equal(group, context);
    }
    tc_shutdown(context);
}

static void nothing_where_something_must_be_is_refused(void **state)
{
    tc_context *context = begin();
    tc_dist_ctx *group = NULL;
    tc_dist_options options;
    tc_future *future;

    (void)state;
    tc_dist_options_default(&options);
    tc_dist_options_default(NULL);
    assert_int_equal(tc_dist_init(NULL, TC_DIST_ANY, 1, 0, NULL, &group), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_init(context, TC_DIST_ANY, 1, 0, NULL, NULL), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_init_env(NULL, &group), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_init_env(context, NULL), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_health(NULL, NULL), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_finalize(NULL), TC_OK);
    assert_int_equal(tc_dist_close(NULL), TC_OK);
    assert_int_equal(tc_dist_world_size(NULL), 0);
    assert_int_equal(tc_dist_rank(NULL), -1);
    future = tc_dist_init_async(context, NULL, &group);
    assert_int_equal(tc_future_test(future), TC_ERR_INVALID_ARG);
    tc_future_release(future);
    options.abi_version = 99;
    future = tc_dist_init_async(context, &options, &group);
    assert_int_equal(tc_future_test(future), TC_ERR_ABI_MISMATCH);
    assert_non_null(strstr(tc_future_error(future)->message, "tc_dist_options_default"));
    tc_future_release(future);
    tc_dist_options_default(&options);
    options.timeout_ms = -7;
    future = tc_dist_init_async(context, &options, &group);
    assert_int_equal(tc_future_test(future), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_future_error(future)->message, "-7"));
    tc_future_release(future);
    assert_null(group);
    tc_shutdown(context);
}

/* ---- A group of one ------------------------------------------------------------------------- */

static void finish(tc_future *future)
{
    if (tc_future_wait(future, 60000) != TC_OK)
        fail_msg("%s", tc_future_error(future)->message);
    tc_future_release(future);
}

enum { COUNT = 1000 };

static void expect_identity(tc_dist_ctx *group, uint64_t tag)
{
    int32_t send[COUNT], recv[COUNT];

    for (int op = TC_REDUCE_SUM; op <= TC_REDUCE_BXOR; op++)
        for (int kind = 0; kind < 3; kind++)
            for (int in_place = 0; in_place < 2; in_place++) {
                int32_t *out = in_place ? send : recv;
                for (int i = 0; i < COUNT; i++)
                    send[i] = i * 77 - op;
                memset(recv, 0, sizeof(recv));
                if (kind == 0)
                    finish(tc_allreduce_async(group, tag, send, out, COUNT, TC_DTYPE_I32,
                                              (tc_reduce_op_t)op, NULL));
                else if (kind == 1)
                    finish(tc_reduce_scatter_async(group, tag, send, out, COUNT, TC_DTYPE_I32,
                                                   (tc_reduce_op_t)op, NULL));
                else
                    finish(tc_allgather_async(group, tag, send, out, COUNT, TC_DTYPE_I32, NULL));
                for (int i = 0; i < COUNT; i++)
                    assert_int_equal(out[i], i * 77 - op);
            }
    finish(tc_broadcast_async(group, tag, send, COUNT, TC_DTYPE_I32, 0, NULL));
    finish(tc_barrier_async(group, tag, NULL));
    assert_int_equal(send[3], 3 * 77 - TC_REDUCE_BXOR);
}

static void send_to_self(tc_dist_ctx *group, size_t count)
{
    int32_t *send = malloc(count * sizeof(*send)), *recv = calloc(count, sizeof(*recv));
    tc_future *futures[2];

    assert_non_null(send);
    assert_non_null(recv);
    for (size_t i = 0; i < count; i++)
        send[i] = (int32_t)i + 5;
    futures[0] = tc_recv_async(group, 9, recv, count, TC_DTYPE_I32, 0, NULL);
    futures[1] = tc_send_async(group, 9, send, count, TC_DTYPE_I32, 0, NULL);
    finish(futures[0]);
    finish(futures[1]);
    assert_memory_equal(send, recv, count * sizeof(*send));
    free(send);
    free(recv);
}

static void alone_every_collective_is_the_identity(void **state)
{
    static const struct {
        int backend;
        const char *url;
    } ways[] = {{TC_DIST_SINGLE, NULL},
                {TC_DIST_SINGLE, "single://"},
                {TC_DIST_ANY, NULL},
                {TC_DIST_ANY, "tcp://127.0.0.1:1"},
                {TC_DIST_GLOO, "gloo+tcp://h:1"},
                {TC_DIST_RING, "tcp://[::1]:1"}};

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        tc_context *context = begin();
        size_t descriptors = count_descriptors();
        tc_dist_ctx *group = NULL;
        int lost = 5;

        assert_int_equal(
            tc_dist_init(context, (tc_dist_backend_t)ways[i].backend, 1, 0, ways[i].url, &group),
            TC_OK);
        assert_int_equal(count_descriptors(), descriptors);
        assert_int_equal(tc_dist_world_size(group), 1);
        assert_int_equal(tc_dist_rank(group), 0);
        assert_int_equal(tc_dist_health(group, &lost), TC_OK);
        assert_int_equal(lost, -1);
        expect_identity(group, 3);
        expect_identity(group, TC_TAG_ORDERED);
        send_to_self(group, 10);
        send_to_self(group, 1 << 20);
        assert_int_equal(tc_dist_finalize(group), TC_OK);
        assert_int_equal(tc_shutdown(context), TC_OK);
    }
}

/* ---- Several ranks -------------------------------------------------------------------------- */

struct member {
    pthread_t thread;
    int size, rank;
    const char *url;
    const char *problem;
};

static void *be_a_member(void *arg)
{
    struct member *me = arg;
    tc_context *context = NULL;
    tc_dist_ctx *group = NULL;
    int64_t sum = me->rank + 1;
    tc_future *future;

    if (tc_init(&context) != TC_OK)
        me->problem = "init";
    else if (tc_dist_init(context, TC_DIST_GLOO, me->size, me->rank, me->url, &group) != TC_OK)
        me->problem = "dist_init";
    else if (tc_dist_rank(group) != me->rank || tc_dist_world_size(group) != me->size)
        me->problem = "rank and size";
    if (me->problem != NULL)
        return NULL;
    future = tc_allreduce_async(group, 0, &sum, &sum, 1, TC_DTYPE_I64, TC_REDUCE_SUM, NULL);
    if (tc_future_wait(future, 60000) != TC_OK || sum != me->size * (me->size + 1) / 2)
        me->problem = "allreduce";
    tc_future_release(future);
    if (tc_dist_finalize(group) != TC_OK || tc_shutdown(context) != TC_OK)
        me->problem = "finalize";
    return NULL;
}

static void form_by_url(const char *host, const char *scheme)
{
    struct member members[3] = {{0}};
    char url[64], made[96];

    close(world_listen(url, sizeof(url))); /* a port that was free just now */
    snprintf(made, sizeof(made), "%s://%s:%s", scheme, host, strrchr(url, ':') + 1);
    for (int r = 2; r >= 0; r--) { /* rank 0 last: the others wait for it */
        members[r] = (struct member){.size = 3, .rank = r, .url = made};
        assert_int_equal(pthread_create(&members[r].thread, NULL, be_a_member, &members[r]), 0);
    }
    for (int r = 0; r < 3; r++) {
        pthread_join(members[r].thread, NULL);
        if (members[r].problem != NULL)
            fail_msg("%s, rank %d: %s", made, r, members[r].problem);
    }
}

static void ranks_meet_at_any_form_of_address(void **state)
{
    (void)state;
    form_by_url("127.0.0.1", "tcp");
    form_by_url("127.0.0.1", "gloo+tcp");
    form_by_url("localhost", "tcp");
    if (access("/proc/net/if_inet6", R_OK) == 0)
        form_by_url("[::1]", "tcp");
}

static void a_group_that_waits_for_others_can_be_cancelled(void **state)
{
    tc_context *context = begin();
    tc_dist_ctx *group = NULL;
    tc_dist_options options;
    tc_future *future;
    char url[64];

    (void)state;
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.listen_fd = world_listen(url, sizeof(url));
    options.rendezvous_url = url;

    future = tc_dist_init_async(context, &options, &group);
    memset(url, 'x', sizeof(url) - 1); /* it was copied */
    memset(&options, 0xff, sizeof(options));
    assert_int_equal(tc_future_wait(future, 20), TC_PENDING);
    tc_future_cancel(future);

    assert_int_equal(tc_future_wait(future, 60000), TC_ERR_CANCELLED);
    assert_null(group);
    tc_future_release(future);
    tc_shutdown(context);
}

static void a_rank_that_does_not_come_is_named_at_the_deadline(void **state)
{
    tc_context *context = begin();
    tc_dist_ctx *group = NULL;
    tc_dist_options options;
    tc_future *future;
    char url[64];

    (void)state;
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.timeout_ms = 50;
    options.listen_fd = world_listen(url, sizeof(url));
    options.rendezvous_url = url;

    future = tc_dist_init_async(context, &options, &group);

    assert_int_equal(tc_future_wait(future, 60000), TC_ERR_TIMEOUT);
    assert_non_null(strstr(tc_future_error(future)->message, "1"));
    assert_null(group);
    tc_future_release(future);
    tc_shutdown(context);
}

static void two_worlds_live_in_one_process(void **state)
{
    struct world worlds[2];
    int64_t value[2][3];
    tc_future *future[2][3];

    (void)state;
    world_open(&worlds[0], 3, NULL);
    world_open(&worlds[1], 3, NULL);
    for (int w = 0; w < 2; w++)
        for (int r = 0; r < 3; r++) {
            value[w][r] = (w * 100) + r;
            future[w][r] = tc_allreduce_async(worlds[w].group[r], 1, &value[w][r], &value[w][r], 1,
                                              TC_DTYPE_I64, TC_REDUCE_SUM, NULL);
        }
    for (int w = 0; w < 2; w++)
        for (int r = 0; r < 3; r++) {
            finish(future[w][r]);
            assert_int_equal(value[w][r], w * 300 + 3);
        }
    world_close(&worlds[0]);
    future[1][0] = tc_barrier_async(worlds[1].group[0], 5, NULL);
    future[1][1] = tc_barrier_async(worlds[1].group[1], 5, NULL);
    finish(tc_barrier_async(worlds[1].group[2], 5, NULL));
    finish(future[1][0]);
    finish(future[1][1]);
    world_close(&worlds[1]);
}

struct leaver {
    pthread_t thread;
    tc_dist_ctx *group;
    tc_status_t status;
};

static void *leave(void *arg)
{
    struct leaver *leaver = arg;

    leaver->status = tc_dist_finalize(leaver->group);
    return NULL;
}

/* Finalize both ranks, in threads since each waits for the other. */
static void finalize_both(tc_dist_ctx *const *groups)
{
    struct leaver leavers[2];

    for (int r = 0; r < 2; r++) {
        leavers[r] = (struct leaver){.group = groups[r]};
        assert_int_equal(pthread_create(&leavers[r].thread, NULL, leave, &leavers[r]), 0);
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(leavers[r].thread, NULL);
        assert_int_equal(leavers[r].status, TC_OK);
    }
}

static void form_two(tc_context *const *contexts, tc_dist_ctx **groups)
{
    tc_future *futures[2];
    tc_dist_options options;
    char url[64];
    int fd = world_listen(url, sizeof(url));

    for (int r = 0; r < 2; r++) {
        tc_dist_options_default(&options);
        options.world_size = 2;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(contexts[r], &options, &groups[r]);
    }
    finish(futures[0]);
    finish(futures[1]);
}

static void a_hundred_groups_come_and_go_without_a_trace(void **state)
{
    tc_context *contexts[2] = {begin(), begin()};
    tc_dist_ctx *groups[2];
    uint64_t live = 0;
    size_t descriptors = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        float sums[2] = {1, 2};
        tc_future *futures[2];

        form_two(contexts, groups);
        for (int r = 0; r < 2; r++)
            futures[r] = tc_allreduce_async(groups[r], 7, &sums[r], &sums[r], 1, TC_DTYPE_F32,
                                            TC_REDUCE_SUM, NULL);
        finish(futures[0]);
        finish(futures[1]);
        assert_true(sums[0] == 3 && sums[1] == 3);
        finalize_both(groups);
        if (i == 10) { /* pools have their size */
            live = tci_alloc_live();
            descriptors = count_descriptors();
        }
    }
    assert_int_equal(tci_alloc_live(), live);
    assert_int_equal(count_descriptors(), descriptors);
    tc_shutdown(contexts[0]);
    tc_shutdown(contexts[1]);
}

static void finalize_waits_for_what_was_begun(void **state)
{
    enum { BEGUN = 50, LONG = 1 << 20 };
    tc_context *contexts[2] = {begin(), begin()};
    tc_dist_ctx *groups[2];
    tc_future *futures[2][BEGUN], *promise = tc_promise_create(contexts[0]);
    tc_options options;
    float *data = calloc(2 * (size_t)LONG, sizeof(*data));

    (void)state;
    assert_non_null(data);
    form_two(contexts, groups);
    tc_options_default(&options);
    options.after = &promise;
    options.n_after = 1;
    for (int i = 0; i < BEGUN; i++)
        for (int r = 0; r < 2; r++) {
            float *mine = data + (size_t)r * LONG + (size_t)i * (LONG / BEGUN);
            for (size_t k = 0; k < LONG / BEGUN; k++)
                mine[k] = (float)(i + r);
            futures[r][i] =
                tc_allreduce_async(groups[r], (uint64_t)i, mine, mine, LONG / BEGUN, TC_DTYPE_F32,
                                   TC_REDUCE_SUM, r == 0 && i == 0 ? &options : NULL);
        }
    struct leaver leavers[2] = {{.group = groups[0]}, {.group = groups[1]}};
    for (int r = 0; r < 2; r++)
        assert_int_equal(pthread_create(&leavers[r].thread, NULL, leave, &leavers[r]), 0);
    for (int i = 1; i < BEGUN; i++)
        assert_int_equal(tc_future_wait(futures[0][i], 60000), TC_OK);
    assert_int_equal(tc_future_test(futures[0][0]), TC_PENDING); /* and so finalize waits */
    assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
    for (int r = 0; r < 2; r++) {
        pthread_join(leavers[r].thread, NULL);
        assert_int_equal(leavers[r].status, TC_OK);
        for (int i = 0; i < BEGUN; i++) {
            assert_int_equal(tc_future_test(futures[r][i]), TC_OK);
            assert_true(data[(size_t)r * LONG + (size_t)i * (LONG / BEGUN)] == (float)(2 * i + 1));
            tc_future_release(futures[r][i]);
        }
    }
    tc_future_release(promise);
    free(data);
    tc_shutdown(contexts[0]);
    tc_shutdown(contexts[1]);
}

static void a_large_send_right_before_finalize_arrives(void **state)
{
    enum { LEN = 16 << 20 };
    tc_context *contexts[2] = {begin(), begin()};
    tc_dist_ctx *groups[2];
    unsigned char *send = malloc(LEN), *recv = calloc(1, LEN);
    tc_future *got;

    (void)state;
    assert_non_null(send);
    assert_non_null(recv);
    for (size_t i = 0; i < LEN; i++)
        send[i] = (unsigned char)(i * 31 >> 3);
    form_two(contexts, groups);
    got = tc_recv_async(groups[1], 1, recv, LEN, TC_DTYPE_U8, 0, NULL);
    tc_future_release(tc_send_async(groups[0], 1, send, LEN, TC_DTYPE_U8, 1, NULL));
    finalize_both(groups);

    assert_int_equal(tc_future_test(got), TC_OK);
    assert_memory_equal(send, recv, LEN);
    tc_future_release(got);
    free(send);
    free(recv);
    tc_shutdown(contexts[0]);
    tc_shutdown(contexts[1]);
}

static void a_closed_group_is_named_to_the_other(void **state)
{
    tc_context *contexts[2] = {begin(), begin()};
    tc_dist_ctx *groups[2];
    int lost = -1;
    tc_future *waits[2];

    (void)state;
    form_two(contexts, groups);
    waits[0] = tc_barrier_async(groups[0], 1, NULL);
    finish(tc_send_async(groups[1], 2, NULL, 0, TC_DTYPE_U8, 0, NULL));
    waits[1] = tc_recv_async(groups[1], 3, &lost, 1, TC_DTYPE_I32, 0, NULL);
    assert_int_equal(tc_dist_close(groups[1]), TC_OK);

    assert_int_equal(tc_future_wait(waits[1], 60000), TC_ERR_CLOSED);
    assert_int_equal(tc_future_wait(waits[0], 60000), TC_ERR_PEER_LOST);
    assert_int_equal(tc_future_error(waits[0])->rank, 1);
    assert_int_equal(tc_dist_health(groups[0], &lost), TC_ERR_PEER_LOST);
    assert_int_equal(lost, 1);
    assert_int_equal(tc_last_error()->rank, 1);
    assert_int_equal(tc_dist_finalize(groups[0]), TC_ERR_PEER_LOST);
    tc_future_release(waits[0]);
    tc_future_release(waits[1]);
    tc_shutdown(contexts[0]);
    tc_shutdown(contexts[1]);
}

static void close_here(tc_future *future, void *arg)
{
    (void)future;
    assert_int_equal(tc_dist_close(arg), TC_OK);
}

static void a_continuation_may_close_its_group(void **state)
{
    tc_context *context = begin();
    tc_dist_ctx *group = NULL;
    int never = 0;

    (void)state;
    assert_int_equal(tc_dist_init(context, TC_DIST_SINGLE, 1, 0, NULL, &group), TC_OK);
    tc_future *waits = tc_recv_async(group, 1, &never, 1, TC_DTYPE_I32, 0, NULL);
    tc_future *done = tc_barrier_async(group, 2, NULL);
    assert_int_equal(tc_future_then(done, close_here, group), TC_OK);
    tc_future_release(done);

    assert_int_equal(tc_future_wait(waits, 60000), TC_ERR_CLOSED);
    tc_future_release(waits);
    assert_int_equal(tc_shutdown(context), TC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_arguments_are_refused_with_the_value_and_the_remedy),
        cmocka_unit_test(nothing_where_something_must_be_is_refused),
        cmocka_unit_test(alone_every_collective_is_the_identity),
        cmocka_unit_test(ranks_meet_at_any_form_of_address),
        cmocka_unit_test(a_group_that_waits_for_others_can_be_cancelled),
        cmocka_unit_test(a_rank_that_does_not_come_is_named_at_the_deadline),
        cmocka_unit_test(two_worlds_live_in_one_process),
        cmocka_unit_test(a_hundred_groups_come_and_go_without_a_trace),
        cmocka_unit_test(finalize_waits_for_what_was_begun),
        cmocka_unit_test(a_large_send_right_before_finalize_arrives),
        cmocka_unit_test(a_closed_group_is_named_to_the_other),
        cmocka_unit_test(a_continuation_may_close_its_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
