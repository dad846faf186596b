/* round.c - finds the plans of one round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/round.h"

static bool is_same(const struct tci_shape *a, const struct tci_shape *b)
{
    return a->rank == b->rank && a->size == b->size && a->root == b->root && a->radix == b->radix &&
           a->cuts == b->cuts && a->hosts == b->hosts && a->in_place == b->in_place;
}

static bool waits(const struct tci_step *step)
{
    return step->fence || step->wait[0] != 0 || step->wait[1] != 0 || step->pace != 0;
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
        if (i > 0 && i + 1 == steps && step.fence && !tci_step_is_message(step.kind))
            return i;
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
        round->messages = count_messages(round);
    }
    return round->messages > 0;
}
