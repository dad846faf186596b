/* refine.c - a group measures its links anew as it runs, and ordered calls follow. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All ranks must choose alike for each call, and nothing may stop for that.  Ordered calls have
 * numbers that mean the same on every rank, so what a choice follows from is a matter of them:
 *
 *   call  0 …………… 256 …………… 512 …………… 768          border k is call 256 k
 *                  |        | |        |
 *                  round 1 ·| |        from 512 on the choices of round 1
 *                           | round 2  from 768 on those of round 2, …
 *
 * Round k begins where call 256 k enters, on each rank by itself, and runs beside the calls: rank 0
 * says whether it is time; if it is, the ranks measure and agree as they do when a group forms.  A
 * call from 256 (k + 1) on that comes before round k has ended is kept until then.  That takes a
 * rank that is 256 calls ahead.  A difference of less than a half changes nothing.
 *
 * Tagged calls have no such numbers: who starts one first cannot know of a border that another has
 * passed already, and to ask would cost each call a round trip.  They keep the choices of the
 * group's beginning, or of tc_dist_tune, which is a border for all calls.  So do fast folds, whose
 * bits would change.
 */
#include "algo/refine.h"

#include <string.h>

#include "algo/algo.h"
#include "algo/measure.h"
#include "algo/select.h"
#include "algo/tuning.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"

/* Choices that are kept for calls whose number was given before the last changes: each of those
 * took TCI_REFINE_CALLS calls and a measurement. */
enum { KEPT = 4 };

/* Tags of a round's internal operations. */
#define ROUND_TAG(round) (UINT64_C(3) << 62 | (round) << 16)

struct generation {
    uint64_t first; /* call that they count for */
    struct tci_choices *choices;
};

struct tci_refine {
    struct tci_comm *comm;
    uint64_t every_ms, last_ns; /* last_ns: of rank 0 */
    uint64_t round;             /* the last that has begun, here */
    uint64_t changes;
    bool is_running;
    uint8_t is_due;             /* what rank 0 says */
    struct tci_figures figures; /* that the round compares with */
    struct generation kept[KEPT];
    unsigned count;
    struct tci_list held;   /* operations, by their link */
    struct tci_error error; /* of a round: no rank can know what the others have agreed on */
    struct tci_future_hook hook;
    struct tci_task task;   /* lets the held go */
    struct tci_task *quiet; /* borrowed; NULL: nobody waits for quiet */
};

static uint64_t border(const struct tci_refine *refine)
{
    return (refine->round + 1) * TCI_REFINE_CALLS;
}

/* ---- The choices of a call ------------------------------------------------------------------ */

/* NULL: those of the group's beginning. */
static struct tci_choices *choices_for(const struct tci_refine *refine, uint64_t number)
{
    for (unsigned k = refine->count; k-- > 0;)
        if (refine->kept[k].first <= number)
            return refine->kept[k].choices;
    return NULL;
}

static void add_generation(struct tci_refine *refine, uint64_t first, struct tci_choices *choices)
{
    if (refine->count == KEPT) {
        tci_choices_unref(refine->kept[0].choices);
        memmove(refine->kept, refine->kept + 1, (KEPT - 1) * sizeof(refine->kept[0]));
        refine->count--;
    }
    refine->kept[refine->count++] = (struct generation){.first = first, .choices = choices};
    refine->changes++;
}

void tci_refine_forget(struct tci_comm *comm)
{
    struct tci_refine *refine = comm->tuning.refine;

    if (refine == NULL)
        return;
    TC_ASSERT(!refine->is_running && tci_list_is_empty(&refine->held));
    while (refine->count > 0)
        tci_choices_unref(refine->kept[--refine->count].choices);
}

/* ---- The end of a round --------------------------------------------------------------------- */

static void let_go(struct tci_task *task)
{
    struct tci_refine *refine = tci_container_of(task, struct tci_refine, task);
    struct tci_comm *comm = refine->comm;
    struct tci_list waiting, *link;

    refine->is_running = false;
    /* Some may have to wait for the next round at once. */
    tci_list_init(&waiting);
    while ((link = tci_list_first(&refine->held)) != NULL) {
        tci_list_del(link);
        tci_list_add(&waiting, link);
    }
    while ((link = tci_list_first(&waiting)) != NULL) {
        struct tci_op *op = tci_container_of(link, struct tci_op, link);

        tci_list_del(link);
        comm->exec->ops->timer_clear(comm->exec, &op->timer);
        if (comm->tuning.admit(comm, op))
            tci_op_enter(op);
    }
    if (refine->quiet != NULL && !refine->is_running) {
        comm->exec->ops->post(comm->exec, refine->quiet);
        refine->quiet = NULL;
    }
    tci_comm_release(comm);
}

