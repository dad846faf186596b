/* diagnose.c - deadlines: the others are asked what they are doing, and the culprit is named. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortly before its deadline an operation has another rank find out why it does not end, and ends
 * as that one says: see inquest.h.  A judge that does not say that it does so is passed over.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/mismatch.h"
#include "core/self.h"
#include "core/waiting.h"

enum {
    GRACE_MS_MAX = 1000,
    GRACE_LATE_MS = 300,
    JUDGES_MAX = 2,       /* that are tried, before a rank judges itself */
    TAKE_UP_MIN_MS = 100, /* in which a judge has said that it is one; else a third of the grace */
    RULING_MS = 500,      /* after a deadline it has ruled */
    LOSS_MS = 400,        /* and a loss that was being judged then has broken the group */
    LATER_MS = 50
};

/* Without a deadline, and with a long one, the log says after so long whom an operation waits for;
 * with a shorter one after a third of it, unless that is less than a second. */
enum { WARN_MS = 10000, WARN_MS_MIN = 1000 };

/* An operation that has waited for this long shows its call: longer than most take, and short for
 * whoever waits for an error. */
enum { SHOW_MS = 100 };

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

/* ---- The deadline --------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static void blame(struct tci_op *op, int rank,
                                                        tc_reason_t reason, const char *fmt, ...)
{
    struct tci_error error;
    char text[sizeof(error.text)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    tci_op_words(op, &(tc_error){.status = TC_ERR_TIMEOUT, .rank = rank, .message = text}, reason,
                 &error);
    tci_op_fail(op, &error, true);
}

/* Nobody has judged. */
static void conclude(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    unsigned long long ms = (unsigned long long)op->args.timeout_ms;
    int judge = op->judge, of;
    char more[160] = "";

    if (op->state == TCI_OP_WAITING) {
        blame(op, comm->rank, TC_REASON_NOT_ENTERED,
              "rank %d still waits for the futures to start after, %llu ms after the call",
              comm->rank, ms);
    } else if (tci_self_is_meant(op)) {
        blame(op, comm->rank, TC_REASON_NOT_ENTERED, "after %llu ms rank %d still waits for %s", ms,
              comm->rank, tci_self_print(op, more, sizeof(more)));
    } else if (judge >= 0 && judge != comm->rank &&
               tci_hearing_of(comm, (uint32_t)judge, op->asked_ns) == TCI_HEAR_NOTHING) {
        blame(op, judge, TC_REASON_MACHINE_SILENT,
              "rank %d, which was about to say why it has not ended after %llu ms, is silent: its "
              "host is off, asleep, or cut off",
              judge, ms);
    } else if (judge >= 0 && judge != comm->rank) {
        blame(
            op, judge, TC_REASON_LOOP_STALLED,
            "rank %d, which was about to say why it has not ended after %llu ms, says nothing any "
            "more: its loop does not turn%s",
            judge, ms, tci_beat_print(comm, judge, more, sizeof(more)));
    } else {
        of = tci_waits_for(op);
        blame(op, of, TC_REASON_SLOW,
              "after %llu ms rank %d still waits for rank %d: a slow link, or a timeout that "
              "is too short",
              ms, comm->rank, of);
    }
}

/* Who judges already; else the next one, of a send or receive the lower one of the two; at last
 * this rank. */
static int next_judge(const struct tci_op *op)
{
    const struct tci_comm *comm = op->comm;
    const struct tci_transport *transport = comm->transport;
    int judge = op->asked + 1;

    if (op->judge >= 0)
        return op->judge;
    if (op->args.peer >= 0)
        return op->asked < 0 && op->args.peer < comm->rank ? op->args.peer : comm->rank;
    for (; op->tries < JUDGES_MAX && judge < comm->rank; judge++) {
        enum tci_bond bond = tci_transport_bond(transport, (uint32_t)judge);

        if (bond != TCI_BOND_LEFT && bond != TCI_BOND_LOST)
            return judge;
    }
    return comm->rank;
}

