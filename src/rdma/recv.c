/* recv.c - what comes in finds its receive, or waits for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/reduce.h"
#include "rdma/link.h"

/* ---- Ends ---- */

void tci_rdma_end_recv(struct tci_rdma_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    tci_match_del(link->rdma->match, xfer);
    if (link->rx.xfer == xfer)
        link->rx.xfer = NULL; /* the rest of it is dropped */
    if (status == TC_OK)
        link->rdma->stats.messages_received++;
    else if (tci_rdma_take_back(link, xfer, status))
        return;
    tci_rdma_complete(link, xfer, status);
}

void tci_rdma_drop_early(struct tci_rdma_link *link, struct tci_early *early)
{
    struct tci_rdma *rdma = link->rdma;

    tci_match_del_early(rdma->match, early);
    if (early->kind == TCI_EARLY_DATA) {
        link->held -= early->total + TCI_RDMA_EAGER_COST;
        rdma->stats.eager_bytes -= early->total;
        if (link->rx.early == early)
            link->rx.early = NULL; /* used up with its last part */
        else
            link->consumed += early->total + TCI_RDMA_EAGER_COST;
        if (early->payload != early->room)
            tci_scratch_put(&rdma->context->scratch, early->payload);
    } else {
        link->early_held--;
    }
    tci_pool_put(&rdma->earlies, early);
}

/* ---- Posting ---- */

static bool is_same_message(const struct tci_xfer *xfer, const struct tci_call *call,
                            uint64_t total)
{
    return xfer->len == total && tci_key_is_same_call(xfer->call, call);
}

/* The message is here, all of it or its first parts. */
static void take_early(struct tci_rdma_link *link, struct tci_xfer *xfer, struct tci_early *early)
{
    bool is_here = link->rx.early != early;

    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_BEGUN;
    tci_xfer_append(xfer, early->payload, (size_t)early->filled);
    tci_rdma_drop_early(link, early);
    if (is_here)
        tci_rdma_end_recv(link, xfer, TC_OK);
    else
        link->rx.xfer = xfer;
}

static void allow_small(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    struct tci_rdma_head head = {
        .kind = TCI_RDMA_CREDIT, .key = xfer->key, .call = *xfer->call, .total = xfer->len};

    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_GRANTED;
    tci_rdma_control(link, &head, NULL);
}

/* True when something early decided the fate of the receive. */
static bool use_early(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    struct tci_match *match = link->rdma->match;
    struct tci_early *early;

    while ((early = tci_match_early(match, xfer->peer, &xfer->key, TCI_EARLY_DATA)) != NULL) {
        bool is_same = is_same_message(xfer, &early->call, early->total), is_dead;

        if (tci_key_is_later(&early->key, &xfer->key))
            return false;
        is_dead = (!is_same || early->key.use != xfer->key.use) &&
                  !tci_rdma_admit(link, &early->key, &early->call);
        if (is_same && !is_dead) {
            take_early(link, xfer, early);
            return true;
        }
        tci_rdma_drop_early(link, early);
        if (!is_dead) {
            tci_rdma_end_recv(link, xfer, TC_ERR_MISMATCH);
            return true;
        }
    }
    early = tci_match_early(match, xfer->peer, &xfer->key, TCI_EARLY_WANT);
    if (early == NULL || tci_key_is_later(&early->key, &xfer->key))
        return false;
    if (is_same_message(xfer, &early->call, early->total)) {
        tci_rdma_drop_early(link, early);
        allow_small(link, xfer);
        return true;
    }
    if (early->key.use != xfer->key.use || !tci_rdma_admit(link, &early->key, &early->call))
        return false;
    tci_rdma_drop_early(link, early);
    tci_rdma_end_recv(link, xfer, TC_ERR_MISMATCH);
    return true;
}

void tci_rdma_recv(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    tci_match_add(link->rdma->match, xfer);
    if (!use_early(link, xfer) && xfer->len > link->rdma->eager_max)
        tci_rdma_grant(link, xfer);
}

/* ---- Small messages ---- */

static const char *keep(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                        enum tci_early_kind kind)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_early *early = tci_pool_get(&rdma->earlies);

    if (early == NULL)
        return "more than there is memory for";
    early->key = head->key;
    early->call = head->call;
    early->peer = link->peer;
    early->kind = (uint8_t)kind;
    early->total = head->total;
    early->filled = 0;
    early->payload = early->room;
    if (kind == TCI_EARLY_DATA && head->total > TCI_EARLY_ROOM) {
        early->payload = tci_scratch_get(&rdma->context->scratch, (size_t)head->total);
        if (early->payload == NULL) {
            tci_pool_put(&rdma->earlies, early);
            return "more than there is memory for";
        }
    }
    if (kind == TCI_EARLY_DATA) {
        link->held += head->total + TCI_RDMA_EAGER_COST;
        rdma->stats.eager_bytes += head->total;
        link->rx.early = early;
    } else {
        link->early_held++;
    }
    tci_match_add_early(rdma->match, early);
    return NULL;
}

/* It takes no part in anything: all of it is dropped. */
static void discard(struct tci_rdma_link *link)
{
    link->rdma->stats.strays++;
}

