/* alloc.h - the library's memory: one door, so that tests can make it fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ALLOC_H
#define TCI_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory, or NULL.  Any thread. */
void *tci_alloc(size_t bytes);
/* count * each bytes, zeroed; NULL when that overflows or is not to be had. */
void *tci_alloc_array(size_t count, size_t each);
/* Memory aligned to 64 bytes, not zeroed; freed by tci_free. */
void *tci_alloc_raw(size_t bytes);
void *tci_realloc_array(void *ptr, size_t count, size_t each);
char *tci_strdup(const char *text);
void tci_free(void *ptr); /* NULL is fine */

/* `bytes`, a multiple of TCI_HUGE_BYTES, at such an address, in huge pages where the system has
 * them; 64 bytes before the address belong to the block too.  Freed by tci_free_huge with the same
 * `bytes`; NULL is fine there. */
#define TCI_HUGE_BYTES ((size_t)2 << 20)
void *tci_alloc_huge(size_t bytes);
void tci_free_huge(void *block, size_t bytes);

/* For tests: the n-th allocation from now fails (1: the next; 0: none), and so do all after it
 * when `forever` is not 0.  Counts over all threads. */
void tci_alloc_fail_at(uint64_t n, int forever);
/* Allocations that are alive, and all that were ever made. */
uint64_t tci_alloc_live(void);
uint64_t tci_alloc_total(void);

#endif
