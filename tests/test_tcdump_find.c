/* test_tcdump_find.c - what tcdump says of waits and of late ranks, from made-up traces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/transport.h"
#include "report.h"
#include "tcdist/status.h"

enum { RANKS = 4, CALLS_MAX = 512, SEEN_MS = 10000 };

static struct trace_file files[RANKS];
static struct process processes[RANKS];
static int32_t process_of[RANKS];
static struct group group;
static struct call calls[CALLS_MAX];
static struct job job;
static struct found found;

static const struct limits limits = {.late_ns = 50000000,
                                     .slow_ratio = 4,
                                     .slow_ns = 1000000,
                                     .stalled_ns = 1000000000,
                                     .wait_ns = 1000000000};

static int64_t ms(double time)
{
    return (int64_t)(time * 1e6);
}

/* Ranks that run, of one group, without calls yet. */
static void start(uint32_t ranks)
{
    group = (struct group){.number = 1, .size = ranks, .process_of = process_of};
    job = (struct job){.processes = processes,
                       .process_count = ranks,
                       .groups = &group,
                       .group_count = 1,
                       .calls = calls,
                       .seen_ns = ms(SEEN_MS)};
    for (uint32_t p = 0; p < ranks; p++) {
        files[p] = (struct trace_file){
            .is_here = true, .is_alive = true, .seen_ns = (uint64_t)ms(SEEN_MS)};
        files[p].view.loop_ns = files[p].seen_ns;
        processes[p] = (struct process){
            .file = &files[p], .rank = p, .seen_ns = ms(SEEN_MS), .marked_ns = INT64_MIN};
        process_of[p] = (int32_t)p;
    }
}

/* A rank is in flight in an all-reduce since then.  Calls are added by tag, then rank. */
static struct call *enters(uint64_t tag, uint32_t rank, double at_ms)
{
    struct call *call = &calls[job.call_count++];

    assert_true(job.call_count <= CALLS_MAX);
    *call = (struct call){.space = TCI_SPACE_TAGGED,
                          .use = 1,
                          .tag = tag,
                          .low = -1,
                          .high = -1,
                          .process = rank,
                          .begin_ns = ms(at_ms),
                          .entered_ns = ms(at_ms),
                          .culprit = -1,
                          .state = CALL_RUNS,
                          .name = "allreduce"};
    return call;
}

static void look(void)
{
    assert_true(find_all(&found, &job, &limits));
}

