/* grant.c - receivers say where large messages may be written to, and take that back. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain receive is granted as a whole, in the user's memory.  One that folds, and one whose
 * memory cannot be registered, is granted by chunks of ours, two at a time: one is filled while
 * the other is read.  A grant that was given is not taken back without a word of the peer's, whose
 * device may be writing: an aborted receive completes when that has come, behind all that was
 * written.
 */
#include <assert.h>
#include <errno.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/reach.h"
#include "core/reduce.h"
#include "rdma/link.h"

enum { GRACE_MS = 500 };

static_assert(TCI_RDMA_GRANTS <= 1 << TCI_RDMA_PLACE_BITS, "an immediate value names every place");

static uint32_t number_of(const struct tci_xfer *xfer)
{
    return (uint32_t)(xfer->room[TCI_ROOM_FLAGS] >> TCI_XFER_GRANT_SHIFT);
}

/* ---- The table ---- */

/* The place of a new grant; -1: there is none. */
static int new_grant(struct tci_rdma_link *link)
{
    struct tci_rdma_grant *grants;
    uint32_t room;

    if (link->grant_free != 0) {
        int place = (int)link->grant_free - 1;

        link->grant_free = link->grants[place].next_free;
        link->rdma->granted++;
        return place;
    }
    if (link->grant_count == TCI_RDMA_GRANTS)
        return -1;
    if (link->grant_count == link->grant_room) {
        room = link->grant_room == 0 ? 16 : 2 * link->grant_room;
        grants = tci_realloc_array(link->grants, room, sizeof(*grants));
        if (grants == NULL)
            return -1;
        link->grants = grants;
        link->grant_room = room;
    }
    link->rdma->granted++;
    return (int)link->grant_count++;
}

static void free_grant(struct tci_rdma_link *link, struct tci_rdma_grant *grant)
{
    struct tci_rdma *rdma = link->rdma;

    tci_rdma_region_put(rdma, grant->region);
    tci_rdma_chunk_put(rdma, grant->chunk);
    rdma->granted--;
    *grant = (struct tci_rdma_grant){.next_free = link->grant_free};
    link->grant_free = (uint32_t)(grant - link->grants) + 1;
    rdma->may_feed = true;
}

static void free_numbered(struct tci_rdma_link *link, uint32_t number)
{
    for (uint32_t i = 0; i < link->grant_count; i++)
        if (link->grants[i].number == number)
            free_grant(link, &link->grants[i]);
}

/* ---- Giving ---- */

/* Whole elements, as the fold wants them. */
static size_t chunk_len(const struct tci_rdma_link *link, const struct tci_xfer *xfer)
{
    size_t left = xfer->len - (size_t)xfer->room[TCI_RDMA_ROOM_GRANTED];
    size_t most = link->crypt != NULL ? TCI_RDMA_CHUNK_SEALED : TCI_RDMA_CHUNK;

    if (xfer->fold != NULL)
        most -= most % xfer->fold->size;
    return tci_min(left, most);
}

static struct tci_rdma_range range_of(const struct tci_rdma_link *link,
                                      const struct tci_rdma_grant *grant)
{
    const struct tci_rdma_chunk *chunk = grant->chunk;

    return (struct tci_rdma_range){.at = grant->at,
                                   .len = grant->len,
                                   .addr =
                                       (uintptr_t)(chunk != NULL ? chunk->data : grant->xfer->data),
                                   .rkey = chunk != NULL ? chunk->rkey : grant->region->mr->rkey,
                                   .place = (uint32_t)(grant - link->grants)};
}

/* The next part of the message, to a chunk; false: there is none to be had. */
static bool add_staged(struct tci_rdma_link *link, struct tci_xfer *xfer,
                       struct tci_rdma_range *range_out)
{
    struct tci_rdma_chunk *chunk = tci_rdma_chunk_get(link->rdma, true);
    int place = chunk != NULL ? new_grant(link) : -1;

