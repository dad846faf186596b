/* memories.h - memory of this process that others of its host may map, found by address. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_MEMORIES_H
#define TCI_MEMORIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One mapping of a descriptor whose memory cannot shrink.  Embedded in its owner's object. */
struct tci_memory {
    struct tci_memory *prev, *next;
    uint8_t *data;
    size_t bytes;
    int fd;
    uint64_t number; /* the system's, no other memory has it: st_ino */
};

/* Of the whole process, since memory outlives contexts.  Any thread, as all that follows. */
void tci_memories_add(struct tci_memory *memory);
void tci_memories_del(struct tci_memory *memory);
/* A copy of the one that contains all of `len` bytes at `data`; false: none does. */
bool tci_memories_find(const void *data, size_t len, struct tci_memory *copy_out);

/* Map all of a descriptor's memory, shared, with huge pages where there are any: at an address
 * that is as aligned as those.  NULL with errno.  Ended by munmap(). */
void *tci_memory_map(int fd, size_t bytes, int protection);

#endif
