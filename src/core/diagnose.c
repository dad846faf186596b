/* diagnose.c - deadlines: the others are asked what they are doing, and the culprit is named. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose operation comes close to its deadline asks all the others, by way of rank 0, what
 * they know of the tag.  Halfway from there to the deadline it has a suspicion, a pair of ranks: of
 * itself and one that has not answered, or, when all have, of the last along the way from one rank
 * to the one that it waits for.  Then the hosts are asked for: does the one still hear the other?
 *
 * At the deadline it names, in this order: a rank whose call differs, a rank that has not entered,
 * a rank that does not answer though its host does, a rank that is waited for.  A host that is not
 * heard is a matter for all: see verdict.h.
 *
 * A rank that meets another call than its own asks in the same way.  When all have answered, or a
 * short time has passed, it names the rank whose call is unlike that of the most.  Whoever is asked
 * meanwhile holds its operation, which will not end well.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/answers.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/match.h"
#include "core/mismatch.h"
#include "core/waiting.h"

enum { GRACE_MS_MAX = 1000 };

/* And for the echo of what it has proposed. */
enum { ECHO_MS = 300 };

/* Without a deadline, and with a long one, the log says after so long whom an operation waits for;
 * with a shorter one after a third of it, unless that is less than a second. */
enum { WARN_MS = 10000, WARN_MS_MIN = 1000 };

/* An operation that has waited for this long shows its call: longer than most take, and short for
 * whoever waits for an error. */
enum { SHOW_MS = 100 };

static void count_opinion(struct tci_answers *answers, int rank, const struct tci_call *call)
{
    for (size_t o = 0; o < OPINIONS_MAX; o++) {
        struct tci_opinion *opinion = &answers->opinions[o];

        if (opinion->count > 0 && !tci_call_is_equal(&opinion->call, call))
            continue;
        if (opinion->count == 0 || rank < opinion->first)
            opinion->first = rank;
        opinion->call = *call;
        opinion->count++;
        return;
    }
}

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

struct tci_notice tci_diagnose_question(const struct tci_op *op)
{
    return (struct tci_notice){.kind = TCI_NOTICE_ASK,
                               .status = op->is_held ? TC_ERR_MISMATCH : TC_OK,
                               .culprit = op->comm->rank,
                               .key = op->key,
                               .call = op->args.call};
}

static void ask(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    struct tci_notice notice = tci_diagnose_question(op);

    op->is_asked = true;
    if (comm->transport == NULL || op->state != TCI_OP_RUNNING)
        return;
    op->answers = tci_alloc(sizeof(*op->answers) + (size_t)comm->size * sizeof(struct said));
    if (op->answers == NULL)
        return;
    op->answers->first_absent = op->answers->met = -1;
    op->answers->by = op->answers->of = op->answers->deaf = -1;
    op->answers->said[comm->rank].what = ENTERED;
    count_opinion(op->answers, comm->rank, &op->args.call);
    op->answers->asked = op->args.peer == TCI_ALL_PEERS ? comm->size - 1 : 1;
    if (op->args.peer == TCI_ALL_PEERS)
        tci_comm_tell(comm, &notice);
    else if (op->args.peer != comm->rank)
        comm->transport->ops->notify(comm->transport, (uint32_t)op->args.peer, &notice, true);
}

/* Name the rank whose call is unlike that of the most; false: all calls that are known agree. */
static bool conclude_mismatch(struct tci_op *op)
{
    struct tci_answers *answers = op->answers;
    struct tci_opinion *most, *least = NULL;
    char text[384];

    if (answers == NULL)
        return false;
    /* What was met counts where that rank says nothing of it any more. */
    if (answers->met >= 0 &&
        (answers->opinions[1].count == 0 || (answers->said[answers->met].what != ENTERED &&
                                             answers->said[answers->met].what != FINISHED)))
        count_opinion(answers, answers->met, &answers->met_call);
    most = &answers->opinions[0];
    for (size_t o = 1; o < OPINIONS_MAX; o++)
        if (answers->opinions[o].count > most->count)
            most = &answers->opinions[o];
    for (size_t o = 0; o < OPINIONS_MAX; o++) {
        struct tci_opinion *opinion = &answers->opinions[o];
        if (opinion != most && opinion->count > 0 &&
            (least == NULL || opinion->count < least->count))
            least = opinion;
    }
    if (least == NULL)
        return false;
    tci_op_fail_with(op, TC_ERR_MISMATCH, least->first, true, "%s",
                     tci_mismatch_print(op->comm, most, least, text, sizeof(text)));
    return true;
}

