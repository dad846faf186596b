/* test_tcdump.c - tcdump names who is at fault, from the traces of real processes. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libcjson */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "support/tool_run.h"
#include "support/traced_ranks.h"

#define TCDUMP(...) ((const char *const[]){"tcdump", __VA_ARGS__, NULL})

enum { FOUND = 1 };

/* ---- Asking --------------------------------------------------------------------------------- */

/* What tcdump says of a folder, as JSON, of waits that are young, too; the caller deletes. */
static cJSON *ask(const char *dir, int exit_code)
{
    struct tool_run run;
    cJSON *root;

    tool_start(&run, NULL, TCDUMP("--wait", "0", "--json", "-", dir));
    tool_finish(&run);
    if (run.exit_code != exit_code)
        fail_msg("exit code %d\n%s\n%s", run.exit_code, run.out.data, run.err.data);
    root = cJSON_Parse(run.out.data);
    assert_non_null(root);
    tool_close(&run);
    return root;
}

static int number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    assert_true(cJSON_IsNumber(item));
    return item->valueint;
}

static double value_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));

    assert_non_null(text);
    return text;
}

/* The first finding of a kind, or NULL. */
static const cJSON *finding_of(const cJSON *root, const char *kind)
{
    const cJSON *finding;

    cJSON_ArrayForEach(finding, cJSON_GetObjectItem(root, "findings"))
    {
        if (strcmp(text_of(finding, "kind"), kind) == 0)
            return finding;
    }
    return NULL;
}

static const cJSON *must_find(const cJSON *root, const char *kind)
{
    const cJSON *finding = finding_of(root, kind);

    if (finding == NULL)
        fail_msg("no finding \"%s\" in %s", kind, cJSON_Print(root));
    return finding;
}

