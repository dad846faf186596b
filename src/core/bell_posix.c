/* bell_posix.c - a bell that is a pipe. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

static bool prepare(int fd)
{
    return fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

int tci_bell_open(struct tci_bell *bell_out)
{
    int ends[2], cause;

    *bell_out = (struct tci_bell)TCI_NO_BELL;
    if (pipe(ends) != 0)
        return -1;
    if (prepare(ends[0]) && prepare(ends[1])) {
        *bell_out = (struct tci_bell){.fd = ends[0], .ring_fd = ends[1]};
        return 0;
    }
    cause = errno;
    (void)close(ends[0]);
    (void)close(ends[1]);
    errno = cause;
    return -1;
}

void tci_bell_ring(const struct tci_bell *bell)
{
    ssize_t put;

    do {
        put = write(bell->ring_fd, "", 1);
    } while (put < 0 && errno == EINTR);
    /* EAGAIN: the pipe is full, so the descriptor is readable */
}

void tci_bell_hush(const struct tci_bell *bell)
{
    char rings[64];

    while (read(bell->fd, rings, sizeof(rings)) == (ssize_t)sizeof(rings)) {
    }
}

void tci_bell_close(struct tci_bell *bell)
{
    if (bell->fd >= 0) {
        (void)close(bell->fd);
        (void)close(bell->ring_fd);
    }
    *bell = (struct tci_bell)TCI_NO_BELL;
}
