/* shm_recv.c - what comes in finds its receive, or waits for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "core/plan.h"
#include "net/shm_link.h"

static_assert(sizeof(struct tci_shm_lend) <= TCI_EARLY_ROOM, "an early loan fits");

/* ---- Ends ---- */

void tci_shm_end_recv(struct tci_shm_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    tci_match_del(link->shm->match, xfer);
    tci_shm_await(link->shm, xfer->priority, false);
    tci_shm_pull_end(link, xfer, status != TC_OK && link->state == TCI_SHM_NEAR);
    if (status == TC_OK)
        link->shm->stats.messages_received++;
    tci_shm_complete(link, xfer, status);
}

static bool is_loan(const struct tci_early *early)
{
    return early->payload == NULL;
}

/* The sender of a loan that is dropped here is told nothing: its operation fails, or has failed, as
 * this one's has, and must not end well meanwhile. */
void tci_shm_drop_early(struct tci_shm_link *link, struct tci_early *early)
{
    struct tci_shm *shm = link->shm;

    tci_match_del_early(shm->match, early);
    if (is_loan(early)) {
        link->early_held--;
    } else {
        link->held -= early->total + TCI_SHM_EAGER_COST;
        link->consumed += early->total + TCI_SHM_EAGER_COST;
        shm->stats.eager_bytes -= early->total;
        if (early->payload != early->room)
            tci_scratch_put(&shm->context->scratch, early->payload);
    }
    tci_pool_put(&shm->earlies, early);
}

/* ---- What is taken in ---- */

static void have_read(struct tci_shm_link *link, uint8_t measured, size_t len, uint64_t begun)
{
    uint64_t ns = tci_exec_clock(link->shm->exec) - begun;
    struct tci_shm_reader *reader = &link->reader;

    reader->read_ns[measured - 1] += tci_min(ns, tci_shm_trial_most(len));
    reader->read_bytes[measured - 1] += len;
}

void tci_shm_append(struct tci_shm_link *link, struct tci_xfer *xfer, const uint8_t *payload,
                    size_t len, uint8_t measured)
{
    uint64_t begun;

    if (measured == 0 || measured > 2) {
        tci_xfer_append(xfer, payload, len);
        return;
    }
    begun = tci_exec_clock(link->shm->exec);
    tci_xfer_append(xfer, payload, len);
    have_read(link, measured, len, begun);
}

/* ---- Posting ---- */

static bool is_same_message(const struct tci_xfer *xfer, const struct tci_call *call,
                            uint64_t total)
{
    return xfer->len == total && tci_key_is_same_call(xfer->call, call);
}

static void take_early(struct tci_shm_link *link, struct tci_xfer *xfer, struct tci_early *early)
{
    struct tci_shm_lend lend;

    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_BEGUN;
    if (!is_loan(early)) {
        tci_xfer_append(xfer, early->payload, (size_t)early->total);
        tci_shm_drop_early(link, early);
        tci_shm_end_recv(link, xfer, TC_OK);
        return;
    }
    memcpy(&lend, early->room, sizeof(lend));
    tci_shm_drop_early(link, early);
    tci_shm_pull_start(link, xfer, &lend);
}

/* Whether a record is the whole of the message that a receive waits for, and nothing is to be said
 * about it. */
static bool is_exactly(const struct tci_xfer *xfer, const struct tci_shm_head *head)
{
    struct tci_key key = tci_shm_key_of(head);
    struct tci_call call = tci_shm_call_of(head);

    return head->kind == TCI_SHM_DATA && head->use == xfer->key.use &&
           tci_key_is_equal(&key, &xfer->key) && is_same_message(xfer, &call, head->len);
}

/* A message that is there already is taken at once, if it is the next one and nothing is before it.
 * False: the receive is to wait. */
static bool take_next(struct tci_shm_link *link, struct tci_xfer *xfer)
{
    const struct tci_match *match = link->shm->match;
    struct tci_shm_head head;
    const uint8_t *payload;
    const char *wrong;

    if (match->recvs_count > 0 || match->early_count > 0 || link->has_left ||
        !tci_shm_next(&link->reader, &head, &payload, &wrong) || !is_exactly(xfer, &head))
        return false;
    if (head.len <= sizeof(head.word))
        payload = (const uint8_t *)&head.word;
    tci_shm_append(link, xfer, payload, head.len, head.measured);
    tci_shm_skip(&link->reader, &head);
    link->shm->stats.bytes_received += head.len;
    link->shm->stats.messages_received++;
    link->consumed += head.len + TCI_SHM_EAGER_COST;
    link->is_fresh = true;
    tci_shm_link_tell(link, false);
    tci_shm_complete(link, xfer, TC_OK);
    return true;
}

