/* base.h - small things that every file may need. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BASE_H
#define TCI_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCI_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* The object that contains `member` at `ptr`. */
#define tci_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define TCI_NS_PER_S  1000000000ull
#define TCI_NS_PER_MS 1000000ull
#define TCI_NS_PER_US 1000ull
#define TCI_NEVER     UINT64_MAX /* a deadline that never comes */

/* Bytes that no process has memory for: the longest addresses of user space have 56 bits. */
#define TCI_MEMORY_MAX (SIZE_MAX > UINT32_MAX ? SIZE_MAX >> 7 : SIZE_MAX >> 1)

static inline size_t tci_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t tci_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* count * each in *bytes_out; false when that does not fit. */
static inline bool tci_array_bytes(size_t count, size_t each, size_t *bytes_out)
{
    return !__builtin_mul_overflow(count, each, bytes_out);
}

#endif