/* Several ranks reach the deadline at a time, and need not see the same.  So the operation ends as
 * rank 0 says, or the lower one of two: it is told first, and its echo counts everywhere. */
static bool propose(struct tci_op *op, const struct tci_error *error)
{
    struct tci_comm *comm = op->comm;
    int arbiter = op->args.peer < 0 ? 0 : tci_min(op->args.peer, comm->rank);
    const struct tci_answers *answers = op->answers;

    if (op->is_proposed || op->is_suspended || arbiter == comm->rank || answers == NULL ||
        answers->said[arbiter].what == SILENT ||
        comm->exec->ops->timer_set(comm->exec, &op->timer, now(comm) + ECHO_MS * TCI_NS_PER_MS) !=
            0)
        return false;
    op->is_proposed = true;
    tci_op_propose(op, error, (uint32_t)arbiter);
    return true;
}

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
    if (!propose(op, &error))
        tci_op_fail(op, &error, true);
}

/* All have answered: who keeps them waiting. */
static void blame_the_last(struct tci_op *op, unsigned long long ms)
{
    const struct tci_answers *answers = op->answers;
    int of, by;

    if (answers == NULL || answers->of < 0) {
        of = tci_waits_for(op);
        blame(op, of, TC_REASON_SLOW,
              "after %llu ms rank %d still waits for rank %d: a slow link, or a timeout that "
              "is too short",
              ms, op->comm->rank, of);
        return;
    }
    of = answers->of;
    by = answers->by;
    if (answers->said[of].what == ENTERED && answers->said[of].waits == TCI_WAITS_FOR_FUTURES)
        blame(op, of, TC_REASON_NOT_ENTERED,
              "after %llu ms rank %d still waits for the futures to start after: see what "
              "they wait for",
              ms, of);
    else if (op->is_suspended && answers->deaf >= 0)
        blame(op, of, TC_REASON_MACHINE_SILENT,
              "after %llu ms the host of rank %d does not answer rank %d: it is off, asleep, "
              "or cut off",
              ms, of, by);
    else
        blame(op, of, TC_REASON_SLOW,
              "all ranks have entered it, but after %llu ms rank %d still waits for rank %d, "
              "which is slow%s%s: look at its load and its link, or give it a longer timeout",
              ms, by, of, answers->said[of].text[0] != 0 ? ": it " : "", answers->said[of].text);
}

