/* host.c - which host this process runs on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/host.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/random.h"

static bool read_boot_id(char *text, size_t room, size_t *len_out)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return false;
    got = read(fd, text, room);
    close(fd);
    if (got <= 0)
        return false;
    *len_out = (size_t)got;
    return true;
}

uint64_t tci_host_id(void)
{
    uint64_t id = 0xcbf29ce484222325u;
    struct stat space;
    char boot_id[64];
    size_t len;

    if (read_boot_id(boot_id, sizeof boot_id, &len) && stat("/proc/self/ns/net", &space) == 0) {
        uint64_t inode = space.st_ino;

        id = tci_host_hash(id, boot_id, len);
        return tci_host_hash(id, &inode, sizeof inode);
    }
    if (!tci_random(&id, sizeof id)) {
        pid_t self = getpid();

        id = tci_host_hash(id, &self, sizeof self);
    }
    return id;
}
