/* pair.c - several cables between two ranks: which of them leads, and how they end together. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each device has a transport of its own, which stands over that of the one before; those of one
 * group know each other.  The first cable of a pair that comes up leads: messages, notices and the
 * goodbye go over it, and parts of large messages over the others, its sides, too (stripe.c).  Both
 * ends find the same one, since a cable stays down for both or for neither.
 */
#include "rdma/link.h"

struct tci_rdma *tci_rdma_cable(struct tci_rdma *rdma, uint32_t peer, int cable)
{
    struct tci_list *at = &rdma->siblings;

    do {
        struct tci_rdma *one = tci_container_of(at, struct tci_rdma, siblings);

        if (tci_rdma_cable_to(one, peer) == cable)
            return one;
        at = at->next;
    } while (at != &rdma->siblings);
    return NULL;
}

unsigned tci_rdma_cables(struct tci_rdma *rdma, uint32_t peer)
{
    unsigned cables = 0;

    for (int i = 0; i < TCI_RDMA_CABLES; i++)
        if (tci_rdma_cable(rdma, peer, i) != NULL)
            cables |= 1u << i;
    return cables;
}

static bool is_far(const struct tci_rdma *rdma, uint32_t peer)
{
    return rdma->links[peer] != NULL && rdma->links[peer]->state == TCI_RDMA_FAR;
}

struct tci_rdma *tci_rdma_lead(struct tci_rdma *rdma, uint32_t peer)
{
    if (tci_list_is_empty(&rdma->siblings))
        return tci_rdma_cable_to(rdma, peer) < 0 || is_far(rdma, peer) ? NULL : rdma;
    for (int i = 0; i < TCI_RDMA_CABLES; i++) {
        struct tci_rdma *one = tci_rdma_cable(rdma, peer, i);

        if (one != NULL && !is_far(one, peer))
            return one;
    }
    return NULL;
}

bool tci_rdma_leads(struct tci_rdma *rdma, uint32_t peer)
{
    return tci_rdma_lead(rdma, peer) == rdma;
}

/* The next of the other cables' links with the same peer, behind `at`; NULL: that were all. */
static struct tci_rdma_link *next_other(const struct tci_rdma_link *link, struct tci_list **at)
{
    while ((*at = (*at)->next) != &link->rdma->siblings) {
        struct tci_rdma *one = tci_container_of(*at, struct tci_rdma, siblings);

        if (one->links[link->peer] != NULL)
            return one->links[link->peer];
    }
    return NULL;
}

void tci_rdma_end_others(const struct tci_rdma_link *link, tc_status_t status)
{
    struct tci_list *at = &link->rdma->siblings;
    struct tci_rdma_link *other;

    while ((other = next_other(link, &at)) != NULL)
        tci_rdma_link_end(other, status);
}

bool tci_rdma_sides_are_clear(const struct tci_rdma_link *link)
{
    struct tci_list *at = &link->rdma->siblings;
    const struct tci_rdma_link *side;

    while ((side = next_other(link, &at)) != NULL)
        if (side->pending.head != NULL || side->sends_live > 0)
            return false;
    return true;
}

static const struct tci_rdma_link *lead_of(const struct tci_rdma_link *link)
{
    const struct tci_rdma *lead = tci_rdma_lead(link->rdma, link->peer);

    return lead != NULL ? lead->links[link->peer] : NULL;
}

bool tci_rdma_has_left(const struct tci_rdma_link *link)
{
    const struct tci_rdma_link *lead = lead_of(link);

    return lead != NULL && lead->has_left;
}

bool tci_rdma_has_parted(const struct tci_rdma_link *link)
{
    const struct tci_rdma_link *lead = lead_of(link);

    return lead != NULL && lead->bye_put;
}