/* The report in words; the caller frees. */
static char *report(void)
{
    size_t len;
    char *text;
    FILE *file = open_memstream(&text, &len);

    assert_non_null(file);
    report_print(&found, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void must_report(const char *part)
{
    char *text = report();

    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in\n%s", part, text);
    free(text);
}

static const struct finding *finding_of(enum finding_kind kind)
{
    for (size_t i = 0; i < found.finding_count; i++)
        if (found.findings[i].kind == kind)
            return &found.findings[i];
    return NULL;
}

/* ---- Waits of ranks that run ----------------------------------------------------------------- */

static void wait_for_rank_3(double since_ms)
{
    start(RANKS);
    for (uint32_t rank = 0; rank < 3; rank++)
        enters(7, rank, since_ms);
    look();
}

static void a_short_wait_for_a_rank_that_runs_is_not_told(void **state)
{
    (void)state;
    wait_for_rank_3(SEEN_MS - 5);
    assert_int_equal(found.finding_count, 0);
    assert_int_equal(found.edge_count, 3); /* what is in flight says so */
    find_fini(&found);

    wait_for_rank_3(SEEN_MS - 1500);
    assert_int_equal(found.finding_count, 1);
    assert_int_equal(finding_of(FIND_MISSING)->process, 3);
    find_fini(&found);
}

/* The rank that is waited for was looked at before the others came. */
static void what_was_called_after_a_trace_was_read_is_no_wait(void **state)
{
    (void)state;
    start(RANKS);
    processes[3].seen_ns = ms(SEEN_MS - 10);
    for (uint32_t rank = 0; rank < 3; rank++)
        enters(7, rank, SEEN_MS - 5);
    look();
    assert_int_equal(found.finding_count, 0);
    assert_int_equal(found.edge_count, 0);
    find_fini(&found);
}

/* Called long ago, to start after a future that was there only now. */
static void a_wait_begins_when_the_futures_before_it_are_there(void **state)
{
    (void)state;
    start(2);
    enters(7, 0, 1000)->ran_ns = ms(SEEN_MS - 5);
    look();
    assert_int_equal(found.finding_count, 0);
    find_fini(&found);
}

static void who_has_ended_or_is_gone_is_told_of_at_once(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        start(2);
        files[1].is_alive = false;
        if (way == 0)
            files[1].view.ended_ns = (uint64_t)ms(SEEN_MS - 5);
        processes[1].seen_ns = ms(SEEN_MS - 5);
        enters(7, 0, SEEN_MS - 2);
        look();
        assert_non_null(finding_of(FIND_MISSING));
        assert_int_equal(finding_of(FIND_MISSING)->process, 1);
        find_fini(&found);
    }
}

static void a_circle_of_short_waits_is_none(void **state)
{
    (void)state;
    start(2);
    enters(1, 0, SEEN_MS - 3);
    enters(2, 1, SEEN_MS - 2000);
    look();
    assert_null(finding_of(FIND_CYCLE));
    assert_non_null(finding_of(FIND_MISSING)); /* in tag 2 */
    assert_int_equal(finding_of(FIND_MISSING)->process, 0);
    find_fini(&found);

    start(2);
    enters(1, 0, SEEN_MS - 1800);
    enters(2, 1, SEEN_MS - 2000);
    look();
    assert_non_null(finding_of(FIND_CYCLE));
    assert_int_equal(found.finding_count, 1);
    find_fini(&found);
}

/* Rank 3 goes on to tag 1000 without 903. */
static void a_call_that_was_left_out_is_told_beside_the_circle(void **state)
{
    (void)state;
    start(RANKS);
    for (uint32_t rank = 0; rank < 3; rank++)
        enters(903, rank, 1000);
    enters(1000, 3, 1000);
    look();
    assert_int_equal(found.finding_count, 1);
    assert_int_equal(found.findings[0].kind, FIND_CYCLE);
    assert_int_equal(found.findings[0].process, 3);
    assert_int_equal(calls[found.findings[0].call].tag, 903);
    assert_non_null(strstr(found.findings[0].text, "; or rank 3 has left out allreduce tag 903"));
    find_fini(&found);
}

static void two_against_two_have_left_out_nothing(void **state)
{
    (void)state;
    start(RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        enters(rank < 2 ? 1000 : 2000, rank, 1000);
    look();
    assert_int_equal(found.finding_count, 1);
    assert_int_equal(found.findings[0].kind, FIND_CYCLE);
    assert_null(strstr(found.findings[0].text, "left out"));
    find_fini(&found);
}

/* ---- Late ranks ------------------------------------------------------------------------------ */

/* An all-reduce to which each rank has come, and which is over. */
static void is_over(uint64_t tag, double others_ms, double rank_2_ms)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct call *call = enters(tag, rank, rank == 2 ? rank_2_ms : others_ms);

        call->state = CALL_ENDED;
        call->end_ns = ms(rank_2_ms > others_ms ? rank_2_ms : others_ms) + 1000;
    }
}

