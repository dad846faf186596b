/* test_split_ends.c - sub-groups in trouble: members that are early, late, gone or lost. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
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

#include "core/alloc.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/mux.h"
#include "support/subgroups.h"

static struct world world;
static uint64_t live_before;

static void open_world(int size, int timeout_ms)
{
    tc_config config;

    live_before = tci_alloc_live();
    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    if (timeout_ms != 0)
        config.timeout_ms = timeout_ms;
    world_open(&world, size, &config);
}

static void close_world(void)
{
    world_close(&world);
    assert_int_equal(tci_alloc_live(), live_before);
}

static void turn(int rank, int times)
{
    for (int i = 0; i < times; i++)
        assert_int_equal(tc_poll(world.context[rank], 0), TC_OK);
}

static void turn_all(int times)
{
    for (int i = 0; i < times; i++)
        for (int r = 0; r < world.size; r++)
            if (world.context[r] != NULL)
                turn(r, 1);
}

static void settles(tc_future *future, tc_status_t status, int rank, const char *says)
{
    tc_status_t got = world_wait(&world, future);
    const tc_error *error = tc_future_error(future);

    if (got != status || (status != TC_OK && error->rank != rank) ||
        (says != NULL && strstr(error->message, says) == NULL))
        fail_msg("expected %s of rank %d, got %s: rank %d, %s", tc_status_string(status), rank,
                 tc_status_string(got), error == NULL ? -9 : error->rank,
                 error == NULL ? "no error" : error->message);
    tc_future_release(future);
}

/* Until the group has heard of a loss; gives the rank that is lost. */
static int lost_rank(tc_dist_ctx *group)
{
    int lost;

    while (tc_dist_health(group, &lost) == TC_OK)
        turn_all(1);
    assert_int_equal(tc_dist_health(group, NULL), TC_ERR_PEER_LOST);
    return lost;
}

static uint64_t held_bytes(int rank)
{
    struct tci_transport *transport = tci_comm_of(world.group[rank])->transport;
    struct tci_transport_stats stats;

    transport->ops->stats(transport, &stats);
    return stats.eager_bytes;
}

/* ---- Members that are early ------------------------------------------------------------------ */

/* Offers go round a ring.  Rank 0 gives its own and then stands still, so that rank 2, through
 * rank 1, learns all and has its group, while what rank 1 waits for lies with rank 0. */
enum { STILL, SLOW, FAST };
static tc_future *splits[3];
static tc_dist_ctx *made[3];

static void split_with_one_fast_member(void)
{
    memset(made, 0, sizeof(made));
    for (int r = 0; r < 3; r++) {
        if (r == FAST)
            for (int i = 0; i < 20; i++)
                for (int k = STILL; k <= SLOW; k++)
                    turn(k, 1);
        splits[r] = tc_dist_split_async(world.group[r], 0, -r, &made[r]);
    }
    while (tc_future_test(splits[FAST]) == TC_PENDING) {
        turn(FAST, 1);
        turn(SLOW, 1);
    }
    assert_int_equal(tc_future_test(splits[FAST]), TC_OK);
    assert_int_equal(tc_future_test(splits[SLOW]), TC_PENDING);
    assert_int_equal(tc_dist_rank(made[FAST]), 0);
}

static void the_others_follow(void)
{
    for (int r = 0; r < 3; r++)
        settles(splits[r], TC_OK, 0, NULL);
}

static void finalize_made(void)
{
    struct subgroups groups = {.world = &world};

    memcpy(groups.group, made, sizeof(made));
    subgroups_finalize(&groups);
}

static void messages_to_a_group_that_is_not_there_yet_are_kept(void **state)
{
    static uint8_t sent[300000], got[300000];
    static const size_t lens[] = {1, 1000, 300000};
    tc_future *sends[3];

    (void)state;
    open_world(3, 0);
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (uint8_t)(i * 7);
    split_with_one_fast_member();
    for (uint64_t t = 0; t < 3; t++)
        sends[t] = tc_send_async(made[FAST], t, sent, lens[t], TC_DTYPE_U8, 1, NULL);
    for (int i = 0; i < 50; i++) {
        turn(FAST, 1);
        turn(SLOW, 1);
    }
    assert_int_equal(tc_future_test(splits[SLOW]), TC_PENDING);
    assert_int_equal(held_bytes(SLOW), 1001); /* the last waits at its sender */
    the_others_follow();
    for (uint64_t t = 0; t < 3; t++) {
        settles(tc_recv_async(made[SLOW], t, got, lens[t], TC_DTYPE_U8, 0, NULL), TC_OK, 0, NULL);
        assert_memory_equal(sent, got, lens[t]);
        settles(sends[t], TC_OK, 0, NULL);
    }
    assert_int_equal(held_bytes(SLOW), 0);
    finalize_made();
    close_world();
}

