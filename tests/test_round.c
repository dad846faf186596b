/* test_round.c - which plans are one round, and that it is the plan's own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/base.h"
#include "core/round.h"
#include "plan_cases.h"

static bool is_same_slice(struct tci_slice a, struct tci_slice b)
{
    return a.buf == b.buf && a.block == b.block && a.more == b.more;
}

static bool is_same_step(const struct tci_step *a, const struct tci_step *b)
{
    return a->kind == b->kind && a->peer == b->peer && a->match == b->match && a->wide == b->wide &&
           a->last == b->last && is_same_slice(a->src, b->src) && is_same_slice(a->dst, b->dst) &&
           is_same_slice(a->as, b->as);
}

/* What a round leaves out of account: messages wait for nothing, and all else comes after them. */
static void check_round(const struct tci_round *round, const struct tci_plan *plan,
                        const struct tci_shape *shape)
{
    uint32_t steps = plan->steps(shape);

    assert_in_range(round->messages, 1, TCI_ROUND_MAX);
    assert_in_range(steps, round->messages, round->messages + 1);
    for (uint32_t i = 0; i < steps; i++) {
        struct tci_step step = {0};

        plan->step(shape, i, &step);
        assert_true(tci_step_is_message(step.kind) == (i < round->messages));
        assert_true(step.fence == (i == round->messages));
        if (i == round->messages)
            continue;
        assert_int_equal(step.wait[0] | step.wait[1] | step.pace, 0);
        assert_true(is_same_step(&step, &round->steps[i]));
    }
}

static bool check_case(const struct plan_case *subject, void *arg)
{
    struct tci_round round = {.plan = NULL}; /* one for all: what it held before is of no account */
    unsigned *rounds = arg;

    for (uint32_t rank = 0; rank < subject->size; rank++) {
        struct tci_shape shape = plan_case_shape(subject, rank);

        for (int again = 0; again < 2; again++) {
            if (!tci_round_find(&round, subject->plan, &shape))
                continue;
            check_round(&round, subject->plan, &shape);
            ++*rounds;
        }
    }
    return true;
}

static void a_round_has_the_steps_of_its_plan(void **state)
{
    (void)state;
    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++) {
        unsigned rounds = 0;

        for (uint32_t size = 2; size <= 7; size++)
            assert_true(plan_cases_each(*plan, size, check_case, &rounds));
        assert_true(rounds > 0 || *plan != &tci_oneshot_allreduce);
    }
}

static void one_shot_is_a_round_for_as_many_ranks_as_there_is_room_for(void **state)
{
    struct tci_round round = {.plan = NULL};

    (void)state;
    for (uint32_t size = 2; size <= 10; size++) {
        struct tci_shape shape = {.rank = 1, .size = size, .radix = 2, .cuts = 1};
        bool is_round = tci_round_find(&round, &tci_oneshot_allreduce, &shape);

        assert_true(is_round == (2 * (size - 1) <= TCI_ROUND_MAX));
        assert_true(!is_round || round.messages == 2 * (size - 1));
    }
}

static void a_pipeline_is_no_round(void **state)
{
    struct tci_shape shape = {.rank = 1, .size = 4, .radix = 2, .cuts = 1};
    struct tci_round round = {.plan = NULL};

    (void)state;
    assert_false(tci_round_find(&round, &tci_ring_allreduce, &shape));
    assert_false(tci_round_find(&round, &tci_ring_allreduce, &shape));
    assert_true(tci_round_find(&round, &tci_oneshot_allreduce, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_has_the_steps_of_its_plan),
        cmocka_unit_test(one_shot_is_a_round_for_as_many_ranks_as_there_is_room_for),
        cmocka_unit_test(a_pipeline_is_no_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
