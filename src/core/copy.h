/* copy.h - copying to memory that another processor reads next. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_COPY_H
#define TCI_COPY_H

#include <stddef.h>

/* Shorter copies are as memcpy: where the two processors share a third-level cache that is faster
 * (4 KiB there and back: 0.77 us and 0.81), and where they do not by little slower. */
enum { TCI_COPY_AWAY_MIN = 4096 };

/* As memcpy, past the caches where that is faster: lines that another processor's cache holds are
 * taken from it one by one by ordinary stores, and dropped there by these.  What is stored after
 * the call is seen after the copy.  Any thread. */
void tci_copy_away(void *to, const void *from, size_t len);

/* As memcpy, through the caches.  Lines that were written stay in the cache of the processor that
 * has written them; to read them there takes another one longer than to find them in the cache that
 * both share, and that is where processors that have an instruction for it put them (two ranks, 1
 * KiB all-reduced: 0.91 us, and 0.98; but 4 KiB 1.34, and 1.19).  Any thread. */
void tci_copy_over(void *to, const void *from, size_t len);

/* As memmove, of a part of a payload of `whole` bytes: past the caches where those cannot keep it.
 * Any thread. */
void tci_copy_part(void *to, const void *from, size_t len, size_t whole);

#endif