static void end_round(struct tci_refine *refine, const struct tci_error *error)
{
    struct tci_comm *comm = refine->comm;

    if (error != NULL)
        tci_error_copy(&refine->error, error);
    refine->task.fn = let_go; /* later: the caller may stand on an operation */
    comm->exec->ops->post(comm->exec, &refine->task);
}

/* ---- A round -------------------------------------------------------------------------------- */

static bool is_other(uint64_t a, uint64_t b)
{
    return a > b + b / 2 || b > a + a / 2;
}

/* Half a round trip, and the bandwidth: what is between the two parts of a message is less sure. */
static bool has_changed(const struct tci_figures *from, const struct tci_figures *to)
{
    for (int r = 0; r < TCI_REACH_COUNT; r++) {
        const struct tci_link_figures *a = &from->link[r], *b = &to->link[r];

        if (is_other(a->latency_ps + 2 * a->overhead_ps, b->latency_ps + 2 * b->overhead_ps) ||
            is_other(a->byte_fs, b->byte_fs))
            return true;
    }
    return false;
}

static void has_measured(void *arg, const struct tci_error *error,
                         const struct tci_figures *figures)
{
    struct tci_refine *refine = arg;
    struct tci_comm *comm = refine->comm;
    struct tci_error failed = {0};
    struct tci_choices *choices;

    refine->last_ns = comm->exec->ops->now_ns(comm->exec);
    if (error != NULL || !has_changed(&refine->figures, figures)) {
        end_round(refine, error);
        return;
    }
    choices = tci_choices_new(figures, (uint32_t)comm->size, comm->segment_bytes, NULL, 0);
    if (choices == NULL) {
        tci_error_set(&failed, TC_ERR_ALLOC, comm->rank, 0, "tune", "no memory left");
        end_round(refine, &failed);
        return;
    }
    add_generation(refine, border(refine), choices);
    tci_log(TC_LOG_INFO,
            "rank %d has new choices from ordered call %llu on: within hosts %llu ns, %llu ps a "
            "byte; between hosts %llu ns, %llu ps",
            comm->rank, (unsigned long long)border(refine),
            (unsigned long long)figures->link[0].latency_ps / 1000,
            (unsigned long long)figures->link[0].byte_fs / 1000,
            (unsigned long long)figures->link[1].latency_ps / 1000,
            (unsigned long long)figures->link[1].byte_fs / 1000);
    end_round(refine, NULL);
}

/* What rank 0 says has come. */
static void has_heard(tc_future *future, void *arg)
{
    struct tci_refine *refine = arg;
    const tc_error *why = tc_future_error(future);
    struct tci_error error = {0};

    if (why != NULL)
        tci_error_blame(&error, why->status, why->rank, tc_error_reason(why), "tune", "%s",
                        why->message);
    tc_future_release(future);
    if (why != NULL || !refine->is_due)
        end_round(refine, why != NULL ? &error : NULL);
    else
        tci_measure_beside(refine->comm, ROUND_TAG(refine->round) + 1, &refine->figures,
                           has_measured, refine);
}

