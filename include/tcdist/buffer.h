/* buffer.h - memory for tensors: allocated to be shared with this host's ranks, or wrapped. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_BUFFER_H
#define TCDIST_BUFFER_H

#include <stddef.h>

#include "tcdist/context.h"

TC_BEGIN_DECLS

/* Memory with a length, whose owner is this library or the application. */
typedef struct tc_buffer tc_buffer;

/* Allocate zeroed memory, aligned to a page at least, that ranks of this host can share.
 *
 * From 2 MiB on its pages may be there from the beginning, huge ones where the system has them.
 * bytes may be 0.  Fails with TC_ERR_INVALID_ARG or TC_ERR_ALLOC.  Any thread. */
TC_API tc_status_t tc_buffer_alloc(tc_context *context, size_t bytes, tc_buffer **out);

/* Wrap memory that the application owns and keeps until the buffer is freed.  Any thread. */
TC_API tc_status_t tc_buffer_from_ptr(tc_context *context, void *ptr, size_t bytes,
                                      tc_buffer **out);

/* The address of the memory, valid until the buffer is freed.  Any thread. */
TC_API tc_status_t tc_buffer_map(tc_buffer *buffer, void **out);

/* Its length in bytes; 0 for NULL.  Any thread. */
TC_API size_t tc_buffer_size(const tc_buffer *buffer);

/* Free it; not while an operation uses it.  NULL is fine.  Any thread. */
TC_API tc_status_t tc_buffer_free(tc_context *context, tc_buffer *buffer);

TC_END_DECLS

#endif
