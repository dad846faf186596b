/* test_ruling.c - what ranks have said of an operation is counted, and rulings follow from it. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 60, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/ruling.h"
#include "core/waiting.h"

enum { SIZE = 6, NOBODY = -1 };

/* Of six ranks, of which 0 judges and has asked; all but it are silent at first. */
static struct tci_evidence evidence;
static struct said *said;

static int begin(void **state)
{
    (void)state;
    evidence = (struct tci_evidence){.size = SIZE,
                                     .peer = TCI_ALL_PEERS,
                                     .timeout_ms = 1000,
                                     .name = "gather",
                                     .hears_others = true,
                                     .answers = tci_answers_new(SIZE)};
    assert_non_null(evidence.answers);
    said = evidence.answers->said;
    said[0].due_ns = 1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    tci_free(evidence.answers);
    return 0;
}

static void say(int rank, enum knowledge what, int waits_for)
{
    said[rank].what = (uint8_t)what;
    said[rank].waits[0] = waits_for;
}

/* All have entered; 0 waits for 1, and that for nobody. */
static void all_enter(void)
{
    for (int r = 0; r < SIZE; r++)
        say(r, ENTERED, NOBODY);
    say(0, ENTERED, 1);
}

static void expect(int culprit, tc_reason_t reason, const char *words)
{
    struct tci_ruling ruling;

    tci_rule(&evidence, &ruling);
    if (ruling.culprit != culprit || ruling.reason != reason || strstr(ruling.text, words) == NULL)
        fail_msg("rank %d, for %s: %s", ruling.culprit, tc_reason_string(ruling.reason),
                 ruling.text);
    assert_int_equal(ruling.is_loss,
                     reason == TC_REASON_MACHINE_SILENT || reason == TC_REASON_LINK_DEAD);
}

/* ---- Hosts ---------------------------------------------------------------------------------- */

static void a_host_that_nobody_hears_is_silent(void **state)
{
    (void)state;
    all_enter();
    say(3, SILENT, NOBODY);
    say(4, SILENT, NOBODY);
    tci_evidence_add_dead(&evidence, 1, 4);
    expect(4, TC_REASON_MACHINE_SILENT, "nothing that rank 1 said to it at the end of gather");
    tci_evidence_add_dead(&evidence, 3, 2); /* it is the one that is not heard all the same */
    expect(3, TC_REASON_MACHINE_SILENT, "nothing that rank 2 said");
    tci_evidence_add_dead(&evidence, 4, 5);
    expect(3, TC_REASON_MACHINE_SILENT, "nothing that rank 2 said");
    said[3].is_heard = true;
    expect(4, TC_REASON_MACHINE_SILENT, "rank 4 is silent");
}

static void a_judge_that_hears_nobody_is_to_blame_itself(void **state)
{
    (void)state;
    say(0, ENTERED, 1);
    evidence.hears_others = false;
    tci_evidence_add_dead(&evidence, 0, 1);
    expect(1, TC_REASON_MACHINE_SILENT, "rank 1 is silent"); /* there may be only that one */
    tci_evidence_add_dead(&evidence, 1, 0);                  /* the same path */
    expect(1, TC_REASON_MACHINE_SILENT, "rank 1 is silent");
    tci_evidence_add_dead(&evidence, 0, 2);
    expect(0, TC_REASON_MACHINE_SILENT, "hears the hosts of no other rank");
    evidence.hears_others = true;
    expect(1, TC_REASON_MACHINE_SILENT, "rank 1 is silent");
}

static void a_path_between_two_that_others_hear_is_dead(void **state)
{
    (void)state;
    all_enter();
    tci_evidence_add_dead(&evidence, 1, 2);
    expect(2, TC_REASON_LINK_DEAD, "rank 1 and rank 2 do not hear each other"); /* the higher */
    tci_evidence_add_dead(&evidence, 4, 1);
    expect(1, TC_REASON_LINK_DEAD, "rank 1 and rank 2"); /* it has the most */
    tci_evidence_add_dead(&evidence, 1, 4);
    tci_evidence_add_dead(&evidence, 5, 3);
    tci_evidence_add_dead(&evidence, 3, 5); /* both ends have told of it: one path */
    expect(1, TC_REASON_LINK_DEAD, "rank 1 and rank 2");
    tci_evidence_add_dead(&evidence, 5, 4);
    expect(5, TC_REASON_LINK_DEAD, "rank 3 and rank 5"); /* as many as rank 1 and rank 4 */
}