    if (place < 0) {
        tci_rdma_chunk_put(link->rdma, chunk);
        return false;
    }
    link->grants[place] = (struct tci_rdma_grant){.xfer = xfer,
                                                  .number = number_of(xfer),
                                                  .at = xfer->room[TCI_RDMA_ROOM_GRANTED],
                                                  .len = chunk_len(link, xfer),
                                                  .chunk = chunk};
    xfer->room[TCI_RDMA_ROOM_GRANTED] += link->grants[place].len;
    *range_out = range_of(link, &link->grants[place]);
    return true;
}

/* All of it, to where it belongs. */
static bool add_direct(struct tci_rdma_link *link, struct tci_xfer *xfer,
                       struct tci_rdma_range *range_out)
{
    struct tci_rdma_region *region;
    int place;

    if (xfer->fold != NULL || link->crypt != NULL)
        return false;
    region = tci_rdma_region_get(link->rdma, xfer->data, xfer->len, true);
    place = region != NULL ? new_grant(link) : -1;
    if (place < 0) {
        tci_rdma_region_put(link->rdma, region);
        return false;
    }
    link->grants[place] = (struct tci_rdma_grant){
        .xfer = xfer, .number = number_of(xfer), .len = xfer->len, .region = region};
    xfer->room[TCI_RDMA_ROOM_GRANTED] = xfer->len;
    *range_out = range_of(link, &link->grants[place]);
    return true;
}

static void tell(struct tci_rdma_link *link, const struct tci_xfer *xfer, enum tci_rdma_kind kind,
                 const struct tci_rdma_range *ranges, unsigned count)
{
    uint8_t payload[TCI_RDMA_RANGES * TCI_RDMA_RANGE_BYTES];
    struct tci_rdma_head head = {.kind = (uint8_t)kind,
                                 .key = xfer->key,
                                 .call = *xfer->call,
                                 .total = xfer->len,
                                 .number = number_of(xfer),
                                 .len = count * TCI_RDMA_RANGE_BYTES};

    for (unsigned i = 0; i < count; i++)
        tci_rdma_range_encode(&ranges[i], payload + (size_t)i * TCI_RDMA_RANGE_BYTES);
    tci_rdma_control(link, &head, payload);
}

/* TC_PENDING: there is nothing left to grant it with; TC_ERR_INVALID_ARG: its own memory is not
 * there. */
static tc_status_t try_grant(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    struct tci_rdma_range ranges[TCI_RDMA_STAGED];
    unsigned count;

    errno = 0;
    count = add_direct(link, xfer, &ranges[0]) ? 1 : 0;
    if (count == 0 && errno == EFAULT && !tci_reach_all(xfer->data, xfer->len))
        return TC_ERR_INVALID_ARG;
    while (count < TCI_RDMA_STAGED && xfer->room[TCI_RDMA_ROOM_GRANTED] < xfer->len &&
           add_staged(link, xfer, &ranges[count]))
        count++;
    if (count == 0)
        return TC_PENDING;
    tell(link, xfer, TCI_RDMA_CREDIT, ranges, count);
    return TC_OK;
}

void tci_rdma_grant(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    struct tci_rdma *rdma = link->rdma;
    tc_status_t status = TC_PENDING;

    if (++link->numbers == 0)
        link->numbers = 1;
    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_GRANTED | (uint64_t)link->numbers
                                                         << TCI_XFER_GRANT_SHIFT;
    /* Equal keys stay in order: behind one that waits, all wait. */
    if (rdma->starved == 0)
        status = try_grant(link, xfer);
    if (status == TC_PENDING && rdma->granted == 0) /* nobody gives anything back */
        status = TC_ERR_ALLOC;
    if (status != TC_PENDING && status != TC_OK)
        tci_rdma_end_recv(link, xfer, status);
    if (status != TC_PENDING)
        return;
    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_STARVED;
    rdma->starved++;
}

static void feed_one(void *arg, struct tci_xfer *xfer)
{
    struct tci_rdma *rdma = arg;
    tc_status_t status;

    if (!rdma->may_feed || xfer->is_send || (xfer->room[TCI_ROOM_FLAGS] & TCI_XFER_STARVED) == 0)
        return;
    status = try_grant(rdma->links[xfer->peer], xfer);
    if (status == TC_PENDING && rdma->granted == 0)
        status = TC_ERR_ALLOC;
    rdma->may_feed = status != TC_PENDING;
    if (rdma->may_feed && status != TC_OK)
        tci_rdma_end_recv(rdma->links[xfer->peer], xfer, status);
    if (status != TC_OK)
        return;
    xfer->room[TCI_ROOM_FLAGS] &= ~(uint64_t)TCI_XFER_STARVED;
    rdma->starved--;
}

