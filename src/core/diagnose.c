/* diagnose.c - deadlines: the others are asked what they are doing, and the culprit is named. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose operation comes close to its deadline asks all the others, by way of rank 0, what
 * they know of the tag.  At the deadline it names, in this order: a rank whose call differs, a rank
 * that has not entered, a rank that does not answer, a rank that it still waits for a message from.
 *
 * A rank that meets another call than its own asks in the same way.  When all have answered, or a
 * short time has passed, it names the rank whose call is unlike that of the most.  Whoever is asked
 * meanwhile holds its operation, which will not end well.
 */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/match.h"
#include "core/mismatch.h"

enum { GRACE_MS_MAX = 1000 };

/* An operation that has waited for this long shows its call: longer than most take, and short for
 * whoever waits for an error. */
enum { SHOW_MS = 100 };

/* Calls that are told apart; with more there is no majority worth the name. */
enum { OPINIONS_MAX = 8 };

enum knowledge { SILENT, NOT_ENTERED, ENTERED, FINISHED, FORGOTTEN };

struct tci_answers {
    int first_absent; /* lowest rank that has not entered; -1: none so far */
    char text[256];   /* what it said it did last */
    int asked, heard;
    struct tci_opinion opinions[OPINIONS_MAX]; /* [0]: this rank's */
    int met;                                   /* the rank whose other call was met; -1: none */
    struct tci_call met_call;
    uint8_t ranks[]; /* enum knowledge of each */
};

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

static void ask(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    struct tci_notice notice = {.kind = TCI_NOTICE_ASK,
                                .status = op->is_held ? TC_ERR_MISMATCH : TC_OK,
                                .culprit = comm->rank,
                                .key = op->key,
                                .call = op->args.call};

    op->is_asked = true;
    if (comm->transport == NULL || op->state != TCI_OP_RUNNING)
        return;
    op->answers = tci_alloc(sizeof(*op->answers) + (size_t)comm->size);
    if (op->answers == NULL)
        return;
    op->answers->first_absent = op->answers->met = -1;
    op->answers->ranks[comm->rank] = ENTERED;
    count_opinion(op->answers, comm->rank, &op->args.call);
    op->answers->asked = op->args.peer == TCI_ALL_PEERS ? comm->size - 1 : 1;
    if (op->args.peer == TCI_ALL_PEERS)
        tci_comm_tell(comm, &notice);
    else if (op->args.peer != comm->rank)
        comm->transport->ops->notify(comm->transport, (uint32_t)op->args.peer, &notice, true);
}

/* A rank that the operation still has a transfer open with, or the peer; -1: none. */
static int waited_for(const struct tci_op *op)
{
    struct tci_step step;

    for (size_t l = 0; l < TCI_LANES_MAX; l++) {
        const struct tci_lane *lane = &op->lanes[l];
        if (lane->op == NULL)
            continue;
        for (uint64_t left = lane->open & ~lane->ended; left != 0; left &= left - 1) {
            memset(&step, 0, sizeof(step));
            op->args.plan->step(&op->args.shape, lane->base + (uint32_t)__builtin_ctzll(left),
                                &step);
            if (tci_step_is_message(step.kind))
                return (int)step.peer;
        }
    }
    return op->args.peer;
}

static int first_with(const struct tci_op *op, enum knowledge what)
{
    int first = op->args.peer >= 0 ? op->args.peer : 0;
    int end = op->args.peer >= 0 ? op->args.peer + 1 : op->comm->size;

    for (int r = first; r < end && op->answers != NULL; r++)
        if (op->answers->ranks[r] == what)
            return r;
    return -1;
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
        (answers->opinions[1].count == 0 ||
         (answers->ranks[answers->met] != ENTERED && answers->ranks[answers->met] != FINISHED)))
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

