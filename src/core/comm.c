/* comm.c - a group of ranks: what the transport tells it, and what it tells the others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/mismatch.h"

/* News of a loss may wait behind the rest of a message, which its reader takes within milliseconds
 * if it lives. */
enum { TELL_MS = 100 };

static struct tci_comm *comm_of(struct tci_transport_sink *sink)
{
    return tci_container_of(sink, struct tci_comm, sink);
}

/* ---- what the transport tells ------------------------------------------------------------- */

static bool admit(struct tci_transport_sink *sink, uint32_t peer, const struct tci_key *key,
                  const struct tci_call *call)
{
    struct tci_comm *comm = comm_of(sink);

    return !comm->is_deaf && tci_mismatch_admit(comm, peer, key, call);
}

/* No other internal barrier has the tag 0. */
static bool is_last_barrier(const struct tci_comm *comm, const struct tci_notice *end)
{
    return end->key.group == comm->group && end->key.space == TCI_SPACE_INTERNAL &&
           end->key.tag == 0 && end->call.coll == TCI_COLL_BARRIER;
}

static void note_unmet(struct tci_comm *comm, const struct tci_notice *end)
{
    if (comm->unmet.status == TC_OK && comm->error.pub.status == TC_OK &&
        is_last_barrier(comm, end))
        comm->unmet = *end;
}

void tci_comm_unmet(const struct tci_comm *comm, struct tci_error *out)
{
    const struct tci_notice *unmet = &comm->unmet;

    memset(out, 0, sizeof(*out));
    if (unmet->status != TC_OK)
        tci_error_blame(out, unmet->status, unmet->culprit, (tc_reason_t)unmet->reason, "finalize",
                        "finalize, internal call: %s", unmet->text);
}

void tci_comm_ended(struct tci_comm *comm, uint32_t peer, const struct tci_notice *notice)
{
    struct tci_tag_name name = tci_comm_tag_name(&notice->key, peer);
    struct tci_key key = notice->key;
    uint32_t use = key.use;
    struct tci_tag *tag;
    struct tci_error error = {0};

    note_unmet(comm, notice);
    tci_inquest_close(comm, peer, &notice->key);
    tci_dispute_close(comm, &notice->key);
    if (tci_mismatch_end(comm, peer, notice))
        return;
    tag = tci_tags_get(&comm->tags, &name);
    if (tag == NULL || notice->key.group != comm->group || tci_tag_is_dead(tag, use))
        return;
    tci_error_blame(&error, notice->status, notice->culprit, (tc_reason_t)notice->reason, NULL,
                    "%s", notice->text);
    error.pub.tag = notice->key.tag;
    if (tag->op != NULL && (tag->op->key.use == use || use == 0 || !tag->is_counted)) {
        tci_op_fail_as(tag->op, &error);
        return;
    }
    if (!tag->is_counted)
        key.use = 0; /* who has failed refuses all that follows */
    else if (use == 0 || tag->uses >= use)
        return; /* it was finished here, and that result stands; or it ends at its deadline */
    tci_tag_kill(tag, key.use, &error);
    if (tag->op == NULL && (key.use == 0 || key.use == tag->uses + 1))
        comm->transport->ops->abort(comm->transport, &key,
                                    tci_space_is_p2p(key.space) ? (int)peer : TCI_ALL_PEERS);
}

/* Notices are handled in a turn of their own, for the same reason as a doom. */
struct news {
    struct tci_task task;
    struct tci_comm *comm;
    uint32_t peer;
    struct tci_notice notice;
};

void tci_comm_relay(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    if (comm->rank != 0 || tci_space_is_p2p(notice->key.space))
        return;
    if (comm->unmet.status != TC_OK && is_last_barrier(comm, notice))
        return; /* each that leaves by that tells it, and all know it already */
    for (int peer = 1; peer < comm->size; peer++)
        if ((uint32_t)peer != from)
            comm->transport->ops->notify(comm->transport, (uint32_t)peer, notice, true);
}

