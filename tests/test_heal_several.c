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

/* ---- While it is watched --------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static tc_config config_of(size_t connections, bool is_sealed)
{
    static const char key[] = "a key of more than sixteen bytes";
    tc_config config = heal_world_config(TC_LOOP_THREAD, connections);

    config.timeout_ms = 600000;
    config.key = is_sealed ? key : NULL;
    config.key_bytes = is_sealed ? sizeof(key) - 1 : 0;
    config.encryption = is_sealed ? 1 : -1;
    return config;
}

/* The longest time, in seconds, in which no byte came anywhere, until the case has ended. */
static double longest_stall(struct heal_world *heal, struct coll_run *run)
{
    double last = now_s(), longest = 0;
    uint64_t seen = 0;

    while (tc_future_test(run->future[0]) == TC_PENDING ||
           tc_future_test(run->future[1]) == TC_PENDING) {
        struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
        uint64_t bytes =
            heal_world_stats(heal, 0).bytes_received + heal_world_stats(heal, 1).bytes_received;
        double now = now_s();

        longest = now - last > longest ? now - last : longest;
        last = bytes != seen ? now : last;
        seen = bytes;
        nanosleep(&pause, NULL);
    }
    return longest;
}

/* All connections are cut, again and again. */
static void cut_often(bool is_sealed)
{
    static const struct {
        size_t bytes;
        unsigned cuts;
    } by_effort[] = {{8 << 20, 10}, {32 << 20, 30}, {(size_t)1 << 30, 100}};
    size_t bytes = by_effort[test_effort()].bytes;
    unsigned cuts = by_effort[test_effort()].cuts;
    tc_config config = config_of(3, is_sealed);
    struct coll_case what = {.kind = COLL_ALLREDUCE,
                             .count = bytes / 4,
                             .dtype = TC_DTYPE_F32,
                             .op = TC_REDUCE_SUM,
                             .tag = 1};
    struct heal_world heal;
    struct coll_run run;
    double stall;

    heal_world_open(&heal, 2, &config, test_seed() + is_sealed);
    until_sides_stand(&heal, 2);
    coll_prepare(&run, &what, 2);
    cut_proxy_set(heal.proxy, bytes / cuts, cuts);
    for (int r = 0; r < 2; r++)
        coll_start(&run, heal.world.group[r], r);
    stall = longest_stall(&heal, &run);
    heal_world_finish(&heal, &run);
    print_message("%zu MiB over 3 %s connections: %u cuts, longest stall %.3f s\n", bytes >> 20,
                  is_sealed ? "sealed" : "plain", cut_proxy_cuts(heal.proxy), stall);
    assert_true(cut_proxy_cuts(heal.proxy) > cuts / 2);
    heal_world_close(&heal);
}

static void three_connections_are_cut_again_and_again(void **state)
{
    (void)state;
    cut_often(false);
}

static void the_same_of_sealed_ones(void **state)
{
    (void)state;
    cut_often(true);
}

/* What the requirement says of a machine that has time for it: under a second. */
static void one_of_two_stalls_nobody_for_long(void **state)
{
    size_t bytes = test_effort() == 2 ? 256 << 20 : test_effort() == 1 ? 16 << 20 : 4 << 20;
    double longest = 0;

    (void)state;
    for (unsigned i = 0; i < 4; i += test_effort() == 0 ? 3 : 1) {
        tc_config config = config_of(2, i >= 2);
        struct coll_case what = {.kind = COLL_ALLREDUCE,
                                 .count = bytes / 4,
                                 .dtype = TC_DTYPE_F32,
                                 .op = TC_REDUCE_SUM,
                                 .tag = 1};
        struct heal_world heal;
        struct coll_run run;
        double stall;

        heal_world_open(&heal, 2, &config, test_seed() + i);
        until_sides_stand(&heal, 1);
        coll_prepare(&run, &what, 2);
        cut_proxy_cut_after(heal.proxy, i % 2 == 0 ? 0 : cut_proxy_made(heal.proxy) - 1, bytes / 8);
        for (int r = 0; r < 2; r++)
            coll_start(&run, heal.world.group[r], r);
        stall = longest_stall(&heal, &run);
        longest = stall > longest ? stall : longest;
        heal_world_finish(&heal, &run);
        print_message("%s, the %s one of two cut: stall %.3f s\n", i >= 2 ? "sealed" : "plain",
                      i % 2 == 0 ? "main" : "other", stall);
        assert_int_equal(cut_proxy_cuts(heal.proxy), 1);
        heal_world_close(&heal);
    }
    assert_true(test_effort() < 2 || longest < 1);
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
        cmocka_unit_test(three_connections_are_cut_again_and_again),
        cmocka_unit_test(the_same_of_sealed_ones),
        cmocka_unit_test(one_of_two_stalls_nobody_for_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
