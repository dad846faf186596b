/* tcp_hear.c - whether the host of a peer is heard, by what its kernel acknowledges. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "core/assert.h"
#include "net/acks.h"
#include "net/sock.h"
#include "net/tcp_link.h"

/*
 * A host acknowledges what comes even when the process there does not read it.  So the two are told
 * apart: a process that is stopped or stuck has a host that answers.
 *
 * While nothing is on its way the kernel's own keepalive finds a host that has vanished (sock.c).
 * While something is, the kernel would retransmit for a quarter of an hour.  Its TCP_USER_TIMEOUT
 * would shorten that, but ends as well a connection whose peer does not read for as long, though
 * its host answers each probe of the closed window.  So the transport looks by itself.
 */
enum { PULSE_MS = 4000, PULSE_CLOSE_MS = 1000, SUSPECT_MS = 4000 };

/* Both ends count in milliseconds of the kernel's clock, which ticks every few of them. */
enum { TICK_MS = 10 };

/* A kernel may keep an acknowledgement back for 40 ms, or a round trip, to let data take it along;
 * before twice of that nothing is said about a host that has not answered. */
enum { ACK_DELAY_MS = 100 };

/* How long the host has owed an acknowledgement, over all looks so far, each of which comes before
 * something is said.  Segments of its own tell nothing: a host that is deaf goes on sending, and
 * each of its segments acknowledges what is old. */
static uint64_t owed_ms(struct tci_link *link, const struct tci_acks *acks, bool *has_acked_out)
{
    struct tci_exec *exec = link->tcp->exec;
    uint64_t now = exec->ops->now_ns(exec);
    uint64_t before_ms = (now - link->heard.at_ns) / TCI_NS_PER_MS;

    *has_acked_out = acks->has_bytes ? acks->bytes_acked != link->heard.acked
                                     : acks->ack_ms <= before_ms + TICK_MS;
    if (link->heard.at_ns != 0 && *has_acked_out)
        link->heard.acked_ns = now;
    if (link->heard.at_ns == 0 || *has_acked_out || !acks->owes) {
        link->heard.at_ns = now;
        link->heard.acked = acks->bytes_acked;
        return 0;
    }
    return before_ms;
}

/* A link that is made to listen: whether anybody answers at all.  The kernel knows it before this
 * loop does, which may have had no turn since. */
static enum tci_hearing hear_dialed(const struct tci_link *link)
{
    struct tci_exec *exec = link->tcp->exec;
    uint64_t begin_ns = link->deadline_ns - TCI_TCP_DIAL_MS * TCI_NS_PER_MS;
    struct tci_addr peer;

    if (!link->has_connected)
        tci_sock_peer(link->fd, &peer);
    if (link->has_connected || peer.len != 0)
        return TCI_HEAR_HOST;
    return exec->ops->now_ns(exec) >= begin_ns + ACK_DELAY_MS * TCI_NS_PER_MS ? TCI_HEAR_NOTHING
                                                                              : TCI_HEAR_NO_LINK;
}

enum tci_hearing tci_tcp_hear(const struct tci_transport *self, uint32_t peer, uint64_t since_ns)
{
    const struct tci_tcp *tcp = (const struct tci_tcp *)self;
    struct tci_link *link = tcp->links[peer];
    uint64_t elapsed_ms = (tcp->exec->ops->now_ns(tcp->exec) - since_ns) / TCI_NS_PER_MS;
    struct tci_acks acks;
    uint64_t due_ms, silent_ms;
    bool has_acked;

    TC_ASSERT(peer < tcp->size);
    if (link != NULL && link->state == TCI_LINK_HEALING)
        return TCI_HEAR_NOTHING;
    if (link != NULL && link->state == TCI_LINK_DIALING && link->fd >= 0)
        return hear_dialed(link);
    if (link == NULL || link->state != TCI_LINK_UP)
        return TCI_HEAR_NO_LINK;
    if (!tci_acks_get(link->fd, &acks))
        return TCI_HEAR_HOST;
    silent_ms = tci_min(owed_ms(link, &acks, &has_acked), elapsed_ms);
    due_ms = ACK_DELAY_MS + 2 * (uint64_t)acks.rtt_us / 1000;
    if (silent_ms >= due_ms)
        return TCI_HEAR_NOTHING;
    if (silent_ms > 0 && link->heard.acked_ns <= since_ns)
        return TCI_HEAR_TOO_SOON;
    return acks.data_ms <= elapsed_ms || (acks.owes_data && has_acked) ? TCI_HEAR_FLOW
                                                                       : TCI_HEAR_HOST;
}

/* A probe that is on its way at two looks, a second apart, is not answered. */
static bool is_silent(struct tci_link *link, const struct tci_acks *acks)
{
    bool was_silent = link->was_silent;

    link->was_silent = acks->owes && acks->ack_ms >= TCI_SILENCE_MS;
    return link->was_silent && (acks->owes_data || was_silent);
}

static void on_pulse(struct tci_timer *timer)
{
    struct tci_tcp *tcp = tci_container_of(timer, struct tci_tcp, pulse);
    uint64_t next_ms = PULSE_MS;
    struct tci_list *at, *next;
    struct tci_acks acks;

    for (at = tcp->open.next; at != &tcp->open; at = next) {
        struct tci_link *link = tci_container_of(at, struct tci_link, open_link);

        next = at->next;
        (void)tci_acks_get(link->fd, &acks);
        if (acks.owes && acks.ack_ms >= SUSPECT_MS)
            next_ms = PULSE_CLOSE_MS;
        if (is_silent(link, &acks))
            tci_link_break(link, ETIMEDOUT);
        if (tci_list_is_empty(next))
            break; /* it has ended with this one */
    }
    (void)tcp->exec->ops->timer_set(tcp->exec, timer,
                                    tcp->exec->ops->now_ns(tcp->exec) + next_ms * TCI_NS_PER_MS);
}

int tci_tcp_pulse_start(struct tci_tcp *tcp)
{
    tcp->pulse.fn = on_pulse;
    if (tcp->size == 1)
        return 0;
    return tcp->exec->ops->timer_set(tcp->exec, &tcp->pulse,
                                     tcp->exec->ops->now_ns(tcp->exec) + PULSE_MS * TCI_NS_PER_MS);
}
