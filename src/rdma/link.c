/* link.c - a link over RDMA: its life, and its records out and in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/link.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/notice.h"

enum { CAUSE_MS = 100 };

/* ---- The life of a link ---- */

struct tci_rdma_link *tci_rdma_link_get(struct tci_rdma *rdma, uint32_t peer)
{
    struct tci_rdma_link *link = rdma->links[peer];

    if (link != NULL)
        return link;
    if (rdma->match == NULL) {
        rdma->match = tci_alloc_raw(sizeof(*rdma->match));
        if (rdma->match == NULL)
            return NULL;
        tci_match_init(rdma->match);
    }
    link = tci_alloc(sizeof(*link));
    if (link == NULL)
        return NULL;
    link->rdma = rdma;
    link->peer = peer;
    link->timer.fn = tci_rdma_on_link_timer;
    link->ask.fn = tci_rdma_on_ask_timer;
    link->heal.timer.fn = tci_rdma_on_heal_timer;
    tci_list_init(&link->near_link);
    tci_list_init(&link->pushes);
    rdma->links[peer] = link;
    return link;
}

void tci_rdma_link_up(struct tci_rdma_link *link)
{
    link->state = TCI_RDMA_NEAR;
    tci_list_add(&link->rdma->near, &link->near_link);
}

static void end_pending(struct tci_rdma_link *link, tc_status_t status)
{
    struct tci_xfer *xfer;

    while ((xfer = link->pending.head) != NULL) {
        tci_xfers_del(&link->pending, xfer);
        tci_rdma_complete(link, xfer, status);
    }
}

/* Nothing is read or written by a device once the queue pair is gone. */
void tci_rdma_link_end(struct tci_rdma_link *link, tc_status_t status)
{
    struct tci_rdma *rdma = link->rdma;

    if (link->state == TCI_RDMA_FAR || link->state == TCI_RDMA_GONE)
        return;
    link->state = TCI_RDMA_GONE;
    rdma->exec->ops->timer_clear(rdma->exec, &link->timer);
    rdma->exec->ops->timer_clear(rdma->exec, &link->heal.timer);
    tci_rdma_qp_close(link);
    end_pending(link, status);
    tci_rdma_abort_sends(link, NULL, status);
    tci_rdma_abort_pushes(link, NULL, status);
    tci_rdma_end_grants(link);
    if (link->live > 0 || link->held > 0 || link->early_held > 0)
        tci_match_end(rdma->match, &tci_rdma_ends, rdma, NULL, (int)link->peer, status);
    TC_ASSERT(link->live == 0);
    tci_list_del(&link->near_link);
    tci_free(link->queue.data);
    tci_free(link->grants);
    link->queue = (struct tci_rdma_queue){0};
    link->grants = NULL;
    link->grant_count = link->grant_room = link->grant_free = 0;
    link->rx = (struct tci_rdma_rx){0};
    tci_rdma_check_left(rdma);
}

void tci_rdma_take_all(struct tci_rdma_link *link)
{
    while (tci_rdma_is_up(link) && tci_rdma_poll_cq(link->rdma, TCI_RDMA_BATCH) > 0) {
    }
}

/* Its own end of the queue pair may never notice: it has to be told. */
void tci_rdma_link_lose(struct tci_rdma_link *link, const char *how)
{
    struct tci_rdma *rdma = link->rdma;

    if (link->state == TCI_RDMA_GONE)
        return;
    link->is_lost = true;
    tci_rdma_tell_end(link, how);
    tci_rdma_link_end(link, TC_ERR_PEER_LOST);
    tci_rdma_end_others(link, TC_ERR_PEER_LOST);
    rdma->base.sink->lost(rdma->base.sink, link->peer, TC_REASON_LINK_DEAD, how);
}

