/* suspect.c - of all that is known before a deadline: whose host may be silent. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "core/answers.h"
#include "core/base.h"
#include "core/waiting.h"

/* How long after its deadline an operation waits for the verdict that breaks the group. */
enum { VERDICT_MS = 500 };

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

int tci_answers_first(const struct tci_op *op, enum knowledge what)
{
    int first = op->args.peer >= 0 ? op->args.peer : 0;
    int end = op->args.peer >= 0 ? op->args.peer + 1 : op->comm->size;

    for (int r = first; r < end && op->answers != NULL; r++)
        if (op->answers->said[r].what == what)
            return r;
    return -1;
}

/* Follow who waits for whom, from here to one that waits for none, or has said so before: the last
 * step of that way. */
static void follow(struct tci_op *op)
{
    struct tci_answers *answers = op->answers;
    int by = op->comm->rank, of = tci_waits_for(op);

    for (int hops = 0; hops < op->comm->size && of >= 0; hops++) {
        const struct said *said = &answers->said[of];

        if (of == op->comm->rank || (said->what != ENTERED && said->what != NOT_ENTERED) ||
            said->waits < 0)
            break;
        by = of;
        of = said->waits;
    }
    answers->by = by;
    answers->of = of;
}

/* Of those that have not answered the one to suspect: the one that is waited for, else the first
 * that there is a link with, else the first.  Whoever has said goodbye was done. */
static int find_silent(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    const struct tci_transport *transport = comm->transport;
    int first = -1, linked = -1, waits = tci_waits_for(op);

    for (int r = 0; r < comm->size; r++) {
        struct said *said = &op->answers->said[r];

        if (said->what != SILENT || (op->args.peer >= 0 && op->args.peer != r))
            continue;
        if (transport->ops->bond != NULL &&
            transport->ops->bond(transport, (uint32_t)r) == TCI_BOND_LEFT) {
            said->what = FINISHED;
            continue;
        }
        if (first < 0)
            first = r;
        if (linked < 0 && tci_verdict_hear(comm, (uint32_t)r, 0) != TCI_HEAR_NO_LINK)
            linked = r;
    }
    if (waits >= 0 && op->answers->said[waits].what == SILENT)
        return waits;
    return linked >= 0 ? linked : first;
}

void tci_suspect(struct tci_op *op, uint64_t ms)
{
    struct tci_comm *comm = op->comm;
    struct tci_answers *answers = op->answers;
    struct tci_notice notice = tci_diagnose_question(op);
    int silent;

    op->is_probed = true;
    if (answers == NULL || comm->transport == NULL)
        return;
    silent = find_silent(op);
    answers->since_ns = now(comm);
    if (silent < 0) {
        follow(op);
    } else {
        answers->by = comm->rank;
        answers->of = silent;
    }
    /* What was asked by way of rank 0 is asked without it. */
    for (int r = 0; r < comm->size; r++)
        if (answers->said[r].what == SILENT && (op->args.peer < 0 || op->args.peer == r))
            comm->transport->ops->notify(comm->transport, (uint32_t)r, &notice, false);
    if (answers->of < 0 || answers->of == comm->rank)
        return;
    if (answers->by == comm->rank)
        tci_beat_send(comm, (uint32_t)answers->of);
    if (silent >= 0 || answers->by != comm->rank)
        tci_verdict_inquire(comm, silent >= 0 ? TCI_ALL_PEERS : answers->by, answers->of,
                            (uint32_t)tci_max(ms, 1));
}

void tci_diagnose_testified(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    for (struct tci_list *at = comm->ops.next; at != &comm->ops; at = at->next) {
        struct tci_answers *answers = tci_container_of(at, struct tci_op, link)->answers;

        if (answers == NULL || answers->of != notice->culprit ||
            (answers->by != comm->rank && answers->by != (int)from))
            continue;
        if (notice->reason != TC_REASON_NONE && answers->deaf < 0)
            answers->deaf = (int)from;
        answers->is_flowing = answers->is_flowing || notice->number == 1;
    }
}

static bool hears_the_suspect(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    struct tci_answers *answers = op->answers;
    enum tci_hearing hearing = TCI_HEAR_NO_LINK;

    if (answers == NULL || answers->of < 0 || answers->of == comm->rank)
        return true;
    if (answers->by == comm->rank)
        hearing = tci_verdict_hear(comm, (uint32_t)answers->of, answers->since_ns);
    if (hearing == TCI_HEAR_NOTHING)
        answers->deaf = comm->rank;
    answers->is_flowing = answers->is_flowing || hearing == TCI_HEAR_FLOW;
    return answers->deaf < 0 || answers->deaf == answers->of;
}

bool tci_suspect_leaves_it(struct tci_op *op, bool is_blocked)
{
    struct tci_comm *comm = op->comm;
    struct tci_answers *answers = op->answers;
    char text[256];

    if (op->is_suspended || op->is_proposed)
        return false;
    if (!tci_comm_bears_loss(comm)) {
        bool hears = hears_the_suspect(op);

        if (hears && !is_blocked)
            return false;
        if (!hears) {
            answers->by = answers->deaf;
            snprintf(text, sizeof(text),
                     "rank %d is silent: its host has acknowledged nothing that rank %d said to it "
                     "at the end of %s; it is off, asleep, or cut off",
                     answers->of, answers->by, op->args.name);
            tci_verdict_suspect(comm, answers->by, answers->of, text);
        }
    }
    op->is_suspended = comm->exec->ops->timer_set(comm->exec, &op->timer,
                                                  now(comm) + VERDICT_MS * TCI_NS_PER_MS) == 0;
    return op->is_suspended;
}
