/* stripe.c - where several cables join two ranks, a large message goes over all of them. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * It is posted at the cable that leads, and cut there into a part for each cable that both ends
 * have, known by their cards.  A part is a message of its own: the first one under the message's
 * key, so that a peer that made another call is found, the others in lanes of their own.  A part
 * whose cable is not up waits for it; where it stays down, for both ends, the part goes over the
 * one that leads; so do parts of one that fails later (failover.c).
 */
#include "core/assert.h"
#include "rdma/link.h"

/* Below: the second round trip costs more than is won.  Parts begin with a page. */
enum { STRIPE_MIN = 512 * 1024, PAGE = 4096, LANE_SHIFT = 28 };

struct tci_rdma_stripe {
    struct tci_list link;  /* in rdma->stripes … */
    struct tci_rdma *rdma; /* … of the cable that leads; borrowed */
    struct tci_xfer *whole;
    struct tci_xfer parts[TCI_RDMA_CABLES];
    unsigned count, left; /* parts; that have not ended */
    bool is_revoked;      /* its receiver wants no more of it */
    bool is_ending;       /* the others were told */
    tc_status_t status;   /* the first that was not good */
};
const size_t tci_rdma_stripe_bytes = sizeof(struct tci_rdma_stripe);

static struct tci_rdma_stripe *stripe_of(struct tci_xfer *part)
{
    struct tci_xfer *first = part - (part->key.lane >> LANE_SHIFT);

    return tci_container_of(first, struct tci_rdma_stripe, parts[0]);
}

/* Of the n-th part. */
static struct tci_rdma *cable_of(const struct tci_rdma_stripe *stripe, unsigned n)
{
    unsigned cables = stripe->rdma->links[stripe->whole->peer]->cables;

    for (; n > 0; n--)
        cables &= cables - 1;
    return tci_rdma_cable(stripe->rdma, stripe->whole->peer, __builtin_ctz(cables));
}

bool tci_rdma_is_striped(const struct tci_rdma_link *link, const struct tci_xfer *xfer)
{
    return (link->cables & (link->cables - 1)) != 0 && xfer->cq != NULL && xfer->len >= STRIPE_MIN;
}

/* ---- Posting ---- */

static void cut(struct tci_rdma_stripe *stripe, unsigned i)
{
    const struct tci_xfer *whole = stripe->whole;
    struct tci_xfer *part = &stripe->parts[i];
    size_t each = whole->len / stripe->count / PAGE * PAGE, at = i * each;

    *part = *whole;
    part->next = part->room_prev = part->room_next = NULL;
    part->room[TCI_ROOM_DONE] = 0;
    part->cq = NULL; /* it is one of these */
    part->key.lane |= (uint32_t)i << LANE_SHIFT;
    part->data = (uint8_t *)whole->data + at;
    part->len = i + 1 < stripe->count ? each : whole->len - at;
    if (whole->operand != NULL)
        part->operand = (const uint8_t *)whole->operand + at;
}

/* One of what it waits for is over. */
static void settle(struct tci_rdma_stripe *stripe)
{
    TC_ASSERT(stripe->left > 0);
    stripe->left--;
    if (stripe->left > 0)
        return;
    tci_list_del(&stripe->link);
    tci_cq_push(stripe->whole->cq, stripe->whole, stripe->status);
    tci_pool_put(&stripe->rdma->stripe_pool, stripe);
}

void tci_rdma_stripe_post(struct tci_rdma_link *link, struct tci_xfer *whole)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_rdma_stripe *stripe = tci_pool_get(&rdma->stripe_pool);

    if (stripe == NULL) {
        tci_cq_push(whole->cq, whole, TC_ERR_ALLOC);
        return;
    }
    TC_ASSERT(whole->key.lane >> LANE_SHIFT == 0);
    *stripe = (struct tci_rdma_stripe){.rdma = rdma, .whole = whole, .status = TC_OK};
    stripe->count = (unsigned)__builtin_popcount(link->cables);
    stripe->left = stripe->count + 1; /* until all are posted */
    tci_list_init(&stripe->link);
    tci_list_add(&rdma->stripes, &stripe->link);
    for (unsigned i = 0; i < stripe->count; i++) {
        cut(stripe, i);
        tci_rdma_post_at(cable_of(stripe, i), &stripe->parts[i]);
    }
    settle(stripe);
}

bool tci_rdma_is_side_part(const struct tci_key *key)
{
    return key->lane >> LANE_SHIFT != 0;
}

/* What was folded stays so. */
static void move_part(struct tci_rdma_stripe *stripe, struct tci_xfer *part)
{
    if (part->fold == NULL)
        part->room[TCI_ROOM_DONE] = 0;
    tci_rdma_post_at(stripe->rdma, part);
}

void tci_rdma_move_parts(struct tci_rdma *rdma, uint32_t peer)
{
    struct tci_rdma *lead = tci_rdma_lead(rdma, peer);
    struct tci_list *at, *next;

    for (at = lead->stripes.next; at != &lead->stripes; at = next) {
        struct tci_rdma_stripe *stripe = tci_container_of(at, struct tci_rdma_stripe, link);

        next = at->next;
        if (stripe->whole->peer != peer)
            continue;
        stripe->left++; /* until all are posted */
        for (unsigned i = 0; i < stripe->count; i++)
            if (stripe->parts[i].status == TC_PENDING && cable_of(stripe, i) == rdma)
                move_part(stripe, &stripe->parts[i]);
        settle(stripe);
    }
}

/* ---- Ends ---- */

void tci_rdma_part_done(struct tci_xfer *part, tc_status_t status)
{
    struct tci_rdma_stripe *stripe = stripe_of(part);

    TC_ASSERT(part->status == TC_PENDING);
    part->status = status;
    if (stripe->status == TC_OK)
        stripe->status = status;
    if (status != TC_OK)
        stripe->rdma->has_failed = true;
    settle(stripe);
}

void tci_rdma_part_revoked(struct tci_xfer *part)
{
    struct tci_rdma_stripe *stripe = stripe_of(part);

    stripe->is_revoked = stripe->rdma->has_failed = true;
}

/* One part has failed, and its peer will never post the others. */
static void end_others(struct tci_rdma_stripe *stripe)
{
    stripe->is_ending = true;
    for (unsigned i = 0; i < stripe->count; i++) {
        struct tci_xfer *part = &stripe->parts[i];
        bool is_last = stripe->left == 1;

        if (part->status != TC_PENDING)
            continue;
        tci_rdma_abort_at(cable_of(stripe, i), part, stripe->is_revoked ? TC_OK : TC_ERR_CANCELLED);
        if (is_last)
            return; /* the stripe may be gone */
    }
}

void tci_rdma_end_stripes(struct tci_rdma *rdma)
{
    struct tci_list *at, *next;

    rdma->has_failed = false;
    for (at = rdma->stripes.next; at != &rdma->stripes; at = next) {
        struct tci_rdma_stripe *stripe = tci_container_of(at, struct tci_rdma_stripe, link);

        next = at->next;
        if ((stripe->status != TC_OK || stripe->is_revoked) && !stripe->is_ending)
            end_others(stripe);
    }
}

/* All of them, with the queue pairs that they use. */
void tci_rdma_close_stripes(struct tci_rdma *rdma)
{
    struct tci_list *at;

    while ((at = tci_list_first(&rdma->stripes)) != NULL) {
        struct tci_rdma_link *link =
            rdma->links[tci_container_of(at, struct tci_rdma_stripe, link)->whole->peer];

        tci_rdma_end_others(link, TC_ERR_CLOSED);
        tci_rdma_link_end(link, TC_ERR_CLOSED);
    }
}
