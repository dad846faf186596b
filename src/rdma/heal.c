/* heal.c - the queue pair that leads fails while its peer lives: it is made again, and goes on. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   one end                                       the other one
 *     its queue pair has failed
 *     stops it, takes in what has come
 *     FAILED  so much has come               -->    does the same
 *     knows what has arrived                 <--  FAILED  so much has come
 *   the lower rank
 *     makes another queue pair
 *     OFFER  its card                        -->    makes one, and connects it
 *     connects its own                       <--  ACCEPT  its card
 *     CONFIRM: it stands                     -->    stands
 *     what has not arrived, once more        ==>
 *                                            <==    what has not arrived, once more
 *
 * Both count what came, records and pieces alike.  What the other one has had is done; all that was
 * posted behind it is posted again as it was, byte for byte and in the same order, over the new
 * queue pair: under the numbers it had, sealed as it was, to the same memory.  So nothing else is
 * changed: credits, windows, and messages in the middle go on where they were, and what is posted
 * meanwhile waits for room.
 *
 * No device touches memory from when a queue pair is destroyed, which is before its failure is
 * told, until the next one stands.  A write of ours that was aborted meanwhile is posted again
 * without its payload, since its memory is the user's again.  A receive that is aborted waits for
 * the peer's word as ever, and is taken away after as long (grant.c).
 *
 * A path that stays dead lets each further queue pair fail, too.  While nothing arrives, and the
 * word that each end says first would, tries become rarer; after the time to heal (as of a
 * connection) the peer is lost, with the cause.  So it is where the peer says nothing for as long.
 * One that has said goodbye on the connection makes no other queue pair: that is no loss.
 */
#include <stdio.h>

#include "core/log.h"
#include "rdma/link.h"

enum { TRY_MIN_MS = 5, TRY_MAX_MS = 500, TRIES_SHIFT = 7 };

static uint64_t now_ns(const struct tci_rdma_link *link)
{
    struct tci_exec *exec = link->rdma->exec;

    return exec->ops->now_ns(exec);
}

/* Ends of kind UC are never told what has come, and a connection that is left tells nothing. */
bool tci_rdma_may_heal(const struct tci_rdma_link *link)
{
    struct tci_rdma *rdma = link->rdma;

    return tci_rdma_is_up(link) && rdma->heal_ns > 0 && !link->is_uc && !rdma->is_dead &&
           !rdma->has_left_below && tci_rdma_leads(rdma, link->peer) &&
           (link->broken == NULL || tci_rdma_is_passing(link->broken));
}

static uint64_t end_of(const struct tci_rdma_link *link)
{
    return link->heal.begun_ns + link->rdma->heal_ns;
}

/* Without memory for that it is lost at once: nothing else would end the wait. */
static bool wait_for(struct tci_rdma_link *link, uint64_t ms)
{
    struct tci_exec *exec = link->rdma->exec;
    uint64_t when_ns = now_ns(link) + ms * TCI_NS_PER_MS, end_ns = end_of(link);

    exec->ops->timer_clear(exec, &link->heal.timer);
    if (exec->ops->timer_set(exec, &link->heal.timer, when_ns < end_ns ? when_ns : end_ns) == 0)
        return true;
    tci_rdma_link_lose(link, "has a queue pair that failed, and no memory was left to wait for it "
                             "(RDMA)");
    return false;
}

/* For the peer; now and then it is seen whether that has left. */
static bool wait_for_peer(struct tci_rdma_link *link)
{
    return wait_for(link, TRY_MAX_MS);
}

/* ---- It has failed ---- */

void tci_rdma_heal_begin(struct tci_rdma_link *link, const char *cause)
{
    struct tci_rdma *rdma = link->rdma;

    link->state = TCI_RDMA_HEALING;
    link->broken = NULL;
    rdma->exec->ops->timer_clear(rdma->exec, &link->timer);
    tci_rdma_qp_destroy(link);
    while (tci_rdma_poll_cq(rdma, TCI_RDMA_BATCH) > 0) { /* its completions make room for others */
    }
    tci_rdma_end_aborted_pushes(link);
    rdma->stats.breaks++;
    link->heal.begun_ns = now_ns(link);
    if (link->why_far[0] == '\0' || cause != tci_rdma_flushed)
        snprintf(link->why_far, sizeof(link->why_far), "%s", cause);
    if (!wait_for_peer(link))
        return;
    tci_rdma_tell_failed(link, cause);
    tci_rdma_check_revoking(link); /* which has lost its timer */
    if (link->state == TCI_RDMA_HEALING && link->has_had)
        tci_rdma_heal_on(link);
}

/* ---- It is made again ---- */

static void lose(struct tci_rdma_link *link)
{
    char why[sizeof(link->why_far)];

    snprintf(why, sizeof(why), "%s", link->why_far);
    tci_rdma_link_lose_for(link, why);
}

static void try_later(struct tci_rdma_link *link)
{
    (void)wait_for(link, tci_min((size_t)TRY_MIN_MS << link->heal.tries, TRY_MAX_MS));
}

