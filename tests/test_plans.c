/* test_plans.c - every plan in the table is proved, for every size, root, radix and window. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 900, single, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "core/base.h"
#include "plan_cases.h"
#include "plan_check.h"
#include "plan_text.h"
#include "support/sample.h"
#include "support/world.h"

enum { PLANS_MAX = 64, FEW_RANKS_MAX = 17, RANKS_MAX = 64 };

static void prove(const struct plan_case *subject)
{
    char why[512];

    if (!plan_check(subject, why, sizeof why))
        fail_msg("window %u: %s", subject->window, why);
}

/* ---- Few ranks: all of them ------------------------------------------------------------------ */

/* The smallest window proves the larger ones too; for few ranks that is not taken on trust. */
static bool prove_case(const struct plan_case *subject, void *arg)
{
    static const uint32_t windows[] = {PLAN_WINDOW_MIN, 3, 8, TCI_WINDOW};
    struct plan_case with = *subject;
    unsigned *cases = arg;

    for (size_t w = 0; w < TCI_LEN(windows); w++) {
        with.window = windows[w];
        prove(&with);
        ++*cases;
    }
    return true;
}

static void few_ranks_hold(const struct tci_plan *plan)
{
    unsigned cases = 0;

    for (uint32_t size = 1; size <= FEW_RANKS_MAX; size++)
        assert_true(plan_cases_each(plan, size, prove_case, &cases));
    print_message("           %u cases up to %u ranks", cases, FEW_RANKS_MAX);
}

/* ---- More: with full effort all of them, else samples ---------------------------------------- */

/* Clocks and blocks that a proof handles. */
static double work_of(const struct plan_case *subject)
{
    return (double)plan_case_steps(subject) * subject->size + (double)plan_case_touches(subject);
}

static bool add_work(const struct plan_case *subject, void *arg)
{
    sample_add(arg, work_of(subject));
    return true;
}

static bool prove_some(const struct plan_case *subject, void *arg)
{
    struct plan_case with = *subject;

    if (!sample_takes(arg))
        return true;
    prove(subject);
    with.window = TCI_WINDOW;
    prove(&with);
    return true;
}

static void more_ranks_hold(const struct tci_plan *plan)
{
    static const double budgets[] = {2e5, 4e6, 0};
    struct sample sample = sample_begin(budgets[test_effort()]);

    for (uint32_t size = FEW_RANKS_MAX + 1; size <= RANKS_MAX; size++)
        plan_cases_each(plan, size, add_work, &sample);
    for (uint32_t size = FEW_RANKS_MAX + 1; size <= RANKS_MAX; size++)
        assert_true(plan_cases_each(plan, size, prove_some, &sample));
    print_message(", %u of %u up to %u", sample.taken, sample.taken + sample.left, RANKS_MAX);
}

/* ---- Many ranks: samples --------------------------------------------------------------------- */

/* A barrier is about what is known along messages, and so is an accumulator that comes back. */
static bool is_along_messages(const struct tci_plan *plan)
{
    return plan->layout == TCI_LAYOUT_NONE || plan->wide;
}

/* Only what a rank's own waits give counts here, which is the stricter proof.  What is known along
 * messages takes n * n words a step, so that stops earlier. */
static bool prove_sample(const struct plan_case *subject, void *arg)
{
    struct plan_case with = *subject;
    uint32_t *size_most = arg, n = subject->size, root = subject->root;

    if (root != 0 && root != n / 3 && root != n - 1)
        return true;
    with.along_messages = is_along_messages(subject->plan);
    prove(&with);
    *size_most = (uint32_t)tci_max(*size_most, n);
    return true;
}

static bool is_affordable(const struct tci_plan *plan, uint32_t size)
{
    static const uint64_t touches_max[] = {50000, 300000, 3000000}; /* of all ranks together */
    const struct plan_case subject = {.plan = plan, .size = size, .radix = 2, .cuts = 1};

    if (is_along_messages(plan) && size > 257)
        return false;
    return plan_case_steps(&subject) <= touches_max[test_effort()] &&
           plan_case_touches(&subject) <= touches_max[test_effort()];
}

/* Some sizes that mean something, and one between each two of them that does not. */
static void many_ranks_hold(const struct tci_plan *plan)
{
    static const uint32_t sizes[] = {65, 100, 127, 128, 129, 257, 513, 1000, 1024, 2187, 4096};
    struct sample sample = sample_begin(1);
    uint32_t most = 0;

    for (size_t k = 0; k < TCI_LEN(sizes); k++) {
        uint32_t before = k == 0 ? RANKS_MAX : sizes[k - 1], room = sizes[k] - before;
        uint32_t between = before + (uint32_t)sample_below(&sample, room);

        if (is_affordable(plan, sizes[k]))
            assert_true(plan_cases_each(plan, sizes[k], prove_sample, &most));
        if (test_effort() > 0 && is_affordable(plan, between))
            assert_true(plan_cases_each(plan, between, prove_sample, &most));
    }
    print_message(", samples up to %u\n", most);
}

static void a_plan_is_proved(void **state)
{
    few_ranks_hold(*state);
    more_ranks_hold(*state);
    many_ranks_hold(*state);
}

/* ---- Both ends agree ------------------------------------------------------------------------- */

static void a_send_meets_its_receive(const struct tci_plan *plan, const struct tci_shape *shape,
                                     uint32_t i, bool is_other_in_place)
{
    struct tci_shape other = *shape;
    struct tci_step step, met;

    other.in_place = is_other_in_place;
    plan->step(shape, i, &step);
    if (step.kind != TCI_STEP_SEND)
        return;
    other.rank = step.peer;
    assert_true(step.peer < shape->size && step.peer != shape->rank);
    assert_true(step.match < plan->steps(&other));
    plan->step(&other, step.match, &met);
    assert_true(met.kind == TCI_STEP_RECV || met.kind == TCI_STEP_RECV_REDUCE);
    assert_int_equal(met.peer, shape->rank);
}

