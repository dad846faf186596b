/* inquest.c - who judges an operation that does not end, and what it is told. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/inquest.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/case.h"
#include "core/comm.h"
#include "core/match.h"
#include "core/waiting.h"

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

static bool is_broken(const struct tci_comm *comm)
{
    return comm->error.pub.status != TC_OK;
}

void tci_inquests_init(struct tci_inquests *inquests)
{
    memset(inquests, 0, sizeof(*inquests));
    tci_list_init(&inquests->cases);
}

/* In which a rank has a part: of a send or receive the other one. */
static struct tci_case *find_case(struct tci_comm *comm, uint32_t from, const struct tci_key *key)
{
    for (struct tci_list *at = comm->inquests.cases.next; at != &comm->inquests.cases;
         at = at->next) {
        struct tci_case *it = tci_container_of(at, struct tci_case, link);

        if (tci_key_is_same_tag(&it->key, key) && tci_key_is_same_use(&it->key, key) &&
            (it->evidence.peer == TCI_ALL_PEERS || it->evidence.peer == (int)from))
            return it;
    }
    return NULL;
}

void tci_inquests_end(struct tci_comm *comm)
{
    struct tci_list *first;

    while ((first = tci_list_first(&comm->inquests.cases)) != NULL)
        tci_case_end(tci_container_of(first, struct tci_case, link));
}

/* ---- Who judges ----------------------------------------------------------------------------- */

static bool is_same(const struct tci_key *a, const struct tci_key *b)
{
    return a->use != 0 && tci_key_is_same_tag(a, b) && a->use == b->use;
}

static int known_judge(const struct tci_comm *comm, const struct tci_key *key)
{
    for (size_t k = 0; k < TCI_INQUESTS_KNOWN; k++) {
        const struct tci_known_case *known = &comm->inquests.known[k];

        if (is_same(&known->key, key))
            return known->judge;
    }
    return -1;
}

static void remember_judge(struct tci_comm *comm, const struct tci_key *key, int judge)
{
    struct tci_known_case *known = NULL;

    if (key->use == 0 || tci_space_is_p2p(key->space))
        return; /* it might be taken for the next one, or for that of two others */
    for (size_t k = 0; k < TCI_INQUESTS_KNOWN && known == NULL; k++)
        if (is_same(&comm->inquests.known[k].key, key))
            known = &comm->inquests.known[k];
    if (known == NULL)
        known = &comm->inquests.known[comm->inquests.known_next++ % TCI_INQUESTS_KNOWN];
    *known = (struct tci_known_case){*key, judge};
}

static struct tci_op *find_op(struct tci_comm *comm, uint32_t from, const struct tci_key *key)
{
    struct tci_tag_name name = tci_comm_tag_name(key, from);
    struct tci_tag *tag = tci_tags_find(&comm->tags, &name);

    return tag != NULL && tag->op != NULL && tci_key_is_same_use(&tag->op->key, key) ? tag->op
                                                                                     : NULL;
}

/* ---- Those who ask -------------------------------------------------------------------------- */

static struct tci_case *find_own(const struct tci_op *op)
{
    int from = op->args.peer >= 0 ? op->args.peer : op->comm->rank;

    return find_case(op->comm, (uint32_t)from, &op->key);
}

bool tci_inquest_ask(struct tci_op *op, int judge)
{
    struct tci_comm *comm = op->comm;
    uint64_t at = now(comm);
    uint64_t left_ns = op->deadline_ns - tci_min(op->deadline_ns, at);
    uint64_t left_ms = (left_ns + TCI_NS_PER_MS - 1) / TCI_NS_PER_MS; /* it is not to end sooner */
    struct tci_notice petition = {.kind = TCI_NOTICE_PETITION,
                                  .status = TC_PENDING,
                                  .culprit = comm->rank,
                                  .number = (int32_t)tci_min(left_ms, INT32_MAX),
                                  .arg = (uint64_t)op->args.timeout_ms,
                                  .key = op->key,
                                  .call = op->args.call};
    struct tci_case *it;

    snprintf(petition.text, sizeof(petition.text), "%s", op->args.name);
    if (judge != comm->rank) {
        comm->transport->ops->notify(comm->transport, (uint32_t)judge, &petition, true);
        return true;
    }
    it = find_own(op);
    if (it == NULL)
        it = tci_case_open(comm, op->args.peer, &petition);
    if (it == NULL)
        return false;
    op->judge = judge;
    tci_case_note_due(it, comm->rank, &petition);
    return true;
}