/* Of an operation that is others' business, too. */
static bool is_shared(const struct tci_op *op)
{
    return op->comm->transport != NULL && op->comm->size > 1 && op->args.peer != op->comm->rank;
}

static void petition(struct tci_op *op)
{
    op->is_asked = true;
    if (op->asked_ns == 0)
        op->asked_ns = now(op->comm);
    if (!is_shared(op)) {
        op->asked = op->comm->rank;
        return;
    }
    op->asked = next_judge(op);
    op->tries++;
    (void)tci_inquest_ask(op, op->asked); /* without memory it ends at its deadline */
}

/* Time kept for the answers; little by a loop that stood still until after the deadline. */
static uint64_t grace_of(const struct tci_op *op)
{
    uint64_t most = op->asked_ns < op->deadline_ns ? GRACE_MS_MAX : GRACE_LATE_MS;

    return tci_min((uint64_t)op->args.timeout_ms * TCI_NS_PER_MS / 4, most * TCI_NS_PER_MS);
}

static_assert((int)RULING_MS + (int)LOSS_MS <= (int)TCI_OP_LATE_MS, "the group waits for as long");

static void fail_without_memory(struct tci_op *op)
{
    tci_op_fail_with(op, TC_ERR_ALLOC, op->comm->rank, true, "rank %d has no memory left",
                     op->comm->rank);
}

void tci_diagnose_print_times(int timeout_ms, char *text, size_t text_bytes)
{
    int third = timeout_ms < 0 || timeout_ms / 3 > WARN_MS ? WARN_MS : timeout_ms / 3;
    int grace = timeout_ms / 4 > GRACE_MS_MAX ? GRACE_MS_MAX : timeout_ms / 4;

    if (timeout_ms < 0)
        snprintf(text, text_bytes, "no timeout; warns after %d ms, and ever more rarely", third);
    else if (third < WARN_MS_MIN)
        snprintf(text, text_bytes, "timeout %d ms; asks the others after %d ms", timeout_ms,
                 timeout_ms - grace);
    else
        snprintf(text, text_bytes, "timeout %d ms; warns after %d ms, asks the others after %d ms",
                 timeout_ms, third, timeout_ms - grace);
}

/* ---- The operation's timer ------------------------------------------------------------------ */

static uint64_t warn_ns(const struct tci_op *op)
{
    uint64_t third = op->args.timeout_ms < 0 ? WARN_MS : (uint64_t)op->args.timeout_ms / 3;

    return op->begin_ns + tci_min(third, WARN_MS) * TCI_NS_PER_MS;
}

/* When it ends, whatever has become of its judge.  A loop that comes late asks first, so that the
 * right rank is named. */
static uint64_t last_ns(const struct tci_op *op)
{
    if (op->judge < 0)
        return op->deadline_ns;
    return tci_max(op->deadline_ns, op->asked_ns + grace_of(op)) + RULING_MS * TCI_NS_PER_MS;
}

static bool has_more_judges(const struct tci_op *op)
{
    return op->judge < 0 && op->asked != op->comm->rank;
}

/* When it is to ring next. */
static uint64_t next_ring(struct tci_op *op)
{
    uint64_t ask_ns, grace = grace_of(op);

    if (op->deadline_ns == TCI_NEVER)
        return op->is_warned ? now(op->comm) + (now(op->comm) - op->begin_ns) : warn_ns(op);
    ask_ns = op->deadline_ns - grace;
    if (!op->is_warned &&
        (warn_ns(op) - op->begin_ns < WARN_MS_MIN * TCI_NS_PER_MS || warn_ns(op) >= ask_ns))
        op->is_warned = true;
    if (!op->is_warned)
        return warn_ns(op);
    if (!op->is_asked)
        return ask_ns;
    if (has_more_judges(op))
        return now(op->comm) + tci_max(grace / 3, TAKE_UP_MIN_MS * TCI_NS_PER_MS);
    if (now(op->comm) >= last_ns(op)) /* a loss is about to be judged */
        return now(op->comm) + LATER_MS * TCI_NS_PER_MS;
    return last_ns(op);
}