void tci_shm_recv(struct tci_shm_link *link, struct tci_xfer *xfer)
{
    struct tci_match *match = link->shm->match;
    struct tci_early *early;

    if (take_next(link, xfer))
        return;
    tci_match_add(match, xfer);
    tci_shm_await(link->shm, xfer->priority, true);
    while ((early = tci_match_early(match, xfer->peer, &xfer->key, TCI_EARLY_DATA)) != NULL) {
        bool is_same = is_same_message(xfer, &early->call, early->total), is_dead;

        if (tci_key_is_later(&early->key, &xfer->key))
            return;
        is_dead = (!is_same || early->key.use != xfer->key.use) &&
                  !tci_shm_admit(link, &early->key, &early->call);
        if (is_same && !is_dead) {
            take_early(link, xfer, early);
            return;
        }
        tci_shm_drop_early(link, early);
        if (is_dead)
            continue;
        tci_shm_end_recv(link, xfer, TC_ERR_MISMATCH);
        return;
    }
}

/* ---- Messages ---- */

struct message {
    struct tci_key key;
    struct tci_call call;
    const struct tci_shm_lend *lend; /* NULL: it is all here */
    const uint8_t *payload;
    uint64_t total;
    uint8_t measured;
};

static const char *read_message(const struct tci_shm_head *head, const uint8_t *payload,
                                struct tci_shm_lend *lend, struct message *message_out)
{
    *message_out = (struct message){
        .key = tci_shm_key_of(head),
        .call = tci_shm_call_of(head),
        .payload = head->len <= sizeof(head->word) ? (const uint8_t *)&head->word : payload,
        .total = head->len,
        .measured = head->measured};
    if (head->space >= TCI_SPACE_COUNT || head->coll >= TCI_COLL_COUNT)
        return "a message of an unknown collective or space";
    if (head->kind == TCI_SHM_DATA)
        return NULL;
    if (head->len != sizeof(*lend))
        return "a loan of the wrong length";
    memcpy(lend, payload, sizeof(*lend));
    message_out->lend = lend;
    message_out->total = lend->total;
    return lend->total > INT64_MAX ? "a loan of an impossible length" : NULL;
}

static const char *keep(struct tci_shm_link *link, const struct message *message)
{
    struct tci_shm *shm = link->shm;
    struct tci_early *early;

    if (message->lend != NULL ? link->early_held >= TCI_SHM_EARLY_MAX
                              : link->held + message->total > 2 * TCI_SHM_WINDOW)
        return "more early messages than the window allows";
    early = tci_pool_get(&shm->earlies);
    if (early == NULL)
        return "more than there is memory for";
    early->key = message->key;
    early->call = message->call;
    early->peer = link->peer;
    early->kind = TCI_EARLY_DATA;
    early->total = early->filled = message->total;
    if (message->lend != NULL) {
        early->payload = NULL;
        memcpy(early->room, message->lend, sizeof(*message->lend));
        link->early_held++;
    } else {
        early->payload = early->room;
        if (message->total > TCI_EARLY_ROOM)
            early->payload = tci_scratch_get(&shm->context->scratch, (size_t)message->total);
        if (early->payload == NULL) {
            tci_pool_put(&shm->earlies, early);
            return "more than there is memory for";
        }
        memcpy(early->payload, message->payload, (size_t)message->total);
        link->held += message->total + TCI_SHM_EAGER_COST;
        shm->stats.eager_bytes += message->total;
        shm->stats.bytes_copied += message->total;
    }
    tci_match_add_early(shm->match, early);
    return NULL;
}

/* It takes no part in anything. */
static void discard(struct tci_shm_link *link, const struct message *message)
{
    link->shm->stats.strays++;
    if (message->lend == NULL)
        link->consumed += message->total + TCI_SHM_EAGER_COST;
}

static void receive(struct tci_shm_link *link, struct tci_xfer *xfer, const struct message *message)
{
    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_BEGUN;
    if (message->lend != NULL) {
        tci_shm_pull_start(link, xfer, message->lend);
        return;
    }
    tci_shm_append(link, xfer, message->payload, (size_t)message->total, message->measured);
    link->shm->stats.bytes_received += message->total;
    link->consumed += message->total + TCI_SHM_EAGER_COST;
    tci_shm_end_recv(link, xfer, TC_OK);
}

const char *tci_shm_on_message(struct tci_shm_link *link, const struct tci_shm_head *head,
                               const uint8_t *payload)
{
    struct tci_shm_lend lend;
    struct message message;
    const char *wrong = read_message(head, payload, &lend, &message);
    struct tci_xfer *xfer;
    bool is_same;

    if (wrong != NULL)
        return wrong;
    xfer = tci_match_recv(link->shm->match, link->peer, &message.key, TCI_XFER_BEGUN, 0);
    if (xfer != NULL && tci_key_is_later(&message.key, &xfer->key))
        xfer = NULL;
    if (xfer == NULL) {
        if (tci_shm_admit(link, &message.key, &message.call))
            return keep(link, &message);
        discard(link, &message);
        return NULL;
    }
    is_same = is_same_message(xfer, &message.call, message.total);
    if ((!is_same || xfer->key.use != message.key.use) &&
        !tci_shm_admit(link, &message.key, &message.call)) {
        discard(link, &message);
    } else if (!is_same) {
        discard(link, &message);
        tci_shm_end_recv(link, xfer, TC_ERR_MISMATCH);
    } else {
        receive(link, xfer, &message);
    }
    return NULL;
}