static void note_vain_try(struct tci_rdma_link *link)
{
    link->heal.tries += link->heal.tries < TRIES_SHIFT;
}

/* A port that is down may have no address, nor a device memory, for now. */
static void offer(struct tci_rdma_link *link)
{
    const char *why = tci_rdma_qp_open_again(link);

    if (why == NULL) {
        tci_rdma_tell_card(link, TCI_RDMA_OFFER);
        return;
    }
    snprintf(link->why_far, sizeof(link->why_far), "%s", why);
    note_vain_try(link);
    try_later(link);
}

/* The other end has one already, so both begin anew.  That it cannot be connected is no cause, but
 * comes of the one that was first. */
static void give_up_pair(struct tci_rdma_link *link, const char *why)
{
    char first[sizeof(link->why_far)];

    snprintf(first, sizeof(first), "%s", link->why_far);
    link->has_had = false;
    tci_rdma_heal_begin(link, why != NULL ? why : first);
}

/* What the peer has had since the last failure shows that the way was free. */
static void note_try(struct tci_rdma_link *link)
{
    const struct tci_rdma_port_info *info = &link->rdma->choice.info;
    struct tci_rdma_heal *heal = &link->heal;

    if (heal->since_ns != 0 && heal->done == link->works_done) {
        note_vain_try(link);
        return;
    }
    heal->since_ns = heal->begun_ns;
    heal->done = link->works_done;
    heal->tries = 0;
    heal->is_told = true;
    tci_log(TC_LOG_INFO,
            "rank %u: the queue pair with rank %u has failed (device %s, port %u), and is made "
            "again: %s",
            link->rdma->rank, link->peer, info->device, info->port, link->why_far);
}

void tci_rdma_heal_on(struct tci_rdma_link *link)
{
    if (!tci_rdma_use_count(link)) {
        tci_rdma_link_lose(link, "has a device that has lost what it had acknowledged (RDMA)");
        return;
    }
    note_try(link);
    if (now_ns(link) >= link->heal.since_ns + link->rdma->heal_ns) {
        lose(link);
        return;
    }
    if (link->rdma->rank > link->peer)
        return;
    if (link->heal.tries == 0)
        offer(link);
    else
        try_later(link);
}

/* The word that is said first shows each end that the way of the other one is free. */
static void stand(struct tci_rdma_link *link)
{
    struct tci_rdma *rdma = link->rdma;
    struct tci_rdma_head head = {.kind = TCI_RDMA_ACK};

    rdma->exec->ops->timer_clear(rdma->exec, &link->heal.timer);
    link->state = TCI_RDMA_NEAR;
    rdma->stats.heals++;
    tci_rdma_post_again(link);
    (void)tci_rdma_put(link, &head, NULL);
}

void tci_rdma_heal_shown(struct tci_rdma_link *link)
{
    if (!link->heal.is_told || link->state != TCI_RDMA_NEAR)
        return;
    link->heal.is_told = false;
    tci_log(TC_LOG_INFO, "rank %u: the queue pair with rank %u stands again after %.1f ms",
            link->rdma->rank, link->peer, (double)(now_ns(link) - link->heal.since_ns) / 1e6);
}

static void accept_card(struct tci_rdma_link *link, const struct tci_rdma_card *card)
{
    const char *why = tci_rdma_qp_open_again(link);

    if (why != NULL || tci_rdma_qp_connect(link, card) != NULL)
        give_up_pair(link, why);
    else
        tci_rdma_tell_card(link, TCI_RDMA_ACCEPT);
}

static void use_card(struct tci_rdma_link *link, const struct tci_rdma_card *card)
{
    if (tci_rdma_qp_connect(link, card) != NULL) {
        give_up_pair(link, NULL);
        return;
    }
    tci_rdma_tell_connected(link);
    stand(link);
}

/* What answers a queue pair that has failed since means nothing. */
void tci_rdma_on_heal(struct tci_rdma_link *link, enum tci_rdma_meeting what,
                      const struct tci_rdma_card *card)
{
    bool is_first = link->rdma->rank < link->peer, has_pair = link->qp != NULL && !link->is_stopped;

    if (what == TCI_RDMA_OFFER && !is_first && link->qp == NULL && link->has_had)
        accept_card(link, card);
    else if (what == TCI_RDMA_ACCEPT && is_first && has_pair)
        use_card(link, card);
    else if (what == TCI_RDMA_CONFIRM && !is_first && has_pair)
        stand(link);
}

void tci_rdma_on_heal_timer(struct tci_timer *timer)
{
    struct tci_rdma_link *link = tci_container_of(timer, struct tci_rdma_link, heal.timer);
    struct tci_rdma *rdma = link->rdma;

    if (link->state != TCI_RDMA_HEALING)
        return;
    if (tci_transport_bond(rdma->below, link->peer) == TCI_BOND_LEFT) {
        tci_rdma_link_end(link, TC_ERR_PEER_LOST);
        return;
    }
    if (now_ns(link) >= end_of(link)) {
        lose(link);
        return;
    }
    if (wait_for_peer(link) && link->has_had && link->qp == NULL && rdma->rank < link->peer)
        offer(link);
}