/* Name the culprit, once, for everyone. */
static void conclude(struct tci_op *op)
{
    const struct tci_answers *answers = op->answers;
    unsigned long long ms = (op->deadline_ns - op->begin_ns) / TCI_NS_PER_MS;
    int silent = tci_answers_first(op, SILENT);
    bool is_blocked;
    char more[160];

    if (silent >= 0 && answers->by == op->comm->rank && answers->of >= 0 &&
        answers->said[answers->of].what == SILENT)
        silent = answers->of;
    /* Who has not entered, since it waits for another in a call of its own, is not the cause. */
    is_blocked = answers != NULL && answers->first_absent >= 0 &&
                 answers->said[answers->first_absent].waits >= 0;

    if (conclude_mismatch(op))
        return;
    if (op->state == TCI_OP_WAITING)
        blame(op, op->comm->rank, TC_REASON_NOT_ENTERED,
              "rank %d still waits for the futures to start after, %llu ms after the call",
              op->comm->rank, ms);
    else if (is_blocked && tci_suspect_leaves_it(op, true))
        return;
    else if (answers != NULL && answers->first_absent >= 0 && !(is_blocked && silent >= 0))
        blame(op, answers->first_absent, TC_REASON_NOT_ENTERED,
              "rank %d has not entered it within %llu ms; %s: see what keeps it",
              answers->first_absent, ms, answers->text);
    else if (tci_suspect_leaves_it(op, false))
        return;
    else if (silent >= 0 && answers->of == silent && answers->is_flowing)
        blame(op, silent, TC_REASON_SLOW,
              "rank %d has not answered after %llu ms, but data still moves on its links: they are "
              "slow, or the timeout is too short",
              silent, ms);
    else if (silent >= 0 && !(answers->of == silent && answers->deaf >= 0))
        blame(
            op, silent, TC_REASON_LOOP_STALLED,
            "rank %d does not answer, %llu ms after the call, though its host does: its loop does "
            "not turn; see whether it is stopped, stuck in a continuation, or not turned%s",
            silent, ms, tci_beat_print(op->comm, silent, more, sizeof(more)));
    else
        blame_the_last(op, ms);
}

/* Time kept for the answers. */
static uint64_t grace_of(const struct tci_op *op)
{
    return tci_min((uint64_t)op->args.timeout_ms * TCI_NS_PER_MS / 4, GRACE_MS_MAX * TCI_NS_PER_MS);
}

/* The same where the others only have to say what they called. */
static uint64_t dispute_grace(const struct tci_op *op)
{
    uint64_t most = GRACE_MS_MAX * TCI_NS_PER_MS, left;

    if (op->deadline_ns == TCI_NEVER)
        return most;
    left = op->deadline_ns - tci_min(op->deadline_ns, now(op->comm));
    return tci_min(most, left);
}

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

/* When it is to ring next; TCI_NEVER: not again. */
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
    /* A loop that comes late still asks first: the deadline has passed, but the right rank is
     * named. */
    if (!op->is_probed)
        return tci_max(op->deadline_ns - grace / 2, now(op->comm) + grace / 8);
    return tci_max(op->deadline_ns, now(op->comm) + grace / 8);
}

