/* push.c - large messages are written into the memory that their receivers have granted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/assert.h"
#include "rdma/link.h"

/* ---- Life ---- */

/* Behind all that are as urgent. */
static void place(struct tci_rdma_link *link, struct tci_rdma_push *push)
{
    struct tci_list *at = link->pushes.prev;

    while (at != &link->pushes &&
           tci_container_of(at, struct tci_rdma_push, link)->priority < push->priority)
        at = at->prev;
    tci_list_add(at->next, &push->link);
}

/* Nobody waits for its writes, nor reads what they carry.  What is sealed stays as it is, in memory
 * of ours: what was sealed after it opens only behind it. */
static void forget_works(struct tci_rdma_link *link, const struct tci_rdma_push *push)
{
    for (uint32_t at = link->works_done; at != link->works_put; at++) {
        struct tci_rdma_work *work = &link->works[at % TCI_RDMA_QUEUE];

        if (work->push != push)
            continue;
        work->push = NULL;
        if (link->crypt != NULL)
            continue;
        tci_rdma_chunk_put(link->rdma, work->chunk);
        work->chunk = NULL;
        work->sge.length = 0;
    }
}

static void finish(struct tci_rdma_link *link, struct tci_rdma_push *push, tc_status_t status)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_xfer *xfer = push->xfer;

    if (push->flying > 0)
        forget_works(link, push);
    tci_list_del(&push->link);
    tci_rdma_region_put(rdma, push->region);
    tci_pool_put(&rdma->pushes, push);
    tci_rdma_end_send(link, xfer, status);
}

/* Nothing more is posted; it ends when the device does not read its memory any more. */
static void end(struct tci_rdma_link *link, struct tci_rdma_push *push, tc_status_t status)
{
    if (!push->is_ending)
        push->status = status;
    push->is_ending = true;
    if (push->flying == 0 || link->qp == NULL || link->state == TCI_RDMA_HEALING)
        finish(link, push, push->status);
}

void tci_rdma_push_start(struct tci_rdma_link *link, struct tci_xfer *xfer, uint32_t number,
                         const struct tci_rdma_range *ranges, unsigned count)
{
    struct tci_rdma_push *push = tci_pool_get(&link->rdma->pushes);

    if (push == NULL) {
        tci_rdma_end_send(link, xfer, TC_ERR_ALLOC);
        return;
    }
    *push = (struct tci_rdma_push){
        .xfer = xfer, .number = number, .range_count = count, .priority = xfer->priority};
    memcpy(push->ranges, ranges, count * sizeof(*ranges));
    push->posted = ranges[0].at; /* its receiver has the beginning */
    tci_list_init(&push->link);
    if (link->crypt == NULL)
        push->region = tci_rdma_region_get(link->rdma, xfer->data, xfer->len, false);
    place(link, push);
    (void)tci_rdma_push_some(link);
}

void tci_rdma_push_done(struct tci_rdma_link *link, struct tci_rdma_push *push)
{
    TC_ASSERT(push->flying > 0);
    push->flying--;
    if (push->flying > 0)
        return;
    if (push->is_ending)
        finish(link, push, push->status);
    else if (push->posted == push->xfer->len)
        finish(link, push, TC_OK);
}

void tci_rdma_end_aborted_pushes(struct tci_rdma_link *link)
{
    struct tci_list *at, *next;

    for (at = link->pushes.next; at != &link->pushes; at = next) {
        struct tci_rdma_push *push = tci_container_of(at, struct tci_rdma_push, link);

        next = at->next;
        if (push->is_ending)
            finish(link, push, push->status);
    }
}

/* ---- Pieces ---- */

static struct tci_rdma_push *next_push(struct tci_rdma_link *link)
{
    struct tci_list *at;

    for (at = link->pushes.next; at != &link->pushes; at = at->next) {
        struct tci_rdma_push *push = tci_container_of(at, struct tci_rdma_push, link);

        if (push->range_count > 0 && !push->is_ending)
            return push;
    }
    return NULL;
}

/* What cannot be registered is copied into memory of ours first; NULL: there is none left, or
 * nothing to copy, and the push has ended. */
static struct tci_rdma_chunk *copy_piece(struct tci_rdma_link *link, struct tci_rdma_push *push,
                                         size_t len)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_rdma_chunk *chunk = tci_rdma_chunk_get(rdma, false);
    const struct tci_rdma_range *range = &push->ranges[0];

    if (chunk == NULL)
        return NULL;
    if (!tci_rdma_copy(chunk->data, (const uint8_t *)push->xfer->data + range->at + push->in_range,
                       len)) {
        tci_rdma_chunk_put(rdma, chunk);
        end(link, push, TC_ERR_INVALID_ARG);
        return NULL;
    }
    rdma->stats.bytes_copied += len;
    return chunk;
}

