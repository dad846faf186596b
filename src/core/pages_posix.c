/* pages_posix.c - pages of this process alone, from malloc's heap. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/base.h"

void *tci_pages_make(size_t bytes, int *fd_out, uint64_t *number_out)
{
    void *data;

    *fd_out = -1;
    *number_out = 0;
    if (posix_memalign(&data, (size_t)sysconf(_SC_PAGESIZE), bytes) != 0)
        return NULL;
    return memset(data, 0, bytes);
}

void tci_pages_end(void *data, size_t bytes, int fd)
{
    (void)bytes;
    (void)fd;
    free(data);
}

/* posix_fallocate(3) is an option that not every system has. */
int tci_pages_reserve(int fd, size_t bytes)
{
    static const char zeros[16 * 1024];

    for (size_t at = 0; at < bytes;) {
        size_t len = tci_min(bytes - at, sizeof(zeros));
        ssize_t put = pwrite(fd, zeros, len, (off_t)at);

        if (put < 0 && errno != EINTR)
            return errno;
        at += put < 0 ? 0 : (size_t)put;
    }
    return 0;
}

/* Aligned as a huge page is, with as much before it: the system gives pages when they are touched,
 * which of those only the last one is. */
void *tci_pages_huge(size_t bytes)
{
    size_t span;
    void *memory;

    if (__builtin_add_overflow(bytes, TCI_HUGE_BYTES, &span) ||
        posix_memalign(&memory, TCI_HUGE_BYTES, span) != 0)
        return NULL;
    return (char *)memory + TCI_HUGE_BYTES;
}

void tci_pages_huge_end(void *block, size_t bytes)
{
    (void)bytes;
    free((char *)block - TCI_HUGE_BYTES);
}
