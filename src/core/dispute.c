/* dispute.c - calls of one tag that differ: rank 0 learns what all have called, and names one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/dispute.h"

#include <stdio.h>

#include "core/alloc.h"
#include "core/answers.h"
#include "core/base.h"
#include "core/comm.h"
#include "core/match.h"
#include "core/mismatch.h"
#include "core/waiting.h"

enum {
    TIME_MS_MAX = 950, /* for those that have not entered, so long as the deadline allows it */
    TIME_MS_MIN = 100,
    ASK_MS_MIN = 1, /* until these are asked again; then twice as long, and so on */
    ASK_MS_MAX = 64,
    RULING_MS = 450, /* after its time is up rank 0 has ruled */
    /* Whose time is up reads first what came while its loop stood still. */
    READ_MS = 50
};

struct dispute {
    struct tci_list link; /* in comm->disputes.list */
    struct tci_timer timer;
    struct tci_comm *comm;
    struct tci_key key;
    struct tci_call call; /* the first that was told */
    uint64_t end_ns;
    uint32_t ask_ms;
    bool is_up; /* its time; what has come is still read */
    int met;    /* whose call another rank has met: at fault where no two calls are unlike by now */
    struct tci_answers *answers; /* owned */
};

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

void tci_disputes_init(struct tci_disputes *disputes)
{
    tci_list_init(&disputes->list);
    disputes->count = 0;
}

static void end(struct dispute *it)
{
    struct tci_comm *comm = it->comm;

    comm->exec->ops->timer_clear(comm->exec, &it->timer);
    tci_list_del(&it->link);
    comm->disputes.count--;
    tci_free(it->answers);
    tci_free(it);
}

void tci_disputes_end(struct tci_comm *comm)
{
    struct tci_list *first;

    while ((first = tci_list_first(&comm->disputes.list)) != NULL)
        end(tci_container_of(first, struct dispute, link));
}

static struct dispute *find(struct tci_comm *comm, const struct tci_key *key)
{
    for (struct tci_list *at = comm->disputes.list.next; at != &comm->disputes.list;
         at = at->next) {
        struct dispute *it = tci_container_of(at, struct dispute, link);

        if (tci_key_is_same_tag(&it->key, key) && tci_key_is_same_use(&it->key, key))
            return it;
    }
    return NULL;
}

void tci_dispute_close(struct tci_comm *comm, const struct tci_key *key)
{
    struct dispute *it = find(comm, key);

    if (it != NULL)
        end(it);
}

/* ---- Rank 0 asks ---------------------------------------------------------------------------- */

static void ask(struct dispute *it, int rank)
{
    struct tci_comm *comm = it->comm;
    struct tci_notice notice = {.kind = TCI_NOTICE_ASK,
                                .status = TC_ERR_MISMATCH,
                                .culprit = comm->rank,
                                .key = it->key,
                                .call = it->call};
    struct tci_notice own;

    if (rank != comm->rank) {
        comm->transport->ops->notify(comm->transport, (uint32_t)rank, &notice, true);
        return;
    }
    tci_waiting_answer(comm, (uint32_t)rank, &notice, TCI_NOTICE_ANSWER, &own);
    tci_answers_note(it->answers, rank, &own);
}

static bool is_unknown(const struct dispute *it, int rank)
{
    return it->answers->said[rank].what == SILENT || it->answers->said[rank].what == NOT_ENTERED;
}

/* All that has come so far says the same of whatever may come yet. */
static bool is_decided(const struct dispute *it)
{
    const struct tci_opinion *most, *least;

    if (tci_answers_differ(it->answers, &most, &least) && 2 * most->count > it->comm->size)
        return true;
    for (int r = 0; r < it->comm->size; r++)
        if (is_unknown(it, r))
            return false;
    return true;
}