static void paths_are_told_once_and_taken_back_one_by_one(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++)
        tci_evidence_add_dead(&evidence, 1, 2);
    assert_int_equal(evidence.dead_count, 1);
    tci_evidence_add_dead(&evidence, 3, 2);
    tci_evidence_add_dead(&evidence, 1, 4);
    tci_evidence_drop_dead(&evidence, 1, 2);
    assert_int_equal(evidence.dead_count, 2);
    assert_int_equal(evidence.dead[0].by, 3);
    assert_int_equal(evidence.dead[1].of, 4);
    for (int k = 0; k < 2 * DEAD_PATHS_MAX; k++)
        tci_evidence_add_dead(&evidence, 10 + k, 2);
    assert_int_equal(evidence.dead_count, DEAD_PATHS_MAX);
    assert_int_equal(evidence.dead[DEAD_PATHS_MAX - 1].by, 10 + DEAD_PATHS_MAX - 3);
}

/* ---- Who is waited for ---------------------------------------------------------------------- */

static void who_does_not_answer_is_stalled_unless_data_moves(void **state)
{
    (void)state;
    all_enter();
    say(1, ENTERED, 4);
    said[1].waits[2] = 3;
    say(3, SILENT, NOBODY);
    say(4, SILENT, NOBODY);
    expect(3, TC_REASON_LOOP_STALLED, "does not answer"); /* the lower, though the later one */
    said[3].is_flowing = true;
    expect(3, TC_REASON_SLOW, "data still moves");
    say(3, ENTERED, NOBODY);
    expect(4, TC_REASON_LOOP_STALLED, "does not answer");
    say(5, SILENT, NOBODY); /* nobody waits for it */
    say(4, NOT_ENTERED, NOBODY);
    expect(4, TC_REASON_NOT_ENTERED, "has not entered");
}

static void each_kind_of_absence_goes_before_those_that_follow(void **state)
{
    (void)state;
    all_enter();
    for (int w = 0; w < 4; w++)
        said[1].waits[w] = w + 2;
    said[2].is_late = true;
    expect(2, TC_REASON_NOT_ENTERED, "only at the end of 1000 ms");
    say(3, ENTERED, TCI_WAITS_FOR_FUTURES);
    expect(3, TC_REASON_NOT_ENTERED, "the futures to start after");
    say(4, NOT_ENTERED, NOBODY);
    strcpy(said[4].text, "it sleeps");
    expect(4, TC_REASON_NOT_ENTERED, "it sleeps");
    say(5, SILENT, NOBODY);
    expect(5, TC_REASON_LOOP_STALLED, "does not answer");
}

/* One that is held up in another call is not the end of the way, but whom it waits for there. */
static void who_is_held_up_leads_on(void **state)
{
    (void)state;
    all_enter();
    say(1, NOT_ENTERED, 5);
    say(5, SILENT, NOBODY);
    expect(5, TC_REASON_LOOP_STALLED, "rank 5");
    evidence.peer = 1; /* a receive: rank 5 has not been asked */
    expect(1, TC_REASON_NOT_ENTERED, "rank 1 has not entered");
    said[0].is_late = true; /* which goes before */
    expect(1, TC_REASON_NOT_ENTERED, "rank 1 has not entered");
}

static void who_is_in_no_way_is_looked_at_last(void **state)
{
    (void)state;
    all_enter();
    say(4, SILENT, NOBODY);
    expect(4, TC_REASON_LOOP_STALLED, "rank 4 does not answer");
    say(2, NOT_ENTERED, 3);
    expect(2, TC_REASON_NOT_ENTERED, "rank 2 has not entered"); /* held up, but the only one */
    say(5, NOT_ENTERED, NOBODY);
    expect(5, TC_REASON_NOT_ENTERED, "rank 5 has not entered");
    say(3, NOT_ENTERED, NOBODY);
    expect(3, TC_REASON_NOT_ENTERED, "rank 3 has not entered");
    evidence.peer = 1; /* no other is party to it */
    expect(1, TC_REASON_SLOW, "rank 0 still waits for rank 1");
}

static void where_all_have_entered_somebody_is_slow(void **state)
{
    (void)state;
    all_enter();
    expect(1, TC_REASON_SLOW, "which is slow: look at its load");
    strcpy(said[1].text, "it computes");
    expect(1, TC_REASON_SLOW, "which is slow: it computes: look at its load");
    strcpy(said[1].text, "what it entered last is barrier");
    expect(1, TC_REASON_SLOW, "which is slow: what it entered last is barrier: look at its load");
    said[1].was_mute = true;
    expect(1, TC_REASON_SLOW, "has answered only at the end");
    said[1].is_flowing = true; /* its answer came behind data */
    expect(1, TC_REASON_SLOW, "still waits for rank 1");
    say(1, FORGOTTEN, NOBODY);
    expect(1, TC_REASON_SLOW, "still waits for rank 1");
    say(0, ENTERED, NOBODY);
    expect(0, TC_REASON_SLOW, "waits for nobody, and is not done");
}

