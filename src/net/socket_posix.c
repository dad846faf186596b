/* socket_posix.c - sockets that are made first, and then as they are wanted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

/* A program that another thread starts in between inherits it: POSIX has no call that does both. */
static int prepare(int fd)
{
    int cause;
#ifdef SO_NOSIGPIPE /* of systems without MSG_NOSIGNAL */
    int on = 1;
#endif

    if (fd < 0)
        return fd; /* and errno says why */
#ifdef SO_NOSIGPIPE
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
        return fd;
    cause = errno;
    (void)close(fd);
    errno = cause;
    return -1;
}

int tci_socket(int family)
{
    return prepare(socket(family, SOCK_STREAM, IPPROTO_TCP));
}

int tci_socket_datagrams(int family)
{
    return prepare(socket(family, SOCK_DGRAM, IPPROTO_UDP));
}

int tci_socket_accept(int listener, struct sockaddr *from_out, socklen_t *len)
{
    return prepare(accept(listener, from_out, len));
}

bool tci_socket_is_of_one(int cause)
{
    (void)cause;
    return false;
}

/* POSIX has the switch alone; a system's own times are hours. */
void tci_socket_keep_alive(int fd, int idle_s, int pause_s, int count)
{
    int on = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#if defined(TCP_KEEPIDLE)
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
#elif defined(TCP_KEEPALIVE)
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPALIVE, &idle_s, sizeof idle_s);
#else
    (void)idle_s;
#endif
#ifdef TCP_KEEPINTVL
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof pause_s);
#else
    (void)pause_s;
#endif
#ifdef TCP_KEEPCNT
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
#else
    (void)count;
#endif
}

void tci_socket_suit_one_host(int fd)
{
    (void)fd;
}

void tci_socket_suit_network(int fd)
{
    (void)fd;
}
