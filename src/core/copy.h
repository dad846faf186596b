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

/* As memmove, of a part of a payload of `whole` bytes: past the caches where those cannot keep it.
 * Any thread. */
void tci_copy_part(void *to, const void *from, size_t len, size_t whole);

#endif