/* Rank 2 sleeps before tag 903, while the others have all calls in flight. */
static void one_delay_of_many_calls_in_flight_counts_once(void **state)
{
    const struct lateness *late;

    (void)state;
    start(RANKS);
    for (uint64_t tag = 900; tag < 960; tag++)
        is_over(tag, 1000 + 0.01 * (double)(tag - 900),
                (tag < 903 ? 1000.03 : 1200) + 0.01 * (double)(tag - 900));
    is_over(1000, 2000, 2010);
    look();
    late = &found.lateness[2];
    assert_int_equal(late->lasts, 61);
    assert_in_range(late->total_ns, ms(210), ms(211));
    assert_int_equal(calls[late->most_call].tag, 903);
    assert_int_equal(found.finding_count, 1);
    assert_int_equal(found.findings[0].process, 2);
    assert_non_null(
        strstr(found.findings[0].text, "last in 61 of 61 collectives, by 211 ms in all"));
    assert_non_null(strstr(found.findings[0].text, "most from allreduce tag 903 on, by 200 ms"));
    find_fini(&found);
}

static void a_delay_of_one_call_names_that(void **state)
{
    (void)state;
    start(RANKS);
    is_over(900, 1000, 1200);
    is_over(901, 1300, 1300);
    look();
    assert_non_null(strstr(found.findings[0].text, "most in allreduce tag 900, by 200 ms"));
    find_fini(&found);
}

static void uncounted_uses_are_compared_where_each_rank_has_one(void **state)
{
    (void)state;
    start(RANKS);
    is_over(70000, 1000, 1200);
    is_over(70001, 1300, 1300);
    for (size_t i = 0; i < job.call_count; i++)
        calls[i].use = 0;
    look();
    assert_int_equal(found.lateness[2].calls, 2);
    assert_int_equal(found.not_compared, 0);
    assert_int_equal(finding_of(FIND_LATE)->process, 2);
    assert_int_equal(found.finding_count, 1);
    find_fini(&found);
}

/* Twice on each rank; and two of which one was over before the other was begun. */
static void uncounted_uses_that_may_be_others_are_counted_alone(void **state)
{
    (void)state;
    start(2);
    for (uint32_t rank = 0; rank < 2; rank++)
        for (int use = 0; use < 3; use++) {
            struct call *call = enters(70000, rank, 1000 + 200 * use + 100 * (double)rank);

            call->state = CALL_ENDED;
            call->end_ns = call->begin_ns + ms(10);
            call->use = 0;
        }
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct call *call = enters(70001, rank, 3000 + 100 * (double)rank);

        call->state = CALL_ENDED;
        call->end_ns = call->begin_ns + ms(10);
        call->use = 0;
    }
    look();
    assert_int_equal(found.lateness[0].calls, 0);
    assert_int_equal(found.finding_count, 0);
    assert_int_equal(found.not_compared, 4);
    must_report("4 collectives could not be compared between ranks");
    find_fini(&found);
}

/* ---- In words -------------------------------------------------------------------------------- */

static void awaits(struct call *call, int32_t rank, bool is_send)
{
    call->live.waits[call->live.waits_count] = rank;
    call->live.is_send[call->live.waits_count++] = is_send;
    call->live.receives += !is_send;
    call->live.sends += is_send;
}

static void ranks_that_wait_alike_are_told_together(void **state)
{
    (void)state;
    start(RANKS);
    for (uint32_t rank = 0; rank < 3; rank++)
        awaits(enters(42, rank, 7060), 3, false);
    look();
    must_report("\n  allreduce tag 42: in it ranks 0, 1, 2\n"
                "    ranks 0, 1, 2 for 2.94 s: for rank 3, which has not entered it\n");
    must_report(
        "\n  missing    rank 3 never entered allreduce tag 42: ranks 0, 1, 2 wait for it for "
        "2.94 s; it has not\n             entered anything that its trace has kept\n");
    find_fini(&found);
}

static void each_rank_is_named_once_and_in_order(void **state)
{
    struct call *call;

    (void)state;
    start(RANKS);
    call = enters(42, 1, 7000);
    awaits(call, 3, false);
    awaits(call, 2, true);
    awaits(call, 2, false);
    awaits(call, 0, false);
    awaits(call, 3, false);
    awaits(enters(42, 2, 7000), 1, false);
    look();
    must_report("allreduce tag 42: in it ranks 1, 2\n"
                "    rank 1 for 3.00 s: for ranks 0, 3, which have not entered it, for rank 2, to "
                "send to rank 2\n"
                "    rank 2 for 3.00 s: for rank 1; ranks 0, 3 have not entered it\n");
    find_fini(&found);
}