void tci_rdma_link_lose_for(struct tci_rdma_link *link, const char *cause)
{
    const struct tci_rdma_port_info *info = &link->rdma->choice.info;
    char how[256];

    snprintf(how, sizeof(how),
             "cannot be reached over RDMA any more (device %.40s, port %u): %.150s", info->device,
             info->port, cause);
    tci_rdma_link_lose(link, how);
}

void tci_rdma_link_free(struct tci_rdma_link *link)
{
    if (link == NULL)
        return;
    tci_rdma_link_end(link, TC_ERR_CLOSED);
    TC_ASSERT(link->qp == NULL);
    tci_free(link);
}

const char tci_rdma_flushed[] = "the other end of the queue pair has failed, or was closed";

void tci_rdma_link_break(struct tci_rdma_link *link, const char *cause)
{
    if (link->broken == NULL || link->broken == tci_rdma_flushed)
        link->broken = cause; /* the first one is the reason */
    link->rdma->has_broken = true;
}

/* The end that has failed knows why, and tells it. */
static bool waits_for_cause(struct tci_rdma_link *link)
{
    struct tci_exec *exec = link->rdma->exec;

    if (link->broken != tci_rdma_flushed || link->has_waited)
        return link->broken == tci_rdma_flushed && link->timer.heap_at != 0;
    link->has_waited = true;
    return exec->ops->timer_set(exec, &link->timer,
                                exec->ops->now_ns(exec) + CAUSE_MS * TCI_NS_PER_MS) == 0;
}

/* Whatever comes behind its hello makes the link stand; nothing comes after this. */
static void take_rest(struct tci_rdma_link *link)
{
    tci_rdma_qp_stop(link);
    link->is_stopped = true;
    (void)tci_rdma_poll_cq(link->rdma, TCI_RDMA_BATCH);
}

/* What the connection of the pair has to say goes before: a peer that has ended is that. */
static void end_broken(struct tci_rdma_link *link)
{
    const char *cause = link->broken;

    if (link->state == TCI_RDMA_GREETING)
        take_rest(link);
    if (link->state < TCI_RDMA_NEAR)
        tci_rdma_decline(link, cause);
    else
        tci_transport_look(link->rdma->below);
    if ((!tci_rdma_is_up(link) && link->state != TCI_RDMA_STOPPED) || link->broken == NULL)
        return;
    if (tci_rdma_has_left(link)) {
        tci_rdma_link_end(link, TC_ERR_PEER_LOST);
        return;
    }
    if (link->qp != NULL && (tci_rdma_may_fail(link) || tci_rdma_may_heal(link))) {
        tci_rdma_fail(link, cause);
        return;
    }
    if (!waits_for_cause(link))
        tci_rdma_link_lose_for(link, cause);
}

void tci_rdma_end_broken(struct tci_rdma *rdma)
{
    rdma->has_broken = false;
    for (uint32_t i = 0; i < rdma->size; i++)
        if (rdma->links[i] != NULL && rdma->links[i]->broken != NULL &&
            tci_rdma_may_break(rdma->links[i]))
            end_broken(rdma->links[i]);
}

static const char record_lost[] = "a record out of turn: one before it was lost";
static const char piece_lost[] = "a piece out of turn: something before it was lost";

/* Where devices acknowledge nothing they lose without a word: a cable that does not lead is left
 * out then, and both know by their counts what has to go over the one that leads. */
static bool fails_alone(struct tci_rdma_link *link, bool is_missing)
{
    if (!is_missing || !link->is_uc || link->state != TCI_RDMA_NEAR || !tci_rdma_may_fail(link))
        return false;
    tci_rdma_link_break(link, "something that was sent over it was lost (UC)");
    return true;
}

static void lose_for(struct tci_rdma_link *link, const char *wrong)
{
    char how[200];

    if (link->state < TCI_RDMA_NEAR) {
        snprintf(how, sizeof(how), "as they met over RDMA one sent %.150s", wrong);
        tci_rdma_decline(link, how);
        return;
    }
    snprintf(how, sizeof(how), "sent %.150s (RDMA)", wrong);
    tci_rdma_link_lose(link, how);
}

