/* rendezvous.c - the place where the ranks meet: a listening socket that rank 0 inherits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/socket.h"

static unsigned port_of(const struct sockaddr_storage *addr)
{
    const void *at = addr;

    return addr->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)at)->sin6_port)
                                       : ntohs(((const struct sockaddr_in *)at)->sin_port);
}

static int fail_closing(int fd)
{
    int error = errno;

    if (fd >= 0)
        close(fd);
    return error;
}

/* A port that is only looked up and closed again may be taken by the time rank 0 binds it.  So the
 * socket stays open from here to rank 0, and early connections wait in its queue. */
int rendezvous_listen(struct rendezvous *rendezvous, const char *address, unsigned *port_out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    int fd, error = getaddrinfo(address, "0", &hints, &list);
    /* Of what is accepted: it does not keep the port from a later group.  Not before bind(): two
     * sockets could be given one port. */
    const int reuses = 1;

    rendezvous->fd = -1;
    if (error != 0)
        return error == EAI_SYSTEM ? errno : EADDRNOTAVAIL;
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) /* who comes before rank 0 has it is accepted as by rank 0 */
        tci_socket_suit_one_host(fd);
    error = fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) != 0 ||
                    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuses, sizeof reuses) != 0 ||
                    listen(fd, SOMAXCONN) != 0 ||
                    getsockname(fd, (struct sockaddr *)&addr, &len) != 0
                ? fail_closing(fd)
                : 0;
    freeaddrinfo(list);
    if (error != 0)
        return error;
    rendezvous->fd = fd;
    *port_out = port_of(&addr);
    return 0;
}

void rendezvous_set(struct rendezvous *rendezvous, const char *address, unsigned port)
{
    const char *percent = strchr(address, '%');
    bool is_six = strchr(address, ':') != NULL;

    /* A scope is set off by %25 in an URL. */
    if (is_six && percent != NULL)
        (void)snprintf(rendezvous->own_url, sizeof rendezvous->own_url, "tcp://[%.*s%%25%s]:%u",
                       (int)(percent - address), address, percent + 1, port);
    else
        (void)snprintf(rendezvous->own_url, sizeof rendezvous->own_url, "tcp://%s%s%s:%u",
                       is_six ? "[" : "", address, is_six ? "]" : "", port);
    rendezvous->url = rendezvous->own_url;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
    if (rendezvous->fd >= 0)
        close(rendezvous->fd);
    rendezvous->fd = -1;
}
