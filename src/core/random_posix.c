/* random_posix.c - random bytes from the device that every Unix has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/random.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool tci_random(void *out, size_t len)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC), cause;
    ssize_t got;

    if (fd < 0)
        return false;
    do {
        got = read(fd, out, len);
    } while (got < 0 && errno == EINTR);
    cause = got < 0 ? errno : EIO;
    (void)close(fd);
    errno = cause;
    return got == (ssize_t)len;
}
