/* shm_region.h - memory that two processes map, and how one finds the other's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SHM_REGION_H
#define TCI_SHM_REGION_H

#include <sys/types.h>

#include "loop/sched.h"
#include "net/shm.h"
#include "net/shm_ring.h"

enum { TCI_SHM_TOKEN = 16, TCI_SHM_VERSION = 3, TCI_SHM_RINGS_AT = 4096 };

/* What lies at the beginning of a region; the rings follow at TCI_SHM_RINGS_AT.  Way and ring 0 go
 * from the rank that has made the region to the other one. */
struct tci_shm_region {
    uint32_t magic, version, ring_bytes, spare;
    uint8_t token[TCI_SHM_TOKEN];  /* told over the link that the two ranks have anyway … */
    uint8_t answer[TCI_SHM_TOKEN]; /* … and the other's, who shows with it that it sees this */
    struct tci_shm_way ways[2];
    struct tci_cpus cpus[2]; /* where the maker may run, and the other */
};

/* Memory of a descriptor that cannot shrink: whoever maps it need not fear for its pages.  It has
 * no name anywhere, and goes with the last process that holds it.  Gives the descriptor, -1 with
 * errno. */
int tci_shm_make(size_t bytes);
/* The memory of another process's descriptor, or of this one's, if it is of that length and cannot
 * shrink; NULL, with the reason, which goes on after "its memory ". */
void *tci_shm_map(pid_t pid, int fd, size_t bytes, const char **why_out);
/* The same for reading alone, of the memory that has this number. */
const void *tci_shm_map_lent(pid_t pid, int fd, size_t bytes, uint64_t number);
/* A pipe, whose writing end others open; 0, or -1 with errno, and both ends are -1. */
int tci_shm_make_bell(int ends[2]);
/* To write to another process's pipe; -1 with errno. */
int tci_shm_open_bell(pid_t pid, int fd);
/* A descriptor that tells whether the process with that number is still the same; -1: none. */
int tci_shm_watch_process(pid_t pid);

/* A new region with a token, and its descriptor; NULL with errno.  Ended by munmap and close. */
struct tci_shm_region *tci_shm_region_new(const uint8_t *token, int *fd_out);
/* Whether it is such a region, with this token. */
bool tci_shm_region_is(const struct tci_shm_region *region, const uint8_t *token);
size_t tci_shm_region_bytes(void);

/* Read another process's memory: what was read, up to `len`; -1 with errno. */
ssize_t tci_shm_read(pid_t pid, uint64_t addr, void *to, size_t len);

#endif
