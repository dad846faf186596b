/* plan_cases.c - the shapes in which a plan is examined. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_cases.h"

#include <stdlib.h>

#include "core/assert.h"
#include "core/base.h"

struct tci_shape plan_case_shape(const struct plan_case *subject, uint32_t rank)
{
    return (struct tci_shape){.rank = rank,
                              .size = subject->size,
                              .root = subject->root,
                              .radix = subject->radix,
                              .cuts = subject->cuts,
                              .hosts = subject->hosts,
                              .in_place = subject->in_place};
}

uint64_t plan_case_steps(const struct plan_case *subject)
{
    uint64_t steps = 0;

    for (uint32_t r = 0; r < subject->size; r++) {
        struct tci_shape shape = plan_case_shape(subject, r);

        steps += subject->plan->steps(&shape);
    }
    return steps;
}

uint64_t plan_case_touches(const struct plan_case *subject)
{
    uint64_t touches = 0;

    for (uint32_t r = 0; r < subject->size; r++) {
        struct tci_shape shape = plan_case_shape(subject, r);
        uint32_t steps = subject->plan->steps(&shape);

        for (uint32_t i = 0; i < steps; i++) {
            struct tci_step step;

            subject->plan->step(&shape, i, &step);
            touches += step.kind == TCI_STEP_FOLD ? subject->size : 1 + step.src.more;
            touches += 1 + step.dst.more;
        }
    }
    return touches;
}

static bool is_same_slice(struct tci_slice x, struct tci_slice y)
{
    return x.buf == y.buf && x.block == y.block && x.more == y.more;
}

static bool is_same_step(const struct tci_step *x, const struct tci_step *y)
{
    return x->kind == y->kind && x->wait[0] == y->wait[0] && x->wait[1] == y->wait[1] &&
           x->fence == y->fence && x->last == y->last && x->wide == y->wide &&
           x->answers == y->answers && x->peer == y->peer && x->pace == y->pace &&
           x->match == y->match && is_same_slice(x->src, y->src) && is_same_slice(x->dst, y->dst) &&
           is_same_slice(x->as, y->as);
}

static bool is_same_rank(const struct tci_plan *plan, const struct tci_shape *x,
                         const struct tci_shape *y)
{
    uint32_t steps = plan->steps(x);

    if (plan->steps(y) != steps)
        return false;
    for (uint32_t i = 0; i < steps; i++) {
        struct tci_step a, b;

        plan->step(x, i, &a);
        plan->step(y, i, &b);
        if (!is_same_step(&a, &b))
            return false;
    }
    return true;
}

/* Does radix 2 give the same steps as this one? */
static bool is_repeated(const struct plan_case *subject)
{
    if (subject->radix == 2)
        return false;
    for (uint32_t r = 0; r < subject->size; r++) {
        struct tci_shape x = plan_case_shape(subject, r), y = x;

        y.radix = 2;
        if (!is_same_rank(subject->plan, &x, &y))
            return false;
    }
    return true;
}

static bool has_root(enum tci_coll coll)
{
    return coll == TCI_COLL_BROADCAST || coll == TCI_COLL_P2P || coll == TCI_COLL_REDUCE ||
           coll == TCI_COLL_GATHER || coll == TCI_COLL_SCATTER;
}

static bool each_root(struct plan_case subject, plan_case_fn each, void *arg)
{
    uint32_t roots = has_root(subject.plan->coll) ? subject.size : 1;

    for (uint32_t root = 0; root < roots; root++) {
        subject.root = root;
        if (!each(&subject, arg))
            return false;
    }
    return true;
}

/* Pipelines are also examined with more pieces than ranks, and with more than a window holds. */
static size_t cuts_of(const struct tci_plan *plan, uint32_t size, const uint32_t **cuts_out)
{
    static const uint32_t of_few_ranks[] = {1, 2, 5, 21}, of_many[] = {1, 3};
    bool is_small = size <= 17;

    *cuts_out = is_small ? of_few_ranks : of_many;
    if (plan->depth == NULL)
        return 1;
    return is_small ? TCI_LEN(of_few_ranks) : TCI_LEN(of_many);
}

/* Where rank r is: pairs; 1, 2, 3, … ranks; taking turns; each alone; without any order. */
static uint32_t host_of(unsigned layout, uint32_t r)
{
    uint32_t host = 0;

    switch (layout) {
    case 0:
        return r / 2;
    case 1:
        while (r > host)
            r -= ++host;
        return host;
    case 2:
        return r % 3;
    case 3:
        return r;
    default:
        return (r * UINT32_C(2654435769) >> 16) % 5;
    }
}

enum { LAYOUTS = 5 };

struct tci_hosts *plan_case_hosts(unsigned layout, uint32_t size)
{
    uint64_t *labels = malloc(size * sizeof *labels);
    struct tci_hosts *hosts;

    for (uint32_t r = 0; r < size; r++)
        labels[r] = host_of(layout, r);
    hosts = tci_hosts_new(labels, size);
    free(labels);
    TC_ASSERT(hosts != NULL);
    return hosts;
}

static bool each_shape(const struct tci_plan *plan, uint32_t size, const struct tci_hosts *hosts,
                       plan_case_fn each, void *arg)
{
    static const uint32_t radices[] = {2, 3, 4, 8};
    const uint32_t *cuts;
    size_t n_cuts = cuts_of(plan, size, &cuts);
    bool only_in_place = plan->coll == TCI_COLL_BROADCAST;
    bool never_in_place = plan->layout == TCI_LAYOUT_NONE;

    for (size_t k = 0; k < n_cuts * TCI_LEN(radices); k++)
        for (int in_place = only_in_place; in_place <= !never_in_place; in_place++) {
            struct plan_case subject = {.plan = plan,
                                        .size = size,
                                        .radix = radices[k % TCI_LEN(radices)],
                                        .cuts = cuts[k / TCI_LEN(radices)],
                                        .hosts = hosts,
                                        .in_place = in_place,
                                        .window = PLAN_WINDOW_MIN,
                                        .along_messages = true};

            if (!is_repeated(&subject) && !each_root(subject, each, arg))
                return false;
        }
    return true;
}

bool plan_cases_each(const struct tci_plan *plan, uint32_t size, plan_case_fn each, void *arg)
{
    bool go_on = true;

    if (plan->coll == TCI_COLL_P2P && size == 1)
        return true;
    go_on = each_shape(plan, size, NULL, each, arg);
    for (unsigned layout = 0; go_on && plan->by_host && layout < LAYOUTS; layout++) {
        struct tci_hosts *hosts = plan_case_hosts(layout, size);

        go_on = each_shape(plan, size, hosts, each, arg);
        tci_hosts_unref(hosts);
    }
    return go_on;
}
