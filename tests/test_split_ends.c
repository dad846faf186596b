/* test_split_ends.c - sub-groups in trouble: members that are late, gone or lost, and liars. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/comm.h"
#include "core/mux.h"
#include "support/manual_world.h"

/* ---- Messages that are late ------------------------------------------------------------------ */

static void messages_to_a_group_that_is_gone_are_dropped(void **state)
{
    struct subgroups groups, again;
    uint8_t bytes[100] = {0};

    (void)state;
    manual_open(3, 0);
    for (int i = 0; i < 30; i++) {
        subgroups_pick(&groups, &manual_world, manual_world.group, 0x7);
        tc_future *send = tc_send_async(groups.group[0], 1, bytes, 100, TC_DTYPE_U8, 1, NULL);
        if (i % 3 == 0) {
            manual_settles(send, TC_OK, 0, NULL); /* nobody receives it, and it lies there */
            manual_turn_all(5);
            subgroups_finalize(&groups);
            assert_int_equal(manual_held_bytes(1), 0);
            continue;
        }
        manual_turn(0, 3);
        if (i % 3 == 1) {
            manual_turn(1, 3);
            assert_int_equal(tc_dist_close(groups.group[1]), TC_OK);
        } else {
            assert_int_equal(tc_dist_close(groups.group[1]), TC_OK);
            manual_turn(1, 3);
        }
        (void)world_wait(&manual_world, send); /* on its way, or taken back */
        tc_future_release(send);
        manual_turn_all(5);
        assert_int_equal(manual_held_bytes(1), 0);
        subgroups_pick(&again, &manual_world, manual_world.group, 0x7);
        subgroups_check(&again, 1); /* the same tag */
        subgroups_finalize(&again);
        assert_int_equal(manual_lost_rank(groups.group[0]), 1);
        assert_int_equal(manual_lost_rank(groups.group[2]), 1);
        tc_dist_close(groups.group[0]);
        tc_dist_close(groups.group[2]);
    }
    manual_close();
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* A group of some ranks, numbered from the last to the first. */
static void pick_backwards(struct subgroups *groups, int mask)
{
    int colors[WORLD_MAX], keys[WORLD_MAX];

    for (int r = 0; r < manual_world.size; r++) {
        colors[r] = (mask >> r & 1) != 0 ? 1 : -1;
        keys[r] = -r;
    }
    subgroups_split(groups, &manual_world, manual_world.group, colors, keys);
}

static void who_closes_one_group_stays_in_the_others(void **state)
{
    struct subgroups one, other;
    float data[4][2] = {{0}};
    tc_future *futures[4];

    (void)state;
    for (int closer = 1; closer < 4; closer++) {
        int lost = 3 - closer; /* its rank in the group that it closes */
        manual_open(4, 0);
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
            manual_settles(futures[r], TC_ERR_PEER_LOST, lost, "has closed the group");
            assert_int_equal(manual_lost_rank(one.group[r]), lost);
            tc_dist_ctx *none = NULL;
            manual_settles(tc_dist_split_async(one.group[r], 0, 0, &none), TC_ERR_PEER_LOST, lost,
                           NULL);
            assert_null(none);
            assert_int_equal(tc_dist_close(one.group[r]), TC_OK);
        }
        subgroups_check(&other, 8);
        subgroups_finalize(&other);
        manual_close();
    }
}

/* A process of its own, which ends without a word once it has split its group so often and is
 * told to. */
static pid_t start_rank_that_dies(const char *url, int size, int splits_before, const int told[2])
{
    pid_t pid = fork();
    tc_context *context;
    tc_dist_ctx *group, *some;
    bool is_well;
    char byte;

    if (pid != 0)
        return pid;
    close(told[1]); /* so that the end of the other process is the end of this one */
    is_well = tc_init(&context) == TC_OK &&
              tc_dist_init(context, TC_DIST_ANY, size, size - 1, url, &group) == TC_OK;
    for (int i = 0; is_well && i < splits_before; i++)
        is_well = tc_dist_split(group, i % 2 == 0 ? 1 : -1, 1 - size, &some) == TC_OK;
    is_well = is_well && read(told[0], &byte, 1) == 1;
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
    pid = start_rank_that_dies(url, 4, 4, tell);
    assert_true(pid > 0);
    manual_world = (struct world){.size = 3, .mode = TC_LOOP_MANUAL};
    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    for (int r = 0; r < 3; r++) {
        assert_int_equal(tc_init_config(&config, &manual_world.context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = 4;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(manual_world.context[r], &options, &manual_world.group[r]);
    }
    for (int r = 0; r < 3; r++)
        manual_settles(futures[r], TC_OK, 0, NULL);
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
        assert_int_equal(manual_lost_rank(groups[0].group[r]), 0);
        assert_int_equal(manual_lost_rank(manual_world.group[r]), 3);
        if (groups[2].group[r] != NULL)
            assert_int_equal(manual_lost_rank(groups[2].group[r]), 0);
    }
    subgroups_check(&groups[1], 5);
    subgroups_check(&groups[3], 5);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(tc_dist_close(groups[0].group[r]), TC_OK);
        assert_int_equal(tc_dist_close(groups[2].group[r]), TC_OK);
        assert_int_equal(tc_dist_close(manual_world.group[r]), TC_OK);
        manual_world.group[r] = NULL;
    }
    subgroups_check(&groups[1], 6);
    subgroups_finalize(&groups[1]);
    subgroups_finalize(&groups[3]);
    world_close(&manual_world);
}

