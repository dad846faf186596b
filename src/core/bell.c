/* bell.c - a bell that is an eventfd. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/bell.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int tci_bell_open(struct tci_bell *bell_out)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    *bell_out = (struct tci_bell){.fd = fd, .ring_fd = fd};
    return fd < 0 ? -1 : 0;
}

void tci_bell_ring(const struct tci_bell *bell)
{
    uint64_t one = 1;
    ssize_t put;

    do {
        put = write(bell->ring_fd, &one, sizeof(one));
    } while (put < 0 && errno == EINTR);
    /* EAGAIN: the counter is full, so the descriptor is readable */
}

void tci_bell_hush(const struct tci_bell *bell)
{
    uint64_t count;

    (void)!read(bell->fd, &count, sizeof(count)); /* EAGAIN: hushed before */
}

void tci_bell_close(struct tci_bell *bell)
{
    if (bell->fd >= 0)
        (void)close(bell->fd);
    *bell = (struct tci_bell)TCI_NO_BELL;
}
