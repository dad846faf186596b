/* rendezvous.c - the place where the ranks meet: a listening socket that rank 0 inherits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* A port that is only looked up and closed again may be taken by the time rank 0 binds it.  So the
 * socket stays open from here to rank 0, and early connections wait in its queue. */
static int listen_on_loopback(int fd, struct sockaddr_in *addr)
{
    socklen_t len = sizeof *addr;

    *addr = (struct sockaddr_in){.sin_family = AF_INET};
    addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)addr, len) != 0 || listen(fd, SOMAXCONN) != 0)
        return -1;
    return getsockname(fd, (struct sockaddr *)addr, &len);
}

int rendezvous_open(struct rendezvous *rendezvous, const char *url)
{
    struct sockaddr_in addr;

    *rendezvous = (struct rendezvous){.fd = -1, .url = url};
    if (url != NULL)
        return 0;

    rendezvous->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (rendezvous->fd < 0)
        return errno;
    if (listen_on_loopback(rendezvous->fd, &addr) != 0) {
        int error = errno;

        rendezvous_close(rendezvous);
        return error;
    }
    (void)snprintf(rendezvous->own_url, sizeof rendezvous->own_url, "tcp://127.0.0.1:%u",
                   (unsigned)ntohs(addr.sin_port));
    rendezvous->url = rendezvous->own_url;
    return 0;
}

void rendezvous_close(struct rendezvous *rendezvous)
{
    if (rendezvous->fd >= 0)
        close(rendezvous->fd);
    rendezvous->fd = -1;
}
