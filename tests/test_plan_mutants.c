/* test_plan_mutants.c - the checker notices whatever is broken in a plan; no wait is too many. */
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
#include "support/sample.h"
#include "support/world.h"

#define EVERY_RANK UINT32_MAX

enum { PLANS_MAX = 64, SURVIVORS_SHOWN = 10 };

/* ---- What is broken -------------------------------------------------------------------------- */

/* Each changes a step, or gives false where there is nothing to change. */
typedef bool (*break_fn)(const struct tci_shape *shape, struct tci_step *step);

static bool drop_wait(struct tci_step *step, int k)
{
    bool had = step->wait[k] != 0;

    step->wait[k] = 0;
    return had;
}

static bool drop_wait_0(const struct tci_shape *shape, struct tci_step *step)
{
    (void)shape;
    return drop_wait(step, 0);
}

static bool drop_wait_1(const struct tci_shape *shape, struct tci_step *step)
{
    (void)shape;
    return drop_wait(step, 1);
}

static bool drop_fence(const struct tci_shape *shape, struct tci_step *step)
{
    bool had = step->fence;

    (void)shape;
    step->fence = false;
    return had;
}

static bool drop_answers(const struct tci_shape *shape, struct tci_step *step)
{
    bool had = step->answers;

    (void)shape;
    step->answers = false;
    return had;
}

static bool is_message(const struct tci_step *step)
{
    return tci_step_is_message(step->kind);
}

static bool take_the_next_peer(const struct tci_shape *shape, struct tci_step *step)
{
    step->peer = (step->peer + 1) % shape->size;
    return is_message(step);
}

static bool take_the_next_match(const struct tci_shape *shape, struct tci_step *step)
{
    (void)shape;
    step->match++;
    return step->kind == TCI_STEP_SEND;
}

static bool read_the_next_block(const struct tci_shape *shape, struct tci_step *step)
{
    (void)shape;
    step->src.block++;
    return step->kind != TCI_STEP_RECV;
}

static bool write_the_next_block(const struct tci_shape *shape, struct tci_step *step)
{
    (void)shape;
    step->dst.block++;
    return step->kind != TCI_STEP_SEND;
}

static bool turn_last(const struct tci_shape *shape, struct tci_step *step)
{
    (void)shape;
    step->last = !step->last;
    return step->kind == TCI_STEP_RECV_REDUCE;
}

static bool forget_to_reduce(const struct tci_shape *shape, struct tci_step *step)
{
    bool reduces = step->kind == TCI_STEP_RECV_REDUCE || step->kind == TCI_STEP_FOLD;

    (void)shape;
    step->kind = step->kind == TCI_STEP_FOLD ? TCI_STEP_COPY : TCI_STEP_RECV;
    step->last = false;
    return reduces;
}

static bool add_again(const struct tci_shape *shape, struct tci_step *step)
{
    bool is_part = step->kind == TCI_STEP_WIDEN;

    (void)shape;
    step->kind = is_part ? TCI_STEP_ADD : step->kind;
    return is_part;
}

static bool turn_wide(const struct tci_shape *shape, struct tci_step *step)
{
    (void)shape;
    step->wide = !step->wide;
    return is_message(step);
}

static const struct {
    const char *name;
    break_fn apply;
} breaks[] = {
    {"without wait 0", drop_wait_0},
    {"without wait 1", drop_wait_1},
    {"without fence", drop_fence},
    {"answers nothing", drop_answers},
    {"next peer", take_the_next_peer},
    {"next match", take_the_next_match},
    {"reads the next block", read_the_next_block},
    {"writes the next block", write_the_next_block},
    {"last turned", turn_last},
    {"does not reduce", forget_to_reduce},
    {"adds again", add_again},
    {"widths differ", turn_wide},
};

enum { BREAKS_OF_WAITS = 3 };

/* ---- The broken plan ------------------------------------------------------------------------- */

/* A plan has no place for its own data, so the one that is broken now stands here. */
static struct {
    const struct tci_plan *plan;
    uint32_t rank, step; /* where it is broken */
    break_fn apply;
    bool is_broken; /* it has met something to break */
} mutant;