/* ---- Splits that fail ------------------------------------------------------------------------ */

static void a_split_without_all_ranks_names_who_is_missing(void **state)
{
    tc_dist_ctx *out[3] = {NULL};
    tc_future *futures[3];
    struct subgroups groups;

    (void)state;
    manual_open(3, 300);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_dist_split_async(manual_world.group[r], 0, 0, &out[r]);
    for (int r = 0; r < 2; r++) {
        manual_settles(futures[r], TC_ERR_TIMEOUT, 2, "has not entered");
        assert_null(out[r]);
    }
    manual_settles(tc_dist_split_async(manual_world.group[2], 0, 0, &out[2]), TC_ERR_TIMEOUT, 2,
                   NULL);
    for (int r = 0; r < 3; r++)
        futures[r] = r == 1 ? NULL : tc_dist_split_async(manual_world.group[r], 0, 0, &out[r]);
    manual_turn_all(10);
    tc_future_cancel(futures[0]);
    manual_settles(futures[0], TC_ERR_CANCELLED, 0, NULL);
    manual_settles(futures[2], TC_ERR_CANCELLED, 0, NULL);
    manual_settles(tc_dist_split_async(manual_world.group[1], 0, 0, &out[1]), TC_ERR_CANCELLED, 0,
                   NULL);
    subgroups_pick(&groups, &manual_world, manual_world.group, 0x5);
    subgroups_check(&groups, 1);
    subgroups_finalize(&groups);
    manual_close();
}

static void bad_arguments_are_refused(void **state)
{
    tc_dist_ctx *out = NULL;

    (void)state;
    manual_open(1, 0);
    assert_int_equal(tc_dist_split(NULL, 0, 0, &out), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_dist_split(manual_world.group[0], 0, 0, NULL), TC_ERR_INVALID_ARG);
    assert_string_equal(tc_last_error()->operation, "dist_split");
    assert_int_equal(tc_dist_split(manual_world.group[0], -1, 0, &out), TC_OK);
    assert_null(out);
    assert_int_equal(tc_dist_split(manual_world.group[0], 7, 0, &out), TC_OK);
    assert_int_equal(tc_dist_finalize(out), TC_OK);
    manual_close();
}

/* A group closed while it is split: nobody is left waiting. */
static void closing_the_parent_ends_a_split_under_way(void **state)
{
    tc_dist_ctx *out[3] = {NULL};
    tc_future *futures[3];

    (void)state;
    manual_open(3, 0);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_dist_split_async(manual_world.group[r], 0, 0, &out[r]);
    manual_turn_all(20);
    assert_int_equal(tc_dist_close(manual_world.group[0]), TC_OK);
    manual_world.group[0] = NULL;
    manual_settles(futures[0], TC_ERR_CLOSED, 0, NULL);
    manual_settles(futures[1], TC_ERR_PEER_LOST, 0, NULL);
    manual_settles(tc_dist_split_async(manual_world.group[2], 0, 0, &out[2]), TC_ERR_PEER_LOST, 0,
                   NULL);
    for (int r = 1; r < 3; r++) {
        assert_int_equal(tc_dist_close(manual_world.group[r]), TC_OK);
        manual_world.group[r] = NULL;
    }
    manual_close();
}

/* After any number of turns: what the split has made, or was about to make, is closed too. */
static void a_shutdown_ends_a_split_under_way(void **state)
{
    unsigned made_before = 0, ended = 0;

    (void)state;
    for (int turns = 0; made_before < 2; turns++) {
        tc_dist_ctx *out[3] = {NULL};
        tc_future *futures[3];

        manual_open(3, 0);
        for (int r = 0; r < 3; r++)
            futures[r] = tc_dist_split_async(manual_world.group[r], r == 0 ? 1 : 2, 0, &out[r]);
        for (int i = 0; i < turns; i++)
            manual_turn(i % 3, 1);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(tc_shutdown(manual_world.context[r]), TC_OK);
            assert_int_not_equal(tc_future_test(futures[r]), TC_PENDING);
            manual_world.context[r] = NULL;
            manual_world.group[r] = NULL;
        }
        ended += tc_future_test(futures[0]) != TC_OK;
        made_before = out[0] != NULL && out[1] != NULL ? made_before + 1 : 0;
        for (int r = 0; r < 3; r++)
            tc_future_release(futures[r]);
        manual_close();
    }
    assert_true(ended > 0);
}