void tci_inquest_withdraw(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    struct tci_case *it;

    if (op->judge < 0 || is_broken(comm))
        return;
    if (op->judge != comm->rank) {
        struct tci_notice notice = {
            .kind = TCI_NOTICE_PETITION, .status = TC_OK, .culprit = comm->rank, .key = op->key};

        comm->transport->ops->notify(comm->transport, (uint32_t)op->judge, &notice, false);
        return;
    }
    it = find_own(op);
    if (it != NULL)
        tci_case_forget_due(it, comm->rank);
}

void tci_inquest_close(struct tci_comm *comm, uint32_t from, const struct tci_key *key)
{
    struct tci_case *it = find_case(comm, from, key);

    if (it != NULL)
        tci_case_end(it);
}

/* ---- Notices -------------------------------------------------------------------------------- */

/* Who asks about something in a group that has broken is told so. */
static bool is_meant(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    if (is_broken(comm) && !comm->is_deaf)
        tci_verdict_answer(comm, from);
    return !comm->is_deaf && !is_broken(comm) && comm->transport != NULL &&
           notice->key.group == comm->group && notice->key.space < TCI_SPACE_COUNT &&
           from < (uint32_t)comm->size && (int)from != comm->rank;
}

void tci_inquest_petitioned(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    int peer = tci_space_is_p2p(notice->key.space) ? (int)from : TCI_ALL_PEERS, judge;
    struct tci_case *it;

    if (!is_meant(comm, from, notice))
        return;
    it = find_case(comm, from, &notice->key);
    if (notice->status == TC_OK) {
        if (it != NULL)
            tci_case_forget_due(it, (int)from);
        return;
    }
    judge = known_judge(comm, &notice->key);
    if (it == NULL && judge >= 0 && judge != (int)from) {
        struct tci_notice other = {
            .kind = TCI_NOTICE_QUERY, .culprit = judge, .key = notice->key, .call = notice->call};

        comm->transport->ops->notify(comm->transport, from, &other, true);
        return;
    }
    if (it != NULL)
        tci_case_query(it, (int)from); /* it has entered since */
    else
        it = tci_case_open(comm, peer, notice);
    if (it != NULL)
        tci_case_note_due(it, (int)from, notice);
}

void tci_inquest_queried(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    int judge = notice->culprit;
    struct tci_notice report;
    struct tci_case *mine;
    struct tci_op *op;
    bool is_new;

    if (!is_meant(comm, from, notice) || judge < 0 || judge >= comm->size || judge == comm->rank)
        return;
    op = find_op(comm, from, &notice->key);
    mine = find_case(comm, from, &notice->key);
    is_new = op != NULL && op->judge < 0;
    if (mine != NULL && judge < comm->rank) {
        tci_case_end(mine);
        mine = NULL;
        is_new = op != NULL;
    }
    if (mine == NULL)
        remember_judge(comm, &notice->key, judge);
    if (is_new)
        op->judge = judge;
    if (is_new && op->is_asked)
        (void)tci_inquest_ask(op, judge); /* else the case ends with those who have asked it */
    if (judge != (int)from)
        return;
    tci_waiting_answer(comm, from, notice, TCI_NOTICE_REPORT, &report);
    comm->transport->ops->notify(comm->transport, from, &report, true);
    tci_case_listen(comm, judge, notice->number < 1 ? 1 : (uint32_t)notice->number);
}

void tci_inquest_reported(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    struct tci_case *it = is_meant(comm, from, notice) ? find_case(comm, from, &notice->key) : NULL;

    if (it == NULL || !tci_case_asks(it, (int)from))
        return;
    it->evidence.hears_others = true;
    tci_answers_note(it->evidence.answers, (int)from, notice);
}

void tci_inquest_testified(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    int by = (int)from, of = notice->culprit;

    for (struct tci_list *at = comm->inquests.cases.next; at != &comm->inquests.cases;
         at = at->next) {
        struct tci_case *it = tci_container_of(at, struct tci_case, link);
        struct said *said = &it->evidence.answers->said[of];

        it->evidence.hears_others = it->evidence.hears_others || by != comm->rank;
        if (notice->reason != TC_REASON_NONE) {
            tci_case_note_dead(it, by, of);
            continue;
        }
        tci_evidence_drop_dead(&it->evidence, by, of);
        said->is_heard = said->is_heard || by != of;
        said->is_flowing = said->is_flowing || notice->number == 1;
    }
}
