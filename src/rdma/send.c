/* send.c - messages on their way out: small ones in records, large ones after a credit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "core/assert.h"
#include "rdma/link.h"

enum { PROBE_MIN_MS = 50, PROBE_MAX_MS = 1600 };

/* What is kept of a credit that came before its send. */
struct credit {
    struct tci_rdma_range ranges[TCI_RDMA_RANGES];
    unsigned count;
};
static_assert(sizeof(struct credit) <= TCI_EARLY_ROOM, "a credit fits");

static bool is_eager(const struct tci_rdma *rdma, const struct tci_xfer *xfer)
{
    return xfer->len <= rdma->eager_max;
}

void tci_rdma_end_send(struct tci_rdma_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    TC_ASSERT(link->sends_live > 0);
    link->sends_live--;
    if (status == TC_OK)
        link->rdma->stats.messages_sent++;
    tci_rdma_complete(link, xfer, status);
}

/* ---- Records ---- */

static struct tci_rdma_head head_of(enum tci_rdma_kind kind, const struct tci_xfer *xfer)
{
    return (struct tci_rdma_head){.kind = (uint8_t)kind,
                                  .priority = xfer->priority,
                                  .key = xfer->key,
                                  .call = *xfer->call,
                                  .total = xfer->len};
}

/* The next part of a small message; it ends with the last one, which is a copy as all are. */
static bool put_part(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    size_t done = (size_t)xfer->room[TCI_ROOM_DONE], left = xfer->len - done;
    struct tci_rdma_head head = head_of(done == 0 ? TCI_RDMA_DATA : TCI_RDMA_PART, xfer);

    head.len = (uint32_t)tci_min(left, TCI_RDMA_PAYLOAD);
    if (!tci_rdma_put(link, &head, (const uint8_t *)xfer->data + done))
        return false;
    xfer->room[TCI_ROOM_DONE] += head.len;
    link->rdma->stats.bytes_sent += head.len;
    link->rdma->stats.bytes_copied += head.len;
    link->sending = head.len < left ? xfer : NULL;
    if (link->sending == NULL) {
        tci_xfers_del(&link->sends, xfer);
        tci_rdma_end_send(link, xfer, TC_OK);
    }
    return true;
}

unsigned tci_rdma_flush_sends(struct tci_rdma_link *link)
{
    unsigned done = 0;

    while (link->queue.len == 0 && link->sends.head != NULL && put_part(link, link->sends.head))
        done++;
    return done;
}

/* Behind all that are as urgent, and behind one that is partly out. */
static void queue_send(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    struct tci_xfer *before = link->sends.tail;

    link->framed += xfer->room[TCI_RDMA_ROOM_COST] = xfer->len + TCI_RDMA_EAGER_COST;
    while (before != NULL && before->priority < xfer->priority && before != link->sending)
        before = before->room_prev;
    tci_xfers_add_behind(&link->sends, before, xfer);
    (void)tci_rdma_flush_sends(link);
}

/* ---- Waiting for a credit ---- */

static void probe_start(struct tci_rdma *rdma)
{
    if (rdma->match->sends_count <= 1)
        rdma->probe_ms = PROBE_MIN_MS;
    if (rdma->probe.heap_at == 0)
        (void)rdma->exec->ops->timer_set(rdma->exec, &rdma->probe,
                                         rdma->exec->ops->now_ns(rdma->exec) +
                                             rdma->probe_ms * TCI_NS_PER_MS);
}

static void probe_one(void *arg, struct tci_xfer *xfer)
{
    struct tci_rdma *rdma = arg;
    struct tci_rdma_head head;

    if (!xfer->is_send)
        return;
    if ((xfer->room[TCI_ROOM_FLAGS] & TCI_XFER_SEEN) == 0) {
        xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_SEEN;
        return;
    }
    head = head_of(TCI_RDMA_PROBE, xfer);
    tci_rdma_control(rdma->links[xfer->peer], &head, NULL);
}

/* Whose credit does not come may wait for a peer that made another call, in which no message is
 * as long: the peer is shown the call. */