static void mutant_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct tci_step step;

    mutant.plan->step(shape, i, step_out);
    if (i != mutant.step || (mutant.rank != EVERY_RANK && mutant.rank != shape->rank))
        return;
    step = *step_out;
    if (mutant.apply(shape, &step)) {
        *step_out = step;
        mutant.is_broken = true;
    }
}

struct tally {
    size_t first, end; /* of breaks[] */
    bool rank_by_rank;
    unsigned tried, survived;
    struct sample sample; /* of the cases that are not small */
};

static void try_mutant(const struct plan_case *subject, size_t which, struct tally *tally)
{
    char why[512];
    bool holds;

    mutant.apply = breaks[which].apply;
    mutant.is_broken = false;
    holds = plan_check(subject, why, sizeof why);
    if (!mutant.is_broken)
        return;
    tally->tried++;
    if (holds && tally->survived++ < SURVIVORS_SHOWN)
        print_error("survivor: %s %s, n %u root %u radix %u cuts %u%s, rank %d step %u %s\n",
                    tci_coll_name(mutant.plan->coll), mutant.plan->name, subject->size,
                    subject->root, subject->radix, subject->cuts,
                    subject->in_place ? " in place" : "", (int)mutant.rank, mutant.step,
                    breaks[which].name);
}

static uint32_t steps_most(const struct plan_case *subject)
{
    uint32_t most = 0;

    for (uint32_t r = 0; r < subject->size; r++) {
        struct tci_shape shape = plan_case_shape(subject, r);

        most = (uint32_t)tci_max(most, mutant.plan->steps(&shape));
    }
    return most;
}

static bool is_left_out(const struct plan_case *subject)
{
    return subject->size > 9 && subject->root > 1;
}

/* All mutants of these are tried in any case. */
static bool is_small(const struct plan_case *subject)
{
    return subject->size <= 5 && subject->cuts <= 2 && subject->root <= 1;
}

/* Steps that the proofs of all mutants take, where they do not end early. */
static bool add_work(const struct plan_case *subject, void *arg)
{
    struct tally *tally = arg;
    uint32_t ranks = tally->rank_by_rank ? subject->size : 1;

    mutant.plan = subject->plan;
    if (!is_left_out(subject) && !is_small(subject))
        sample_add(&tally->sample, (double)plan_case_steps(subject) * steps_most(subject) * ranks *
                                       (double)(tally->end - tally->first));
    return true;
}

static bool try_case(const struct plan_case *subject, void *arg)
{
    struct tally *tally = arg;
    struct tci_plan broken = *subject->plan;
    struct plan_case with = *subject;
    uint32_t steps, first = 0, ranks = subject->size;

    if (is_left_out(subject))
        return true;
    if (!tally->rank_by_rank) {
        first = EVERY_RANK;
        ranks = 1;
    }

    mutant.plan = subject->plan;
    broken.step = mutant_step;
    with.plan = &broken;
    steps = steps_most(subject);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t i = 0; i < steps; i++)
            for (size_t which = tally->first; which < tally->end; which++) {
                if (!is_small(subject) && !sample_takes(&tally->sample))
                    continue;
                mutant.rank = first + r;
                mutant.step = i;
                try_mutant(&with, which, tally);
            }
    return true;
}

static void try_sizes(const struct tci_plan *plan, const uint32_t *sizes, size_t count,
                      struct tally *tally)
{
    static const double budgets[] = {1e5, 1e6, 0};

    tally->sample = sample_begin(budgets[test_effort()]);
    for (size_t k = 0; k < count; k++)
        plan_cases_each(plan, sizes[k], add_work, tally);
    for (size_t k = 0; k < count; k++)
        assert_true(plan_cases_each(plan, sizes[k], try_case, tally));
    print_message("           %u of %u caught, %u left out\n", tally->tried - tally->survived,
                  tally->tried, tally->sample.left);
    assert_int_equal(tally->survived, 0);
}