static void begin_round(struct tci_refine *refine)
{
    struct tci_comm *comm = refine->comm;
    struct tci_choices *choices;
    struct tci_op_args args = {.plan = &tci_tree_broadcast,
                               .call = {.count = 1,
                                        .root = 0,
                                        .coll = TCI_COLL_BROADCAST,
                                        .dtype = TC_DTYPE_U8,
                                        .op = 255,
                                        .plan = tci_tree_broadcast.id},
                               .is_canonical = true,
                               .send = &refine->is_due,
                               .recv = &refine->is_due,
                               .count = 1,
                               .elem_bytes = 1};

    refine->round++;
    refine->is_running = true;
    choices = choices_for(refine, border(refine) - 1);
    refine->figures = choices != NULL ? *tci_choices_figures(choices) : *tci_tuning_figures(comm);
    refine->is_due =
        comm->exec->ops->now_ns(comm->exec) - refine->last_ns >= refine->every_ms * TCI_NS_PER_MS;
    /* For the round, until the held have been let go. */
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    refine->hook = (struct tci_future_hook){.fn = has_heard, .arg = refine};
    tci_future_hook(tci_measure_op(comm, &args, ROUND_TAG(refine->round), -1), &refine->hook);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static void held_too_long(struct tci_timer *timer)
{
    struct tci_op *op = tci_container_of(timer, struct tci_op, timer);

    tci_op_fail_with(op, TC_ERR_TIMEOUT, -1, true,
                     "rank %d was more than %d ordered calls ahead of another, and the group has "
                     "not agreed on its choices of algorithms: see why ranks are slow to call",
                     op->comm->rank, TCI_REFINE_CALLS);
}

static void hold(struct tci_refine *refine, struct tci_op *op)
{
    struct tci_exec *exec = refine->comm->exec;

    tci_list_add(&refine->held, &op->link);
    op->timer.fn = held_too_long;
    if (op->args.timeout_ms >= 0 &&
        exec->ops->timer_set(exec, &op->timer,
                             exec->ops->now_ns(exec) +
                                 (uint64_t)op->args.timeout_ms * TCI_NS_PER_MS) != 0)
        tci_op_fail_with(op, TC_ERR_ALLOC, refine->comm->rank, true, "rank %d has no memory left",
                         refine->comm->rank);
}

/* An ordered call is about to enter. */
static bool admit(struct tci_comm *comm, struct tci_op *op)
{
    struct tci_refine *refine = comm->tuning.refine;
    struct tci_choices *choices;
    uint64_t number = op->args.tag;

    if (comm->error.pub.status != TC_OK)
        return true; /* it will fail as all do */
    while (number >= border(refine) && refine->error.pub.status == TC_OK) {
        if (refine->is_running) {
            hold(refine, op);
            return false;
        }
        begin_round(refine);
    }
    if (number >= border(refine)) {
        tci_op_fail_with(op, refine->error.pub.status, refine->error.pub.rank, false,
                         "the ranks could not agree on their choices of algorithms: %s",
                         refine->error.text);
        return false;
    }
    choices = choices_for(refine, number);
    if (choices == NULL || tci_select_again(choices, &op->args))
        return true;
    tci_op_fail_with(op, TC_ERR_ALLOC, comm->rank, true, "rank %d has no memory left", comm->rank);
    return false;
}

/* ---- Life ----------------------------------------------------------------------------------- */

bool tci_refine_open(struct tci_comm *comm, uint64_t every_ms)
{
    struct tci_refine *refine = comm->tuning.refine;

    if (refine != NULL || every_ms == 0 || comm->size == 1)
        return true;
    if (tci_tuning_figures(comm) == NULL)
        return false;
    refine = tci_alloc(sizeof(*refine));
    if (refine == NULL)
        return false;
    *refine = (struct tci_refine){.comm = comm, .every_ms = every_ms};
    tci_list_init(&refine->held);
    refine->last_ns = comm->exec->ops->now_ns(comm->exec);
    refine->round = atomic_load(&comm->ordered_next) / TCI_REFINE_CALLS;
    comm->tuning.refine = refine;
    comm->tuning.admit = admit;
    return true;
}

void tci_refine_close(struct tci_comm *comm)
{
    if (comm->tuning.refine == NULL)
        return;
    tci_refine_forget(comm);
    tci_free(comm->tuning.refine);
    comm->tuning.refine = NULL;
    comm->tuning.admit = NULL;
}

uint64_t tci_refine_every_ms(const struct tci_comm *comm)
{
    return comm->tuning.refine != NULL ? comm->tuning.refine->every_ms : 0;
}

uint64_t tci_refine_changes(const struct tci_comm *comm)
{
    return comm->tuning.refine != NULL ? comm->tuning.refine->changes : 0;
}

void tci_refine_when_quiet(struct tci_comm *comm, struct tci_task *task)
{
    struct tci_refine *refine = comm->tuning.refine;

    if (refine == NULL || (!refine->is_running && tci_list_is_empty(&refine->held))) {
        comm->exec->ops->post(comm->exec, task);
        return;
    }
    TC_ASSERT(refine->quiet == NULL);
    refine->quiet = task;
}
