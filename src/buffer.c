/* buffer.c - memory for tensors: of this library's making, or wrapped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tcdist/buffer.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/context.h"
#include "core/error.h"
#include "core/memories.h"

/* From two huge pages on, asking for them saves most of the page faults (a fresh 64 MiB takes 4 ms
 * instead of 218). */
#define HUGE_BYTES ((size_t)2 << 20)

struct tc_buffer {
    void *data; /* owned when `mapped_bytes` is not 0 */
    size_t bytes;
    size_t mapped_bytes;
    struct tci_memory
        shared; /* fd: owned, the memory for ranks of this host; -1: cannot be shared */
};

static tc_buffer *make(void *data, size_t bytes)
{
    tc_buffer *buffer = tci_alloc(sizeof(*buffer));

    if (buffer == NULL)
        return NULL;
    buffer->data = data;
    buffer->bytes = bytes;
    buffer->shared.fd = -1;
    return buffer;
}

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

/* Whether shared memory may have huge pages here. */
static bool may_be_huge(void)
{
    int fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY | O_CLOEXEC);
    char text[128] = "";
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return got > 0 && strstr(text, "[never]") == NULL && strstr(text, "[deny]") == NULL;
}

/* Memory of a descriptor; where there is none to be had, and where it would have small pages alone
 * though much of it is asked for, memory of this process alone, which ranks of this host read as
 * any other: 64 MiB of small pages take them twice as long as huge ones, mapped or not. */
static int map(tc_buffer *buffer, size_t bytes)
{
    struct tci_memory *shared = &buffer->shared;
    void *data = NULL;

    shared->fd = bytes >= HUGE_BYTES && !may_be_huge() ? -1 : make_shared(bytes, &shared->number);
    if (shared->fd >= 0)
        data = tci_memory_map(shared->fd, bytes, PROT_READ | PROT_WRITE);
    if (data == NULL && shared->fd >= 0) {
        close(shared->fd);
        shared->fd = -1;
        shared->number = 0;
    }
    if (data == NULL)
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return -1;
    if (bytes >= HUGE_BYTES && shared->fd < 0)
        madvise(data, bytes, MADV_HUGEPAGE); /* advice: small pages will do */
    buffer->data = data;
    buffer->mapped_bytes = bytes;
    shared->data = data;
    shared->bytes = bytes;
    tci_memories_add(shared);
    return 0;
}

/* Others may still map it: its pages go at once nevertheless. */
static void unmap(tc_buffer *buffer)
{
    struct tci_memory *shared = &buffer->shared;

    tci_memories_del(shared);
    if (shared->fd >= 0)
        (void)fallocate(shared->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        (off_t)shared->bytes);
    munmap(buffer->data, buffer->mapped_bytes);
    if (shared->fd >= 0)
        close(shared->fd);
}

tc_status_t tc_buffer_alloc(tc_context *context, size_t bytes, tc_buffer **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    tc_buffer *buffer;

    if (context == NULL || out == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "buffer_alloc", "the context or the result is NULL");
    if (tci_context_is_foreign(context))
        return tci_context_refuse(context, "buffer_alloc");
    if (bytes > (SIZE_MAX >> 1) - page)
        return tci_fail(TC_ERR_ALLOC, "buffer_alloc", "no memory for %zu bytes", bytes);
    buffer = make(NULL, bytes);
    if (buffer == NULL || map(buffer, bytes == 0 ? page : (bytes + page - 1) / page * page) != 0) {
        tci_free(buffer);
        return tci_fail(TC_ERR_ALLOC, "buffer_alloc", "no memory for %zu bytes", bytes);
    }
    *out = buffer;
    return TC_OK;
}

tc_status_t tc_buffer_from_ptr(tc_context *context, void *ptr, size_t bytes, tc_buffer **out)
{
    tc_buffer *buffer;

    if (context == NULL || out == NULL || (ptr == NULL && bytes != 0))
        return tci_fail(TC_ERR_INVALID_ARG, "buffer_from_ptr",
                        "the context, the memory or the result is NULL");
    if (tci_context_is_foreign(context))
        return tci_context_refuse(context, "buffer_from_ptr");
    buffer = make(ptr, bytes);
    if (buffer == NULL)
        return tci_fail(TC_ERR_ALLOC, "buffer_from_ptr", "no memory for a buffer");
    *out = buffer;
    return TC_OK;
}

tc_status_t tc_buffer_map(tc_buffer *buffer, void **out)
{
    if (buffer == NULL || out == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "buffer_map", "the buffer or the result is NULL");
    *out = buffer->data;
    return TC_OK;
}

size_t tc_buffer_size(const tc_buffer *buffer)
{
    return buffer == NULL ? 0 : buffer->bytes;
}

tc_status_t tc_buffer_free(tc_context *context, tc_buffer *buffer)
{
    (void)context;
    if (buffer == NULL)
        return TC_OK;
    if (buffer->mapped_bytes != 0)
        unmap(buffer);
    tci_free(buffer);
    return TC_OK;
}