/* In every shape, a wait that is dropped everywhere, or on one rank alone, is missed. */
static void every_wait_is_needed(void **state)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 40};
    struct tally tally = {.first = 0, .end = BREAKS_OF_WAITS};
    struct tally by_rank = {.first = 0, .end = BREAKS_OF_WAITS, .rank_by_rank = true};

    try_sizes(*state, sizes, TCI_LEN(sizes), &tally);
    try_sizes(*state, sizes, 8, &by_rank);
}

static void every_other_fault_is_noticed(void **state)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 7, 8};
    struct tally tally = {.first = BREAKS_OF_WAITS, .end = TCI_LEN(breaks), .rank_by_rank = true};

    try_sizes(*state, sizes, TCI_LEN(sizes), &tally);
}

/* ---- A plan that gets stuck ------------------------------------------------------------------ */

static uint32_t four_steps(const struct tci_shape *shape)
{
    (void)shape;
    return 4;
}

static uint32_t no_slots(const struct tci_shape *shape)
{
    (void)shape;
    return 0;
}

static uint32_t one_block(const struct tci_shape *shape)
{
    (void)shape;
    return 1;
}

/* Two ranks send twice before they receive twice. */
static void send_first(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    *step_out = (struct tci_step){.kind = i < 2 ? TCI_STEP_SEND : TCI_STEP_RECV,
                                  .peer = 1 - shape->rank,
                                  .match = i + 2,
                                  .src = {TCI_BUF_SRC, 0, 0},
                                  .dst = {TCI_BUF_DST, 0, 0}};
}

static void a_plan_that_needs_more_window_than_there_is_never_ends(void **state)
{
    const struct tci_plan plan = {.name = "send-first",
                                  .coll = TCI_COLL_BARRIER,
                                  .layout = TCI_LAYOUT_NONE,
                                  .steps = four_steps,
                                  .blocks = one_block,
                                  .slots = no_slots,
                                  .step = send_first};
    struct plan_case subject = {
        .plan = &plan, .size = 2, .radix = 2, .cuts = 1, .window = 3, .along_messages = true};
    char why[512] = "";

    (void)state;
    assert_true(plan_check(&subject, why, sizeof why));
    subject.window = 2;
    assert_false(plan_check(&subject, why, sizeof why));
    assert_non_null(strstr(why, "never ends"));
}

static void a_plan_that_folds_in_parts_and_says_otherwise_is_noticed(void **state)
{
    struct tci_plan plan = tci_ring_allreduce;
    struct plan_case subject = {.plan = &plan,
                                .size = 4,
                                .radix = 2,
                                .cuts = 1,
                                .window = TCI_WINDOW,
                                .along_messages = true};
    char why[512] = "";

    (void)state;
    assert_true(plan_check(&subject, why, sizeof why));
    plan.whole = true;
    assert_false(plan_check(&subject, why, sizeof why));
    assert_non_null(strstr(why, "is not folded at once"));
    plan.whole = false;
    plan.canonical = true;
    assert_false(plan_check(&subject, why, sizeof why));
    assert_non_null(strstr(why, "is not folded in rank order"));
}

int main(void)
{
    static struct CMUnitTest tests[2 * PLANS_MAX + 2];
    static char names[2 * PLANS_MAX][80];
    size_t count = 0;

    test_seed();
    for (size_t p = 0; tci_plans[p] != NULL && p < PLANS_MAX; p++)
        for (int waits = 1; waits >= 0; waits--, count++) {
            snprintf(names[count], sizeof names[count], "%s_%s_%s",
                     tci_coll_name(tci_plans[p]->coll), tci_plans[p]->name,
                     waits ? "needs_every_wait" : "is_noticed_with_any_fault");
            tests[count] = (struct CMUnitTest){.name = names[count],
                                               .test_func = waits ? every_wait_is_needed
                                                                  : every_other_fault_is_noticed,
                                               .initial_state = (void *)(uintptr_t)tci_plans[p]};
        }
    tests[count++] =
        (struct CMUnitTest)cmocka_unit_test(a_plan_that_needs_more_window_than_there_is_never_ends);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(
        a_plan_that_folds_in_parts_and_says_otherwise_is_noticed);
    return _cmocka_run_group_tests("plan mutants", tests, count, NULL, NULL);
}
