/* acks.h - what the kernel at the other end of a connection has acknowledged. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ACKS_H
#define TCI_ACKS_H

#include <stdbool.h>
#include <stdint.h>

/* All of it is false and 0 where the system does not say. */
struct tci_acks {
    bool owes_data;       /* something that was sent has not been acknowledged … */
    bool owes;            /* … or a probe, of a window that is closed, has not */
    uint32_t ack_ms;      /* since the last acknowledgement */
    uint32_t data_ms;     /* since data came last */
    uint32_t rtt_us;      /* a round trip */
    bool has_bytes;       /* the next is known */
    uint64_t bytes_acked; /* ever */
};

/* False where the system does not say: of a socket pair, both ends of which are on this host, and
 * of all connections where the library is built with POSIX alone. */
bool tci_acks_get(int fd, struct tci_acks *out);

/* Whether all that was sent has been acknowledged; true where the system does not say. */
bool tci_acks_has_all(int fd);

#endif
