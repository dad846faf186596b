/* tcp_listen.c - connections that come: at the address of this rank, and at its further ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "core/assert.h"
#include "net/sock.h"
#include "net/tcp_link.h"

enum { ACCEPTS_MAX = 16, ACCEPT_PAUSE_MS = 100 };

static void watch_all(struct tci_tcp *tcp, uint32_t interest)
{
    for (int k = 0; k < TCI_TCP_LISTENERS; k++)
        if (tcp->listeners[k].fd >= 0)
            (void)tci_watch_change(&tcp->listeners[k].watch, interest);
}

static void on_ready(struct tci_watch *watch, uint32_t ready)
{
    struct tci_tcp_listener *listener = tci_container_of(watch, struct tci_tcp_listener, watch);
    struct tci_tcp *tcp = listener->tcp;
    struct tci_exec *exec = tcp->exec;

    (void)ready;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct tci_addr from;
        int fd = tci_sock_accept(listener->fd, &from);

        if (fd >= 0) {
            tci_tcp_disown(tcp, fd);
            tci_tcp_take(tcp, fd, TCI_DIRECT);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            watch_all(tcp, 0);
            (void)exec->ops->timer_set(exec, &tcp->listener_timer,
                                       exec->ops->now_ns(exec) + ACCEPT_PAUSE_MS * TCI_NS_PER_MS);
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void on_timer(struct tci_timer *timer)
{
    watch_all(tci_container_of(timer, struct tci_tcp, listener_timer), TC_READABLE);
}

void tci_tcp_listen_init(struct tci_tcp *tcp)
{
    tcp->listener_timer.fn = on_timer;
    for (int k = 0; k < TCI_TCP_LISTENERS; k++)
        tcp->listeners[k] = (struct tci_tcp_listener){.watch.fn = on_ready, .tcp = tcp, .fd = -1};
}

static int start(struct tci_tcp *tcp, struct tci_tcp_listener *listener, int *fd)
{
    if (*fd < 0)
        return 0;
    if (tci_watch_add(tcp->loop, &listener->watch, *fd, TC_READABLE) != 0)
        return -1;
    listener->fd = *fd;
    *fd = -1;
    return 0;
}

int tci_tcp_listen_start(struct tci_tcp *tcp, struct tci_boot_result *result)
{
    tcp->paths = result->paths;
    result->paths = (struct tci_paths){.count = 0};
    if (start(tcp, &tcp->listeners[0], &result->listener) != 0)
        return -1;
    for (uint32_t k = 0; k < tcp->paths.count; k++)
        if (start(tcp, &tcp->listeners[1 + k], &tcp->paths.listeners[k]) != 0)
            return -1;
    return 0;
}

void tci_tcp_listen_end(struct tci_tcp *tcp)
{
    tci_tcp_drop_halves(tcp);
    tcp->exec->ops->timer_clear(tcp->exec, &tcp->listener_timer);
    for (int k = 0; k < TCI_TCP_LISTENERS; k++) {
        if (tcp->listeners[k].fd < 0)
            continue;
        tci_watch_del(&tcp->listeners[k].watch);
        close(tcp->listeners[k].fd);
        tcp->listeners[k].fd = -1;
    }
    tci_paths_fini(&tcp->paths);
}

const struct tci_addr *tci_tcp_path(const struct tci_tcp *tcp, uint32_t peer, uint32_t index)
{
    TC_ASSERT(index > 0);
    return index <= tcp->paths.count ? tci_paths_at(&tcp->paths, peer, index - 1)
                                     : &tcp->addrs[peer];
}