void tci_rdma_on_probe_timer(struct tci_timer *timer)
{
    struct tci_rdma *rdma = tci_container_of(timer, struct tci_rdma, probe);

    rdma->probe_ms = tci_min(2 * rdma->probe_ms, PROBE_MAX_MS);
    if (rdma->match == NULL || rdma->match->sends_count == 0)
        return;
    tci_match_each_xfer(rdma->match, probe_one, rdma);
    (void)rdma->exec->ops->timer_set(
        rdma->exec, timer, rdma->exec->ops->now_ns(rdma->exec) + rdma->probe_ms * TCI_NS_PER_MS);
}

static void send_to_wait(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    struct tci_rdma_head head = head_of(TCI_RDMA_WANT, xfer);

    tci_match_add(link->rdma->match, xfer);
    probe_start(link->rdma);
    if (is_eager(link->rdma, xfer))
        tci_rdma_control(link, &head, NULL);
}

/* What it waited for is here. */
static void have_credit(struct tci_rdma_link *link, struct tci_xfer *xfer, uint32_t number,
                        const struct credit *credit)
{
    if (is_eager(link->rdma, xfer))
        queue_send(link, xfer);
    else
        tci_rdma_push_start(link, xfer, number, credit->ranges, credit->count);
}

/* A credit that came before: true when it decided the fate of the transfer. */
static bool use_early_credit(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    struct tci_match *match = link->rdma->match;
    struct tci_early *early;

    while ((early = tci_match_early(match, xfer->peer, &xfer->key, TCI_EARLY_CREDIT)) != NULL) {
        bool is_same = tci_key_is_same_call(&early->call, xfer->call) && early->total == xfer->len;
        uint32_t number = (uint32_t)early->filled;
        struct credit credit;
        bool is_dead;

        if (tci_key_is_later(&early->key, &xfer->key))
            return false;
        is_dead = (!is_same || early->key.use != xfer->key.use) &&
                  !tci_rdma_admit(link, &early->key, &early->call);
        memcpy(&credit, early->room, sizeof(credit));
        tci_rdma_drop_early(link, early);
        if (is_dead)
            continue;
        if (is_same)
            have_credit(link, xfer, number, &credit);
        else
            tci_rdma_end_send(link, xfer, TC_ERR_MISMATCH);
        return true;
    }
    return false;
}

void tci_rdma_send(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    struct tci_rdma *rdma = link->rdma;
    uint64_t used = link->framed - link->window_acked;

    link->sends_live++;
    if (link->bye_put) {
        tci_rdma_end_send(link, xfer, TC_ERR_PEER_LOST);
        return;
    }
    /* Equal keys stay in order: behind one that waits, all wait. */
    if (tci_match_send(rdma->match, xfer->peer, &xfer->key) != NULL)
        send_to_wait(link, xfer);
    else if (is_eager(rdma, xfer) && used + xfer->len + TCI_RDMA_EAGER_COST <= TCI_RDMA_WINDOW)
        queue_send(link, xfer);
    else if (is_eager(rdma, xfer) || !use_early_credit(link, xfer))
        send_to_wait(link, xfer);
}

/* ---- Credits ---- */

/* Ranges that follow each other, from the beginning of the message, or from where a part is. */
static const char *read_credit(const struct tci_rdma_head *head, const uint8_t *payload,
                               struct credit *credit)
{
    uint64_t at = 0;

    *credit = (struct credit){.count = head->len / TCI_RDMA_RANGE_BYTES};
    for (unsigned i = 0; i < credit->count; i++) {
        struct tci_rdma_range *range = &credit->ranges[i];

        tci_rdma_range_decode(payload + (size_t)i * TCI_RDMA_RANGE_BYTES, range);
        if (i == 0 && tci_rdma_is_side_part(&head->key))
            at = tci_min(range->at, head->total);
        if (range->at != at || range->len == 0 || range->len > head->total - at ||
            range->place >= 1u << TCI_RDMA_PLACE_BITS)
            return "a credit for what is no part of the message";
        at += range->len;
    }
    return NULL;
}

