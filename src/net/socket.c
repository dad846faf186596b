/* socket.c - sockets that are made as they are wanted, in one call. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

int tci_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
}

int tci_socket_datagrams(int family)
{
    return socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
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

enum { NAME_ROOM = 17 }; /* of a congestion control, with a zero byte */

static bool choose(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

static bool read_choice(int fd, char name[NAME_ROOM])
{
    socklen_t len = NAME_ROOM - 1;

    memset(name, 0, NAME_ROOM);
    return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0;
}

/* The system says which are permitted. */
void tci_socket_suit_one_host(int fd)
{
    static const char *const names[] = {"reno", "cubic"};

    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (choose(fd, names[k]))
            return;
}

/* A socket that nobody has chosen anything for shows what is usual. */
void tci_socket_suit_network(int fd)
{
    char usual[NAME_ROOM], now[NAME_ROOM];
    int family = AF_INET, fresh;
    socklen_t len = sizeof family;

    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
    fresh = tci_socket(family);
    if (fresh < 0)
        return;
    if (read_choice(fresh, usual) && read_choice(fd, now) && strcmp(usual, now) != 0)
        (void)choose(fd, usual);
    close(fresh);
}
