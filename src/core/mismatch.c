/* mismatch.c - calls of one tag that differ: how a rank notices, and whom it tells. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every message carries the call it belongs to, and is compared where it arrives:
 *
 *   the operation runs here          it is held, rank 0 asks all what they called, and names the
 *                                    one unlike the most (dispute.h)
 *   it has not been entered yet      the first two calls that differ are kept until then
 *   it has ended well here           the future has told its TC_OK; the log, the health of the
 *                                    group and its end tell both calls, the others hear of them
 *
 * A rank that only receives sends nothing that could be compared.  So an operation that has waited
 * for a while shows its call to those it waits for.  Each of them either calls the same and waits
 * in turn, or differs; since a plan has no cycle, the ranks along that way meet one that differs.
 */
#include "core/mismatch.h"

#include <stdio.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"
#include "core/waiting.h"

/* Whom a notice of the kind CALL is for, in its argument: one rank, or all. */
#define TO_ALL UINT64_MAX

/* Found in a call of the transport, which may not be called from there: carried out later. */
struct finding {
    struct tci_task task;
    struct tci_comm *comm;
    struct tci_key key;
    struct tci_call mine, theirs;
    uint32_t peer;
    bool is_late; /* this rank was done before */
    bool is_told; /* by a notice, which the others have got as well */
};

const char *tci_mismatch_print(const struct tci_comm *comm, const struct tci_opinion *most,
                               const struct tci_opinion *least, char *text, size_t text_bytes)
{
    char one[160], two[160], more[32] = "";

    if (most->count > 1)
        snprintf(more, sizeof(more), " (as %d more do)", most->count - 1);
    snprintf(text, text_bytes, "rank %d calls %s%s, rank %d calls %s: make the calls agree",
             most->first, tci_call_print(comm, &most->call, one, sizeof(one)), more, least->first,
             tci_call_print(comm, &least->call, two, sizeof(two)));
    return text;
}

/* ---- Too late for the future ---------------------------------------------------------------- */

/* The first such error stays with the group. */
static void remember_late(struct tci_comm *comm, const struct tci_error *error)
{
    tci_log(TC_LOG_ERROR, "%s", error->text);
    pthread_mutex_lock(&comm->lock);
    tci_error_copy(&comm->late, error);
    pthread_mutex_unlock(&comm->lock);
}

static void show_all(struct tci_comm *comm, const struct tci_key *key, int rank,
                     const struct tci_call *call)
{
    struct tci_notice notice = {
        .kind = TCI_NOTICE_CALL, .culprit = rank, .arg = TO_ALL, .key = *key, .call = *call};

    tci_comm_tell(comm, &notice);
}

/* Whoever still runs differs from one of the two calls, and takes it from there. */
static void tell_late(const struct finding *found)
{
    struct tci_comm *comm = found->comm;
    const char *name = tci_coll_name(found->mine.coll);
    struct tci_error error = {0};
    char tag[48], mine[160], theirs[160];

    tci_error_set(&error, TC_ERR_MISMATCH, (int)found->peer, found->key.tag, name,
                  "%s, %s: rank %d calls %s and is done, rank %u calls %s: make the calls agree",
                  name, tci_tag_print(found->key.space, found->key.tag, tag, sizeof(tag)),
                  comm->rank, tci_call_print(comm, &found->mine, mine, sizeof(mine)), found->peer,
                  tci_call_print(comm, &found->theirs, theirs, sizeof(theirs)));
    remember_late(comm, &error);
    if (comm->transport == NULL || found->is_told || tci_space_is_p2p(found->key.space))
        return;
    show_all(comm, &found->key, comm->rank, &found->mine);
    show_all(comm, &found->key, (int)found->peer, &found->theirs);
}

