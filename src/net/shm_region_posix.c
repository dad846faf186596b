/* shm_region_posix.c - stands for shared memory where the system has no way to make it safe. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shm_region.h"

#include <errno.h>

/*
 * POSIX has shared memory, but such as has a name that outlives its processes, and as its maker can
 * shrink under whoever reads it; and it cannot tell of the death of a process that is no child.  So
 * nobody offers any here (tci_shm_is_built), and what others offer is declined, as it is with
 * TCDIST_SHM=0.
 */
bool tci_shm_is_built(void)
{
    return false;
}

static int lacks(void)
{
    errno = ENOSYS;
    return -1;
}

int tci_shm_make(size_t bytes)
{
    (void)bytes;
    return lacks();
}

void *tci_shm_map(pid_t pid, int fd, size_t bytes, const char **why_out)
{
    (void)pid;
    (void)fd;
    (void)bytes;
    *why_out = "is not seen here: this build cannot share memory";
    return NULL;
}

const void *tci_shm_map_lent(pid_t pid, int fd, size_t bytes, uint64_t number)
{
    (void)pid;
    (void)fd;
    (void)bytes;
    (void)number;
    return NULL;
}

int tci_shm_make_bell(int ends[2])
{
    ends[0] = ends[1] = -1;
    return lacks();
}

int tci_shm_open_bell(pid_t pid, int fd)
{
    (void)pid;
    (void)fd;
    return lacks();
}

int tci_shm_watch_process(pid_t pid)
{
    (void)pid;
    return lacks();
}

struct tci_shm_region *tci_shm_region_new(const uint8_t *token, int *fd_out)
{
    (void)token;
    (void)fd_out;
    (void)lacks();
    return NULL;
}

bool tci_shm_region_is(const struct tci_shm_region *region, const uint8_t *token)
{
    (void)region;
    (void)token;
    return false;
}

size_t tci_shm_region_bytes(void)
{
    return TCI_SHM_RINGS_AT + 2 * (size_t)TCI_SHM_RING;
}

ssize_t tci_shm_read(pid_t pid, uint64_t addr, void *to, size_t len)
{
    (void)pid;
    (void)addr;
    (void)to;
    (void)len;
    return lacks();
}