/* ---- Records out ---- */

bool tci_rdma_is_told(const struct tci_rdma_link *link)
{
    return link->records_put - link->records_done == link->quiet;
}

bool tci_rdma_is_clear(const struct tci_rdma_link *link)
{
    return link->state != TCI_RDMA_HEALING && link->queue.len == 0 && link->sends.head == NULL &&
           tci_list_is_empty(&link->pushes) && link->works_put - link->works_done == link->quiet;
}

bool tci_rdma_put(struct tci_rdma_link *link, struct tci_rdma_head *head, const void *payload)
{
    size_t bytes = TCI_RDMA_HEAD + head->len;
    uint8_t *slot;

    if (!tci_rdma_has_slot(link, head->kind == TCI_RDMA_ACK || head->kind == TCI_RDMA_ASK) ||
        !tci_rdma_may_post(link))
        return false;
    slot = tci_rdma_slot_out(link);
    head->seq = link->sent;
    head->ack = link->told = link->taken;
    head->consumed = link->consumed_told = link->consumed;
    tci_rdma_head_encode(head, slot);
    if (payload != NULL)
        memcpy(slot + TCI_RDMA_HEAD, payload, head->len);
    if (link->crypt != NULL)
        bytes = tci_rdma_seal_record(link, slot, bytes);
    if (tci_rdma_post_record(link, bytes, head->kind) != 0)
        tci_rdma_link_break(link, "the device takes no sends any more");
    return link->broken == NULL;
}

static bool queue_record(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                         const void *payload)
{
    struct tci_rdma_queue *queue = &link->queue;
    size_t more = sizeof(*head) + head->len;

    if (queue->room - queue->len < more) {
        size_t room = tci_max(2 * queue->room, queue->len + tci_max(more, 2048));
        uint8_t *data = tci_realloc_array(queue->data, room, 1);

        if (data == NULL)
            return false;
        queue->data = data;
        queue->room = room;
    }
    memcpy(queue->data + queue->len, head, sizeof(*head));
    if (head->len > 0)
        memcpy(queue->data + queue->len + sizeof(*head), payload, head->len);
    queue->len += more;
    queue->revoked += head->kind == TCI_RDMA_REVOKED;
    return true;
}

void tci_rdma_control(struct tci_rdma_link *link, struct tci_rdma_head *head, const void *payload)
{
    if (link->qp == NULL && link->state != TCI_RDMA_HEALING)
        return;
    if ((link->queue.len > 0 || !tci_rdma_put(link, head, payload)) &&
        !queue_record(link, head, payload))
        tci_rdma_link_break(link, "there was no memory left to answer it");
}

static unsigned flush_queue(struct tci_rdma_link *link)
{
    struct tci_rdma_queue *queue = &link->queue;
    unsigned done = 0;

    while (queue->done < queue->len) {
        struct tci_rdma_head head;

        memcpy(&head, queue->data + queue->done, sizeof(head));
        if (!tci_rdma_put(link, &head, queue->data + queue->done + sizeof(head)))
            return done;
        queue->done += sizeof(head) + head.len;
        queue->revoked -= head.kind == TCI_RDMA_REVOKED;
        done++;
    }
    queue->len = queue->done = 0;
    return done;
}

/* How much was taken in goes along with every record; by itself once a part of the slots, or of the
 * window, is owed. */
unsigned tci_rdma_acknowledge(struct tci_rdma_link *link)
{
    struct tci_rdma_head head = {.kind = TCI_RDMA_ACK};

    if (!tci_rdma_owes(link) && link->taken - link->told < TCI_RDMA_SLOTS / 4 &&
        link->consumed - link->consumed_told < TCI_RDMA_WINDOW / 2)
        return 0;
    return tci_rdma_put(link, &head, NULL);
}

