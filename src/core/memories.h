/* memories.h - memory that the library has made for tensors, found by address. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_MEMORIES_H
#define TCI_MEMORIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One mapping: of a descriptor whose memory cannot shrink and which others of the host may map, or
 * of this process alone.  Embedded in its owner's object. */
struct tci_memory {
    struct tci_memory *prev, *next;
    uint8_t *data;
    size_t bytes;
    int fd;          /* -1: of this process alone */
    uint64_t number; /* the system's, no other memory has it: st_ino; 0: of this process alone */
    uint64_t life;   /* counted up: the same address may be other memory later */
};

/* Of the whole process, since memory outlives contexts.  Any thread, as all that follows. */
void tci_memories_add(struct tci_memory *memory);
void tci_memories_del(struct tci_memory *memory);
/* Whoever keeps something about memory is told before it goes, on the thread that frees it; `gone`
 * calls nothing of this file.  Embedded in its owner's object. */
struct tci_memories_watch {
    struct tci_memories_watch *prev, *next;
    void (*gone)(struct tci_memories_watch *self, const struct tci_memory *memory);
};
void tci_memories_watch(struct tci_memories_watch *watch);
void tci_memories_unwatch(struct tci_memories_watch *watch);
/* A copy of the one that contains all of `len` bytes at `data`; false: none does. */
bool tci_memories_find(const void *data, size_t len, struct tci_memory *copy_out);

#endif