bool tci_mismatch_end(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    struct tci_tag_name name = tci_comm_tag_name(&notice->key, from);
    struct tci_done *done = tci_tags_done(&comm->tags, &name, notice->key.use);
    struct tci_error error = {0};
    char tag[48];

    if (notice->key.group != comm->group || done == NULL)
        return notice->key.group == comm->group && tci_tags_is_forgotten(&comm->tags, &name);
    done->is_ruled |= notice->status == TC_ERR_MISMATCH;
    if (notice->status == TC_ERR_MISMATCH && !done->is_told) {
        done->is_told = true;
        tci_error_set(&error, TC_ERR_MISMATCH, notice->culprit, notice->key.tag,
                      tci_coll_name(done->call.coll), "%s, %s: %s (rank %d was done)",
                      tci_coll_name(done->call.coll),
                      tci_tag_print(notice->key.space, notice->key.tag, tag, sizeof(tag)),
                      notice->text, comm->rank);
        remember_late(comm, &error);
    }
    return true;
}

/* ---- Found ---------------------------------------------------------------------------------- */

void tci_mismatch_found(struct tci_op *op, int peer, const struct tci_call *call)
{
    if (op->is_held || op->state == TCI_OP_DRAINING || op->state == TCI_OP_SETTLED)
        return;
    op->is_held = true;
    tci_dispute_begin(op, peer, call);
}

static void carry_out(struct tci_task *task)
{
    struct finding *found = tci_container_of(task, struct finding, task);
    struct tci_comm *comm = found->comm;
    struct tci_tag_name name = tci_comm_tag_name(&found->key, found->peer);
    struct tci_tag *tag = tci_tags_find(&comm->tags, &name);

    if (found->is_late)
        tell_late(found);
    else if (tag != NULL && tag->op != NULL && tag->op->key.use <= found->key.use)
        tci_mismatch_found(tag->op, (int)found->peer, &found->theirs);
    tci_free(found);
    tci_comm_release(comm);
}

static struct finding *finding_new(struct tci_comm *comm, const struct tci_key *key, uint32_t peer,
                                   const struct tci_call *theirs)
{
    struct finding *found = tci_alloc(sizeof(*found));

    if (found == NULL)
        return NULL; /* the operation then ends at its deadline */
    *found = (struct finding){
        .task = {.fn = carry_out}, .comm = comm, .key = *key, .peer = peer, .theirs = *theirs};
    /* Counted as an operation, so that the group outlives it. */
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    comm->exec->ops->post(comm->exec, &found->task);
    return found;
}

/* A message of a use that has ended well here: nobody expects it, so perhaps the calls differ. */
static void look_back(struct tci_comm *comm, struct tci_done *done, uint32_t peer,
                      const struct tci_key *key, const struct tci_call *call, bool is_told)
{
    struct finding *found;

    if (done->is_told || tci_call_is_equal(call, &done->call))
        return;
    done->is_told = true;
    found = finding_new(comm, key, peer, call);
    if (found == NULL)
        return;
    found->mine = done->call;
    found->is_late = true;
    found->is_told = is_told;
}

/* Whether a message belongs to an earlier use than the one that runs here, or comes next. */
static bool is_past(const struct tci_tag *tag, const struct tci_key *key)
{
    if (!tag->is_counted || key->use == 0)
        return false;
    return tag->op != NULL ? key->use < tag->op->key.use : key->use <= tag->uses;
}

static void remember_call(struct tci_tag *tag, uint32_t peer, const struct tci_key *key,
                          const struct tci_call *call)
{
    struct tci_foreign *slot = &tag->foreign[0];

    if (slot->peer >= 0 && !tci_call_is_equal(&slot->call, call))
        slot = &tag->foreign[1];
    if (slot->peer >= 0)
        return;
    *slot = (struct tci_foreign){.call = *call, .use = key->use, .peer = (int32_t)peer};
}

/* How a peer's call has become known. */
enum source { BY_MESSAGE, BY_PEER, BY_ALL };

