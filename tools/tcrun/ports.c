/* ports.c - ports of this host that nobody uses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Below those that the system gives to whoever asks for any. */
enum { FIRST = 10240, END = 32768, TRIES = 64 };

static bool is_free(unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can_bind;

    if (fd < 0)
        return true;
    can_bind = bind(fd, (struct sockaddr *)&addr, sizeof addr) == 0;
    close(fd);
    return can_bind;
}

unsigned ports_find_free(unsigned count)
{
    unsigned first = FIRST;

    if (count > END - FIRST)
        return FIRST;
    for (int i = 0; i < TRIES; i++) {
        unsigned random = 0, free_ports = 0;

        if (getrandom(&random, sizeof random, 0) != sizeof random)
            random = (unsigned)getpid() * 64;
        first = FIRST + random % (END - FIRST - count + 1);
        while (free_ports < count && is_free(first + free_ports))
            free_ports++;
        if (free_ports == count)
            break;
    }
    return first;
}