/* Tell all, this rank too. */
static void rule(struct dispute *it)
{
    struct tci_comm *comm = it->comm;
    const struct tci_opinion *most, *least;
    struct tci_notice notice = {.kind = TCI_NOTICE_END,
                                .status = TC_ERR_MISMATCH,
                                .culprit = it->met,
                                .key = it->key,
                                .call = it->call};

    if (tci_answers_differ(it->answers, &most, &least)) {
        notice.culprit = least->first;
        (void)tci_mismatch_print(comm, most, least, notice.text, sizeof(notice.text));
    } else {
        (void)snprintf(notice.text, sizeof(notice.text),
                       "rank %d calls something else than the others: make the calls agree",
                       it->met);
    }
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed); /* outlive it */
    end(it);
    tci_comm_tell(comm, &notice);
    tci_comm_ended(comm, (uint32_t)comm->rank, &notice);
    tci_comm_release(comm);
}

static bool wake(struct dispute *it)
{
    struct tci_exec *exec = it->comm->exec;
    uint64_t at = now(it->comm) + it->ask_ms * TCI_NS_PER_MS;

    return exec->ops->timer_set(exec, &it->timer, tci_min(at, it->end_ns)) == 0;
}

static void on_time(struct tci_timer *timer)
{
    struct dispute *it = tci_container_of(timer, struct dispute, timer);

    if (!it->is_up && now(it->comm) >= it->end_ns) {
        it->is_up = true;
        it->end_ns = now(it->comm) + READ_MS * TCI_NS_PER_MS;
    }
    it->ask_ms = tci_min(2 * it->ask_ms, ASK_MS_MAX);
    for (int r = 0; r < it->comm->size; r++)
        if (it->answers->said[r].what == NOT_ENTERED)
            ask(it, r);
    if (is_decided(it) || now(it->comm) >= it->end_ns || !wake(it))
        rule(it);
}

static struct dispute *open(struct tci_comm *comm, const struct tci_notice *notice)
{
    struct dispute *it;

    if (comm->disputes.count == TCI_DISPUTES_MAX)
        return NULL;
    it = tci_alloc(sizeof(*it));
    if (it == NULL)
        return NULL;
    *it = (struct dispute){.timer = {.fn = on_time},
                           .comm = comm,
                           .key = notice->key,
                           .call = notice->call,
                           .end_ns = TCI_NEVER,
                           .ask_ms = ASK_MS_MIN,
                           .met = notice->culprit,
                           .answers = tci_answers_new(comm->size)};
    tci_list_init(&it->link);
    if (it->answers == NULL || !wake(it)) {
        tci_free(it->answers);
        tci_free(it);
        return NULL;
    }
    tci_list_add(&comm->disputes.list, &it->link);
    comm->disputes.count++;
    for (int r = 0; r < comm->size; r++)
        ask(it, r);
    return it;
}

/* A rank has made a call; that which has met it tells its own behind it, as the last. */
static void note(struct dispute *it, const struct tci_notice *notice)
{
    uint64_t left_ms = notice->number > 0 ? tci_min((size_t)notice->number, TIME_MS_MAX) : 0;
    struct tci_notice said = *notice;

    said.kind = TCI_NOTICE_ANSWER;
    said.status = TC_PENDING;
    said.number = -1;
    if (it->answers->said[notice->culprit].what != FINISHED)
        tci_answers_note(it->answers, notice->culprit, &said);
    it->end_ns = tci_min(it->end_ns, now(it->comm) + left_ms * TCI_NS_PER_MS);
}

/* ---- A rank has met another call ------------------------------------------------------------ */

/* As long as there is time to ask. */
static uint64_t time_ms(const struct tci_op *op)
{
    uint64_t left_ns, at = now(op->comm);

    if (op->deadline_ns == TCI_NEVER)
        return TIME_MS_MAX;
    left_ns = op->deadline_ns - tci_min(op->deadline_ns, at);
    return tci_max(tci_min(left_ns / TCI_NS_PER_MS, TIME_MS_MAX), TIME_MS_MIN);
}

static struct tci_notice ask_of(const struct tci_op *op, int rank, const struct tci_call *call)
{
    return (struct tci_notice){.kind = TCI_NOTICE_ASK,
                               .status = TC_ERR_MISMATCH,
                               .culprit = rank,
                               .number = (int32_t)time_ms(op),
                               .key = op->key,
                               .call = *call};
}