unsigned tci_rdma_flush(struct tci_rdma_link *link)
{
    unsigned done = tci_rdma_acknowledge(link);

    if (link->queue.len > 0)
        done += flush_queue(link);
    if (link->queue.len == 0 && link->sends.head != NULL)
        done += tci_rdma_flush_sends(link);
    if (!tci_list_is_empty(&link->pushes))
        done += tci_rdma_push_some(link);
    if (link->is_leaving || link->rdma->is_leaving) {
        tci_rdma_say_bye(link);
        tci_rdma_check_left(link->rdma);
    }
    return done;
}

/* Last of all: only when nothing is on its way, over any cable. */
void tci_rdma_say_bye(struct tci_rdma_link *link)
{
    struct tci_rdma_head head = {.kind = TCI_RDMA_BYE};

    if (link->bye_put || link->sends_live > 0 || !tci_rdma_is_clear(link) ||
        !tci_rdma_sides_are_clear(link) || !tci_rdma_leads(link->rdma, link->peer))
        return;
    link->bye_put = true;
    tci_rdma_control(link, &head, NULL);
}

void tci_rdma_on_done(struct tci_rdma_link *link, uint32_t index)
{
    while (link->flown != link->works_put && link->flown++ % TCI_RDMA_QUEUE != index) {
    }
    tci_rdma_retire(link);
    tci_rdma_heal_shown(link);
}

void tci_rdma_retire(struct tci_rdma_link *link)
{
    while (
        (link->qp != NULL || link->state == TCI_RDMA_STOPPED || link->state == TCI_RDMA_HEALING) &&
        link->works_done != tci_rdma_finished(link)) {
        struct tci_rdma_work work = link->works[link->works_done++ % TCI_RDMA_QUEUE];

        if (work.is_write) {
            link->writes--;
            tci_rdma_chunk_put(link->rdma, work.chunk);
            if (work.push != NULL)
                tci_rdma_push_done(link, work.push);
        } else {
            link->records_done++;
            if (work.kind == TCI_RDMA_HELLO)
                tci_rdma_on_hello_sent(link);
        }
    }
}

/* ---- Records in ---- */

const char tci_rdma_not_opened[] =
    "what does not open with the keys of this link: it was changed on the way";

static const char *on_notice(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                             const uint8_t *payload)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_notice notice = {.key = head->key, .call = head->call};
    const char *wrong = tci_notice_unpack(payload, &notice);

    if (wrong == NULL && notice.culprit >= (int32_t)rdma->size)
        wrong = "a notice that blames no rank there is";
    if (wrong == NULL && notice.kind == TCI_NOTICE_RDMA)
        wrong = "a notice that belongs on the connection of the pair";
    if (wrong == NULL)
        rdma->base.sink->notice(rdma->base.sink, link->peer, &notice);
    return wrong;
}

/* After its goodbye a peer sends nothing of its own, but still takes what it is sent. */
static bool is_answer(uint8_t kind)
{
    return kind == TCI_RDMA_ACK || kind == TCI_RDMA_CREDIT || kind == TCI_RDMA_FURTHER ||
           kind == TCI_RDMA_REVOKE || kind == TCI_RDMA_REVOKED || kind == TCI_RDMA_ASK;
}

/* Where devices do not, ends acknowledge hellos themselves. */
static bool is_of_meeting(const struct tci_rdma_link *link, uint8_t kind)
{
    return kind == TCI_RDMA_HELLO ||
           (link->is_uc && (kind == TCI_RDMA_ACK || kind == TCI_RDMA_ASK));
}

