/* socket.c - sockets that are made as they are wanted, in one call. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

int tci_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
}

int tci_socket_accept(int listener, struct sockaddr *from_out, socklen_t *len)
{
    return accept4(listener, from_out, len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

bool tci_socket_is_of_one(int cause)
{
    return cause == EHOSTDOWN || cause == ENONET;
}

void tci_socket_keep_alive(int fd, int idle_s, int pause_s, int count)
{
    int on = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof pause_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* The system says which are permitted. */
void tci_socket_suit_one_host(int fd)
{
    static const char *const names[] = {"reno", "cubic"};

    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, names[k], (socklen_t)strlen(names[k])) == 0)
            return;
    }
}
