/* sock.c - socket calls with their errors named; all sockets non-blocking and close-on-exec. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/sock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/assert.h"
#include "net/socket.h"

/* Ranks that start together connect together.  The kernel cuts this down to its somaxconn. */
enum { BACKLOG = 16384 };

enum { KEEPALIVE_IDLE_S = 5, KEEPALIVE_INTERVAL_S = 2, KEEPALIVE_COUNT = 4 };
static_assert((KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_COUNT) * 1000 == TCI_SILENCE_MS,
              "a host that has vanished is given up after one time, with traffic or without");

static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* "listen on 10.0.0.7:4100: Address already in use"; closes fd, gives status. */
static tc_status_t fail(struct tci_error *error, const char *doing, const struct tci_addr *addr,
                        int fd)
{
    char where[TCI_ADDR_TEXT];
    char text[TCI_ADDR_TEXT + 32];
    int cause = errno;

    if (fd >= 0)
        close(fd);
    (void)snprintf(text, sizeof text, "%s %s", doing, tci_addr_print(addr, where));
    errno = cause;
    (void)tci_error_system(error, TC_ERR_TRANSPORT, text);
    errno = cause;
    return TC_ERR_TRANSPORT;
}

static int open_socket(const struct tci_addr *addr)
{
    TC_ASSERT(addr->len != 0);
    return tci_socket(addr->sa.ss_family);
}

static tc_status_t listen_at(const struct tci_addr *addr, bool is_of_both, int *fd_out,
                             struct tci_addr *bound_out, struct tci_error *error)
{
    int fd = open_socket(addr);

    if (fd < 0)
        return fail(error, "open a socket to listen on", addr, fd);
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (addr->sa.ss_family == AF_INET6) /* else "::" would be all of IPv4 as well */
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !is_of_both);
    tci_socket_suit_one_host(fd); /* what is accepted inherits it */
    if (bind(fd, (const struct sockaddr *)&addr->sa, addr->len) != 0 || listen(fd, BACKLOG) != 0)
        return fail(error, "listen on", addr, fd);

    tci_sock_local(fd, bound_out);
    *fd_out = fd;
    return TC_OK;
}

tc_status_t tci_sock_listen(const struct tci_addr *addr, int *fd_out, struct tci_addr *bound_out,
                            struct tci_error *error)
{
    return listen_at(addr, false, fd_out, bound_out, error);
}

tc_status_t tci_sock_listen_both(const struct tci_addr *addr, int *fd_out,
                                 struct tci_addr *bound_out, struct tci_error *error)
{
    return listen_at(addr, true, fd_out, bound_out, error);
}

tc_status_t tci_sock_adopt_listener(int fd, struct tci_addr *bound_out, struct tci_error *error)
{
    int is_listening = 0;
    socklen_t len = sizeof is_listening;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "descriptor %d is no socket that could be listened on: %s", fd,
                      strerror(errno));
        return TC_ERR_INVALID_ARG;
    }
    tci_sock_local(fd, bound_out);
    if (is_listening == 0 || bound_out->len == 0) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "descriptor %d is no listening TCP socket", fd);
        return TC_ERR_INVALID_ARG;
    }
    /* What is accepted has it, too, and does not keep a later group from the address. */
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    tci_socket_suit_one_host(fd);
    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return tci_error_system(error, TC_ERR_TRANSPORT, "make a listening socket non-blocking");
    return TC_OK;
}

/* A connection to a port of this host that nobody listens on can be given that very port as its
 * own, and then stands, with itself. */
static bool is_with_itself(int fd)
{
    struct tci_addr local, peer;

    tci_sock_local(fd, &local);
    tci_sock_peer(fd, &peer);
    return local.len != 0 && tci_addr_is_equal(&local, &peer);
}

