/* failover.c - a cable fails: what went over it goes over the one that leads. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   one end                                     the other one
 *     its queue pair has failed
 *     stops it, takes in what has come
 *     FAILED  so much has come      -->           does the same, unless it is about to
 *     knows what has arrived        <--         FAILED  so much has come
 *
 * Both count what came, records and pieces, so the sender of each part knows which of its pieces
 * have arrived.  What is complete by that is complete; all other parts begin anew over the cable
 * that leads, those that fold behind what they have folded, which their credits say.  The parts
 * stay in order, and none goes there before both have been heard.
 *
 * A device that has acknowledged more than its host was told of, since it was taken out, ends the
 * peer, as a cable that leads does: what went over that one were messages, and who has them is not
 * known any more.
 */
#include <stdio.h>

#include "core/log.h"
#include "rdma/link.h"

enum { DRAIN_MS = 100 };

bool tci_rdma_may_fail(const struct tci_rdma_link *link)
{
    const struct tci_rdma *lead = tci_rdma_lead(link->rdma, link->peer);
    const struct tci_rdma_link *first = lead != NULL ? lead->links[link->peer] : NULL;

    return lead != link->rdma && first != NULL &&
           ((first->state == TCI_RDMA_NEAR && first->broken == NULL) || tci_rdma_may_heal(first));
}

bool tci_rdma_use_count(struct tci_rdma_link *link)
{
    uint32_t more = link->had - link->works_done;

    if (more > link->works_put - link->works_done)
        return false;
    if (link->is_uc)
        link->acked = link->had;
    if (more > 0)
        tci_rdma_on_done(link, (link->had - 1) % TCI_RDMA_QUEUE);
    return true;
}

/* Both know all. */
static void go_over(struct tci_rdma_link *link)
{
    struct tci_rdma *rdma = link->rdma;

    if (!tci_rdma_use_count(link)) {
        tci_rdma_link_lose(link, "has a device that has lost what it had acknowledged (RDMA)");
        return;
    }
    link->is_moving = true;
    tci_rdma_link_end(link, TC_ERR_PEER_LOST);
    link->is_moving = false;
    link->state = TCI_RDMA_FAR;
    tci_rdma_move_parts(rdma, link->peer);
}

static void leave_out(struct tci_rdma_link *link, const char *cause)
{
    struct tci_rdma *rdma = link->rdma;

    link->state = TCI_RDMA_STOPPED;
    rdma->exec->ops->timer_clear(rdma->exec, &link->timer);
    tci_rdma_qp_destroy(link); /* what is aborted needs no answer of the peer's from here on */
    tci_rdma_end_revoking(link);
    tci_rdma_end_aborted_pushes(link);
    snprintf(link->why_far, sizeof(link->why_far), "%s", cause);
    tci_log(TC_LOG_WARN,
            "rank %u: a cable to rank %u has failed (device %s, port %u), others go on: %s",
            rdma->rank, link->peer, rdma->choice.info.device, rdma->choice.info.port, cause);
    tci_rdma_tell_failed(link, cause);
    if (link->has_had)
        go_over(link);
}

/* What came last may have told more of the cause. */
static void tell_failed(struct tci_rdma_link *link, const char *cause)
{
    if (link->broken != tci_rdma_flushed)
        cause = link->broken;
    if (tci_rdma_may_fail(link))
        leave_out(link, cause);
    else if (tci_rdma_may_heal(link))
        tci_rdma_heal_begin(link, cause);
    else
        tci_rdma_link_lose_for(link, cause);
}

/* Nothing may be acknowledged any more that is not counted: what the queue pair has taken comes
 * before the first slot that it gives back. */
void tci_rdma_fail(struct tci_rdma_link *link, const char *cause)
{
    struct tci_exec *exec = link->rdma->exec;

    if (!link->is_stopped)
        tci_rdma_qp_stop(link);
    link->is_stopped = true;
    tci_rdma_take_all(link);
    if (!tci_rdma_is_up(link))
        return;
    if (link->is_drained || link->rdma->is_dead || (link->has_waited && link->timer.heap_at == 0)) {
        tell_failed(link, cause);
        return;
    }
    if (link->has_waited)
        return;
    link->has_waited = true;
    exec->ops->timer_clear(exec, &link->timer);
    if (exec->ops->timer_set(exec, &link->timer,
                             exec->ops->now_ns(exec) + DRAIN_MS * TCI_NS_PER_MS) != 0)
        tell_failed(link, cause);
}

void tci_rdma_on_failed(struct tci_rdma_link *link, uint32_t had, const char *cause)
{
    bool is_first = !link->has_had;

    link->had = had;
    link->has_had = true;
    if (tci_rdma_is_up(link) && link->qp != NULL) {
        tci_rdma_link_break(link, tci_rdma_flushed);
        tci_rdma_fail(link, cause);
    } else if (link->state == TCI_RDMA_STOPPED) {
        go_over(link);
    } else if (is_first) {
        tci_rdma_heal_on(link);
    }
}
