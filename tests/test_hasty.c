/* test_hasty.c - ranks that exit the moment their call has failed are not taken for the cause. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/world.h"

enum { SIZE = 4, SAYS_MAX = 400 };

/* With a root, and in whatever plan, only the full check lets all of them fail. */
enum kind { ALLREDUCE, BROADCAST, REDUCE, GATHER, SCATTER, KINDS };
static const char *const names[] = {"allreduce", "broadcast", "reduce", "gather", "scatter"};

/* What a rank has seen of its call. */
struct says {
    int32_t rank, status, culprit;
    char text[SAYS_MAX];
};

static tc_future *call(tc_dist_ctx *group, enum kind kind, size_t count)
{
    static float data[8], all[SIZE * 8];

    switch (kind) {
    case BROADCAST:
        return tc_broadcast_async(group, 1, data, count, TC_DTYPE_F32, 1, NULL);
    case REDUCE:
        return tc_reduce_async(group, 1, data, all, count, TC_DTYPE_F32, TC_REDUCE_SUM, 1, NULL);
    case GATHER:
        return tc_gather_async(group, 1, data, all, count, TC_DTYPE_F32, 1, NULL);
    case SCATTER:
        return tc_scatter_async(group, 1, all, data, count, TC_DTYPE_F32, 1, NULL);
    default:
        return tc_allreduce_async(group, 1, data, data, count, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    }
}

/* A process of its own: it forms the group, calls, and is gone as soon as that has failed. */
static void live(const char *url, int rank, int listener, enum kind kind, bool is_odd, int out)
{
    struct says says = {.rank = rank};
    tc_dist_options options;
    tc_context *context;
    tc_dist_ctx *group = NULL;
    tc_future *future;
    tc_config config;

    tc_dist_options_default(&options);
    options.world_size = SIZE;
    options.rank = rank;
    options.rendezvous_url = url;
    options.listen_fd = rank == 0 ? listener : -1;
    if (rank != 0)
        close(listener);
    tc_config_default(&config);
    config.check = kind == ALLREDUCE ? TC_CHECK_CHEAP : TC_CHECK_FULL;
    if (tc_init_config(&config, &context) != TC_OK ||
        tc_future_wait(tc_dist_init_async(context, &options, &group), 60000) != TC_OK)
        _exit(2);
    future = call(group, kind, is_odd ? 8 : 4);
    says.status = tc_future_wait(future, 60000);
    if (tc_future_error(future) != NULL) {
        says.culprit = tc_future_error(future)->rank;
        snprintf(says.text, sizeof(says.text), "%s", tc_future_error(future)->message);
    }
    if (write(out, &says, sizeof(says)) != (ssize_t)sizeof(says))
        _exit(3);
    _exit(0);
}

static void all_name_the_odd_one(enum kind kind, int odd)
{
    char url[64], who[64], others[64];
    int listener = world_listen(url, sizeof(url)), ends[2], status;
    struct says says;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    for (int rank = 0; rank < SIZE; rank++)
        if (fork() == 0)
            live(url, rank, listener, kind, rank == odd, ends[1]);
    close(listener);
    close(ends[1]);
    for (int rank = 0; rank < SIZE; rank++) {
        assert_int_equal(read(ends[0], &says, sizeof(says)), sizeof(says));
        snprintf(who, sizeof(who), "rank %d calls %s(8 x f32", odd, names[kind]);
        snprintf(others, sizeof(others), "calls %s(4 x f32", names[kind]);
        if (says.status != TC_ERR_MISMATCH || strstr(says.text, who) == NULL ||
            strstr(says.text, others) == NULL)
            fail_msg("rank %d blames %d with status %d: %s", says.rank, says.culprit, says.status,
                     says.text);
    }
    close(ends[0]);
    while (wait(&status) > 0)
        assert_int_equal(status, 0);
}

static void who_exits_after_a_mismatch_is_not_its_cause(void **state)
{
    static const int rounds[] = {1, 2, 40};

    (void)state;
    for (int round = 0; round < rounds[test_effort()]; round++)
        for (int odd = 0; odd < SIZE; odd++)
            all_name_the_odd_one(ALLREDUCE, odd);
}

static void nor_where_there_is_a_root(void **state)
{
    static const int every[] = {3, 2, 1};
    int at = 0;

    (void)state;
    for (int round = 0; round < (test_effort() == 2 ? 10 : 1); round++)
        for (int kind = BROADCAST; kind < KINDS; kind++)
            for (int odd = 0; odd < SIZE; odd++)
                if (at++ % every[test_effort()] == 0)
                    all_name_the_odd_one((enum kind)kind, odd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_exits_after_a_mismatch_is_not_its_cause),
        cmocka_unit_test(nor_where_there_is_a_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
