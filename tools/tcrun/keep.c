/* keep.c - a process forked from tcrun lets go of what others may wait for the end of. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "keep.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/close_range.h>

static int compare(const void *a, const void *b)
{
    int left = *(const int *)a, right = *(const int *)b;

    return (left > right) - (left < right);
}

void keep_descriptors(int *fds, size_t count)
{
    unsigned next = 0;

    qsort(fds, count, sizeof *fds, compare);
    for (size_t i = 0; i < count; i++) {
        if (fds[i] < 0)
            continue;
        if ((unsigned)fds[i] > next)
            close_range(next, (unsigned)fds[i] - 1, 0);
        next = (unsigned)fds[i] + 1;
    }
    close_range(next, UINT_MAX, 0);
}

void keep_no_standard(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i <= STDERR_FILENO; i++)
        if (fd != i)
            dup2(fd, i);
    if (fd > STDERR_FILENO)
        close(fd);
}
