/* buffer.c - memory for tensors: of this library's making, or wrapped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tcdist/buffer.h"

#include <stdint.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/context.h"
#include "core/error.h"
#include "core/memories.h"
#include "core/pages.h"

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

static int map(tc_buffer *buffer, size_t bytes)
{
    struct tci_memory *shared = &buffer->shared;
    void *data = tci_pages_make(bytes, &shared->fd, &shared->number);

    if (data == NULL)
        return -1;
    buffer->data = data;
    buffer->mapped_bytes = bytes;
    shared->data = data;
    shared->bytes = bytes;
    tci_memories_add(shared);
    return 0;
}

static void unmap(tc_buffer *buffer)
{
    tci_memories_del(&buffer->shared);
    tci_pages_end(buffer->data, buffer->mapped_bytes, buffer->shared.fd);
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