static void must_say(const cJSON *finding, const char *part)
{
    if (strstr(text_of(finding, "text"), part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, text_of(finding, "text"));
}

/* ---- Late ----------------------------------------------------------------------------------- */

static void all_reduce(struct traced_rank *self, uint64_t tag)
{
    float data[256] = {1};

    traced_wait(self, tc_allreduce_async(self->group, tag, data, data, 256, TC_DTYPE_F32,
                                         TC_REDUCE_SUM, NULL));
}

static void rank_2_is_late(struct traced_rank *self)
{
    struct timespec late = {.tv_nsec = 200000000};

    for (uint64_t tag = 1; tag <= 20; tag++) {
        if (tag == 10 && self->rank == 2)
            nanosleep(&late, NULL);
        all_reduce(self, tag);
    }
}

static void a_rank_that_is_late_by_200_ms_is_named(void **state)
{
    struct traced_ranks ranks;
    const cJSON *late;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 4);
    traced_start(&ranks, rank_2_is_late, false);
    traced_await(&ranks, false);
    root = ask(ranks.dir, FOUND);

    late = must_find(root, "late");
    assert_int_equal(number_of(late, "rank"), 2);
    assert_true(value_of(late, "ns") > 100e6);
    must_say(late, "rank 2 is late");
    assert_null(finding_of(root, "gone"));
    assert_null(finding_of(root, "missing"));
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* All calls are in flight at once: all that rank 2 makes after its sleep are late. */
static void rank_2_sleeps_before_903(struct traced_rank *self)
{
    static float data[100][64];
    struct timespec late = {.tv_nsec = 200000000};
    tc_future *futures[100];

    all_reduce(self, 1);
    for (uint64_t i = 0; i < 100; i++) {
        if (i == 23 && self->rank == 2)
            nanosleep(&late, NULL);
        futures[i] = tc_allreduce_async(self->group, 880 + i, data[i], data[i], 64, TC_DTYPE_F32,
                                        TC_REDUCE_SUM, NULL);
    }
    for (int i = 0; i < 100; i++)
        traced_wait(self, futures[i]);
}

static void of_many_late_calls_the_first_is_named(void **state)
{
    struct traced_ranks ranks;
    const cJSON *late;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 4);
    traced_start(&ranks, rank_2_sleeps_before_903, false);
    traced_await(&ranks, false);
    root = ask(ranks.dir, FOUND);

    late = must_find(root, "late");
    assert_int_equal(number_of(late, "rank"), 2);
    assert_string_equal(text_of(late, "tag"), "903");
    must_say(late, "most from allreduce tag 903 on");
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* ---- Missing, and killed -------------------------------------------------------------------- */

static float kept[1024]; /* of what is still in flight */

static void rank_2_does_not_come(struct traced_rank *self)
{
    all_reduce(self, 6);
    if (self->rank == 2)
        return;
    (void)tc_allreduce_async(self->group, 7, kept, kept, 1024, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    traced_entered(self, 2);
}

static void a_missing_call_is_named_and_so_is_who_was_killed(void **state)
{
    struct traced_ranks ranks;
    const cJSON *found;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 4);
    traced_start(&ranks, rank_2_does_not_come, true);
    traced_await(&ranks, true);
    for (int r = 0; r < 4; r++)
        kill(ranks.pids[r], r == 1 ? SIGKILL : SIGSTOP); /* nobody hears of it in time */
    waitpid(ranks.pids[1], NULL, 0);
    ranks.pids[1] = 0;
    root = ask(ranks.dir, FOUND);

    found = must_find(root, "missing");
    assert_int_equal(number_of(found, "rank"), 2);
    assert_string_equal(text_of(found, "operation"), "allreduce");
    assert_string_equal(text_of(found, "tag"), "7");
    must_say(found, "rank 2 never entered allreduce tag 7 (1024 x f32, sum)");
    must_say(found, "it entered allreduce tag 6 last");
    found = must_find(root, "gone");
    assert_int_equal(number_of(found, "rank"), 1);
    must_say(found, "allreduce tag 7 last");
    must_say(found, "still in it");
    assert_null(finding_of(root, "cycle"));
    cJSON_Delete(root);
    traced_fini(&ranks);
}

static void rank_3_is_killed(struct traced_rank *self)
{
    tc_future *future;

    if (self->rank == 3) {
        if (write(self->out, "+", 1) == 1)
            raise(SIGKILL);
    }
    future =
        tc_allreduce_async(self->group, 7, kept, kept, 1024, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    (void)tc_future_wait(future, -1);
    tc_future_release(future);
}

static void ranks_whose_group_is_broken_are_told_together(void **state)
{
    struct traced_ranks ranks;
    const cJSON *found;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 4);
    traced_start(&ranks, rank_3_is_killed, true);
    traced_await(&ranks, true);
    root = ask(ranks.dir, FOUND);

    found = must_find(root, "failed");
    must_say(found, "the group of ranks 0, 1, 2 is broken (peer_lost): rank 3 has closed");
    must_say(found->next, "allreduce tag 7 ");
    must_say(found->next, "failed on ranks 0, 1, 2 (peer_lost); rank 3 is blamed");
    assert_null(found->next->next);
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* ---- Circles -------------------------------------------------------------------------------- */

/* A then B against B then A: each waits in its first. */
static void two_orders(struct traced_rank *self)
{
    all_reduce(self, 5);
    if (self->rank == 2)
        return;
    (void)tc_allreduce_async(self->group, self->rank == 0 ? 1 : 2, kept, kept, 64, TC_DTYPE_F32,
                             TC_REDUCE_SUM, NULL);
    traced_entered(self, 2);
}

static void a_then_b_against_b_then_a_is_a_circle(void **state)
{
    struct traced_ranks ranks;
    const cJSON *found;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, two_orders, true);
    traced_await(&ranks, true);
    root = ask(ranks.dir, FOUND);

    found = must_find(root, "cycle");
    must_say(found, "rank 0 waits in allreduce tag 1 for rank 1");
    must_say(found, "rank 1 waits in allreduce tag 2 for rank 0");
    assert_null(finding_of(root, "missing"));
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* Each misses what the other waits in, but one after the other, until a deadline. */
static void two_misses(struct traced_rank *self)
{
    tc_options options;

    tc_options_default(&options);
    options.timeout_ms = 300;
    for (int r = 0; r < 2; r++) {
        if (self->rank == r) {
            tc_future *future = tc_allreduce_async(self->group, 10 + (uint64_t)r, kept, kept, 64,
                                                   TC_DTYPE_F32, TC_REDUCE_SUM, &options);

            (void)tc_future_wait(future, -1);
            tc_future_release(future);
        }
        all_reduce(self, 5 + (uint64_t)r);
    }
}

static void calls_that_were_missed_one_after_the_other_are_no_circle(void **state)
{
    struct traced_ranks ranks;
    const cJSON *found;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, two_misses, true);
    traced_await(&ranks, true);
    root = ask(ranks.dir, FOUND);

    assert_null(finding_of(root, "cycle"));
    found = must_find(root, "missing");
    must_say(found, number_of(found, "rank") == 0 ? "rank 0 never entered allreduce tag 11"
                                                  : "rank 1 never entered allreduce tag 10");
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* An ordered call that one rank leaves out: the last of the others is the one without a partner. */
static void rank_1_leaves_one_out(struct traced_rank *self)
{
    for (int i = 0; i < 3; i++) {
        tc_future *future;

        if (self->rank == 1 && i == 0)
            continue;
        future = tc_allreduce_async(self->group, TC_TAG_ORDERED, kept, kept, 64, TC_DTYPE_F32,
                                    TC_REDUCE_SUM, NULL);
        if (self->rank == 1 || i < 2)
            traced_wait(self, future);
    }
    traced_entered(self, self->rank == 0 ? 3 : 2);
}

static void an_ordered_call_that_was_left_out_is_told_of(void **state)
{
    struct traced_ranks ranks;
    const cJSON *found;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, rank_1_leaves_one_out, true);
    traced_await(&ranks, true);
    root = ask(ranks.dir, FOUND);

    found = must_find(root, "missing");
    must_say(found, "rank 1 never entered allreduce, ordered call 2");
    must_say(found, "it may have left out an earlier one");
    assert_null(finding_of(root, "cycle"));
    assert_null(finding_of(root, "mismatch"));
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* A then B against B then A in ordered calls of two groups, whose numbers are their own. */
static void two_orders_in_groups(struct traced_rank *self)
{
    tc_dist_ctx *groups[2];
    tc_stats stats;

    for (int g = 0; g < 2; g++)
        traced_wait(self, tc_dist_split_async(self->group, 0, 0, &groups[g]));
    tc_context_stats(self->context, TC_STATS_ABI_VERSION, &stats);
    (void)tc_allreduce_async(groups[self->rank == 0], TC_TAG_ORDERED, kept, kept, 64, TC_DTYPE_F32,
                             TC_REDUCE_SUM, NULL);
    traced_entered(self, stats.operations_begun + 1);
}

static void ordered_calls_of_two_groups_make_a_circle(void **state)
{
    struct traced_ranks ranks;
    const cJSON *found;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, two_orders_in_groups, true);
    traced_await(&ranks, true);
    root = ask(ranks.dir, FOUND);

    found = must_find(root, "cycle");
    must_say(found, "rank 0 waits in allreduce, ordered call 0 of group ");
    must_say(found, " for rank 1");
    must_say(found, "rank 1 waits in allreduce, ordered call 0 of group ");
    must_say(found, " for rank 0");
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* Within one group the calls themselves differ; the library fails them, and the trace says why. */
static void two_orders_in_one_group(struct traced_rank *self)
{
    for (int i = 0; i < 2; i++) {
        bool is_sum = (i == 0) == (self->rank == 0);
        tc_future *future = is_sum ? tc_allreduce_async(self->group, TC_TAG_ORDERED, kept, kept, 64,
                                                        TC_DTYPE_F32, TC_REDUCE_SUM, NULL)
                                   : tc_broadcast_async(self->group, TC_TAG_ORDERED, kept, 64,
                                                        TC_DTYPE_F32, 0, NULL);

        (void)tc_future_wait(future, -1);
        tc_future_release(future);
    }
}

static void ordered_calls_in_two_orders_are_told_as_such(void **state)
{
    struct traced_ranks ranks;
    const cJSON *found;
    cJSON *root;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, two_orders_in_one_group, true);
    traced_await(&ranks, true);
    root = ask(ranks.dir, FOUND);

    found = must_find(root, "mismatch");
    must_say(found, "broadcast, ordered call");
    must_say(found, "allreduce, ordered call");
    must_say(found, "the two ranks make them in different orders");
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* ---- A slow link ---------------------------------------------------------------------------- */

enum { SLOW_MS = 60 };

/* Carries bytes both ways, each piece some time later; ends with either side. */
_Noreturn static void relay(int a, int b)
{
    char piece[65536];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int turn = 0;; turn++) {
        int from = turn % 2 == 0 ? a : b, to = turn % 2 == 0 ? b : a;
        struct timespec nap = {.tv_nsec = SLOW_MS * 1000000 / 2};
        ssize_t len = recv(from, piece, sizeof(piece), MSG_DONTWAIT);

        nanosleep(&nap, NULL);
        if (len == 0)
            _exit(0);
        for (ssize_t done = 0; done < len;) {
            ssize_t more = send(to, piece + done, (size_t)(len - done), MSG_NOSIGNAL);

            if (more < 0)
                _exit(0);
            done += more;
        }
    }
}

static void pair_up(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

static void everybody_to_everybody(struct traced_rank *self)
{
    float mine[3 * 16] = {1}, theirs[3 * 16];
    tc_options options;

    tc_options_default(&options);
    options.algorithm = "pairwise";
    for (uint64_t tag = 1; tag <= 12; tag++)
        traced_wait(self,
                    tc_alltoall_async(self->group, tag, mine, theirs, 16, TC_DTYPE_F32, &options));
}

static void a_slow_link_is_named(void **state)
{
    /* 0 - 1, 0 - 2, and 1 - relay - 2 */
    int near[2], far[2], one[2], two[2];
    char urls[3][32];
    struct traced_ranks ranks;
    const cJSON *slow;
    pid_t between;
    cJSON *root;
    int from, to;

    (void)state;
    setenv("TCDIST_SHM", "0", 1); /* which would go round the relay */
    pair_up(near);
    pair_up(far);
    pair_up(one);
    pair_up(two);
    between = fork();
    assert_true(between >= 0);
    if (between == 0)
        relay(one[1], two[1]);
    close(one[1]);
    close(two[1]);
    traced_init(&ranks, 3);
    snprintf(urls[0], sizeof(urls[0]), "fd://-,%d,%d", near[0], far[0]);
    snprintf(urls[1], sizeof(urls[1]), "fd://%d,-,%d", near[1], one[0]);
    snprintf(urls[2], sizeof(urls[2]), "fd://%d,%d,-", far[1], two[0]);
    for (int r = 0; r < 3; r++)
        ranks.urls[r] = urls[r];
    traced_start(&ranks, everybody_to_everybody, true);
    traced_await(&ranks, true);
    root = ask(ranks.dir, FOUND);

    slow = must_find(root, "slow-link");
    from = number_of(slow, "rank");
    to = number_of(slow, "peer");
    assert_true((from == 1 && to == 2) || (from == 2 && to == 1));
    must_say(slow, "is slow: a message takes");
    cJSON_Delete(root);
    traced_fini(&ranks);
    kill(between, SIGKILL);
    waitpid(between, NULL, 0);
    close(near[0]);
    close(near[1]);
    close(far[0]);
    close(far[1]);
    close(one[0]);
    close(two[0]);
    unsetenv("TCDIST_SHM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_late_by_200_ms_is_named),
        cmocka_unit_test(of_many_late_calls_the_first_is_named),
        cmocka_unit_test(a_missing_call_is_named_and_so_is_who_was_killed),
        cmocka_unit_test(ranks_whose_group_is_broken_are_told_together),
        cmocka_unit_test(a_then_b_against_b_then_a_is_a_circle),
        cmocka_unit_test(calls_that_were_missed_one_after_the_other_are_no_circle),
        cmocka_unit_test(an_ordered_call_that_was_left_out_is_told_of),
        cmocka_unit_test(ordered_calls_of_two_groups_make_a_circle),
        cmocka_unit_test(ordered_calls_in_two_orders_are_told_as_such),
        cmocka_unit_test(a_slow_link_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