/* The first that waited does no more: the credits of those behind it may have come before its. */
static void use_credits_behind(struct tci_rdma_link *link, const struct tci_key *key)
{
    struct tci_match *match = link->rdma->match;
    struct tci_xfer *xfer;

    while ((xfer = tci_match_send(match, link->peer, key)) != NULL) {
        struct tci_early *early = tci_match_early(match, link->peer, key, TCI_EARLY_CREDIT);

        if (early == NULL || tci_key_is_later(&early->key, &xfer->key))
            return;
        tci_match_del(match, xfer);
        if (!use_early_credit(link, xfer))
            tci_match_add(match, xfer);
    }
}

static const char *keep_credit(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                               const struct credit *credit)
{
    struct tci_early *early;

    if (link->early_held >= TCI_RDMA_EARLY_MAX)
        return "more credits than can be remembered";
    early = tci_pool_get(&link->rdma->earlies);
    if (early == NULL)
        return "more than there is memory for";
    early->key = head->key;
    early->call = head->call;
    early->peer = link->peer;
    early->kind = TCI_EARLY_CREDIT;
    early->total = head->total;
    early->filled = head->number;
    early->payload = NULL;
    memcpy(early->room, credit, sizeof(*credit));
    link->early_held++;
    tci_match_add_early(link->rdma->match, early);
    return NULL;
}

const char *tci_rdma_on_credit(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                               const uint8_t *payload)
{
    struct tci_match *match = link->rdma->match;
    struct tci_xfer *xfer = tci_match_send(match, link->peer, &head->key);
    bool is_behind = xfer != NULL && tci_key_is_later(&head->key, &xfer->key), is_same;
    struct credit credit;
    const char *wrong = read_credit(head, payload, &credit);

    if (wrong != NULL)
        return wrong;
    if (is_behind)
        xfer = NULL;
    if (xfer != NULL) {
        is_same = tci_key_is_same_call(xfer->call, &head->call) && xfer->len == head->total;
        if ((!is_same || xfer->key.use != head->key.use) &&
            !tci_rdma_admit(link, &head->key, &head->call))
            return NULL;
        tci_match_del(match, xfer);
        if (is_same)
            have_credit(link, xfer, head->number, &credit);
        else
            tci_rdma_end_send(link, xfer, TC_ERR_MISMATCH);
        use_credits_behind(link, &head->key);
        return NULL;
    }
    /* A small message is granted only while it waits: behind others, or that grant is overtaken. */
    if (!tci_rdma_admit(link, &head->key, &head->call) ||
        (head->total <= link->rdma->eager_max && !is_behind))
        return NULL;
    return keep_credit(link, head, &credit);
}

struct dropping {
    struct tci_rdma_link *link;
    uint32_t number;
};

static void drop_numbered(void *arg, struct tci_early *early)
{
    const struct dropping *dropping = arg;

    if (early->kind == TCI_EARLY_CREDIT && early->peer == dropping->link->peer &&
        early->filled == dropping->number)
        tci_rdma_drop_early(dropping->link, early);
}

void tci_rdma_drop_credit(struct tci_rdma_link *link, uint32_t number)
{
    struct dropping dropping = {link, number};

    if (link->rdma->match->credits_count > 0)
        tci_match_each_early(link->rdma->match, drop_numbered, &dropping);
}

/* ---- Abort ---- */

void tci_rdma_abort_sends(struct tci_rdma_link *link, const struct tci_key *key, tc_status_t status)
{
    struct tci_rdma_head head = {.kind = TCI_RDMA_CUT};
    struct tci_xfer *xfer, *next;

    for (xfer = link->sends.head; xfer != NULL; xfer = next) {
        next = xfer->room_next;
        if (key != NULL && !tci_key_is_same_tag(&xfer->key, key))
            continue;
        if (xfer == link->sending) { /* its cost stays: the receiver has begun to keep it */
            link->sending = NULL;
            tci_rdma_control(link, &head, NULL);
        } else {
            link->framed -= xfer->room[TCI_RDMA_ROOM_COST];
        }
        tci_xfers_del(&link->sends, xfer);
        tci_rdma_end_send(link, xfer, status);
    }
}