/* Whether the end of the operation is still to come from others. */
static bool is_patient(const struct tci_op *op)
{
    uint64_t last = last_ns(op);

    return now(op->comm) < last ||
           (tci_comm_bears_loss(op->comm) && now(op->comm) < last + LOSS_MS * TCI_NS_PER_MS);
}

static void on_time(struct tci_timer *timer)
{
    struct tci_op *op = tci_container_of(timer, struct tci_op, timer);
    struct tci_exec *exec = op->comm->exec;

    if (op->state == TCI_OP_DRAINING)
        return; /* it has failed, and waits for its transfers to end */
    if (op->met >= 0) {
        tci_dispute_expire(op);
        return;
    }
    if (!op->is_shown) {
        op->is_shown = true;
        tci_mismatch_show(op);
    } else if (!op->is_warned || op->deadline_ns == TCI_NEVER) {
        op->is_warned = true;
        tci_waiting_warn(op);
    } else if (!op->is_asked || has_more_judges(op)) {
        petition(op);
    } else if (!is_patient(op)) {
        conclude(op);
        return;
    }
    if (exec->ops->timer_set(exec, timer, next_ring(op)) == 0)
        return;
    if (op->is_asked)
        conclude(op);
    else
        fail_without_memory(op);
}

/* When an operation that runs now shows its call. */
static uint64_t show_time(const struct tci_op *op, uint64_t now_ns)
{
    uint64_t at = now_ns + SHOW_MS * TCI_NS_PER_MS;

    if (op->deadline_ns == TCI_NEVER)
        return at;
    return tci_min(at, op->begin_ns + (uint64_t)op->args.timeout_ms * TCI_NS_PER_MS / 4);
}

/* Of the operations that have come since it was set: nearly all have ended. */
static void on_alarm(struct tci_timer *alarm)
{
    struct tci_comm *comm = tci_container_of(alarm, struct tci_comm, alarm);
    struct tci_list *link, *next;

    for (link = comm->ops.next; link != &comm->ops; link = next) {
        struct tci_op *op = tci_container_of(link, struct tci_op, link);

        next = link->next;
        if (op->timer.heap_at == 0 && op->state < TCI_OP_DRAINING &&
            comm->exec->ops->timer_set(comm->exec, &op->timer, op->timer.deadline_ns) != 0)
            fail_without_memory(op);
    }
}

/* An operation is given a timer of its own only when the first of those that have none would ring:
 * most never need one. */
void tci_diagnose_arm(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    uint64_t now_ns = now(comm);

    op->deadline_ns = TCI_NEVER;
    if (op->args.timeout_ms >= 0) {
        op->begin_ns = tci_min(op->begin_ns, now_ns);
        op->deadline_ns = op->begin_ns + (uint64_t)op->args.timeout_ms * TCI_NS_PER_MS;
    }
    op->timer.fn = on_time;
    op->is_shown = op->after != NULL || comm->transport == NULL;
    op->timer.deadline_ns = !op->is_shown ? show_time(op, now_ns) : next_ring(op);
    if (comm->alarm.heap_at != 0 && comm->alarm.deadline_ns <= op->timer.deadline_ns)
        return;
    comm->alarm.fn = on_alarm;
    if (comm->exec->ops->timer_set(comm->exec, &comm->alarm, op->timer.deadline_ns) != 0)
        fail_without_memory(op);
}

void tci_diagnose_ran(struct tci_op *op)
{
    struct tci_exec *exec = op->comm->exec;
    uint64_t at = now(op->comm) + SHOW_MS * TCI_NS_PER_MS;

    /* Where the questions come sooner they show the call as well; so they do where there is no
     * memory for the timer. */
    if (op->comm->transport == NULL || op->is_asked || at >= next_ring(op))
        return;
    op->is_shown = false;
    if (exec->ops->timer_set(exec, &op->timer, at) != 0)
        op->is_shown = true;
}