/* Compare a peer's call with what is known here; whether its message may be wanted. */
static bool compare(struct tci_comm *comm, uint32_t peer, const struct tci_key *key,
                    const struct tci_call *call, enum source source)
{
    struct tci_tag_name name = tci_comm_tag_name(key, peer);
    struct tci_tag *tag;

    if (tci_space_is_ordered(key->space)) {
        struct tci_done *done = tci_tags_done(&comm->tags, &name, key->use);
        if (done != NULL)
            look_back(comm, done, peer, key, call, source == BY_ALL);
        if (done != NULL || tci_tags_is_forgotten(&comm->tags, &name))
            return false;
    }
    tag = tci_tags_get(&comm->tags, &name);
    if (tag == NULL)
        return true; /* no memory to note it: it is kept, for it may be the only one of its kind */
    if (tci_tag_is_dead(tag, key->use))
        return false;
    if (is_past(tag, key)) {
        if (tag->done.is_set && tag->done.use == key->use)
            look_back(comm, &tag->done, peer, key, call, source == BY_ALL);
        return false;
    }
    if (tag->op != NULL && tag->op->state == TCI_OP_RUNNING && key->use <= tag->op->key.use) {
        if (tci_call_is_equal(call, &tag->op->args.call))
            return true;
        (void)finding_new(comm, &tag->op->key, peer, call);
        return false;
    }
    /* A message waits for its receive, and is compared then; a notice is not kept. */
    if (tag->op == NULL || tag->op->state != TCI_OP_RUNNING || source != BY_MESSAGE)
        remember_call(tag, peer, key, call);
    return true;
}

bool tci_mismatch_admit(struct tci_comm *comm, uint32_t peer, const struct tci_key *key,
                        const struct tci_call *call)
{
    return key->group == comm->group && compare(comm, peer, key, call, BY_MESSAGE);
}

/* ---- Shown ---------------------------------------------------------------------------------- */

static void show_to(struct tci_op *op, uint32_t peer)
{
    struct tci_comm *comm = op->comm;
    struct tci_notice notice = {.kind = TCI_NOTICE_CALL,
                                .culprit = comm->rank,
                                .arg = peer,
                                .key = op->key,
                                .call = op->args.call};

    /* By way of rank 0: a link that is not there is not made for this. */
    comm->transport->ops->notify(comm->transport, comm->rank == 0 ? peer : 0, &notice, true);
}

void tci_mismatch_show(struct tci_op *op)
{
    uint32_t ranks[TCI_LANES_ALL * TCI_WINDOW], count;

    /* Between two ranks alone every call has a sender, whose message carries the call; a use that
     * is not counted might be taken for the next one. */
    if (op->comm->transport == NULL || op->args.peer != TCI_ALL_PEERS || op->is_held ||
        (op->key.use == 0 && !tci_space_is_ordered(op->args.space)))
        return;
    count = tci_waiting_senders(op, ranks, TCI_LEN(ranks));
    for (uint32_t i = 0; i < count; i++)
        show_to(op, ranks[i]);
}

/* Whether rank 0 has heard of a mismatch of this use already: it is told to all once. */
static bool is_known(struct tci_comm *comm, const struct tci_notice *notice)
{
    struct tci_tag_name name = tci_comm_tag_name(&notice->key, 0);
    const struct tci_done *done = tci_tags_done(&comm->tags, &name, notice->key.use);
    const struct tci_tag *tag = done == NULL ? tci_tags_find(&comm->tags, &name) : NULL;

    if (done != NULL)
        return done->is_told;
    return tag != NULL && ((tag->op != NULL && tag->op->is_held) || tag->foreign[1].peer >= 0);
}

void tci_mismatch_noticed(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    bool is_for_all = notice->arg == TO_ALL;

    if (notice->key.group != comm->group || notice->culprit < 0 || notice->culprit >= comm->size ||
        tci_space_is_p2p(notice->key.space))
        return;
    if (is_for_all && comm->rank == 0 && !is_known(comm, notice))
        tci_comm_relay(comm, from, notice);
    if (!is_for_all && notice->arg != (uint64_t)comm->rank) {
        if (comm->rank == 0 && notice->arg < (uint64_t)comm->size)
            comm->transport->ops->notify(comm->transport, (uint32_t)notice->arg, notice, true);
        return;
    }
    if (notice->culprit != comm->rank)
        (void)compare(comm, (uint32_t)notice->culprit, &notice->key, &notice->call,
                      is_for_all ? BY_ALL : BY_PEER);
}