static const char *on_record(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                             const uint8_t *payload)
{
    if (link->has_left && !is_answer(head->kind))
        return "a record after its goodbye";
    if (link->state < TCI_RDMA_NEAR && !is_of_meeting(link, head->kind))
        return "a record before the link stood";
    if (link->rx.filled != link->rx.total && head->kind == TCI_RDMA_DATA)
        return "a message in the middle of another one";
    switch (head->kind) {
    case TCI_RDMA_DATA:
        return tci_rdma_on_message(link, head, payload);
    case TCI_RDMA_PART:
        return tci_rdma_on_part(link, head, payload);
    case TCI_RDMA_CUT:
        tci_rdma_on_cut(link);
        return NULL;
    case TCI_RDMA_WANT:
        return tci_rdma_on_want(link, head);
    case TCI_RDMA_PROBE:
        tci_rdma_on_probe(link, head);
        return NULL;
    case TCI_RDMA_CREDIT:
        return tci_rdma_on_credit(link, head, payload);
    case TCI_RDMA_FURTHER:
        return tci_rdma_on_further(link, head, payload);
    case TCI_RDMA_REVOKE:
        return tci_rdma_on_revoke(link, head->number);
    case TCI_RDMA_REVOKED:
        tci_rdma_on_revoked(link, head->number);
        return NULL;
    case TCI_RDMA_NOTICE:
        return on_notice(link, head, payload);
    case TCI_RDMA_BYE:
        link->has_left = true;
        return NULL;
    case TCI_RDMA_HELLO:
        tci_rdma_on_hello(link);
        return NULL;
    default:
        return NULL;
    }
}

/* What it has taken in of ours: never more than was sent. */
static const char *on_acks(struct tci_rdma_link *link, const struct tci_rdma_head *head)
{
    if (head->ack - link->acked > link->sent - link->acked || head->consumed > link->framed ||
        head->consumed < link->window_acked)
        return "an acknowledgement of what was never sent";
    link->acked = head->ack;
    link->window_acked = head->consumed;
    if (link->is_uc)
        tci_rdma_retire(link);
    return NULL;
}

static void note_arrival(struct tci_rdma_link *link)
{
    link->read_ns = link->rdma->exec->ops->now_ns(link->rdma->exec);
}

bool tci_rdma_on_record(struct tci_rdma_link *link, uint32_t slot, uint32_t len)
{
    uint8_t *wire = link->in->data + (size_t)slot * TCI_RDMA_SLOT;
    struct tci_rdma_head head;
    const char *wrong = NULL;
    size_t bytes = len;

    if (link->crypt != NULL && (bytes = tci_rdma_open_record(link, wire, len)) == 0)
        wrong = tci_rdma_not_opened;
    if (wrong == NULL)
        wrong = tci_rdma_head_decode(wire, bytes, &head);
    if (wrong == NULL && head.seq != link->taken)
        wrong = record_lost;
    if (fails_alone(link, wrong == record_lost || wrong == tci_rdma_not_opened))
        return false;
    if (wrong == NULL)
        wrong = on_acks(link, &head);
    if (wrong == NULL && link->state < TCI_RDMA_NEAR && !is_of_meeting(link, head.kind))
        tci_rdma_stand(link); /* as it does there: the word on the connection is slower */
    note_arrival(link);
    if (wrong == NULL)
        tci_rdma_owe_record(link, head.kind);
    if (wrong == NULL)
        wrong = on_record(link, &head, wire + TCI_RDMA_HEAD);
    if (wrong != NULL)
        lose_for(link, wrong);
    return true;
}

bool tci_rdma_on_written(struct tci_rdma_link *link, uint32_t imm, uint32_t len)
{
    const char *wrong = NULL;

    if (imm != tci_rdma_imm(imm >> TCI_RDMA_SEQ_BITS, link->taken))
        wrong = piece_lost;
    else if (link->state < TCI_RDMA_NEAR)
        wrong = "a piece before the link stood";
    if (fails_alone(link, wrong == piece_lost))
        return false;
    note_arrival(link);
    tci_rdma_owe(link, true);
    if (wrong == NULL)
        wrong = tci_rdma_on_filled(link, imm >> TCI_RDMA_SEQ_BITS, len);
    if (wrong != NULL)
        lose_for(link, wrong);
    return true;
}