/* Rank 0 is not asked, or has not said anything. */
static void expire(struct tci_op *op)
{
    struct tci_opinion mine = {op->args.call, 1, op->comm->rank};
    struct tci_opinion theirs = {op->met_call, 1, op->met};
    bool is_lower = mine.first < theirs.first;
    char text[384];

    tci_op_fail_with(op, TC_ERR_MISMATCH, tci_max(mine.first, theirs.first), true, "%s",
                     tci_mismatch_print(op->comm, is_lower ? &mine : &theirs,
                                        is_lower ? &theirs : &mine, text, sizeof(text)));
}

void tci_dispute_expire(struct tci_op *op)
{
    struct tci_exec *exec = op->comm->exec;
    uint64_t at = now(op->comm) + READ_MS * TCI_NS_PER_MS;
    bool was_up = op->is_up;

    op->is_up = true;
    if (was_up || exec->ops->timer_set(exec, &op->timer, at) != 0)
        expire(op);
}

void tci_dispute_begin(struct tci_op *op, int peer, const struct tci_call *call)
{
    struct tci_comm *comm = op->comm;
    struct tci_exec *exec = comm->exec;
    struct tci_notice met = ask_of(op, peer, call);
    struct tci_notice mine = ask_of(op, comm->rank, &op->args.call);
    uint64_t at = now(comm) + (time_ms(op) + RULING_MS) * TCI_NS_PER_MS;

    /* An operation that waits for a diagnosis already is given no more time than that has. */
    if (op->deadline_ns != TCI_NEVER)
        at = tci_min(at, op->deadline_ns + (TCI_OP_LATE_MS - READ_MS) * TCI_NS_PER_MS);
    op->met = peer;
    op->met_call = *call;
    if (comm->size == 2 || op->args.peer != TCI_ALL_PEERS ||
        exec->ops->timer_set(exec, &op->timer, at) != 0) {
        expire(op);
    } else if (comm->rank != 0) {
        comm->transport->ops->notify(comm->transport, 0, &met, true);
        comm->transport->ops->notify(comm->transport, 0, &mine, true);
    } else {
        tci_dispute_asked(comm, 0, &met);
        tci_dispute_asked(comm, 0, &mine);
    }
}

/* ---- Notices -------------------------------------------------------------------------------- */

/* Whether this use has failed already, here or for those who were not done: who asks about it hears
 * of that. */
static bool is_over(struct tci_comm *comm, const struct tci_key *key)
{
    struct tci_tag_name name = tci_comm_tag_name(key, 0);
    struct tci_tag *tag = tci_tags_find(&comm->tags, &name);
    const struct tci_done *done = tci_tags_done(&comm->tags, &name, key->use);

    return (tag != NULL && tci_tag_is_dead(tag, key->use)) || (done != NULL && done->is_ruled);
}

static void answer(struct tci_comm *comm, uint32_t from, const struct tci_notice *asked)
{
    struct tci_notice said;

    tci_waiting_answer(comm, from, asked, TCI_NOTICE_ANSWER, &said);
    comm->transport->ops->notify(comm->transport, from, &said, true);
}

void tci_dispute_asked(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    struct dispute *it;

    if (notice->key.group != comm->group || notice->culprit < 0 || notice->culprit >= comm->size ||
        tci_space_is_p2p(notice->key.space) || comm->error.pub.status != TC_OK)
        return;
    if (comm->rank != 0) {
        if (from == 0 && notice->culprit == 0)
            answer(comm, from, notice);
        return;
    }
    if (is_over(comm, &notice->key))
        return;
    it = find(comm, &notice->key);
    if (it == NULL)
        it = open(comm, notice);
    if (it == NULL)
        return; /* its rank ends it */
    note(it, notice);
    if (is_decided(it))
        rule(it);
}

void tci_dispute_answered(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    struct dispute *it;

    if (notice->key.group != comm->group || from >= (uint32_t)comm->size || (int)from == comm->rank)
        return;
    it = find(comm, &notice->key);
    if (it == NULL)
        return;
    tci_answers_note(it->answers, (int)from, notice);
    if (is_decided(it))
        rule(it);
}