/* Each rank chooses for itself whether it works in place. */
static void ranks_in_place_meet_ranks_that_are_not(void **state)
{
    (void)state;
    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
        for (uint32_t ends = 0; ends < FEW_RANKS_MAX * FEW_RANKS_MAX * 4; ends++) {
            struct tci_shape shape = {.rank = ends / 4 % FEW_RANKS_MAX,
                                      .size = ends / 4 / FEW_RANKS_MAX + 1,
                                      .radix = 2,
                                      .cuts = 3,
                                      .in_place = ends % 2 != 0};

            if ((*plan)->coll == TCI_COLL_P2P || shape.rank >= shape.size)
                continue;
            for (uint32_t i = 0; i < (*plan)->steps(&shape); i++)
                a_send_meets_its_receive(*plan, &shape, i, ends / 2 % 2 != 0);
        }
}

static void sends_among_100000_ranks_meet_their_receives(void **state)
{
    enum { SIZE = 100000, RANK_STRIDE = 997, STEPS_MAX = 64 };
    struct tci_hosts *hosts = plan_case_hosts(1, SIZE);

    (void)state;
    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++)
        for (uint32_t r = 0; r < SIZE && (*plan)->coll != TCI_COLL_P2P; r += RANK_STRIDE) {
            struct tci_shape shape = {.rank = r,
                                      .size = SIZE,
                                      .root = 4 * RANK_STRIDE,
                                      .radix = 4,
                                      .cuts = 7,
                                      .hosts = hosts};
            uint32_t steps = (*plan)->steps(&shape), stride = steps / STEPS_MAX | 1;

            for (uint32_t i = 0; i < steps; i += stride)
                a_send_meets_its_receive(*plan, &shape, i, false);
        }
    tci_hosts_unref(hosts);
}

/* ---- The table ------------------------------------------------------------------------------- */

static void plans_are_found_by_name_and_by_id(void **state)
{
    (void)state;
    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++) {
        assert_ptr_equal(tci_plan_find((*plan)->coll, (*plan)->name), *plan);
        assert_ptr_equal(tci_plan_by_id((*plan)->coll, (*plan)->id), *plan);
    }
    assert_null(tci_plan_find(TCI_COLL_BARRIER, "oneshot"));
    assert_null(tci_plan_by_id(TCI_COLL_ALLREDUCE, 0));
}

static void a_plan_is_printed_step_by_step(void **state)
{
    struct tci_shape shape = {.rank = 1, .size = 2, .radix = 2, .cuts = 1};
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof text, "w");

    (void)state;
    assert_non_null(out);
    plan_text_print(out, tci_plan_find(TCI_COLL_ALLREDUCE, "ring"), &shape);
    fclose(out);

    assert_string_equal(text, "allreduce ring: rank 1 of 2, root 0, radix 2\n"
                              "    0  SEND src 1 to 0, step 1\n"
                              "    1  RECV_REDUCE dst 0 = src 0 op from 0, last\n"
                              "    2  SEND dst 0 to 0, step 3; after -1\n"
                              "    3  RECV dst 1 from 0\n");
}

/* What docs/plans.md shows of a plan is what the plan does. */
static void plans_are_drawn_in_the_docs_as_they_are(void **state)
{
    static char docs[65536];
    FILE *in = fopen(TEST_SOURCE_DIR "/docs/plans.md", "r");
    struct tci_hosts *pairs;

    (void)state;
    assert_non_null(in);
    docs[fread(docs, 1, sizeof docs - 1, in)] = 0;
    fclose(in);
    pairs = plan_case_hosts(0, 4);

    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++) {
        struct tci_shape shape = {
            .rank = 1, .size = 4, .radix = 2, .cuts = (*plan)->depth != NULL ? 2 : 1};
        char text[4096] = "\n";
        FILE *out = fmemopen(text + 1, sizeof text - 1, "w");

        assert_non_null(out);
        shape.in_place = (*plan)->coll == TCI_COLL_BROADCAST;
        shape.hosts = (*plan)->by_host ? pairs : NULL;
        plan_text_print(out, *plan, &shape);
        fclose(out);
        if (strstr(docs, text) == NULL)
            fail_msg("docs/plans.md does not show this:\n%s", text);
    }
    tci_hosts_unref(pairs);
}

int main(void)
{
    static struct CMUnitTest tests[PLANS_MAX + 5];
    static char names[PLANS_MAX][64];
    size_t count = 0;

    test_seed();
    for (; tci_plans[count] != NULL && count < PLANS_MAX; count++) {
        snprintf(names[count], sizeof names[count], "%s_%s_is_proved",
                 tci_coll_name(tci_plans[count]->coll), tci_plans[count]->name);
        tests[count] = (struct CMUnitTest){.name = names[count],
                                           .test_func = a_plan_is_proved,
                                           .initial_state = (void *)(uintptr_t)tci_plans[count]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(plans_are_found_by_name_and_by_id);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(a_plan_is_printed_step_by_step);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(ranks_in_place_meet_ranks_that_are_not);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(plans_are_drawn_in_the_docs_as_they_are);
    tests[count++] =
        (struct CMUnitTest)cmocka_unit_test(sends_among_100000_ranks_meet_their_receives);
    return _cmocka_run_group_tests("plans", tests, count, NULL, NULL);
}
