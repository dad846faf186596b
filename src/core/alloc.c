/* alloc.c - memory with a count of what is alive and failures on demand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/pages.h"

#define RAW_ALIGN 64u

/* Statistics and test switches: relaxed, nothing is published through them. */
static atomic_uint_fast64_t live_count, total_count;
static atomic_uint_fast64_t fail_left; /* 1: the next one fails; 0: none */
static atomic_bool fail_forever;

static bool must_fail(void)
{
    uint_fast64_t left = atomic_load_explicit(&fail_left, memory_order_relaxed);

    while (left != 0) {
        if (left == 1 && atomic_load_explicit(&fail_forever, memory_order_relaxed))
            return true;
        if (atomic_compare_exchange_weak_explicit(&fail_left, &left, left - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return left == 1;
    }
    return false;
}

static void *counted(void *ptr)
{
    if (ptr == NULL)
        return NULL;
    atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&total_count, 1, memory_order_relaxed);
    return ptr;
}

static void uncount(void)
{
    uint_fast64_t before = atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);

    TC_ASSERT(before > 0);
}

void *tci_alloc(size_t bytes)
{
    return must_fail() ? NULL : counted(calloc(1, tci_max(bytes, 1)));
}

void *tci_alloc_array(size_t count, size_t each)
{
    size_t bytes;

    return tci_array_bytes(count, each, &bytes) ? tci_alloc(bytes) : NULL;
}

void *tci_alloc_raw(size_t bytes)
{
    if (bytes > SIZE_MAX - RAW_ALIGN || must_fail())
        return NULL;
    bytes = (tci_max(bytes, 1) + RAW_ALIGN - 1) & ~(size_t)(RAW_ALIGN - 1);
    return counted(aligned_alloc(RAW_ALIGN, bytes));
}

void *tci_realloc_array(void *ptr, size_t count, size_t each)
{
    size_t bytes;

    if (!tci_array_bytes(count, each, &bytes))
        return NULL;
    if (ptr == NULL)
        return tci_alloc(bytes);
    return must_fail() ? NULL : realloc(ptr, tci_max(bytes, 1));
}

char *tci_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = tci_alloc(bytes);

    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

void tci_free(void *ptr)
{
    if (ptr == NULL)
        return;
    uncount();
    free(ptr);
}

void *tci_alloc_huge(size_t bytes)
{
    TC_ASSERT(bytes % TCI_HUGE_BYTES == 0);
    return must_fail() ? NULL : counted(tci_pages_huge(bytes));
}

void tci_free_huge(void *block, size_t bytes)
{
    if (block == NULL)
        return;
    uncount();
    tci_pages_huge_end(block, bytes);
}

void tci_alloc_fail_at(uint64_t n, int forever)
{
    atomic_store_explicit(&fail_forever, forever != 0, memory_order_relaxed);
    atomic_store_explicit(&fail_left, n, memory_order_relaxed);
}

uint64_t tci_alloc_live(void)
{
    return atomic_load_explicit(&live_count, memory_order_relaxed);
}

uint64_t tci_alloc_total(void)
{
    return atomic_load_explicit(&total_count, memory_order_relaxed);
}
