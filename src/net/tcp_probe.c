/* tcp_probe.c - a message whose credit does not come shows its call. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

enum { PROBE_MIN_MS = 50, PROBE_MAX_MS = 1600 };

void tci_tcp_probe_start(struct tci_tcp *tcp)
{
    struct tci_exec *exec = tcp->exec;

    if (tcp->match.sends_count <= 1)
        tcp->probe_ms = PROBE_MIN_MS;
    if (tcp->probe.heap_at == 0)
        (void)exec->ops->timer_set(exec, &tcp->probe,
                                   exec->ops->now_ns(exec) + tcp->probe_ms * TCI_NS_PER_MS);
}

static void probe_one(void *arg, struct tci_xfer *xfer)
{
    struct tci_tcp *tcp = arg;
    struct tci_frame frame = {.kind = TCI_FRAME_PROBE};

    if (!xfer->is_send || xfer->peer == tcp->rank)
        return;
    if ((xfer->room[TCI_ROOM_FLAGS] & TCI_XFER_SEEN) == 0) {
        xfer->room[TCI_ROOM_FLAGS] |= TCI_XFER_SEEN;
        return;
    }
    frame.key = xfer->key;
    frame.call = *xfer->call;
    frame.total = xfer->len;
    tci_link_control(tcp->links[xfer->peer], &frame, NULL);
}

/* Whose credit does not come may wait for a peer that made another call, in which no message is
 * as long: the peer is shown the call. */
void tci_tcp_on_probe_timer(struct tci_timer *timer)
{
    struct tci_tcp *tcp = tci_container_of(timer, struct tci_tcp, probe);

    tcp->probe_ms = tci_min(2 * tcp->probe_ms, PROBE_MAX_MS);
    if (tcp->match.sends_count == 0)
        return;
    tci_match_each_xfer(&tcp->match, probe_one, tcp);
    (void)tcp->exec->ops->timer_set(
        tcp->exec, timer, tcp->exec->ops->now_ns(tcp->exec) + tcp->probe_ms * TCI_NS_PER_MS);
}
