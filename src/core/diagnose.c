/* diagnose.c - deadlines: the others are asked what they are doing, and the culprit is named. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank whose operation comes close to its deadline asks all the others, by way of rank 0, what
 * they know of the tag.  At the deadline it names, in this order: a rank that has not entered, a
 * rank that does not answer, a rank that it still waits for a message from.
 */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/match.h"

enum { GRACE_MS_MAX = 1000 };

enum knowledge { SILENT, NOT_ENTERED, ENTERED, FINISHED };

struct tci_answers {
    int first_absent;     /* lowest rank that has not entered; -1: none so far */
    char text[256];       /* what it said it did last */
    struct tci_call call; /* of a rank that entered with another call … */
    int differs;          /* … this one; -1: none */
    uint8_t ranks[];      /* enum knowledge of each */
};

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

static void ask(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    struct tci_notice notice = {
        .kind = TCI_NOTICE_ASK, .culprit = comm->rank, .key = op->key, .call = op->args.call};

    op->is_asked = true;
    if (comm->transport == NULL || op->state != TCI_OP_RUNNING)
        return;
    op->answers = tci_alloc(sizeof(*op->answers) + (size_t)comm->size);
    if (op->answers == NULL)
        return;
    op->answers->first_absent = op->answers->differs = -1;
    op->answers->ranks[comm->rank] = ENTERED;
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
            if (step.kind <= TCI_STEP_RECV_REDUCE)
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

/* Name the culprit, once, for everyone. */
static void conclude(struct tci_op *op)
{
    const struct tci_answers *answers = op->answers;
    unsigned long long ms = (op->deadline_ns - op->begin_ns) / TCI_NS_PER_MS;
    int silent = first_with(op, SILENT), peer = waited_for(op);
    char mine[160], theirs[160];

    if (op->state == TCI_OP_WAITING)
        tci_op_fail_with(op, TC_ERR_TIMEOUT, op->comm->rank, true,
                         "rank %d still waits for the futures to start after, %llu ms after the "
                         "call",
                         op->comm->rank, ms);
    else if (answers != NULL && answers->first_absent >= 0)
        tci_op_fail_with(op, TC_ERR_TIMEOUT, answers->first_absent, true,
                         "rank %d has not entered it within %llu ms; %s", answers->first_absent, ms,
                         answers->text);
    else if (answers != NULL && answers->differs >= 0)
        tci_op_fail_with(op, TC_ERR_MISMATCH, answers->differs, true,
                         "rank %d calls %s, rank %d calls %s: make the calls agree", op->comm->rank,
                         tci_call_print(&op->args.call, mine, sizeof(mine)), answers->differs,
                         tci_call_print(&answers->call, theirs, sizeof(theirs)));
    else if (silent >= 0)
        tci_op_fail_with(op, TC_ERR_TIMEOUT, silent, true,
                         "rank %d does not answer, %llu ms after the call: its loop does not turn, "
                         "or its host is not reached",
                         silent, ms);
    else
        tci_op_fail_with(op, TC_ERR_TIMEOUT, peer, true,
                         "%safter %llu ms rank %d still waits for rank %d: a slow link, or a "
                         "timeout that is too short",
                         answers != NULL ? "all ranks have entered it, but " : "", ms,
                         op->comm->rank, peer);
}

/* Time kept for the answers. */
static uint64_t grace_of(const struct tci_op *op)
{
    return tci_min((uint64_t)op->args.timeout_ms * TCI_NS_PER_MS / 4, GRACE_MS_MAX * TCI_NS_PER_MS);
}

static void on_time(struct tci_timer *timer)
{
    struct tci_op *op = tci_container_of(timer, struct tci_op, timer);
    struct tci_exec *exec = op->comm->exec;

    if (op->is_asked) {
        conclude(op);
        return;
    }
    ask(op);
    /* A loop that comes late still asks first: the deadline has passed, but the right rank is
     * named. */
    if (exec->ops->timer_set(exec, timer,
                             tci_max(op->deadline_ns, now(op->comm) + grace_of(op) / 4)) != 0)
        conclude(op);
}

void tci_diagnose_arm(struct tci_op *op)
{
    struct tci_exec *exec = op->comm->exec;
    uint64_t timeout_ns;

    op->deadline_ns = TCI_NEVER;
    if (op->args.timeout_ms < 0)
        return;
    timeout_ns = (uint64_t)op->args.timeout_ms * TCI_NS_PER_MS;
    op->begin_ns = tci_min(op->begin_ns, now(op->comm));
    op->deadline_ns = op->begin_ns + timeout_ns;
    op->timer.fn = on_time;
    if (exec->ops->timer_set(exec, &op->timer, op->deadline_ns - grace_of(op)) != 0)
        tci_op_fail_with(op, TC_ERR_ALLOC, op->comm->rank, true, "rank %d has no memory left",
                         op->comm->rank);
}

static void describe_last(const struct tci_comm *comm, char *text, size_t text_bytes)
{
    char tag[48];

    if (comm->last.name == NULL)
        snprintf(text, text_bytes, "it has not entered anything yet");
    else
        snprintf(text, text_bytes, "what it entered last is %s, %s, %.1f s before it was asked",
                 comm->last.name, tci_tag_print(comm->last.space, comm->last.tag, tag, sizeof(tag)),
                 (double)(now(comm) - comm->last.at_ns) * 1e-9);
}

void tci_diagnose_answer(struct tci_comm *comm, uint32_t from, const struct tci_notice *asked)
{
    struct tci_tag_name name = {.tag = asked->key.tag,
                                .peer = asked->key.space >= TCI_SPACE_P2P_UP ? (int32_t)from
                                                                             : TCI_ALL_PEERS,
                                .space = asked->key.space};
    struct tci_tag *tag = tci_tags_get(&comm->tags, &name);
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
    } else if (tag != NULL && tag->uses >= asked->key.use + (tag->op != NULL)) {
        answer.status = TC_OK;
    }
    describe_last(comm, answer.text, sizeof(answer.text));
    comm->transport->ops->notify(comm->transport, from, &answer, true);
}