void tci_rdma_feed(struct tci_rdma *rdma)
{
    tci_match_each_xfer(rdma->match, feed_one, rdma);
    rdma->may_feed = false;
}

/* ---- What was written ---- */

/* A chunk is full: it is read, and filled again with what comes behind the other one. */
static const char *take_chunk(struct tci_rdma_link *link, struct tci_rdma_grant *grant)
{
    struct tci_xfer *xfer = grant->xfer;
    struct tci_rdma_range range;

    if (grant->at != xfer->room[TCI_ROOM_DONE])
        return "a piece of a message before the one that it follows";
    if (link->crypt != NULL) {
        if (!tci_rdma_open_piece(link, grant))
            return tci_rdma_not_opened;
    } else {
        tci_xfer_append(xfer, grant->chunk->data, (size_t)grant->len);
        if (xfer->fold == NULL)
            link->rdma->stats.bytes_copied += grant->len;
    }
    if (xfer->room[TCI_RDMA_ROOM_GRANTED] == xfer->len) {
        free_grant(link, grant);
        return NULL;
    }
    grant->at = xfer->room[TCI_RDMA_ROOM_GRANTED];
    grant->len = chunk_len(link, xfer);
    grant->got = 0;
    xfer->room[TCI_RDMA_ROOM_GRANTED] += grant->len;
    range = range_of(link, grant);
    tell(link, xfer, TCI_RDMA_FURTHER, &range, 1);
    return NULL;
}

/* A piece that is sealed fills its range. */
static bool is_granted(const struct tci_rdma_link *link, const struct tci_rdma_grant *grant,
                       uint32_t len)
{
    if (grant == NULL || grant->number == 0)
        return false;
    if (link->crypt != NULL)
        return grant->got == 0 && len == tci_rdma_sealed_len(grant->len);
    return len <= grant->len - grant->got;
}

/* Aborted: the peer is about to say that nothing more comes.  Its seal goes on all the same. */
static const char *drop_piece(struct tci_rdma_link *link, const struct tci_rdma_grant *grant)
{
    return link->crypt == NULL || tci_rdma_open_piece(link, grant) ? NULL : tci_rdma_not_opened;
}

const char *tci_rdma_on_filled(struct tci_rdma_link *link, uint32_t place, uint32_t len)
{
    struct tci_rdma_grant *grant = place < link->grant_count ? &link->grants[place] : NULL;
    struct tci_xfer *xfer;
    const char *wrong = NULL;

    if (!is_granted(link, grant, len))
        return "a piece that nobody has granted";
    if (link->crypt != NULL)
        len = (uint32_t)grant->len;
    link->rdma->stats.bytes_received += len;
    grant->got += len;
    xfer = grant->xfer;
    if (xfer == NULL)
        return drop_piece(link, grant);
    xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_BEGUN;
    if (grant->chunk == NULL)
        xfer->room[TCI_ROOM_DONE] += len;
    else if (grant->got == grant->len)
        wrong = take_chunk(link, grant);
    if (wrong != NULL || xfer->room[TCI_ROOM_DONE] < xfer->len)
        return wrong;
    free_numbered(link, number_of(xfer));
    tci_rdma_end_recv(link, xfer, TC_OK);
    return NULL;
}

/* ---- Taking back ---- */

static void watch_revoking(struct tci_rdma_link *link)
{
    struct tci_exec *exec = link->rdma->exec;

    if (link->timer.heap_at == 0 && link->revoking.head != NULL)
        (void)exec->ops->timer_set(exec, &link->timer,
                                   link->revoking.head->room[TCI_RDMA_ROOM_SINCE] +
                                       GRACE_MS * TCI_NS_PER_MS);
}

