/* loopback.c - where ranks of one process meet. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loopback.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

int listen_on_loopback(int ranks, char *url, size_t url_bytes)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(fd, ranks) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
        return -1; /* a benchmark ends then */
    snprintf(url, url_bytes, "tcp://127.0.0.1:%d", ntohs(addr.sin_port));
    return fd;
}