/* The one has taken it back, say, and its word has reached all but one. */
static void who_alone_has_not_heard_the_end_has_to_look_at_its_links(void **state)
{
    (void)state;
    all_enter();
    for (int r = 1; r < SIZE; r++)
        say(r, FORGOTTEN, NOBODY);
    expect(0, TC_REASON_SLOW, "rank 0 alone");
    say(2, FINISHED, NOBODY);
    expect(1, TC_REASON_SLOW, "rank 0 still waits for rank 1");
}

/* ---- Whether hosts have to be listened to --------------------------------------------------- */

static void answers_alone_are_enough_where_somebody_is_absent(void **state)
{
    (void)state;
    all_enter();
    assert_false(tci_ruling_is_clear(&evidence));
    say(1, NOT_ENTERED, NOBODY);
    assert_true(tci_ruling_is_clear(&evidence));
    tci_evidence_add_dead(&evidence, 1, 2);
    assert_false(tci_ruling_is_clear(&evidence));
    tci_evidence_drop_dead(&evidence, 1, 2);
    say(1, ENTERED, TCI_WAITS_FOR_FUTURES);
    assert_true(tci_ruling_is_clear(&evidence));
    say(5, SILENT, NOBODY);
    assert_false(tci_ruling_is_clear(&evidence));
    evidence.peer = 1; /* rank 5 is not asked */
    assert_true(tci_ruling_is_clear(&evidence));
}

