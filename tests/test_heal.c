/* test_heal.c - connections are cut while collectives run: they end as if nothing had happened. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/heal_world.h"
#include "support/sample.h"

static void every_collective_is_right_while_connections_break(void **state)
{
    (void)state;
    heal_world_every_collective(TC_LOOP_THREAD, 4, 1);
    heal_world_every_collective(TC_LOOP_THREAD, 2, 1);
}

static void the_same_where_waiters_turn_the_loop(void **state)
{
    (void)state;
    heal_world_every_collective(TC_LOOP_MANUAL, 3, 1);
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
    tc_config config = heal_world_config(TC_LOOP_THREAD, 1);
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
        heal_world_finish(&heal, &run);
    }
    print_message("%zu MiB: %u cuts, %llu noticed\n", bytes >> 20, cut_proxy_cuts(heal.proxy),
                  (unsigned long long)heal_world_breaks(&heal));
    assert_true(cut_proxy_cuts(heal.proxy) > cuts / 2);
    heal_world_close(&heal);
}

/* What an answer overwrites is memory that the peer has read, though its word of that may have been
 * lost with a connection: whatever is sent again is not that. */
static void what_an_answer_overwrites_is_not_sent_again(void **state)
{
    static const char *const algorithms[] = {"direct", "centralized"};
    static const size_t connections[] = {1, 4};
    const int rounds[] = {2, 12, 100};

    (void)state;
    for (int i = 0; i < 12; i++) {
        tc_config config = heal_world_config(TC_LOOP_THREAD, connections[i / 2 % 2]);
        struct coll_case what = {.kind = COLL_ALLREDUCE,
                                 .count = 100000,
                                 .dtype = TC_DTYPE_F32,
                                 .op = TC_REDUCE_SUM,
                                 .in_place = true,
                                 .algorithm = algorithms[i % 2],
                                 .tag = 1};
        struct heal_world heal;
        int size = 2 + i / 4;

        heal_world_open(&heal, size, &config, test_seed() + (unsigned)i);
        for (int round = 0; round < rounds[test_effort()]; round++) {
            struct coll_run run;

            what.seed = (unsigned)round;
            what.count = round % 2 == 0 ? 100000 : 1000000;
            coll_prepare(&run, &what, size);
            cut_proxy_set(heal.proxy, what.count / 4, 10);
            for (int r = 0; r < size; r++)
                coll_start(&run, heal.world.group[r], r);
            heal_world_finish(&heal, &run);
        }
        assert_true(cut_proxy_cuts(heal.proxy) > 0);
        heal_world_close(&heal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_right_while_connections_break),
        cmocka_unit_test(the_same_where_waiters_turn_the_loop),
        cmocka_unit_test(a_large_all_reduce_is_cut_again_and_again),
        cmocka_unit_test(what_an_answer_overwrites_is_not_sent_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