bool tci_rdma_take_back(struct tci_rdma_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_rdma_head head = {.kind = TCI_RDMA_REVOKE, .number = number_of(xfer)};
    bool is_direct = false, is_any = false;

    if ((xfer->room[TCI_ROOM_FLAGS] & TCI_XFER_STARVED) != 0) {
        rdma->starved--;
        return false;
    }
    for (uint32_t i = 0; i < link->grant_count && head.number != 0; i++)
        if (link->grants[i].number == head.number) {
            link->grants[i].xfer = NULL;
            is_any = true;
            is_direct = is_direct || link->grants[i].region != NULL;
        }
    if (!is_any || (link->qp == NULL && link->state != TCI_RDMA_HEALING))
        return false;
    tci_rdma_control(link, &head, NULL);
    if (!is_direct)
        return false;
    xfer->room[TCI_RDMA_ROOM_SINCE] = rdma->exec->ops->now_ns(rdma->exec);
    xfer->room[TCI_ROOM_DONE] = (uint64_t)(int64_t)status;
    tci_xfers_add(&link->revoking, xfer);
    watch_revoking(link);
    return true;
}

static void end_revoking(struct tci_rdma_link *link, struct tci_xfer *xfer)
{
    tci_xfers_del(&link->revoking, xfer);
    tci_rdma_complete(link, xfer, (tc_status_t)(int64_t)xfer->room[TCI_ROOM_DONE]);
}

static struct tci_xfer *find_revoking(struct tci_rdma_link *link, uint32_t number)
{
    struct tci_xfer *xfer;

    for (xfer = link->revoking.head; xfer != NULL; xfer = xfer->room_next)
        if (number_of(xfer) == number)
            return xfer;
    return NULL;
}

void tci_rdma_on_revoked(struct tci_rdma_link *link, uint32_t number)
{
    struct tci_xfer *xfer = find_revoking(link, number);

    if (number == 0)
        return;
    for (uint32_t i = 0; i < link->grant_count; i++)
        if (link->grants[i].number == number && link->grants[i].xfer != NULL)
            return; /* an answer to nothing */
    free_numbered(link, number);
    if (xfer == NULL)
        return;
    end_revoking(link, xfer);
}

/* Whether nothing else would be taken from the peer, and from others, with this memory. */
static bool is_alone(const struct tci_rdma_link *link, uint32_t number)
{
    for (uint32_t i = 0; i < link->grant_count; i++)
        if (link->grants[i].number == number && link->grants[i].region != NULL &&
            (link->grants[i].region->life != 0 || link->grants[i].region->uses > 1))
            return false;
    return true;
}

/* The places stay: what comes there without payload is no mistake of the peer's. */
static void take_memory(struct tci_rdma_link *link, uint32_t number)
{
    for (uint32_t i = 0; i < link->grant_count; i++)
        if (link->grants[i].number == number) {
            tci_rdma_region_put(link->rdma, link->grants[i].region);
            link->grants[i].region = NULL;
        }
}

/* A peer that does not answer, since it is stopped, or away: the memory is taken from it.  The
 * device refuses whatever it still writes there, which then is the end of the link. */
void tci_rdma_check_revoking(struct tci_rdma_link *link)
{
    uint64_t now_ns = link->rdma->exec->ops->now_ns(link->rdma->exec);
    struct tci_xfer *xfer;

    while ((xfer = link->revoking.head) != NULL &&
           xfer->room[TCI_RDMA_ROOM_SINCE] + GRACE_MS * TCI_NS_PER_MS <= now_ns) {
        uint32_t number = number_of(xfer);

        if (!is_alone(link, number)) {
            tci_rdma_link_lose(link, "does not give back memory that it may write to over RDMA");
            return;
        }
        take_memory(link, number);
        end_revoking(link, xfer);
    }
    watch_revoking(link);
}

void tci_rdma_end_revoking(struct tci_rdma_link *link)
{
    struct tci_xfer *xfer;

    while ((xfer = link->revoking.head) != NULL)
        end_revoking(link, xfer);
}

void tci_rdma_end_grants(struct tci_rdma_link *link)
{
    for (uint32_t i = 0; i < link->grant_count; i++)
        if (link->grants[i].number != 0)
            free_grant(link, &link->grants[i]);
    tci_rdma_end_revoking(link);
}