/* Name the culprit, once, for everyone. */
static void conclude(struct tci_op *op)
{
    const struct tci_answers *answers = op->answers;
    unsigned long long ms = (op->deadline_ns - op->begin_ns) / TCI_NS_PER_MS;
    int silent = first_with(op, SILENT), peer = waited_for(op);

    if (conclude_mismatch(op))
        return;
    if (op->state == TCI_OP_WAITING)
        tci_op_blame(op, TC_ERR_TIMEOUT, op->comm->rank, TC_REASON_NOT_ENTERED,
                     "rank %d still waits for the futures to start after, %llu ms after the "
                     "call",
                     op->comm->rank, ms);
    else if (answers != NULL && answers->first_absent >= 0)
        tci_op_blame(op, TC_ERR_TIMEOUT, answers->first_absent, TC_REASON_NOT_ENTERED,
                     "rank %d has not entered it within %llu ms; %s", answers->first_absent, ms,
                     answers->text);
    else if (silent >= 0)
        tci_op_blame(op, TC_ERR_TIMEOUT, silent, TC_REASON_LOOP_STALLED,
                     "rank %d does not answer, %llu ms after the call: its loop does not turn, "
                     "or its host is not reached",
                     silent, ms);
    else
        tci_op_blame(op, TC_ERR_TIMEOUT, peer, TC_REASON_SLOW,
                     "%safter %llu ms rank %d still waits for rank %d: a slow link, or a "
                     "timeout that is too short",
                     answers != NULL ? "all ranks have entered it, but " : "", ms, op->comm->rank,
                     peer);
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

static void on_time(struct tci_timer *timer)
{
    struct tci_op *op = tci_container_of(timer, struct tci_op, timer);
    struct tci_exec *exec = op->comm->exec;

    if (op->is_asked) {
        conclude(op);
        return;
    }
    if (!op->is_shown) {
        op->is_shown = true;
        tci_mismatch_show(op);
        if (op->deadline_ns != TCI_NEVER &&
            exec->ops->timer_set(exec, timer, op->deadline_ns - grace_of(op)) != 0)
            fail_without_memory(op);
        return;
    }
    ask(op);
    /* A loop that comes late still asks first: the deadline has passed, but the right rank is
     * named. */
    if (exec->ops->timer_set(exec, timer,
                             tci_max(op->deadline_ns, now(op->comm) + grace_of(op) / 4)) != 0)
        conclude(op);
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
    at = !op->is_shown                  ? show_time(op)
         : op->deadline_ns == TCI_NEVER ? TCI_NEVER
                                        : op->deadline_ns - grace_of(op);
    if (at != TCI_NEVER && exec->ops->timer_set(exec, &op->timer, at) != 0)
        fail_without_memory(op);
}

void tci_diagnose_ran(struct tci_op *op)
{
    struct tci_exec *exec = op->comm->exec;
    uint64_t at = now(op->comm) + SHOW_MS * TCI_NS_PER_MS;

    /* Where the questions come sooner they show the call as well; a timer that has its place in
     * the heap already is moved without memory. */
    if (op->comm->transport == NULL || op->is_asked ||
        (op->deadline_ns != TCI_NEVER && at >= op->deadline_ns - grace_of(op)))
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

static void describe_last(const struct tci_comm *comm, char *text, size_t text_bytes)
{
    char tag[48];

    if (comm->last.name == NULL)
        snprintf(text, text_bytes, "it has not entered anything yet");
    else if (comm->last.space == TCI_SPACE_INTERNAL && strcmp(comm->last.name, "finalize") == 0)
        snprintf(text, text_bytes, "it has finalized the group %.1f s before it was asked",
                 (double)(now(comm) - comm->last.at_ns) * 1e-9);
    else
        snprintf(text, text_bytes, "what it entered last is %s, %s, %.1f s before it was asked",
                 comm->last.name, tci_tag_print(comm->last.space, comm->last.tag, tag, sizeof(tag)),
                 (double)(now(comm) - comm->last.at_ns) * 1e-9);
}

void tci_diagnose_answer(struct tci_comm *comm, uint32_t from, const struct tci_notice *asked)
{
    struct tci_tag_name name = tci_comm_tag_name(&asked->key, from);
    struct tci_tag *tag = tci_tags_find(&comm->tags, &name);
    const struct tci_done *done = tci_tags_done(&comm->tags, &name, asked->key.use);
    struct tci_notice answer = {.kind = TCI_NOTICE_ANSWER,
                                .status = TC_ERR_NOT_INITIALIZED,
                                .culprit = comm->rank,
                                .arg = (uint64_t)asked->culprit,
                                .key = asked->key,
                                .call = asked->call};

    if (asked->culprit < 0 || asked->culprit >= comm->size || asked->culprit == comm->rank)
        return;
    if (tag != NULL && tag->op != NULL && tci_key_is_same_use(&tag->op->key, &asked->key)) {
        answer.status = TC_PENDING;
        answer.call = tag->op->args.call;
        tag->op->is_held = tag->op->is_held || asked->status == TC_ERR_MISMATCH;
    } else if (done != NULL) {
        answer.status = TC_OK;
        answer.call = done->call;
    } else if ((tag != NULL && tag->uses >= asked->key.use + (tag->op != NULL)) ||
               tci_tags_is_forgotten(&comm->tags, &name)) {
        answer.status = TC_ERR_CLOSED;
    }
    describe_last(comm, answer.text, sizeof(answer.text));
    comm->transport->ops->notify(comm->transport, from, &answer, true);
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
        tag->op->answers->ranks[answer->culprit] != SILENT ||
        !tci_key_is_same_use(&tag->op->key, &answer->key))
        return;
    struct tci_answers *answers = tag->op->answers;
    bool is_absent = answer->status == TC_ERR_NOT_INITIALIZED;
    answers->ranks[answer->culprit] = is_absent                      ? NOT_ENTERED
                                      : answer->status == TC_PENDING ? ENTERED
                                      : answer->status == TC_OK      ? FINISHED
                                                                     : FORGOTTEN;
    if (is_absent && (answers->first_absent < 0 || answer->culprit < answers->first_absent)) {
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
