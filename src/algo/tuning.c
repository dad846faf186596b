/* tuning.c - the choices of a group: who holds them, and when they change. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/tuning.h"

#include <sched.h>

#include "algo/algo.h"
#include "algo/figures.h"
#include "algo/refine.h"
#include "core/assert.h"
#include "core/base.h"

static void fini(struct tci_comm *comm)
{
    TC_ASSERT(atomic_load(&comm->tuning.choosing) == 0);
    tci_refine_close(comm);
    tci_choices_unref(atomic_load(&comm->tuning.choices));
    tci_choices_unref(atomic_load(&comm->tuning.steady));
}

/* What was measured of all-reduces on one host, and the model does not know (docs/bounds.md).
 * Two ranks over TCP: one round of whole payloads is faster than two of halves, for each round
 * waits for the slower of two processors that copy, while payload, scratch and what lies in the
 * sockets stay in the second-level caches.  A few that share cores: what counts is how many
 * messages there are in all, 2 (n - 1) through rank 0, and not how many rounds; over shared memory,
 * where a message is little more than its copies, while these are short. */
enum { LINES_MAX = 4, FEW_RANKS = 4 };

struct range {
    const struct tci_plan *plan;
    uint64_t begin, end; /* bytes */
};

static bool find_range(const struct tci_comm *comm, const struct tci_figures *figures,
                       struct range *range_out)
{
    bool share_cores = figures->load > 16, is_wired = figures->is_wired != 0;

    if (figures->per_host > 0)
        return false;
    if (comm->size == 2 && !share_cores && is_wired)
        *range_out = (struct range){&tci_oneshot_allreduce, 96 << 10, 512 << 10};
    else if (comm->size > 2 && comm->size <= FEW_RANKS && share_cores)
        *range_out = (struct range){&tci_centralized_allreduce, 0, (is_wired ? 768 : 96) << 10};
    else
        return false;
    return true;
}

static size_t tell(const struct tci_comm *comm, const struct tci_figures *figures,
                   struct tci_told *told)
{
    static const int numerics[] = {TC_NUMERICS_CANONICAL, TC_NUMERICS_FAST};
    struct range range;
    size_t count = 0;

    if (!find_range(comm, figures, &range))
        return 0;
    for (size_t n = 0; n < TCI_LEN(numerics); n++) {
        told[count] = (struct tci_told){.plan = range.plan,
                                        .coll = TCI_COLL_ALLREDUCE,
                                        .bytes = range.begin,
                                        .numerics = numerics[n],
                                        .is_swift = true};
        told[count + 1] = told[count];
        told[count + 1].plan = NULL;
        told[count + 1].bytes = range.end;
        count += 2;
    }
    TC_ASSERT(count <= LINES_MAX);
    return count;
}

/* Those that the group begins with; the first thread to ask has them made. */
static struct tci_choices *begin(struct tci_comm *comm, _Atomic(struct tci_choices *) *place,
                                 struct tci_figures figures)
{
    struct tci_choices *choices, *none = NULL;
    struct tci_told told[LINES_MAX];
    size_t count;

    if (figures.load == 0) {
        tci_figures_default(&figures);
        if (comm->eager_max > 0)
            figures.eager_bytes = comm->eager_max;
    }
    figures.per_host = tci_hosts_most(comm->hosts);
    count = tell(comm, &figures, told);
    choices = tci_choices_new(&figures, (uint32_t)comm->size, comm->segment_bytes, told, count);
    if (choices == NULL)
        return NULL;
    if (!atomic_compare_exchange_strong(place, &none, choices)) {
        tci_choices_unref(choices);
        return none;
    }
    comm->tuning.fini = fini;
    return choices;
}

/* NULL without memory. */
static struct tci_choices *choices_of(struct tci_comm *comm)
{
    struct tci_choices *choices = atomic_load(&comm->tuning.choices);

    return choices != NULL ? choices : begin(comm, &comm->tuning.choices, comm->tuning.figures);
}

/* The same, for a fold whose bits follow the plan. */
static struct tci_choices *steady_of(struct tci_comm *comm)
{
    struct tci_choices *choices = atomic_load(&comm->tuning.steady);

    if (choices != NULL)
        return choices;
    if (comm->tuning.steady_figures.load == 0)
        return choices_of(comm);
    return begin(comm, &comm->tuning.steady, comm->tuning.steady_figures);
}

tc_status_t tci_tuning_choose(struct tci_comm *comm, const struct tci_ask *ask,
                              tci_is_legal is_legal, struct tci_choice *choice_out)
{
    tc_status_t status = TC_OK;

    /* In this order, which is that of sequential consistency: whoever changes the choices sets the
     * flag, and lets the old ones go when nobody is counted here any more. */
    atomic_fetch_add(&comm->tuning.choosing, 1);
    if (atomic_load(&comm->tuning.is_changing)) {
        status = TC_ERR_BUSY;
    } else {
        bool is_steady = ask->folds && ask->numerics == TC_NUMERICS_FAST;
        struct tci_choices *choices = is_steady ? steady_of(comm) : choices_of(comm);

        if (choices == NULL || !tci_choose(choices, ask, is_legal, choice_out))
            status = TC_ERR_ALLOC;
    }
    atomic_fetch_sub(&comm->tuning.choosing, 1);
    return status;
}

const struct tci_figures *tci_tuning_figures(struct tci_comm *comm)
{
    struct tci_choices *choices = choices_of(comm);

    return choices != NULL ? tci_choices_figures(choices) : NULL;
}

const struct tci_figures *tci_tuning_steady(struct tci_comm *comm)
{
    struct tci_choices *choices = atomic_load(&comm->tuning.steady);

    if (choices != NULL)
        return tci_choices_figures(choices);
    return comm->tuning.steady_figures.load != 0 ? &comm->tuning.steady_figures : NULL;
}

void tci_tuning_change(struct tci_comm *comm, struct tci_choices *choices, bool is_asked_for)
{
    struct tci_choices *old, *old_steady;

    TC_ASSERT(atomic_load(&comm->tuning.is_changing));
    old = atomic_exchange(&comm->tuning.choices, choices);
    old_steady = atomic_exchange(&comm->tuning.steady, is_asked_for ? NULL : old);
    if (is_asked_for) {
        comm->tuning.steady_figures.load = 0;
        tci_refine_forget(comm);
    } else {
        old = NULL;
    }
    atomic_fetch_add(&comm->tuning.version, 1);
    comm->tuning.fini = fini;
    /* Whoever is counted looked before the group began to agree, some messages ago. */
    while (atomic_load(&comm->tuning.choosing) > 0)
        sched_yield();
    tci_choices_unref(old);
    tci_choices_unref(old_steady);
}
