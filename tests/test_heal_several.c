/* test_heal_several.c - several connections a link: all carry, and the others go on without one. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, serial */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "support/heal_world.h"
#include "support/sample.h"

enum { ROUNDS_MAX = 3000 };

static void nap(void)
{
    struct timespec time = {.tv_nsec = 10 * 1000 * 1000};

    nanosleep(&time, NULL);
}

static void all_reduce(struct heal_world *heal, size_t bytes, unsigned seed, unsigned cut_one)
{
    struct coll_case what = {.kind = COLL_ALLREDUCE,
                             .count = bytes / 4,
                             .dtype = TC_DTYPE_F32,
                             .op = TC_REDUCE_SUM,
                             .tag = 1,
                             .seed = seed};
    struct coll_run run;

    coll_prepare(&run, &what, 2);
    cut_proxy_cut_after(heal->proxy, cut_one, bytes / 8);
    for (int r = 0; r < 2; r++)
        coll_start(&run, heal->world.group[r], r);
    heal_world_finish(heal, &run);
}

static uint64_t bytes_beside(const struct heal_world *heal)
{
    return heal_world_stats(heal, 0).bytes_beside + heal_world_stats(heal, 1).bytes_beside;
}

/* Nobody but the loops knows when a connection stands: small calls pass the time until then. */
static void until_sides_stand(struct heal_world *heal, uint32_t count)
{
    for (int i = 0; i < ROUNDS_MAX; i++) {
        uint64_t before = bytes_beside(heal);

        if (heal_world_stats(heal, 0).sides_open == count &&
            heal_world_stats(heal, 1).sides_open == count)
            return;
        all_reduce(heal, 4000, 1, UINT32_MAX);
        assert_true(bytes_beside(heal) >= before);
        nap();
    }
    fail_msg("of %u further connections %u and %u stand", count,
             heal_world_stats(heal, 0).sides_open, heal_world_stats(heal, 1).sides_open);
}

static void large_messages_go_over_all_connections(void **state)
{
    tc_config config = heal_world_config(TC_LOOP_MANUAL, 4);
    struct heal_world heal;
    uint64_t sent;

    (void)state;
    heal_world_open(&heal, 2, &config, test_seed());
    until_sides_stand(&heal, 3);
    assert_true(cut_proxy_made(heal.proxy) >= 4); /* a try that was not answered is made again */
    assert_int_equal(bytes_beside(&heal), 0);     /* small ones do not */
    all_reduce(&heal, 32 << 20, 2, UINT32_MAX);
    sent = heal_world_stats(&heal, 0).bytes_sent + heal_world_stats(&heal, 1).bytes_sent;
    print_message("%.0f %% of %.0f MiB over three of four connections\n",
                  100.0 * (double)bytes_beside(&heal) / (double)sent, (double)sent / 1048576);
    assert_true(bytes_beside(&heal) > sent / 8);
    heal_world_close(&heal);
}

/* The connection that is cut was made `cut_one`-th; another takes its place later. */
static void cut_in_the_middle(unsigned cut_one)
{
    size_t bytes = test_effort() == 0 ? 8 << 20 : 48 << 20;
    tc_config config = heal_world_config(TC_LOOP_MANUAL, 2);
    struct heal_world heal;
    uint64_t before;

    heal_world_open(&heal, 2, &config, test_seed());
    until_sides_stand(&heal, 1);
    all_reduce(&heal, bytes, 1, cut_one);
    assert_int_equal(cut_proxy_cuts(heal.proxy), 1);
    assert_true(heal_world_breaks(&heal) >= 1);
    until_sides_stand(&heal, 1); /* it is back */
    before = bytes_beside(&heal);
    all_reduce(&heal, bytes, 2, UINT32_MAX);
    assert_true(bytes_beside(&heal) > before); /* and carries again */
    heal_world_close(&heal);
}

static void the_main_one_of_two_is_cut(void **state)
{
    (void)state;
    cut_in_the_middle(0);
}

static void the_other_one_of_two_is_cut(void **state)
{
    (void)state;
    cut_in_the_middle(1);
}

static void what_stays_away_is_done_without(void **state)
{
    tc_config config = heal_world_config(TC_LOOP_MANUAL, 2);
    struct heal_world heal;

    (void)state;
    heal_world_open(&heal, 2, &config, test_seed());
    until_sides_stand(&heal, 1);
    cut_proxy_swallow(heal.proxy, 1);
    for (unsigned i = 0; i < 3; i++)
        all_reduce(&heal, 8 << 20, i, 1);
    assert_int_equal(cut_proxy_cuts(heal.proxy), 1);
    cut_proxy_swallow(heal.proxy, 0);
    heal_world_close(&heal);
}

static void every_collective_over_three_connections_that_break(void **state)
{
    (void)state;
    heal_world_every_collective(TC_LOOP_THREAD, 3, 3);
    heal_world_every_collective(TC_LOOP_MANUAL, 2, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_messages_go_over_all_connections),
        cmocka_unit_test(the_main_one_of_two_is_cut),
        cmocka_unit_test(the_other_one_of_two_is_cut),
        cmocka_unit_test(what_stays_away_is_done_without),
        cmocka_unit_test(every_collective_over_three_connections_that_break),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
