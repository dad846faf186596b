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

struct walk {
    struct tci_round round; /* one for all: what it held before is of no account */
    unsigned rounds;
};

static bool check_case(const struct plan_case *subject, void *arg)
{
    struct walk *walk = arg;

    for (uint32_t rank = 0; rank < subject->size; rank++) {
        struct tci_shape shape = plan_case_shape(subject, rank);

        for (int again = 0; again < 2; again++) {
            if (!tci_round_find(&walk->round, subject->plan, &shape))
                continue;
            check_round(&walk->round, subject->plan, &shape);
            walk->rounds++;
        }
    }
    return true;
}

static void a_round_has_the_steps_of_its_plan(void **state)
{
    (void)state;
    for (const struct tci_plan *const *plan = tci_plans; *plan != NULL; plan++) {
        struct walk walk = {.rounds = 0};

        for (uint32_t size = 2; size <= 7; size++)
            assert_true(plan_cases_each(*plan, size, check_case, &walk));
        assert_true(walk.rounds > 0 || *plan != &tci_oneshot_allreduce);
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

/* ---- Plans of the test's own ----------------------------------------------------------------- */

static struct {
    struct tci_step steps[TCI_ROUND_MAX + 2];
    uint32_t count;
} own;

static uint32_t own_steps(const struct tci_shape *shape)
{
    (void)shape;
    return own.count;
}

static void own_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    (void)shape;
    *step_out = own.steps[i];
}

/* So many messages, and perhaps a fold of what they have brought. */
static void make_own(uint32_t messages, bool has_fold)
{
    own.count = messages + has_fold;
    for (uint32_t i = 0; i < own.count; i++)
        own.steps[i] = (struct tci_step){.kind = i < messages ? TCI_STEP_RECV : TCI_STEP_FOLD,
                                         .fence = i == messages};
}

static uint32_t own_messages(void)
{
    static const struct tci_plan plan = {.name = "own", .steps = own_steps, .step = own_step};
    struct tci_round round = {.plan = NULL};
    struct tci_shape shape = {.rank = 1, .size = 2};

    return tci_round_find(&round, &plan, &shape) ? round.messages : 0;
}

static void as_many_messages_as_there_is_room_for_are_a_round(void **state)
{
    (void)state;
    for (uint32_t messages = 1; messages <= TCI_ROUND_MAX + 1; messages++)
        for (int fold = 0; fold < 2; fold++) {
            make_own(messages, fold != 0);
            assert_int_equal(own_messages(), messages <= TCI_ROUND_MAX ? messages : 0);
        }
    make_own(0, true);
    assert_int_equal(own_messages(), 0);
}

static void a_step_that_waits_for_another_is_of_no_round(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        struct tci_step *second = &own.steps[1];

        make_own(3, true);
        second->fence = way == 0;
        second->wait[0] = way == 1;
        second->wait[1] = way == 2;
        second->pace = way == 3;
        if (way == 4)
            own.steps[3].fence = false;
        assert_int_equal(own_messages(), 0);
    }
}

static void a_shape_that_differs_in_anything_is_looked_at_anew(void **state)
{
    static const struct tci_plan plan = {.name = "own", .steps = own_steps, .step = own_step};
    const struct tci_shape base = {.rank = 1, .size = 4, .root = 1, .radix = 2, .cuts = 1};
    struct tci_round round = {.plan = NULL};
    struct tci_hosts *hosts = plan_case_hosts(0, base.size);

    (void)state;
    for (int way = 0; way < 7; way++) {
        struct tci_shape other = base;

        other.rank += way == 0;
        other.size += way == 1;
        other.root += way == 2;
        other.radix += way == 3;
        other.cuts += way == 4;
        other.hosts = way == 5 ? hosts : NULL;
        other.in_place = way == 6;
        make_own(2, false);
        assert_true(tci_round_find(&round, &plan, &base));
        assert_int_equal(round.messages, 2);
        make_own(3, false);
        assert_true(tci_round_find(&round, &plan, &other));
        assert_int_equal(round.messages, 3);
    }
    tci_hosts_unref(hosts);
}

/* The receive of two ranks folds by itself, with the plan's own operands, once the send is out. */
static void two_ranks_fold_as_it_comes(void **state)
{
    struct tci_round round = {.plan = NULL};

    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct tci_shape shape = {.rank = rank, .size = 2, .radix = 2, .cuts = 1};
        struct tci_step fold = {0};

        assert_true(tci_round_find(&round, &tci_oneshot_allreduce, &shape));
        tci_oneshot_allreduce.step(&shape, round.messages, &fold);

        assert_int_equal(fold.kind, TCI_STEP_FOLD);
        assert_non_null(round.folding);
        assert_int_equal(round.folding->kind, TCI_STEP_RECV);
        assert_int_equal(round.folded.kind, TCI_STEP_RECV_REDUCE);
        assert_int_equal(round.folded.peer, round.folding->peer);
        assert_true(is_same_slice(round.folded.src, fold.src));
        assert_true(is_same_slice(round.folded.dst, fold.dst));
    }
}

static void what_no_two_ranks_fold_stays_as_it_is(void **state)
{
    struct tci_shape three = {.rank = 1, .size = 3, .radix = 2, .cuts = 1};
    struct tci_shape two = {.rank = 1, .size = 2, .radix = 2, .cuts = 1};
    struct tci_round round = {.plan = NULL};

    (void)state;
    assert_true(tci_round_find(&round, &tci_oneshot_allreduce, &two));
    assert_non_null(round.folding);
    assert_true(tci_round_find(&round, &tci_oneshot_allreduce, &three));
    assert_null(round.folding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_fold_as_it_comes),
        cmocka_unit_test(what_no_two_ranks_fold_stays_as_it_is),
        cmocka_unit_test(a_round_has_the_steps_of_its_plan),
        cmocka_unit_test(one_shot_is_a_round_for_as_many_ranks_as_there_is_room_for),
        cmocka_unit_test(a_pipeline_is_no_round),
        cmocka_unit_test(as_many_messages_as_there_is_room_for_are_a_round),
        cmocka_unit_test(a_step_that_waits_for_another_is_of_no_round),
        cmocka_unit_test(a_shape_that_differs_in_anything_is_looked_at_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
