/* pages.h - memory in pages of the system's own: huge ones, and such that others may map. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PAGES_H
#define TCI_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed pages, a whole number of them; *fd_out is a descriptor by which others of this host map
 * them, and *number_out the system's number of that memory, or they are -1 and 0: memory of this
 * process alone.  NULL: none is to be had.  Any thread, as all that follows. */
void *tci_pages_make(size_t bytes, int *fd_out, uint64_t *number_out);
/* Others may still map it: its pages go at once nevertheless. */
void tci_pages_end(void *data, size_t bytes, int fd);

/* See tci_alloc_huge, which counts them. */
void *tci_pages_huge(size_t bytes);
void tci_pages_huge_end(void *block, size_t bytes);

/* See to it that a file has all its blocks, before it is written to by way of memory: 0, or an
 * errno. */
int tci_pages_reserve(int fd, size_t bytes);

/* Map all of a descriptor's memory, shared, with huge pages where there are any: at an address
 * that is as aligned as those.  NULL with errno.  Ended by munmap().  Only where descriptors of
 * memory are made. */
void *tci_pages_map(int fd, size_t bytes, int protection);

#endif