static void without_memory_a_split_fails_and_ends(void **state)
{
    tc_dist_ctx *out[3];
    tc_future *futures[3];
    unsigned well = 0;

    (void)state;
    for (uint64_t n = 1; well < 3; n += test_effort() == 0 ? 3 : 1) {
        manual_open(3, 150);
        memset(out, 0, sizeof(out));
        tci_alloc_fail_at(n, 0);
        for (int r = 0; r < 3; r++)
            futures[r] = tc_dist_split_async(manual_world.group[r], 0, r, &out[r]);
        for (int r = 0; r < 3; r++) {
            (void)world_wait(&manual_world, futures[r]);
            well = tc_future_test(futures[r]) == TC_OK ? well + 1 : 0;
            tc_future_release(futures[r]);
        }
        tci_alloc_fail_at(0, 0);
        for (int r = 0; r < 3; r++)
            if (out[r] != NULL && well < 3)
                assert_int_equal(tc_dist_close(out[r]), TC_OK);
        if (well == 3) {
            struct subgroups groups = {.world = &manual_world, .group = {out[0], out[1], out[2]}};
            subgroups_finalize(&groups);
        }
        for (int r = 0; r < 3; r++) {
            assert_int_equal(tc_dist_close(manual_world.group[r]), TC_OK);
            manual_world.group[r] = NULL;
        }
        manual_close();
    }
}

/* ---- Hostile numbers ------------------------------------------------------------------------- */

static void tell_wild_numbers(tc_future *future, void *arg)
{
    struct tci_mux *mux = tci_mux_of(tci_comm_of(manual_world.group[0])->transport);
    uint64_t random = 1;

    (void)future;
    *(bool *)arg = true;
    for (int i = 0; i < 3000; i++) {
        struct tci_notice notice = {.kind = (uint8_t)((random >> 40) % TCI_NOTICE_KINDS),
                                    .status = TC_ERR_TIMEOUT,
                                    .culprit = 1};

        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        notice.key.group = i % 3 == 0 ? random : i % 3 == 1 ? random >> 58 : random >> 32 << 32 | 2;
        if (notice.key.group != TCI_MUX_WORLD)
            mux->below->ops->notify(mux->below, 1, &notice, true);
    }
}

/* What was told before has been heard. */
static void meet_in_the_world(void)
{
    tc_future *futures[2];

    for (int r = 0; r < 2; r++)
        futures[r] = tc_barrier_async(manual_world.group[r], 9, NULL);
    for (int r = 0; r < 2; r++)
        manual_settles(futures[r], TC_OK, 0, NULL);
}

static void wild_numbers_do_no_harm(void **state)
{
    tc_future *promise;
    tc_dist_ctx *out[2];
    struct subgroups groups;

    (void)state;
    for (int splitting = 0; splitting < 2; splitting++) {
        tc_future *futures[2] = {NULL};
        bool has_told = false;
        manual_open(2, 0);
        promise = tc_promise_create(manual_world.context[0]);
        if (splitting) {
            futures[1] = tc_dist_split_async(manual_world.group[1], 0, 0, &out[1]);
            manual_turn(1, 10);
        }
        tc_future_then(promise, tell_wild_numbers, &has_told);
        assert_int_equal(tc_promise_settle(promise, TC_OK), TC_OK);
        while (!has_told)
            manual_turn(0, 1);
        meet_in_the_world();
        if (splitting) {
            futures[0] = tc_dist_split_async(manual_world.group[0], 0, 0, &out[0]);
            for (int r = 0; r < 2; r++)
                manual_settles(futures[r], TC_OK, 0, NULL);
            groups = (struct subgroups){.world = &manual_world, .group = {out[0], out[1]}};
            /* One number was guessed, perhaps, and blames rank 1. */
            for (int r = 0; r < 2; r++)
                assert_int_equal(tc_dist_close(groups.group[r]), TC_OK);
        }
        assert_int_equal(tci_mux_of(tci_comm_of(manual_world.group[1])->transport)->held_count, 0);
        subgroups_pick(&groups, &manual_world, manual_world.group, 3);
        subgroups_check(&groups, 1);
        subgroups_finalize(&groups);
        tc_future_release(promise);
        manual_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_to_a_group_that_is_gone_are_dropped),
        cmocka_unit_test(who_closes_one_group_stays_in_the_others),
        cmocka_unit_test(a_rank_that_dies_breaks_the_groups_that_it_was_in),
        cmocka_unit_test(a_split_without_all_ranks_names_who_is_missing),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(closing_the_parent_ends_a_split_under_way),
        cmocka_unit_test(a_shutdown_ends_a_split_under_way),
        cmocka_unit_test(without_memory_a_split_fails_and_ends),
        cmocka_unit_test(wild_numbers_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
