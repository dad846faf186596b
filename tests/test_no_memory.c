/* test_no_memory.c - each allocation of a group's life may fail: no hang, no leak, no crash. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, waits, long */
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

enum { RANKS = 2, TIMEOUT_MS = 300, LARGE = 200000, CALLS = 5, COMPRESSED = 3 };

static float data[RANKS][CALLS + 1][LARGE];

/* What the two ranks have; NULL where it was not to be had. */
struct life {
    tc_context *context[RANKS];
    tc_dist_ctx *group[RANKS];
};

static void turn(struct life *life)
{
    for (int r = 0; r < RANKS; r++)
        if (life->context[r] != NULL)
            tc_poll(life->context[r], 0);
}

/* Every future settles, well or with an error that has a sentence. */
static tc_status_t settle(struct life *life, tc_future *future)
{
    assert_non_null(future);
    for (int turns = 0; tc_future_test(future) == TC_PENDING; turns++) {
        turn(life);
        if (turns > 100)
            usleep(200);
        assert_true(turns < 60000);
    }
    tc_status_t status = tc_future_test(future);
    if (status != TC_OK)
        assert_true(strlen(tc_future_error(future)->message) > 0);
    tc_future_release(future);
    return status;
}

static void begin(struct life *life)
{
    tc_future *formed[RANKS] = {0};
    tc_dist_options options;
    tc_config config;
    char url[64];
    int fd = world_listen(url, sizeof(url));

    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    config.timeout_ms = TIMEOUT_MS;
    config.log_level = "error";
    for (int r = 0; r < RANKS; r++)
        if (tc_init_config(&config, &life->context[r]) != TC_OK)
            life->context[r] = NULL;
    for (int r = 0; r < RANKS; r++) {
        tc_dist_options_default(&options);
        options.world_size = RANKS;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? dup(fd) : -1;
        formed[r] = tc_dist_init_async(life->context[r], &options, &life->group[r]);
        /* A call that fails at once leaves the listener to the caller. */
        if (r == 0 && tc_future_test(formed[0]) != TC_PENDING)
            close(options.listen_fd);
    }
    for (int r = 0; r < RANKS; r++)
        if (settle(life, formed[r]) != TC_OK)
            assert_null(life->group[r]);
    close(fd);
}

static void do_nothing(tc_future *future, void *arg)
{
    (void)future;
    (void)arg;
}

/* Those that take memory of their own. */
static void compress(tc_dist_ctx *group, int r, tc_future **futures)
{
    static const uint32_t indices[RANKS][2] = {{1, 5}, {3, 5}};
    static float values[2] = {1, 2}, dense[RANKS][COMPRESSED][8], sums[RANKS][4];
    static uint32_t at[RANKS][4];
    static tc_sparse out[RANKS];
    tc_sparse send = {(void *)indices[r], values, 2, 0, TC_DTYPE_U32};

    out[r] = (tc_sparse){at[r], sums[r], 0, 4, TC_DTYPE_U32};
    futures[0] =
        tc_allreduce_sparse_async(group, 20, &send, 0, dense[r][0], 8, TC_REDUCE_SUM, NULL, NULL);
    futures[1] = tc_allreduce_topk_async(group, 21, &send, 3, &out[r], 0, 8, TC_REDUCE_SUM, NULL,
                                         NULL, NULL);
    futures[2] =
        tc_allreduce_compressed_async(group, 22, dense[r][1], dense[r][1], 8, TC_DTYPE_F8E4M3,
                                      TC_REDUCE_SUM, dense[r][2], NULL, NULL);
}

static void work(struct life *life)
{
    tc_future *futures[RANKS][CALLS + 1] = {{0}}, *small[RANKS][COMPRESSED] = {{0}};

    for (int r = 0; r < RANKS; r++) {
        if (life->group[r] == NULL)
            continue;
        for (int c = 0; c < CALLS; c++)
            futures[r][c] =
                tc_allreduce_async(life->group[r], (uint64_t)c, data[r][c], data[r][c],
                                   c % 2 == 0 ? 100 : LARGE, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        futures[r][CALLS] =
            r == 0 ? tc_send_async(life->group[r], 3, data[r][CALLS], LARGE, TC_DTYPE_F32, 1, NULL)
                   : tc_recv_async(life->group[r], 3, data[r][CALLS], LARGE, TC_DTYPE_F32, 0, NULL);
        tc_future *all = tc_future_all(life->context[r], futures[r], CALLS + 1);
        tc_future_then(all, do_nothing, NULL);
        tc_future_then(all, do_nothing, NULL);
        tc_future_release(all);
    }
    for (int r = 0; r < RANKS; r++)
        if (life->group[r] != NULL)
            compress(life->group[r], r, small[r]);
    for (int r = 0; r < RANKS; r++)
        for (int c = 0; c < COMPRESSED; c++)
            if (small[r][c] != NULL)
                settle(life, small[r][c]);
    for (int r = 0; r < RANKS; r++)
        for (int c = 0; c <= CALLS; c++)
            if (futures[r][c] != NULL)
                settle(life, futures[r][c]);
}

/* One way of ending that turns both loops: closing at once. */
static void end(struct life *life)
{
    for (int r = 0; r < RANKS; r++)
        if (life->context[r] != NULL)
            assert_int_equal(tc_shutdown(life->context[r]), TC_OK);
}

static void ignore(tc_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

/* Gives the number of allocations that it made. */
static uint64_t live_with_failure(uint64_t n, int forever)
{
    struct life life = {0};
    uint64_t live = tci_alloc_live();
    uint64_t before = tci_alloc_total();

    tci_alloc_fail_at(n, forever);
    begin(&life);
    work(&life);
    if (forever)
        tci_alloc_fail_at(0, 0);
    end(&life);
    uint64_t made = tci_alloc_total() - before;
    tci_alloc_fail_at(0, 0);
    if (tci_alloc_live() != live)
        fail_msg("allocation %llu: %lld are left", (unsigned long long)n,
                 (long long)(tci_alloc_live() - live));
    return made;
}

static void run_all(int forever, uint64_t step)
{
    uint64_t total = live_with_failure(0, 0);

    for (uint64_t n = 1; n <= total + step; n += step)
        live_with_failure(n, forever);
    print_message("%llu allocations, each %llu. fails%s\n", (unsigned long long)total,
                  (unsigned long long)step, forever ? ", and all after it" : "");
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    run_all(0, test_effort() == 0 ? 7 : 1);
}

static void memory_may_run_out_for_good(void **state)
{
    (void)state;
    run_all(1, test_effort() == 0 ? 13 : 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(memory_may_run_out_for_good),
    };

    tc_log_set_sink(ignore, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