static void who_has_finalized_while_others_wait_for_it_is_named(void **state)
{
    (void)state;
    all_enter();
    say(0, NOT_ENTERED, 1);
    say(1, ENTERED, 0);
    strcpy(said[0].text, "it waits for rank 1 in allreduce, tag 77");
    said[1].due_ns = 1;
    expect(0, TC_REASON_NOT_ENTERED, "it waits for rank 1 in allreduce, tag 77: see what");
    evidence.is_last = true;
    said[0].held_by = 1;
    strcpy(said[0].held, said[0].text);
    say(0, ENTERED, 1); /* it has come since, and so has rank 2, which waited for it */
    said[0].is_late = true;
    say(2, NOT_ENTERED, 0);
    said[2].held_by = 0;
    expect(1, TC_REASON_EXITED,
           "rank 1 has finalized the group, but rank 0 cannot yet: it waits for rank 1 in "
           "allreduce, tag 77, which rank 1 has not entered");
    say(3, SILENT, NOBODY);
    said[1].waits[1] = 3;
    expect(3, TC_REASON_LOOP_STALLED, "rank 3 does not answer");
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void note(int rank, tc_status_t status, int waits_for, uint64_t count)
{
    struct tci_notice answer = {.kind = TCI_NOTICE_REPORT,
                                .status = status,
                                .number = waits_for,
                                .arg = tci_waits_pack((const int32_t[]){4, -1, SIZE}),
                                .call = {.count = count, .root = -1}};

    strcpy(answer.text, "is there");
    tci_answers_note(evidence.answers, rank, &answer);
}

static void the_last_answer_counts_and_a_call_once(void **state)
{
    struct tci_answers *answers = evidence.answers;
    const struct tci_opinion *most, *least;

    (void)state;
    note(2, TC_ERR_NOT_INITIALIZED, 5, 0);
    assert_int_equal(said[2].what, NOT_ENTERED);
    assert_int_equal(said[2].waits[0], 5);
    assert_int_equal(said[2].waits[1], 4);
    assert_int_equal(said[2].waits[2], NOBODY);
    assert_int_equal(said[2].waits[3], NOBODY); /* there is no such rank */
    note(2, TC_ERR_NOT_INITIALIZED, 3, 0);      /* it is held up elsewhere */
    assert_int_equal(said[2].waits[0], 3);
    note(2, TC_ERR_NOT_INITIALIZED, NOBODY, 0); /* what held it up has failed since */
    assert_int_equal(said[2].waits[0], 3);
    assert_false(tci_answers_differ(answers, &most, &least));
    note(2, TC_PENDING, SIZE, 7);
    assert_int_equal(said[2].what, ENTERED);
    assert_int_equal(said[2].waits[0], NOBODY);
    assert_true(said[2].is_late);
    note(2, TC_OK, NOBODY, 7);
    assert_true(said[2].is_late);
    note(3, TC_ERR_CANCELLED, NOBODY, 9);
    assert_int_equal(said[3].what, FORGOTTEN);
    assert_false(said[3].is_late);
    assert_string_equal(said[3].text, "is there");
    assert_int_equal(answers->opinions[0].count, 1);
    assert_false(tci_answers_differ(answers, &most, &least));
    note(5, TC_PENDING, NOBODY, 8);
    note(4, TC_PENDING, NOBODY, 8);
    note(1, TC_PENDING, NOBODY, 9);
    note(0, TC_PENDING, NOBODY, 9);
    note(3, TC_PENDING, NOBODY, 9);
    assert_true(tci_answers_differ(answers, &most, &least));
    assert_int_equal(most->call.count, 9);
    assert_int_equal(most->first, 0);
    assert_int_equal(least->call.count, 7);
    assert_int_equal(least->first, 2);
}

/* Of as many ranks those with the lowest one are right, whoever has come first. */
static void of_as_many_ranks_the_lowest_is_right(void **state)
{
    struct tci_answers *answers = evidence.answers;
    const struct tci_opinion *most, *least;

    (void)state;
    note(4, TC_PENDING, NOBODY, 8);
    note(1, TC_PENDING, NOBODY, 7);
    assert_true(tci_answers_differ(answers, &most, &least));
    assert_int_equal(most->first, 1);
    assert_int_equal(least->first, 4);
    note(5, TC_PENDING, NOBODY, 9);
    note(0, TC_PENDING, NOBODY, 9);
    assert_true(tci_answers_differ(answers, &most, &least));
    assert_int_equal(most->first, 0);
    assert_int_equal(least->first, 4);
}

/* However many calls there are, and in whichever order they come. */
static void of_many_calls_those_of_most_and_fewest_are_found(void **state)
{
    enum { MANY = 24 };
    static const int steps[] = {1, 5, 7, 11, 13, 23}; /* have no factor in common with it */

    (void)state;
    for (size_t s = 0; s < TCI_LEN(steps); s++) {
        struct tci_answers *answers = tci_answers_new(MANY);
        const struct tci_opinion *most, *least;

        assert_non_null(answers);
        for (int i = 0; i < MANY; i++) {
            int rank = (i * steps[s] + 3) % MANY;
            struct tci_notice answer = {.kind = TCI_NOTICE_ANSWER,
                                        .status = TC_PENDING,
                                        .number = NOBODY,
                                        .call.count = rank % 20 == 2 ? 2 : (uint64_t)rank + 40};

            tci_answers_note(answers, rank, &answer);
        }
        assert_int_equal(answers->opinion_count, MANY - 1);
        assert_true(tci_answers_differ(answers, &most, &least));
        assert_int_equal(most->count, 2);
        assert_int_equal(most->first, 2);
        assert_int_equal(least->count, 1);
        assert_int_equal(least->first, MANY - 1);
        tci_free(answers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_host_that_nobody_hears_is_silent, begin, end),
        cmocka_unit_test_setup_teardown(a_judge_that_hears_nobody_is_to_blame_itself, begin, end),
        cmocka_unit_test_setup_teardown(a_path_between_two_that_others_hear_is_dead, begin, end),
        cmocka_unit_test_setup_teardown(paths_are_told_once_and_taken_back_one_by_one, begin, end),
        cmocka_unit_test_setup_teardown(who_does_not_answer_is_stalled_unless_data_moves, begin,
                                        end),
        cmocka_unit_test_setup_teardown(each_kind_of_absence_goes_before_those_that_follow, begin,
                                        end),
        cmocka_unit_test_setup_teardown(who_is_held_up_leads_on, begin, end),
        cmocka_unit_test_setup_teardown(who_is_in_no_way_is_looked_at_last, begin, end),
        cmocka_unit_test_setup_teardown(where_all_have_entered_somebody_is_slow, begin, end),
        cmocka_unit_test_setup_teardown(who_alone_has_not_heard_the_end_has_to_look_at_its_links,
                                        begin, end),
        cmocka_unit_test_setup_teardown(answers_alone_are_enough_where_somebody_is_absent, begin,
                                        end),
        cmocka_unit_test_setup_teardown(who_has_finalized_while_others_wait_for_it_is_named, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_last_answer_counts_and_a_call_once, begin, end),
        cmocka_unit_test_setup_teardown(of_as_many_ranks_the_lowest_is_right, begin, end),
        cmocka_unit_test(of_many_calls_those_of_most_and_fewest_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