static void one_other_is_no_others(void **state)
{
    (void)state;
    start(2);
    enters(1, 0, 1000);
    enters(2, 0, 2000);
    look();
    assert_non_null(strstr(found.findings[0].text, ", nor 1 other that is waited for: rank 0"));
    find_fini(&found);

    start(2);
    enters(1, 0, 1000);
    enters(2, 0, 2000);
    enters(3, 0, 2000);
    look();
    assert_non_null(strstr(found.findings[0].text, ", nor 2 others that are waited for: rank 0"));
    find_fini(&found);
}

static void of_many_failed_operations_the_rest_is_counted(void **state)
{
    (void)state;
    start(2);
    for (uint64_t tag = 1; tag <= 64; tag++)
        for (uint32_t rank = 0; rank < 2; rank++) {
            struct call *call = enters(tag, rank, 1000);

            call->state = CALL_ENDED;
            call->end_ns = ms(1100);
            call->status = TC_ERR_PEER_LOST;
        }
    look();
    assert_int_equal(found.finding_count, 8);
    assert_int_equal(found.failed_more, 56);
    must_report("\n  failed     allreduce tag 1 failed on ranks 0, 1 (");
    must_report("\n  failed     and 56 operations more\n");
    find_fini(&found);
}

static void of_many_ranks_that_failed_the_rest_is_counted(void **state)
{
    (void)state;
    start(RANKS);
    for (uint32_t i = 0; i < 10; i++) { /* as of ten ranks */
        struct call *call = enters(1, i % RANKS, 1000);

        call->state = CALL_ENDED;
        call->end_ns = ms(1100);
        call->status = TC_ERR_PEER_LOST;
    }
    look();
    must_report("allreduce tag 1 failed on ranks 0, 1, 2, 3, 0, 1, 2, 3 and 2 more (");
    find_fini(&found);
}

/* ---- What is not known ----------------------------------------------------------------------- */

static void rings_that_have_let_go_of_events_speak_of_what_they_keep(void **state)
{
    (void)state;
    start(2);
    look();
    must_report("\nnothing is wrong\n");
    processes[1].is_forgetful = true;
    must_report("\nnothing is wrong in what was kept\n");
    find_fini(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_wait_for_a_rank_that_runs_is_not_told),
        cmocka_unit_test(what_was_called_after_a_trace_was_read_is_no_wait),
        cmocka_unit_test(a_wait_begins_when_the_futures_before_it_are_there),
        cmocka_unit_test(who_has_ended_or_is_gone_is_told_of_at_once),
        cmocka_unit_test(a_circle_of_short_waits_is_none),
        cmocka_unit_test(a_call_that_was_left_out_is_told_beside_the_circle),
        cmocka_unit_test(two_against_two_have_left_out_nothing),
        cmocka_unit_test(one_delay_of_many_calls_in_flight_counts_once),
        cmocka_unit_test(a_delay_of_one_call_names_that),
        cmocka_unit_test(uncounted_uses_are_compared_where_each_rank_has_one),
        cmocka_unit_test(uncounted_uses_that_may_be_others_are_counted_alone),
        cmocka_unit_test(ranks_that_wait_alike_are_told_together),
        cmocka_unit_test(each_rank_is_named_once_and_in_order),
        cmocka_unit_test(one_other_is_no_others),
        cmocka_unit_test(of_many_failed_operations_the_rest_is_counted),
        cmocka_unit_test(of_many_ranks_that_failed_the_rest_is_counted),
        cmocka_unit_test(rings_that_have_let_go_of_events_speak_of_what_they_keep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
