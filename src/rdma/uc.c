/* uc.c - over queue pairs of kind UC, what has come is told by records, and asked for. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device of kind UC sends each message once, in order, and hears nothing of its end.  So what it
 * tells of a work request is that its memory was read; the request is done when the peer has taken
 * it in, which all its records tell:
 *
 *     sent    1   2   3   4   5   6   7          numbers of records and writes
 *     flown   ----------------------^            the device has sent them
 *     acked   ----------^                        the peer has taken them in
 *     done    ----------^                        the lesser of both
 *
 * What somebody waits for (writes, notices, goodbyes, hellos) is acknowledged at the end of the
 * turn, all else with what goes the other way.  One that is lost is found by the next, which is
 * out of turn; behind the last one the sender asks for a word, and that question is the next.  A
 * cable that does not lead, and is silent while the peer answers over the one that does, is dead.
 */
#include "rdma/link.h"

enum { ASK_MIN_MS = 100, ASK_LEAD_MS = 400, ASK_MAX_MS = 1600 };

/* Somebody waits for its end. */
static bool is_awaited(uint8_t kind)
{
    return kind == TCI_RDMA_NOTICE || kind == TCI_RDMA_BYE || kind == TCI_RDMA_HELLO ||
           kind == TCI_RDMA_ASK;
}

bool tci_rdma_is_quiet(uint8_t kind)
{
    return !is_awaited(kind);
}

uint32_t tci_rdma_finished(const struct tci_rdma_link *link)
{
    bool is_told = link->is_uc && !link->rdma->is_closing; /* then nothing more is heard */

    return is_told && (int32_t)(link->acked - link->flown) < 0 ? link->acked : link->flown;
}

static void start_asking(struct tci_rdma_link *link)
{
    struct tci_exec *exec = link->rdma->exec;

    (void)exec->ops->timer_set(exec, &link->ask,
                               exec->ops->now_ns(exec) + link->ask_ms * TCI_NS_PER_MS);
}

void tci_rdma_note_sent(struct tci_rdma_link *link, bool is_ack)
{
    if (!tci_rdma_owes(link))
        link->owed = link->told; /* stays near: numbers begin anew one day */
    if (!link->is_uc || is_ack)
        return;
    link->spoken = link->sent;
    if (link->ask.heap_at != 0)
        return;
    link->ask_ms = ASK_MIN_MS;
    link->asked = link->acked;
    link->lead_asked_ns = 0;
    start_asking(link);
}

void tci_rdma_owe(struct tci_rdma_link *link, bool is_awaited_there)
{
    if (link->is_uc && is_awaited_there)
        link->owed = link->taken + 1;
}

void tci_rdma_owe_record(struct tci_rdma_link *link, uint8_t kind)
{
    if (kind == TCI_RDMA_ASK) /* it may ask for another cable's sake, whatever this one is */
        link->owed = link->taken + 1;
    else
        tci_rdma_owe(link, is_awaited(kind));
}

bool tci_rdma_owes(const struct tci_rdma_link *link)
{
    return (int32_t)(link->owed - link->told) > 0;
}

/* It does not lead, and nothing comes back: whether the peer would answer is seen over the one that
 * leads. */
static void look_at_side(struct tci_rdma_link *link)
{
    struct tci_rdma_link *lead = tci_rdma_lead(link->rdma, link->peer)->links[link->peer];
    struct tci_rdma_head head = {.kind = TCI_RDMA_ASK};

    if (link->lead_asked_ns != 0 && lead->read_ns > link->lead_asked_ns)
        tci_rdma_link_break(link, "nothing comes back over it (UC): look at the cable");
    else if (link->ask_ms >= ASK_LEAD_MS && tci_rdma_put(lead, &head, NULL))
        link->lead_asked_ns = link->rdma->exec->ops->now_ns(link->rdma->exec);
}

/* While there is an answer to each, or messages go on, it is asked as often; else more seldom. */
void tci_rdma_on_ask_timer(struct tci_timer *timer)
{
    struct tci_rdma_link *link = tci_container_of(timer, struct tci_rdma_link, ask);
    struct tci_rdma_head head = {.kind = TCI_RDMA_ASK};
    bool is_silent = link->asked == link->acked;

    if (link->qp == NULL || (int32_t)(link->spoken - link->acked) <= 0)
        return;
    link->ask_ms = is_silent ? tci_min(2 * link->ask_ms, ASK_MAX_MS) : ASK_MIN_MS;
    link->asked = link->acked;
    start_asking(link);
    if (!is_silent) {
        link->lead_asked_ns = 0;
        return;
    }
    (void)tci_rdma_put(link, &head, NULL);
    if (link->state == TCI_RDMA_NEAR && tci_rdma_may_fail(link))
        look_at_side(link);
}