static void on_time(struct tci_timer *timer)
{
    struct tci_op *op = tci_container_of(timer, struct tci_op, timer);
    struct tci_exec *exec = op->comm->exec;

    if (!op->is_shown) {
        op->is_shown = true;
        tci_mismatch_show(op);
    } else if (!op->is_warned || op->deadline_ns == TCI_NEVER) {
        op->is_warned = true;
        tci_waiting_warn(op);
    } else if (!op->is_asked) {
        ask(op);
    } else if (!op->is_probed && !op->is_held) {
        tci_suspect(op, grace_of(op) / 4 / TCI_NS_PER_MS);
    } else {
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
static uint64_t show_time(const struct tci_op *op)
{
    uint64_t at = now(op->comm) + SHOW_MS * TCI_NS_PER_MS;

    if (op->deadline_ns == TCI_NEVER)
        return at;
    return tci_min(at, op->begin_ns + (uint64_t)op->args.timeout_ms * TCI_NS_PER_MS / 4);
}

void tci_diagnose_arm(struct tci_op *op)
{
    struct tci_exec *exec = op->comm->exec;
    uint64_t at;

    op->deadline_ns = TCI_NEVER;
    if (op->args.timeout_ms >= 0) {
        op->begin_ns = tci_min(op->begin_ns, now(op->comm));
        op->deadline_ns = op->begin_ns + (uint64_t)op->args.timeout_ms * TCI_NS_PER_MS;
    }
    op->timer.fn = on_time;
    op->is_shown = op->after != NULL || op->comm->transport == NULL;
    at = !op->is_shown ? show_time(op) : next_ring(op);
    if (exec->ops->timer_set(exec, &op->timer, at) != 0)
        fail_without_memory(op);
}

void tci_diagnose_ran(struct tci_op *op)
{
    struct tci_exec *exec = op->comm->exec;
    uint64_t at = now(op->comm) + SHOW_MS * TCI_NS_PER_MS;

    /* Where the questions come sooner they show the call as well; a timer that has its place in
     * the heap already is moved without memory. */
    if (op->comm->transport == NULL || op->is_asked || at >= next_ring(op))
        return;
    op->is_shown = false;
    if (exec->ops->timer_set(exec, &op->timer, at) != 0)
        op->is_shown = true;
}

void tci_diagnose_dispute(struct tci_op *op, int peer, const struct tci_call *call)
{
    struct tci_exec *exec = op->comm->exec;
    struct tci_opinion mine = {op->args.call, 1, op->comm->rank}, theirs = {*call, 1, peer};
    char text[384];

    TC_ASSERT(op->is_held);
    if (op->comm->size > 2 && op->args.peer == TCI_ALL_PEERS && !op->is_asked)
        ask(op);
    if (op->answers != NULL) {
        op->answers->met = peer;
        op->answers->met_call = *call;
        if (op->answers->heard < op->answers->asked &&
            exec->ops->timer_set(exec, &op->timer, now(op->comm) + dispute_grace(op)) == 0)
            return;
        if (conclude_mismatch(op))
            return;
    }
    tci_op_fail_with(op, TC_ERR_MISMATCH, peer, true, "%s",
                     tci_mismatch_print(op->comm, &mine, &theirs, text, sizeof(text)));
}

/* Of those that have not entered the lowest that waits for nobody in a call of its own, else the
 * lowest. */
static bool is_better_absent(const struct tci_answers *answers, int rank)
{
    int first = answers->first_absent;

    if (first < 0)
        return true;
    if ((answers->said[first].waits >= 0) != (answers->said[rank].waits >= 0))
        return answers->said[first].waits >= 0;
    return rank < first;
}

void tci_diagnose_heard(struct tci_comm *comm, const struct tci_notice *answer)
{
    struct tci_tag_name name = tci_comm_tag_name(&answer->key, (uint32_t)answer->culprit);

    if (answer->culprit < 0 || answer->culprit >= comm->size || answer->arg >= (uint64_t)comm->size)
        return;
    if (answer->arg != (uint64_t)comm->rank) {
        if (comm->rank == 0)
            comm->transport->ops->notify(comm->transport, (uint32_t)answer->arg, answer, true);
        return;
    }
    struct tci_tag *tag = tci_tags_find(&comm->tags, &name);
    if (tag == NULL || tag->op == NULL || tag->op->answers == NULL ||
        tag->op->answers->said[answer->culprit].what != SILENT ||
        !tci_key_is_same_use(&tag->op->key, &answer->key))
        return;
    struct tci_answers *answers = tag->op->answers;
    bool is_absent = answer->status == TC_ERR_NOT_INITIALIZED;
    struct said *said = &answers->said[answer->culprit];
    said->what = is_absent                      ? NOT_ENTERED
                 : answer->status == TC_PENDING ? ENTERED
                 : answer->status == TC_OK      ? FINISHED
                                                : FORGOTTEN;
    said->waits = answer->number < comm->size ? answer->number : -1;
    if (said->what == ENTERED)
        snprintf(said->text, sizeof(said->text), "%.79s", answer->text);
    if (is_absent && is_better_absent(answers, answer->culprit)) {
        answers->first_absent = answer->culprit;
        snprintf(answers->text, sizeof(answers->text), "%s", answer->text);
    }
    if (answer->status == TC_PENDING || answer->status == TC_OK)
        count_opinion(answers, answer->culprit, &answer->call);
    answers->heard++;
    if (tag->op->is_held && answers->met >= 0 && answers->heard == answers->asked)
        conclude(tag->op);
}

void tci_diagnose_free(struct tci_op *op)
{
    tci_free(op->answers);
    op->answers = NULL;
}