/* Where it goes: link->rx.xfer, link->rx.early, or nowhere. */
static const char *find_place(struct tci_rdma_link *link, const struct tci_rdma_head *head)
{
    struct tci_xfer *xfer =
        tci_match_recv(link->rdma->match, link->peer, &head->key, TCI_XFER_BEGUN, 0);
    bool is_same;

    if (xfer != NULL && tci_key_is_later(&head->key, &xfer->key))
        xfer = NULL;
    if (xfer == NULL) {
        if (!tci_rdma_admit(link, &head->key, &head->call))
            discard(link);
        else if (link->held + head->total > 4 * TCI_RDMA_WINDOW)
            return "more early messages than the window allows";
        else
            return keep(link, head, TCI_EARLY_DATA);
        return NULL;
    }
    is_same = is_same_message(xfer, &head->call, head->total);
    if ((!is_same || xfer->key.use != head->key.use) &&
        !tci_rdma_admit(link, &head->key, &head->call)) {
        discard(link);
    } else if (!is_same) {
        discard(link);
        tci_rdma_end_recv(link, xfer, TC_ERR_MISMATCH);
    } else {
        xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_BEGUN;
        link->rx.xfer = xfer;
    }
    return NULL;
}

/* The next part of what is coming in. */
static const char *take_part(struct tci_rdma_link *link, const uint8_t *payload, uint32_t len)
{
    struct tci_rdma_rx *rx = &link->rx;
    struct tci_rdma *rdma = link->rdma;

    if (rx->xfer != NULL && rx->xfer->fold != NULL && len % rx->xfer->fold->size != 0)
        return "a part of a message that ends within an element";
    if (rx->xfer != NULL) {
        tci_xfer_append(rx->xfer, payload, len);
        rdma->stats.bytes_received += len;
    } else if (rx->early != NULL) {
        memcpy(rx->early->payload + rx->early->filled, payload, len);
        rx->early->filled += len;
        rdma->stats.bytes_copied += len;
        rdma->stats.bytes_received += len;
    }
    rx->filled += len;
    if (rx->filled < rx->total)
        return NULL;
    if (rx->early == NULL) /* else it is used up when its receive has taken it */
        link->consumed += rx->total + TCI_RDMA_EAGER_COST;
    if (rx->xfer != NULL)
        tci_rdma_end_recv(link, rx->xfer, TC_OK);
    *rx = (struct tci_rdma_rx){0};
    return NULL;
}

const char *tci_rdma_on_message(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                                const uint8_t *payload)
{
    const char *wrong;

    if (head->total > link->rdma->eager_max)
        return "a large message without a credit";
    link->rx = (struct tci_rdma_rx){.total = head->total};
    wrong = find_place(link, head);
    return wrong != NULL ? wrong : take_part(link, payload, head->len);
}

const char *tci_rdma_on_part(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                             const uint8_t *payload)
{
    uint64_t left = link->rx.total - link->rx.filled;

    if (head->len > left)
        return "more than the whole of a message";
    if (head->len < left && head->len != TCI_RDMA_PAYLOAD) /* parts are whole elements */
        return "a part that does not fill its record";
    return take_part(link, payload, head->len);
}

/* Its sender has given it up in the middle: whoever waits for it fails with that operation. */
void tci_rdma_on_cut(struct tci_rdma_link *link)
{
    struct tci_rdma_rx *rx = &link->rx;

    if (rx->filled == rx->total)
        return;
    link->consumed += rx->total + TCI_RDMA_EAGER_COST;
    if (rx->early != NULL)
        tci_rdma_drop_early(link, rx->early);
    *rx = (struct tci_rdma_rx){0};
}

/* ---- Requests ---- */

/* A small message waits at the peer.  When its receive is posted it is allowed; when the receive of
 * the same use expects another message, the two calls differ. */
const char *tci_rdma_on_want(struct tci_rdma_link *link, const struct tci_rdma_head *head)
{
    struct tci_xfer *xfer = tci_match_recv(link->rdma->match, link->peer, &head->key,
                                           TCI_XFER_BEGUN | TCI_XFER_GRANTED, 0);

    if (xfer != NULL && tci_key_is_later(&head->key, &xfer->key))
        xfer = NULL;
    if (xfer != NULL && is_same_message(xfer, &head->call, head->total)) {
        allow_small(link, xfer);
        return NULL;
    }
    if (!tci_rdma_admit(link, &head->key, &head->call))
        return NULL;
    if (xfer != NULL && xfer->key.use == head->key.use)
        tci_rdma_end_recv(link, xfer, TC_ERR_MISMATCH);
    else if (head->total > link->rdma->eager_max)
        return "a request for a large message";
    else if (link->early_held >= TCI_RDMA_EARLY_MAX)
        return "more requests than can be remembered";
    else
        return keep(link, head, TCI_EARLY_WANT);
    return NULL;
}

void tci_rdma_on_probe(struct tci_rdma_link *link, const struct tci_rdma_head *head)
{
    struct tci_xfer *xfer =
        tci_match_recv(link->rdma->match, link->peer, &head->key, TCI_XFER_BEGUN, 0);

    if (xfer != NULL && is_same_message(xfer, &head->call, head->total))
        return;
    if (tci_rdma_admit(link, &head->key, &head->call) && xfer != NULL &&
        xfer->key.use == head->key.use)
        tci_rdma_end_recv(link, xfer, TC_ERR_MISMATCH);
}