/* More than the window of a link: the rest waits at the sender. */
static void a_flood_to_a_group_that_is_not_there_yet_is_bounded(void **state)
{
    enum { COUNT = 300, LEN = 50000, WINDOW = 4 << 20 };
    static uint8_t bytes[COUNT][LEN];
    tc_future *sends[COUNT], *recvs[COUNT];

    (void)state;
    open_world(3, 0);
    split_with_one_fast_member();
    for (int i = 0; i < COUNT; i++)
        sends[i] = tc_send_async(made[FAST], (uint64_t)i, bytes[i], LEN, TC_DTYPE_U8, 1, NULL);
    for (int i = 0; i < 500; i++) {
        turn(FAST, 1);
        turn(SLOW, 1);
    }
    assert_in_range(held_bytes(SLOW), WINDOW / 2, WINDOW);
    the_others_follow();
    for (int i = 0; i < COUNT; i++)
        recvs[i] = tc_recv_async(made[SLOW], (uint64_t)i, bytes[i], LEN, TC_DTYPE_U8, 0, NULL);
    for (int i = 0; i < COUNT; i++) {
        settles(sends[i], TC_OK, 0, NULL);
        settles(recvs[i], TC_OK, 0, NULL);
    }
    finalize_made();
    close_world();
}

static void calls_that_differ_are_found_before_the_group_is_there(void **state)
{
    float data[8] = {0};
    tc_future *first;

    (void)state;
    open_world(3, 0);
    split_with_one_fast_member();
    first = tc_broadcast_async(made[FAST], 3, data, 4, TC_DTYPE_F32, 0, NULL);
    for (int i = 0; i < 50; i++) {
        turn(FAST, 1);
        turn(SLOW, 1);
    }
    the_others_follow();
    tc_future *second =
        tc_allreduce_async(made[SLOW], 3, data, data + 4, 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    assert_int_equal(world_wait(&world, second), TC_ERR_MISMATCH);
    assert_non_null(strstr(tc_future_error(second)->message, "broadcast"));
    tc_future_release(second);
    (void)world_wait(&world, first); /* its data may have left before */
    tc_future_release(first);
    for (int r = 0; r < 3; r++)
        tc_dist_close(made[r]);
    close_world();
}

static void news_of_a_group_that_is_not_there_yet_are_kept(void **state)
{
    float data[4] = {0};

    (void)state;
    for (int closes = 0; closes < 2; closes++) {
        open_world(3, 0);
        split_with_one_fast_member();
        tc_future *future =
            tc_allreduce_async(made[FAST], 3, data, data, 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        turn(FAST, 5);
        if (closes)
            assert_int_equal(tc_dist_close(made[FAST]), TC_OK);
        else
            tc_future_cancel(future);
        for (int i = 0; i < 50; i++) {
            turn(FAST, 1);
            turn(SLOW, 1);
        }
        settles(future, closes ? TC_ERR_CLOSED : TC_ERR_CANCELLED, 0, NULL);
        the_others_follow();
        for (int r = STILL; r <= SLOW; r++) {
            if (closes)
                assert_int_equal(lost_rank(made[r]), 0);
            settles(
                tc_allreduce_async(made[r], 3, data, data, 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL),
                closes ? TC_ERR_PEER_LOST : TC_ERR_CANCELLED, 0, NULL);
            if (closes)
                assert_int_equal(tc_dist_close(made[r]), TC_OK);
        }
        if (!closes)
            finalize_made();
        for (int r = 0; r < 3; r++) /* the parent is well */
            assert_int_equal(tc_dist_health(world.group[r], NULL), TC_OK);
        close_world();
    }
}

/* ---- Messages that are late ------------------------------------------------------------------ */

static void messages_to_a_group_that_is_gone_are_dropped(void **state)
{
    struct subgroups groups, again;
    uint8_t bytes[100] = {0};

    (void)state;
    open_world(3, 0);
    for (int i = 0; i < 30; i++) {
        subgroups_pick(&groups, &world, world.group, 0x7);
        tc_future *send = tc_send_async(groups.group[0], 1, bytes, 100, TC_DTYPE_U8, 1, NULL);
        if (i % 3 == 0) {
            settles(send, TC_OK, 0, NULL); /* nobody receives it, and it lies there */
            turn_all(5);
            subgroups_finalize(&groups);
            assert_int_equal(held_bytes(1), 0);
            continue;
        }
        turn(0, 3);
        if (i % 3 == 1) {
            turn(1, 3);
            assert_int_equal(tc_dist_close(groups.group[1]), TC_OK);
        } else {
            assert_int_equal(tc_dist_close(groups.group[1]), TC_OK);
            turn(1, 3);
        }
        (void)world_wait(&world, send); /* on its way, or taken back */
        tc_future_release(send);
        turn_all(5);
        assert_int_equal(held_bytes(1), 0);
        subgroups_pick(&again, &world, world.group, 0x7);
        subgroups_check(&again, 1); /* the same tag */
        subgroups_finalize(&again);
        assert_int_equal(lost_rank(groups.group[0]), 1);
        assert_int_equal(lost_rank(groups.group[2]), 1);
        tc_dist_close(groups.group[0]);
        tc_dist_close(groups.group[2]);
    }
    close_world();
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* A group of some ranks, numbered from the last to the first. */
static void pick_backwards(struct subgroups *groups, int mask)
{
    int colors[WORLD_MAX], keys[WORLD_MAX];

    for (int r = 0; r < world.size; r++) {
        colors[r] = (mask >> r & 1) != 0 ? 1 : -1;
        keys[r] = -r;
    }
    subgroups_split(groups, &world, world.group, colors, keys);
}

static void who_closes_one_group_stays_in_the_others(void **state)
{
    struct subgroups one, other;
    float data[4][2] = {{0}};
    tc_future *futures[4];

    (void)state;
    for (int closer = 1; closer < 4; closer++) {
        int lost = 3 - closer; /* its rank in the group that it closes */
        open_world(4, 0);
        pick_backwards(&one, 0xe);
        pick_backwards(&other, 0xf);
        for (int r = 1; r < 4; r++)
            futures[r] = r == closer ? NULL
                                     : tc_allreduce_async(one.group[r], 8, data[r], data[r], 2,
                                                          TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        assert_int_equal(tc_dist_close(one.group[closer]), TC_OK);
        for (int r = 1; r < 4; r++) {
            if (r == closer)
                continue;
            settles(futures[r], TC_ERR_PEER_LOST, lost, "has closed the group");
            assert_int_equal(lost_rank(one.group[r]), lost);
            tc_dist_ctx *none = NULL;
            settles(tc_dist_split_async(one.group[r], 0, 0, &none), TC_ERR_PEER_LOST, lost, NULL);
            assert_null(none);
            assert_int_equal(tc_dist_close(one.group[r]), TC_OK);
        }
        subgroups_check(&other, 8);
        subgroups_finalize(&other);
        close_world();
    }
}

/* A process of its own, which ends without a word once it has split its group so often and is
 * told to. */
static pid_t start_rank_that_dies(const char *url, int size, int splits_before, int told)
{
    pid_t pid = fork();
    tc_context *context;
    tc_dist_ctx *group, *some;
    bool is_well;
    char byte;

    if (pid != 0)
        return pid;
    is_well = tc_init(&context) == TC_OK &&
              tc_dist_init(context, TC_DIST_ANY, size, size - 1, url, &group) == TC_OK;
    for (int i = 0; is_well && i < splits_before; i++)
        is_well = tc_dist_split(group, i % 2 == 0 ? 1 : -1, 1 - size, &some) == TC_OK;
    is_well = is_well && read(told, &byte, 1) == 1;
    _exit(is_well ? 0 : 1);
}

static void a_rank_that_dies_breaks_the_groups_that_it_was_in(void **state)
{
    struct subgroups groups[4];
    tc_future *futures[3];
    tc_dist_options options;
    tc_config config;
    char url[64];
    int fd = world_listen(url, sizeof(url)), status, tell[2];
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(tell), 0);
    pid = start_rank_that_dies(url, 4, 4, tell[0]);
    assert_true(pid > 0);
    world = (struct world){.size = 3, .mode = TC_LOOP_MANUAL};
    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    for (int r = 0; r < 3; r++) {
        assert_int_equal(tc_init_config(&config, &world.context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = 4;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(world.context[r], &options, &world.group[r]);
    }
    for (int r = 0; r < 3; r++)
        settles(futures[r], TC_OK, 0, NULL);
    pick_backwards(&groups[0], 0x7); /* with rank 3, as 0 */
    pick_backwards(&groups[1], 0x7);
    pick_backwards(&groups[2], 0x5); /* with rank 3 */
    pick_backwards(&groups[3], 0x6);
    assert_int_equal(write(tell[1], "x", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(tell[0]);
    close(tell[1]);
    assert_int_equal(status, 0);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(lost_rank(groups[0].group[r]), 0);
        assert_int_equal(lost_rank(world.group[r]), 3);
        if (groups[2].group[r] != NULL)
            assert_int_equal(lost_rank(groups[2].group[r]), 0);
    }
    subgroups_check(&groups[1], 5);
    subgroups_check(&groups[3], 5);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(tc_dist_close(groups[0].group[r]), TC_OK);
        assert_int_equal(tc_dist_close(groups[2].group[r]), TC_OK);
        assert_int_equal(tc_dist_close(world.group[r]), TC_OK);
        world.group[r] = NULL;
    }
    subgroups_check(&groups[1], 6);
    subgroups_finalize(&groups[1]);
    subgroups_finalize(&groups[3]);
    world_close(&world);
}

/* ---- Splits that fail ------------------------------------------------------------------------ */

static void a_split_without_all_ranks_names_who_is_missing(void **state)
{
    tc_dist_ctx *out[3] = {NULL};
    tc_future *futures[3];
    struct subgroups groups;

    (void)state;
    open_world(3, 300);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_dist_split_async(world.group[r], 0, 0, &out[r]);
    for (int r = 0; r < 2; r++) {
        settles(futures[r], TC_ERR_TIMEOUT, 2, "has not entered");
        assert_null(out[r]);
    }
    settles(tc_dist_split_async(world.group[2], 0, 0, &out[2]), TC_ERR_TIMEOUT, 2, NULL);
    for (int r = 0; r < 3; r++)
        futures[r] = r == 1 ? NULL : tc_dist_split_async(world.group[r], 0, 0, &out[r]);
    turn_all(10);
    tc_future_cancel(futures[0]);
    settles(futures[0], TC_ERR_CANCELLED, 0, NULL);
    settles(futures[2], TC_ERR_CANCELLED, 0, NULL);
    settles(tc_dist_split_async(world.group[1], 0, 0, &out[1]), TC_ERR_CANCELLED, 0, NULL);
    subgroups_pick(&groups, &world, world.group, 0x5);
    subgroups_check(&groups, 1);
    subgroups_finalize(&groups);
    close_world();
}

static void bad_arguments_are_refused(void **state)
{
    tc_dist_ctx *out = NULL;

    (void)state;
    open_world(1, 0);
    assert_int_equal(tc_dist_split(NULL, 0, 0, &out), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_split(world.group[0], 0, 0, NULL), TC_ERR_INVALID_ARG);
    assert_string_equal(tc_last_error()->operation, "dist_split");
    assert_int_equal(tc_dist_split(world.group[0], -1, 0, &out), TC_OK);
    assert_null(out);
    assert_int_equal(tc_dist_split(world.group[0], 7, 0, &out), TC_OK);
    assert_int_equal(tc_dist_finalize(out), TC_OK);
    close_world();
}

/* A group closed while it is split: nobody is left waiting. */
static void closing_the_parent_ends_a_split_under_way(void **state)
{
    tc_dist_ctx *out[3] = {NULL};
    tc_future *futures[3];

    (void)state;
    open_world(3, 0);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_dist_split_async(world.group[r], 0, 0, &out[r]);
    turn_all(20);
    assert_int_equal(tc_dist_close(world.group[0]), TC_OK);
    world.group[0] = NULL;
    settles(futures[0], TC_ERR_CLOSED, 0, NULL);
    settles(futures[1], TC_ERR_PEER_LOST, 0, NULL);
    settles(tc_dist_split_async(world.group[2], 0, 0, &out[2]), TC_ERR_PEER_LOST, 0, NULL);
    for (int r = 1; r < 3; r++) {
        assert_int_equal(tc_dist_close(world.group[r]), TC_OK);
        world.group[r] = NULL;
    }
    close_world();
}

static void without_memory_a_split_fails_and_ends(void **state)
{
    tc_dist_ctx *out[3];
    tc_future *futures[3];
    unsigned well = 0;

    (void)state;
    for (uint64_t n = 1; well < 3; n += test_effort() == 0 ? 3 : 1) {
        open_world(3, 150);
        memset(out, 0, sizeof(out));
        tci_alloc_fail_at(n, 0);
        for (int r = 0; r < 3; r++)
            futures[r] = tc_dist_split_async(world.group[r], 0, r, &out[r]);
        for (int r = 0; r < 3; r++) {
            (void)world_wait(&world, futures[r]);
            well = tc_future_test(futures[r]) == TC_OK ? well + 1 : 0;
            tc_future_release(futures[r]);
        }
        tci_alloc_fail_at(0, 0);
        for (int r = 0; r < 3; r++)
            if (out[r] != NULL && well < 3)
                assert_int_equal(tc_dist_close(out[r]), TC_OK);
        if (well == 3) {
            memcpy(made, out, sizeof(made));
            finalize_made();
        }
        for (int r = 0; r < 3; r++) {
            assert_int_equal(tc_dist_close(world.group[r]), TC_OK);
            world.group[r] = NULL;
        }
        close_world();
    }
}

/* ---- Hostile numbers ------------------------------------------------------------------------- */

static void tell_wild_numbers(tc_future *future, void *arg)
{
    struct tci_mux *mux = tci_mux_of(tci_comm_of(world.group[0])->transport);
    uint64_t random = 1;

    (void)future, (void)arg;
    for (int i = 0; i < 3000; i++) {
        struct tci_notice notice = {.kind = (uint8_t)(random >> 40 & 3), .culprit = 1};

        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        notice.key.group = i % 3 == 0 ? random : i % 3 == 1 ? random >> 58 : random >> 32 << 32 | 2;
        if (notice.key.group != TCI_MUX_WORLD)
            mux->below->ops->notify(mux->below, 1, &notice, true);
    }
}

static void wild_numbers_do_no_harm(void **state)
{
    tc_future *promise;
    tc_dist_ctx *out[2];
    struct subgroups groups;

    (void)state;
    for (int splitting = 0; splitting < 2; splitting++) {
        tc_future *futures[2] = {NULL};
        open_world(2, 0);
        promise = tc_promise_create(world.context[0]);
        if (splitting) {
            futures[1] = tc_dist_split_async(world.group[1], 0, 0, &out[1]);
            turn(1, 10);
        }
        tc_future_then(promise, tell_wild_numbers, NULL);
        assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
        for (int i = 0; i < 200; i++)
            turn_all(1);
        if (splitting) {
            futures[0] = tc_dist_split_async(world.group[0], 0, 0, &out[0]);
            for (int r = 0; r < 2; r++)
                settles(futures[r], TC_OK, 0, NULL);
            groups = (struct subgroups){.world = &world, .group = {out[0], out[1]}};
            /* One number was guessed, perhaps, and blames rank 1. */
            for (int r = 0; r < 2; r++)
                assert_int_equal(tc_dist_close(groups.group[r]), TC_OK);
        }
        assert_int_equal(tci_mux_of(tci_comm_of(world.group[1])->transport)->held_count, 0);
        subgroups_pick(&groups, &world, world.group, 3);
        subgroups_check(&groups, 1);
        subgroups_finalize(&groups);
        tc_future_release(promise);
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_to_a_group_that_is_not_there_yet_are_kept),
        cmocka_unit_test(a_flood_to_a_group_that_is_not_there_yet_is_bounded),
        cmocka_unit_test(calls_that_differ_are_found_before_the_group_is_there),
        cmocka_unit_test(news_of_a_group_that_is_not_there_yet_are_kept),
        cmocka_unit_test(messages_to_a_group_that_is_gone_are_dropped),
        cmocka_unit_test(who_closes_one_group_stays_in_the_others),
        cmocka_unit_test(a_rank_that_dies_breaks_the_groups_that_it_was_in),
        cmocka_unit_test(a_split_without_all_ranks_names_who_is_missing),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(closing_the_parent_ends_a_split_under_way),
        cmocka_unit_test(without_memory_a_split_fails_and_ends),
        cmocka_unit_test(wild_numbers_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
