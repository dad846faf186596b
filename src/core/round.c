/* round.c - finds the plans of one round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/round.h"

#include <stddef.h>

static bool is_same(const struct tci_shape *a, const struct tci_shape *b)
{
    return a->rank == b->rank && a->size == b->size && a->root == b->root && a->radix == b->radix &&
           a->cuts == b->cuts && a->hosts == b->hosts && a->in_place == b->in_place;
}

static bool waits(const struct tci_step *step)
{
    return step->fence || step->wait[0] != 0 || step->wait[1] != 0 || step->pace != 0;
}

/* The one message that two ranks exchange, and a fold behind it. */
static void join_fold(struct tci_round *round, const struct tci_step *fold)
{
    uint32_t at = round->steps[0].kind == TCI_STEP_RECV ? 0 : 1;

    if (round->shape.size != 2 || fold->kind != TCI_STEP_FOLD || !round->plan->canonical ||
        round->steps[at].kind != TCI_STEP_RECV || round->steps[1 - at].kind != TCI_STEP_SEND)
        return;
    round->folding = &round->steps[at];
    round->folded = (struct tci_step){.kind = TCI_STEP_RECV_REDUCE,
                                      .peer = round->steps[at].peer,
                                      .src = fold->src,
                                      .dst = fold->dst,
                                      .last = true};
}

/* Messages that wait for nothing, with no other step but a last one that waits for all of them; 0:
 * the plan is something else. */
static uint32_t count_messages(struct tci_round *round)
{
    uint32_t steps = round->plan->steps(&round->shape);

    if (steps > TCI_ROUND_MAX + 1)
        return 0;
    for (uint32_t i = 0; i < steps; i++) {
        struct tci_step step = {0};

        round->plan->step(&round->shape, i, &step);
        if (i > 0 && i + 1 == steps && step.fence && !tci_step_is_message(step.kind)) {
            if (i == 2)
                join_fold(round, &step);
            return i;
        }
        if (i == TCI_ROUND_MAX || !tci_step_is_message(step.kind) || waits(&step))
            return 0;
        round->steps[i] = step;
    }
    return steps;
}

bool tci_round_find(struct tci_round *round, const struct tci_plan *plan,
                    const struct tci_shape *shape)
{
    if (round->plan != plan || !is_same(&round->shape, shape)) {
        round->plan = plan;
        round->shape = *shape;
        round->folding = NULL;
        round->messages = count_messages(round);
    }
    return round->messages > 0;
}