static void have_posted(struct tci_rdma_push *push, size_t len)
{
    push->flying++;
    push->posted += len;
    push->in_range += len;
    if (push->in_range < push->ranges[0].len)
        return;
    push->range_count--;
    push->in_range = 0;
    memmove(push->ranges, push->ranges + 1, push->range_count * sizeof(push->ranges[0]));
}

static bool put_piece(struct tci_rdma_link *link, struct tci_rdma_push *push)
{
    struct tci_rdma *rdma = link->rdma;
    uint64_t left = push->ranges[0].len - push->in_range;
    size_t most = push->region != NULL ? TCI_RDMA_PIECE : TCI_RDMA_CHUNK, len;
    bool is_copied = push->region == NULL;
    struct tci_rdma_chunk *chunk = NULL;
    size_t wire;

    if (link->crypt != NULL)
        most = TCI_RDMA_CHUNK_SEALED;
    else if (rdma->choice.port.max_msg_sz > 0)
        most = tci_min(most, rdma->choice.port.max_msg_sz);
    len = (size_t)(left < most ? left : most);
    chunk = link->crypt != NULL ? tci_rdma_chunk_get(rdma, false)
            : is_copied         ? copy_piece(link, push, len)
                                : NULL;
    if (is_copied && chunk == NULL)
        return false;
    wire = link->crypt != NULL ? tci_rdma_seal_piece(link, push, chunk, len) : len;
    if (tci_rdma_post_write(link, push, chunk, wire) != 0) {
        tci_rdma_chunk_put(rdma, chunk);
        tci_rdma_link_break(link, "the device takes no writes any more");
        return false;
    }
    rdma->stats.bytes_sent += len;
    have_posted(push, len);
    return true;
}

unsigned tci_rdma_push_some(struct tci_rdma_link *link)
{
    struct tci_rdma_push *push;
    unsigned done = 0;

    while (tci_rdma_may_post(link) && tci_rdma_has_room(link) && (push = next_push(link)) != NULL) {
        if (!put_piece(link, push))
            break;
        done++;
        tci_list_del(&push->link); /* the turn of the next as urgent */
        place(link, push);
        if (link->crypt != NULL) /* that took some time: others have their turn */
            break;
    }
    return done;
}

/* ---- What the receiver says ---- */

static struct tci_rdma_push *find_push(struct tci_rdma_link *link, uint32_t number)
{
    struct tci_list *at;

    for (at = link->pushes.next; at != &link->pushes; at = at->next) {
        struct tci_rdma_push *push = tci_container_of(at, struct tci_rdma_push, link);

        if (push->number == number)
            return push;
    }
    return NULL;
}

const char *tci_rdma_on_further(struct tci_rdma_link *link, const struct tci_rdma_head *head,
                                const uint8_t *payload)
{
    struct tci_rdma_push *push = find_push(link, head->number);
    struct tci_rdma_range range;
    uint64_t at;

    if (push == NULL || push->is_ending)
        return NULL;
    tci_rdma_range_decode(payload, &range);
    at = push->posted - push->in_range;
    for (unsigned i = 0; i < push->range_count; i++)
        at += push->ranges[i].len;
    if (range.at != at || range.len == 0 || range.len > push->xfer->len - at ||
        range.place >= 1u << TCI_RDMA_PLACE_BITS || push->range_count == TCI_RDMA_RANGES)
        return "a further credit for what is no part of the message";
    push->ranges[push->range_count++] = range;
    return NULL;
}

/* Behind what is on its way the answer tells that nothing more comes. */
const char *tci_rdma_on_revoke(struct tci_rdma_link *link, uint32_t number)
{
    struct tci_rdma_push *push = find_push(link, number);
    struct tci_rdma_head head = {.kind = TCI_RDMA_REVOKED, .number = number};

    if (link->queue.revoked >= TCI_RDMA_GRANTS)
        return "more is taken back than can have been granted";
    if (push != NULL && push->xfer->cq == NULL)
        tci_rdma_part_revoked(push->xfer);
    if (push != NULL)
        end(link, push, TC_OK);
    else
        tci_rdma_drop_credit(link, number);
    tci_rdma_control(link, &head, NULL);
    return NULL;
}

bool tci_rdma_abort_push(struct tci_rdma_link *link, const struct tci_xfer *xfer,
                         tc_status_t status)
{
    struct tci_list *at;

    for (at = link->pushes.next; at != &link->pushes; at = at->next) {
        struct tci_rdma_push *push = tci_container_of(at, struct tci_rdma_push, link);

        if (push->xfer == xfer) {
            end(link, push, status);
            return true;
        }
    }
    return false;
}

void tci_rdma_abort_pushes(struct tci_rdma_link *link, const struct tci_key *key,
                           tc_status_t status)
{
    struct tci_list *at, *next;

    for (at = link->pushes.next; at != &link->pushes; at = next) {
        struct tci_rdma_push *push = tci_container_of(at, struct tci_rdma_push, link);

        next = at->next;
        if (key == NULL || tci_key_is_same_tag(&push->xfer->key, key))
            end(link, push, status);
    }
}