/* Whether an address is one of this host's, as the system's routes have it: nothing is sent. */
static bool leads_here(const struct tci_addr *to)
{
    int fd = tci_socket_datagrams(to->sa.ss_family);
    struct tci_addr local = {.len = 0};

    if (fd < 0)
        return false;
    if (connect(fd, (const struct sockaddr *)&to->sa, to->len) == 0)
        tci_sock_local(fd, &local);
    close(fd);
    return tci_addr_is_same_host(&local, to);
}

tc_status_t tci_sock_connect(const struct tci_addr *to, int *fd_out, bool *is_up_out,
                             struct tci_error *error)
{
    int fd = open_socket(to);
    bool is_up;

    if (fd < 0)
        return fail(error, "open a socket to connect to", to, fd);
    if (leads_here(to))
        tci_socket_suit_one_host(fd);
    is_up = connect(fd, (const struct sockaddr *)&to->sa, to->len) == 0;
    if (is_up && is_with_itself(fd)) {
        errno = ECONNREFUSED;
        return fail(error, "connect to", to, fd);
    }
    /* EINTR: goes on by itself, as with EINPROGRESS. */
    if (!is_up && errno != EINPROGRESS && errno != EINTR)
        return fail(error, "connect to", to, fd);

    *fd_out = fd;
    *is_up_out = is_up;
    return TC_OK;
}

int tci_sock_connect_result(int fd)
{
    int cause = 0;
    socklen_t len = sizeof cause;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &len) != 0)
        return errno;
    if (cause == 0 && is_with_itself(fd))
        return ECONNREFUSED;
    return cause;
}

/* Whether the connection that accept() was to give is broken already, and the next may be fine. */
static bool is_of_one_connection(int cause)
{
    return cause == EINTR || cause == ECONNABORTED || cause == EPROTO || cause == ENETDOWN ||
           cause == ENOPROTOOPT || cause == EHOSTUNREACH || cause == EOPNOTSUPP ||
           cause == ENETUNREACH || tci_socket_is_of_one(cause);
}

int tci_sock_accept(int listener, struct tci_addr *from_out)
{
    struct sockaddr_storage sa;
    struct tci_addr local;

    /* Bounded by the queue of the listener. */
    for (int tries = 0; tries < BACKLOG; tries++) {
        socklen_t len = sizeof sa;
        int fd = tci_socket_accept(listener, (struct sockaddr *)&sa, &len);

        if (fd >= 0) {
            tci_addr_from_system((const struct sockaddr *)&sa, len, from_out);
            tci_sock_local(fd, &local);
            if (!tci_addr_is_same_host(&local, from_out))
                tci_socket_suit_network(fd);
            return fd;
        }
        if (!is_of_one_connection(errno))
            return -1;
    }
    errno = EAGAIN;
    return -1;
}

/* Buffers stay with the kernel, which sizes them as it goes.  Fixed ones were measured in the same
 * way over sends of 64 KiB, 1 MiB and 4 MiB, against the kernel's: 4 MiB gives 0.9, 0.7 and 0.6 of
 * its throughput (they fall out of the cache), 1 MiB 1.5, 0.6 and 1.0, and 256 KiB 1.4, 0.9 and
 * 1.0, with a spread of the same size; and a fixed size is what a path of long delay cannot use. */
bool tci_sock_tune(int fd)
{
    struct tci_addr local, peer;
    bool is_one_host;

    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    tci_socket_keep_alive(fd, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT);

    tci_sock_local(fd, &local);
    tci_sock_peer(fd, &peer);
    is_one_host = tci_addr_is_same_host(&local, &peer);
    if (is_one_host)
        tci_socket_suit_one_host(fd);
    return is_one_host;
}

void tci_sock_local(int fd, struct tci_addr *addr_out)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof sa;

    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        len = 0;
    tci_addr_from_system((const struct sockaddr *)&sa, len, addr_out);
}

void tci_sock_peer(int fd, struct tci_addr *addr_out)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof sa;

    if (getpeername(fd, (struct sockaddr *)&sa, &len) != 0)
        len = 0;
    tci_addr_from_system((const struct sockaddr *)&sa, len, addr_out);
}
