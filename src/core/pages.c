/* pages.c - pages by mmap(2), in sealed memory files where they are to be shared. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pages.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"

#ifndef MADV_COLLAPSE /* younger than some systems' headers */
#define MADV_COLLAPSE 25
#endif

#define PAGE_BYTES ((size_t)64 * 1024) /* the largest page of the processors we run on */

/* ---- Shared --------------------------------------------------------------------------------- */

/* Memory that cannot shrink, so that whoever maps it need not fear for its pages; -1: none. */
static int make_shared(size_t bytes, uint64_t *number_out)
{
    int fd = memfd_create("tcdist", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat info;

    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) == 0 && fstat(fd, &info) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        *number_out = info.st_ino;
        return fd;
    }
    close(fd);
    return -1;
}

/* Whether shared memory gets huge pages here when it is touched. */
static bool is_huge_when_touched(void)
{
    int fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY | O_CLOEXEC);
    char text[128] = "";
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return got > 0 && strstr(text, "[never]") == NULL && strstr(text, "[deny]") == NULL;
}

void *tci_pages_map(int fd, size_t bytes, int protection)
{
    size_t room = bytes + TCI_HUGE_BYTES, before;
    uint8_t *at, *data;

    if (bytes < TCI_HUGE_BYTES) {
        data = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
        return data == MAP_FAILED ? NULL : data;
    }
    at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    before = (TCI_HUGE_BYTES - (uintptr_t)at % TCI_HUGE_BYTES) % TCI_HUGE_BYTES;
    data = mmap(at + before, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
    if (data == MAP_FAILED) {
        munmap(at, room);
        return NULL;
    }
    if (before > 0)
        munmap(at, before);
    munmap(data + bytes, room - before - bytes);
    madvise(data, bytes, MADV_HUGEPAGE); /* advice: small pages will do */
    return data;
}

/* What nobody gets by touching it (shmem_enabled is "never" as a rule) the system gives to whoever
 * asks for it, since Linux 6.1: a huge page for each small one that is there.  A file that has no
 * page for want of memory says so; to touch one would be a signal. */
static bool make_huge(void *data, size_t bytes, int fd)
{
    size_t whole = bytes - bytes % TCI_HUGE_BYTES;

    for (size_t at = 0; at < whole; at += TCI_HUGE_BYTES)
        if (fallocate(fd, 0, (off_t)at, 1) != 0)
            return false;
    return madvise(data, whole, MADV_COLLAPSE) == 0;
}

/* Memory of a descriptor; NULL where there is none to be had, and where it would have small pages
 * alone though much of it is asked for: 64 MiB of these take twice as long as huge ones, mapped or
 * not. */
static void *make_lent(size_t bytes, int *fd_out, uint64_t *number_out)
{
    int fd = make_shared(bytes, number_out);
    void *data = fd < 0 ? NULL : tci_pages_map(fd, bytes, PROT_READ | PROT_WRITE);

    *fd_out = fd;
    if (data != NULL &&
        (bytes < TCI_HUGE_BYTES || is_huge_when_touched() || make_huge(data, bytes, fd)))
        return data;
    if (data != NULL)
        munmap(data, bytes);
    if (fd >= 0)
        close(fd);
    *fd_out = -1;
    *number_out = 0;
    return NULL;
}

/* Memory that others may map, or else of this process alone, which ranks of this host read as any
 * other. */
void *tci_pages_make(size_t bytes, int *fd_out, uint64_t *number_out)
{
    void *data = make_lent(bytes, fd_out, number_out);

    if (data != NULL)
        return data;
    data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return NULL;
    /* From a huge page on, asking for them saves most of the page faults (a fresh 64 MiB takes 4 ms
     * instead of 218); advice: small pages will do. */
    if (bytes >= TCI_HUGE_BYTES)
        madvise(data, bytes, MADV_HUGEPAGE);
    return data;
}

void tci_pages_end(void *data, size_t bytes, int fd)
{
    if (fd >= 0)
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
    munmap(data, bytes);
    if (fd >= 0)
        close(fd);
}

int tci_pages_reserve(int fd, size_t bytes)
{
    return posix_fallocate(fd, 0, (off_t)bytes);
}

/* ---- Huge ----------------------------------------------------------------------------------- */

/* One page more than asked lies before the aligned address; what is beyond that goes back. */
void *tci_pages_huge(size_t bytes)
{
    size_t span, front, back;
    char *map, *block;

    if (__builtin_add_overflow(bytes, TCI_HUGE_BYTES + PAGE_BYTES, &span))
        return NULL;
    map = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    block = (char *)(((uintptr_t)map + PAGE_BYTES + TCI_HUGE_BYTES - 1) &
                     ~(uintptr_t)(TCI_HUGE_BYTES - 1));
    front = (size_t)(block - map) - PAGE_BYTES;
    back = span - front - PAGE_BYTES - bytes;
    /* Giving the ends back can only fail for want of kernel memory; they stay untouched then. */
    if (front > 0)
        (void)munmap(map, front);
    if (back > 0)
        (void)munmap(block + bytes, back);
    (void)madvise(block, bytes, MADV_HUGEPAGE); /* advice: small pages work too */
    return block;
}

void tci_pages_huge_end(void *block, size_t bytes)
{
    int rc = munmap((char *)block - PAGE_BYTES, bytes + PAGE_BYTES);

    TC_ASSERT(rc == 0);
}