/* ---- losses ------------------------------------------------------------------------------- */

bool tci_comm_bears_loss(const struct tci_comm *comm)
{
    return comm->verdict.step != TCI_VERDICT_NONE && comm->error.pub.status == TC_OK;
}

static void peer_lost(struct tci_transport_sink *sink, uint32_t peer, tc_reason_t reason,
                      const char *how)
{
    tci_verdict_lost(comm_of(sink), peer, reason, how);
}

/* ---- notices ------------------------------------------------------------------------------- */

static void read_news(struct tci_task *task)
{
    struct news *news = tci_container_of(task, struct news, task);
    struct tci_comm *comm = news->comm;

    if (comm->transport != NULL) {
        switch (news->notice.kind) {
        case TCI_NOTICE_END:
            tci_comm_relay(comm, news->peer, &news->notice);
            tci_comm_ended(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_CALL:
            tci_mismatch_noticed(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_ASK:
            tci_dispute_asked(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_ANSWER:
            tci_dispute_answered(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_SHRINK:
            if (comm->on_shrink != NULL)
                comm->on_shrink(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_ACCUSE:
            tci_verdict_accused(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_INQUIRE:
            tci_hearing_inquired(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_TESTIFY:
            tci_hearing_testified(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_PETITION:
            tci_inquest_petitioned(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_QUERY:
            tci_inquest_queried(comm, news->peer, &news->notice);
            break;
        case TCI_NOTICE_REPORT:
            tci_inquest_reported(comm, news->peer, &news->notice);
            break;
        default:
            break;
        }
    }
    tci_free(news);
    tci_comm_release(comm);
}

static void noticed(struct tci_transport_sink *sink, uint32_t peer, const struct tci_notice *notice)
{
    struct tci_comm *comm = comm_of(sink);
    struct news *news;

    if (notice->kind == TCI_NOTICE_LOST) {
        tci_verdict_told(comm, peer, notice);
        return;
    }
    if (notice->kind == TCI_NOTICE_BEAT) {
        tci_beat_heard(comm, peer, notice);
        return;
    }
    news = comm->is_deaf ? NULL : tci_alloc(sizeof(*news));
    if (news == NULL)
        return; /* deadlines hold without it */
    *news = (struct news){.task = {.fn = read_news}, .comm = comm, .peer = peer, .notice = *notice};
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    comm->exec->ops->post(comm->exec, &news->task);
}

static void has_left(struct tci_transport_sink *sink)
{
    struct tci_comm *comm = comm_of(sink);

    if (comm->on_left != NULL)
        comm->on_left(comm);
}

/* ---- the group ---------------------------------------------------------------------------- */

static void engine_task(struct tci_task *task)
{
    struct tci_cq *cq = tci_container_of(task, struct tci_cq, task);

    tci_engine_turn(tci_container_of(cq, struct tci_comm, cq));
}

static void show_group(const struct tci_comm *comm)
{
    struct tci_trace_group_facts facts = {.number = comm->group,
                                          .job = {comm->job[0], comm->job[1]},
                                          .rank = comm->rank,
                                          .size = comm->size,
                                          .shown_rank = comm->shown_rank};

    tci_trace_group_set(comm->context->trace, &facts);
}

int tci_comm_init(struct tci_comm *comm, tc_context *context, struct tci_transport *transport,
                  const struct tci_comm_config *config)
{
    struct tci_caps caps;

    memset(comm, 0, sizeof(*comm));
    comm->hosts = tci_hosts_ref(config->hosts);
    comm->context = context;
    comm->trace = context->trace;
    comm->exec = context->exec;
    comm->transport = transport;
    comm->sink = (struct tci_transport_sink){
        .admit = admit, .notice = noticed, .lost = peer_lost, .left = has_left};
    tci_cq_init(&comm->cq, comm->exec, engine_task);
    comm->cq.place = tci_engine_place;
    comm->rank = config->rank;
    comm->size = config->size;
    comm->shown_rank = config->shown_rank;
    comm->group = config->group;
    comm->marks_base = tci_trace_mark_base(config->group);
    memcpy(comm->job, config->job, sizeof(comm->job));
    comm->segment_bytes = config->segment_bytes;
    comm->window = TCI_WINDOW;
    comm->numerics = config->numerics;
    comm->check = config->check;
    snprintf(comm->algorithm, sizeof(comm->algorithm), "%s", config->algorithm);
    if (config->figures != NULL)
        comm->tuning.figures = *config->figures;
    if (config->steady != NULL)
        comm->tuning.steady_figures = *config->steady;
    tci_tags_init(&comm->tags);
    tci_hearings_init(&comm->hearings);
    tci_inquests_init(&comm->inquests);
    tci_disputes_init(&comm->disputes);
    tci_list_init(&comm->ops);
    tci_list_init(&comm->busy);
    pthread_mutex_init(&comm->lock, NULL);
    if (transport != NULL) {
        transport->sink = &comm->sink;
        transport->ops->caps(transport, &caps);
        comm->eager_max = caps.eager_max;
    }
    show_group(comm);
    tci_list_add(&context->comms, &comm->link);
    return 0;
}

bool tci_comm_number_p2p(struct tci_comm *comm, int peer, bool is_send, uint64_t *number_out)
{
    _Atomic uint64_t *numbers = atomic_load_explicit(&comm->ordered_p2p, memory_order_acquire);

    TC_ASSERT(peer >= 0 && peer < comm->size);
    if (numbers == NULL) {
        _Atomic uint64_t *mine = tci_alloc_array(2 * (size_t)comm->size, sizeof(*mine));
        if (mine == NULL)
            return false;
        if (atomic_compare_exchange_strong(&comm->ordered_p2p, &numbers, mine))
            numbers = mine;
        else
            tci_free(mine); /* another thread was faster, numbers is what it has made */
    }
    *number_out = atomic_fetch_add_explicit(&numbers[2 * peer + !is_send], 1, memory_order_relaxed);
    return true;
}

void tci_comm_fini(struct tci_comm *comm)
{
    TC_ASSERT(tci_list_is_empty(&comm->ops));
    tci_inquests_end(comm);
    tci_disputes_end(comm);
    tci_list_del(&comm->link);
    tci_trace_group_left(comm->context->trace, comm->group);
    comm->exec->ops->timer_clear(comm->exec, &comm->alarm);
    tci_beat_fini(comm);
    tci_op_drop_recent(comm, tci_op_take_recent(comm));
    tci_free(comm->verdict.trial);
    comm->verdict.trial = NULL;
    if (comm->transport != NULL)
        comm->transport->ops->close(comm->transport);
    comm->transport = NULL;
    while (comm->xfers_free != NULL) {
        struct tci_step_xfer *xfer = comm->xfers_free;
        comm->xfers_free = xfer->next_free;
        tci_free(xfer);
    }
    tci_tags_fini(&comm->tags);
    tci_free(atomic_load(&comm->ordered_p2p));
    atomic_store(&comm->ordered_p2p, NULL);
    tci_hosts_unref(comm->hosts);
    comm->hosts = NULL;
    if (comm->tuning.fini != NULL)
        comm->tuning.fini(comm);
    pthread_mutex_destroy(&comm->lock);
}

void tci_comm_release(struct tci_comm *comm)
{
    if (atomic_fetch_sub_explicit(&comm->ops_live, 1, memory_order_acq_rel) == 1 &&
        comm->on_idle != NULL)
        comm->on_idle(comm);
}

void tci_comm_tell(struct tci_comm *comm, const struct tci_notice *notice)
{
    struct tci_transport *transport = comm->transport;

    if (transport == NULL)
        return;
    if (notice->kind == TCI_NOTICE_END)
        note_unmet(comm, notice);
    if (comm->rank != 0 && notice->kind != TCI_NOTICE_LOST) {
        transport->ops->notify(transport, 0, notice, true);
        return;
    }
    for (int peer = 0; peer < comm->size; peer++) {
        if (peer == comm->rank)
            continue;
        if (notice->kind == TCI_NOTICE_LOST)
            tci_comm_tell_loss(comm, (uint32_t)peer, notice,
                               peer != notice->culprit && (comm->rank == 0 || peer == 0));
        else
            transport->ops->notify(transport, (uint32_t)peer, notice, true);
    }
}

void tci_comm_tell_loss(struct tci_comm *comm, uint32_t peer, const struct tci_notice *notice,
                        bool may_link)
{
    const struct tci_transport_ops *ops = comm->transport->ops;

    if (comm->unmet.status != TC_OK)
        ops->notify(comm->transport, peer, &comm->unmet, may_link);
    ops->notify(comm->transport, peer, notice, may_link);
}

void tci_comm_tell_end(struct tci_comm *comm, const struct tci_error *cause, const char *why)
{
    struct tci_notice notice = {
        .kind = TCI_NOTICE_LOST, .reason = TC_REASON_EXITED, .culprit = comm->rank};

    if (cause != NULL && cause->pub.rank >= 0 && cause->pub.rank != comm->rank) {
        notice.reason = (uint8_t)cause->reason;
        notice.culprit = cause->pub.rank;
    }
    if (comm->error.pub.status != TC_OK || comm->verdict.step != TCI_VERDICT_NONE)
        return;
    snprintf(notice.text, sizeof(notice.text), "%.255s", why);
    tci_comm_tell(comm, &notice);
}

bool tci_comm_has_told(struct tci_comm *comm, uint64_t *since_ns)
{
    const struct tci_transport *transport = comm->transport;
    uint64_t now = comm->exec->ops->now_ns(comm->exec);

    if (transport == NULL || *since_ns == 0)
        return true;
    if (now - *since_ns < TELL_MS * TCI_NS_PER_MS && !tci_transport_has_told(transport))
        return false;
    *since_ns = 0;
    return true;
}

void tci_comm_break(struct tci_comm *comm, const struct tci_error *error)
{
    struct tci_list *link, *next;

    pthread_mutex_lock(&comm->lock);
    bool is_first = comm->error.pub.status == TC_OK;
    tci_error_copy(&comm->error, error);
    pthread_mutex_unlock(&comm->lock);
    if (!is_first)
        return;
    tci_trace_group_broken(comm->context->trace, comm->group, error->pub.status, error->pub.rank,
                           error->text);
    comm->broken_ns = comm->exec->ops->now_ns(comm->exec);
    tci_verdict_end(comm);
    tci_inquests_end(comm);
    tci_disputes_end(comm);
    tci_hearings_end(comm);
    tci_beat_end(comm);
    if (tci_status_is_loss(error->pub.status)) {
        struct tci_notice notice = {
            .kind = TCI_NOTICE_LOST, .reason = (uint8_t)error->reason, .culprit = error->pub.rank};
        snprintf(notice.text, sizeof(notice.text), "%.255s", error->text);
        tci_comm_tell(comm, &notice);
    }
    for (link = comm->ops.next; link != &comm->ops; link = next) {
        struct tci_op *op = tci_container_of(link, struct tci_op, link);
        next = link->next;
        tci_op_fail_as(op, error);
    }
}

void tci_comm_late(struct tci_comm *comm, struct tci_error *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&comm->lock);
    tci_error_copy(out, &comm->late);
    pthread_mutex_unlock(&comm->lock);
}

void tci_comm_error(struct tci_comm *comm, struct tci_error *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&comm->lock);
    tci_error_copy(out, &comm->error);
    pthread_mutex_unlock(&comm->lock);
}
