/* test_heal.c - connections are cut while collectives run: they end as if nothing had happened. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, serial */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "support/coll_case.h"
#include "support/heal_world.h"
#include "support/sample.h"

static tc_config config_of(int mode)
{
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = mode;
    config.timeout_ms = 60000;
    return config;
}

static void finish(struct heal_world *heal, struct coll_run *run)
{
    char text[160];

    for (int r = 0; r < heal->world.size; r++)
        if (world_wait(&heal->world, run->future[r]) != TC_OK)
            fail_msg("%s: rank %d: %s", coll_describe(run, text, sizeof(text)), r,
                     tc_future_error(run->future[r])->message);
    coll_check(run);
}

/* Breaks that some rank has noticed, and links that stand again. */
static uint64_t count_breaks(const struct heal_world *heal)
{
    uint64_t breaks = 0;

    for (int r = 0; r < heal->world.size; r++)
        breaks += heal_world_stats(heal, r).breaks;
    return breaks;
}

/* Every collective, small and large at once, all while connections break. */
static void every_collective(int mode, int size)
{
    static const size_t counts[] = {1, 700, 30000, 130000};
    static struct coll_run runs[COLL_KINDS * TCI_LEN(counts)];
    tc_config config = config_of(mode);
    struct heal_world heal;
    int rounds = test_effort() == 2 ? 20 : test_effort() + 1;

    heal_world_open(&heal, size, &config, test_seed() + (uint64_t)mode);
    cut_proxy_set(heal.proxy, 300000, UINT32_MAX);
    for (int round = 0; round < rounds; round++) {
        unsigned n = 0;

        for (int kind = 0; kind < COLL_KINDS; kind++)
            for (unsigned c = 0; c < TCI_LEN(counts); c++) {
                struct coll_case what = {.kind = (enum coll_kind)kind,
                                         .count = counts[c],
                                         .dtype = TC_DTYPE_I32,
                                         .op = TC_REDUCE_SUM,
                                         .root = (round + kind) % size,
                                         .in_place = coll_can_be_in_place((enum coll_kind)kind) &&
                                                     c % 2 == 1,
                                         .tag = n,
                                         .seed = (unsigned)round * 1000 + n};
                coll_prepare(&runs[n++], &what, size);
            }
        for (int r = 0; r < size; r++)
            for (unsigned i = 0; i < n; i++)
                coll_start(&runs[(i + (unsigned)r * 5) % n], heal.world.group[r], r);
        for (unsigned i = 0; i < n; i++)
            finish(&heal, &runs[i]);
    }
    print_message("%d ranks: %u connections cut\n", size, cut_proxy_cuts(heal.proxy));
    assert_true(cut_proxy_cuts(heal.proxy) > 10);
    assert_true(count_breaks(&heal) > 10);
    heal_world_close(&heal);
}

static void every_collective_is_right_while_connections_break(void **state)
{
    (void)state;
    every_collective(TC_LOOP_THREAD, 4);
    every_collective(TC_LOOP_THREAD, 2);
}

static void the_same_where_waiters_turn_the_loop(void **state)
{
    (void)state;
    every_collective(TC_LOOP_MANUAL, 3);
}

/* A hundred cuts in one large all-reduce; dozens in a smaller one. */
static void a_large_all_reduce_is_cut_again_and_again(void **state)
{
    static const struct {
        size_t bytes;
        unsigned cuts;
    } by_effort[] = {{8 << 20, 20}, {48 << 20, 60}, {(size_t)1 << 30, 100}};
    size_t bytes = by_effort[test_effort()].bytes;
    unsigned cuts = by_effort[test_effort()].cuts;
    tc_config config = config_of(TC_LOOP_THREAD);
    struct coll_case what = {.kind = COLL_ALLREDUCE,
                             .count = bytes / 4,
                             .dtype = TC_DTYPE_F32,
                             .op = TC_REDUCE_SUM,
                             .tag = 1};
    struct heal_world heal;
    struct coll_run run;

    (void)state;
    config.timeout_ms = 600000;
    heal_world_open(&heal, 2, &config, test_seed());
    for (int i = 0; i < 2; i++) {
        what.in_place = i == 1;
        coll_prepare(&run, &what, 2);
        cut_proxy_set(heal.proxy, bytes / cuts, cuts);
        for (int r = 0; r < 2; r++)
            coll_start(&run, heal.world.group[r], r);
        finish(&heal, &run);
    }
    print_message("%zu MiB: %u cuts, %llu noticed\n", bytes >> 20, cut_proxy_cuts(heal.proxy),
                  (unsigned long long)count_breaks(&heal));
    assert_true(cut_proxy_cuts(heal.proxy) > cuts / 2);
    heal_world_close(&heal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_right_while_connections_break),
        cmocka_unit_test(the_same_where_waiters_turn_the_loop),
        cmocka_unit_test(a_large_all_reduce_is_cut_again_and_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
