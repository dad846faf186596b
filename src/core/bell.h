/* bell.h - a descriptor that any thread makes readable. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BELL_H
#define TCI_BELL_H

/* Both ends are non-blocking and close-on-exec; where the system has an eventfd they are one. */
struct tci_bell {
    int fd;      /* readable once rung, until hushed; -1: there is none */
    int ring_fd; /* of tci_bell_ring alone */
};

#define TCI_NO_BELL                                                                                \
    {                                                                                              \
        .fd = -1, .ring_fd = -1                                                                    \
    }

/* 0, or -1 with errno, and no bell. */
int tci_bell_open(struct tci_bell *bell_out);
/* From now on it is readable.  Any thread. */
void tci_bell_ring(const struct tci_bell *bell);
/* No more readable, until it is rung again. */
void tci_bell_hush(const struct tci_bell *bell);
void tci_bell_close(struct tci_bell *bell); /* one that is not there, too */

#endif
