/* shm_region.c - anonymous shared memory, made, sealed, found in another process, and mapped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shm_region.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/pages.h"

enum { MAGIC = 0x74637368 };
static_assert(sizeof(struct tci_shm_region) <= TCI_SHM_RINGS_AT, "the rings begin on a page");

bool tci_shm_is_built(void)
{
    return true;
}

int tci_shm_make(size_t bytes)
{
    int fd = memfd_create("tcdist", MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The name of a descriptor of any process; what it is must be known before it is opened. */
static int open_of(pid_t pid, int fd, int flags, mode_t type)
{
    char path[64];
    struct stat info;

    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)pid, fd);
    if (stat(path, &info) != 0)
        return -1;
    if ((info.st_mode & S_IFMT) != type) {
        errno = EINVAL;
        return -1;
    }
    return open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static bool is_safe(int fd, size_t bytes, struct stat *info)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return fstat(fd, info) == 0 && (uint64_t)info->st_size == bytes && seals >= 0 &&
           (seals & F_SEAL_SHRINK) != 0;
}

void *tci_shm_map(pid_t pid, int fd, size_t bytes, const char **why_out)
{
    int opened = open_of(pid, fd, O_RDWR, S_IFREG);
    struct stat info;
    void *data = MAP_FAILED;

    if (opened < 0) {
        *why_out = errno == ENOENT || errno == EINVAL
                       ? "is not seen here: it runs in another container, or is gone"
                       : "may not be opened from here: it belongs to another user, or is protected";
        return NULL;
    }
    *why_out = "has another size, or could shrink";
    if (is_safe(opened, bytes, &info)) {
        *why_out = "cannot be mapped";
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    }
    close(opened);
    return data == MAP_FAILED ? NULL : data;
}

const void *tci_shm_map_lent(pid_t pid, int fd, size_t bytes, uint64_t number)
{
    int opened = open_of(pid, fd, O_RDONLY, S_IFREG);
    struct stat info;
    void *data = NULL;

    if (opened < 0)
        return NULL;
    if (is_safe(opened, bytes, &info) && info.st_ino == number)
        data = tci_pages_map(opened, bytes, PROT_READ);
    close(opened);
    return data;
}

int tci_shm_make_bell(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0)
        return 0;
    ends[0] = ends[1] = -1;
    return -1;
}

/* For reading as well, since to write where nobody reads any more would raise SIGPIPE. */
int tci_shm_open_bell(pid_t pid, int fd)
{
    return open_of(pid, fd, O_RDWR, S_IFIFO);
}

size_t tci_shm_region_bytes(void)
{
    return TCI_SHM_RINGS_AT + 2 * (size_t)TCI_SHM_RING;
}

struct tci_shm_region *tci_shm_region_new(const uint8_t *token, int *fd_out)
{
    size_t bytes = tci_shm_region_bytes();
    struct tci_shm_region *region;
    int fd = tci_shm_make(bytes), error;

    if (fd < 0)
        return NULL;
    region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (region == MAP_FAILED) {
        error = errno;
        close(fd);
        errno = error;
        return NULL;
    }
    region->magic = MAGIC;
    region->version = TCI_SHM_VERSION;
    region->ring_bytes = TCI_SHM_RING;
    memcpy(region->token, token, sizeof(region->token));
    *fd_out = fd;
    return region;
}

bool tci_shm_region_is(const struct tci_shm_region *region, const uint8_t *token)
{
    struct tci_shm_region seen = {
        .magic = region->magic, .version = region->version, .ring_bytes = region->ring_bytes};

    memcpy(seen.token, region->token, sizeof(seen.token));
    return seen.magic == MAGIC && seen.version == TCI_SHM_VERSION &&
           seen.ring_bytes == TCI_SHM_RING && memcmp(seen.token, token, sizeof(seen.token)) == 0;
}

int tci_shm_watch_process(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

ssize_t tci_shm_read(pid_t pid, uint64_t addr, void *to, size_t len)
{
    struct iovec mine = {to, len}, theirs = {(void *)(uintptr_t)addr, len};

    return process_vm_readv(pid, &mine, 1, &theirs, 1, 0);
}