void tci_diagnose_heard(struct tci_comm *comm, const struct tci_notice *answer)
{
    bool is_p2p = answer->key.space >= TCI_SPACE_P2P_UP;
    struct tci_tag_name name = {.tag = answer->key.tag,
                                .peer = is_p2p ? answer->culprit : TCI_ALL_PEERS,
                                .space = answer->key.space};

    if (answer->culprit < 0 || answer->culprit >= comm->size || answer->arg >= (uint64_t)comm->size)
        return;
    if (answer->arg != (uint64_t)comm->rank) {
        if (comm->rank == 0)
            comm->transport->ops->notify(comm->transport, (uint32_t)answer->arg, answer, true);
        return;
    }
    struct tci_tag *tag = tci_tags_get(&comm->tags, &name);
    if (tag == NULL || tag->op == NULL || tag->op->answers == NULL ||
        !tci_key_is_same_use(&tag->op->key, &answer->key))
        return;
    struct tci_answers *answers = tag->op->answers;
    bool is_absent = answer->status == TC_ERR_NOT_INITIALIZED;
    answers->ranks[answer->culprit] = is_absent                      ? NOT_ENTERED
                                      : answer->status == TC_PENDING ? ENTERED
                                                                     : FINISHED;
    if (is_absent && (answers->first_absent < 0 || answer->culprit < answers->first_absent)) {
        answers->first_absent = answer->culprit;
        snprintf(answers->text, sizeof(answers->text), "%s", answer->text);
    }
    if (answer->status == TC_PENDING && answers->differs < 0 &&
        !tci_call_is_equal(&answer->call, &tag->op->args.call)) {
        answers->differs = answer->culprit;
        answers->call = answer->call;
    }
}

void tci_diagnose_free(struct tci_op *op)
{
    tci_free(op->answers);
    op->answers = NULL;
}
