/* reach.h - whether memory that an operation was given is there, before it is touched. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_REACH_H
#define TCI_REACH_H

#include <stdbool.h>
#include <stddef.h>

/* A buffer that was freed, or is shorter than its count, is its program's mistake.  To touch it
 * ends the process, and a system call that is given it fails as if the connection had: so a peer
 * would hear of a broken network.  Here the system is asked instead; where it does not say, memory
 * is taken to be there. */

struct tci_op;

/* Its first and its last byte can be read: one system call. */
bool tci_reach_ends(const void *data, size_t len);
/* One byte of each page can be read. */
bool tci_reach_all(const void *data, size_t len);

/* The ends of what an operation is about to read and to write, if that is long. */
bool tci_reach_buffers(const struct tci_op *op);
/* The operation fails, on all ranks: this one's buffer is not there. */
void tci_reach_failed(struct tci_op *op);

#endif
