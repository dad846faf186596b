/* copy.c - copying to memory that another processor reads next. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/copy.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

void tci_copy_away(void *to, const void *from, size_t len)
{
    const uint8_t *src = from;
    uint8_t *dst = to;
    size_t at = (64 - (uintptr_t)to % 64) % 64; /* up to the first whole line */

    if (len < TCI_COPY_AWAY_MIN) {
        memcpy(to, from, len);
        return;
    }
    memcpy(dst, src, at);
    for (; at + 64 <= len; at += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(src + at));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(src + at + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(src + at + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(src + at + 48));

        _mm_stream_si128((__m128i *)(void *)(dst + at), a);
        _mm_stream_si128((__m128i *)(void *)(dst + at + 16), b);
        _mm_stream_si128((__m128i *)(void *)(dst + at + 32), c);
        _mm_stream_si128((__m128i *)(void *)(dst + at + 48), d);
    }
    memcpy(dst + at, src + at, len - at);
    _mm_sfence();
}

#else

void tci_copy_away(void *to, const void *from, size_t len)
{
    memcpy(to, from, len);
}

#endif

/* ---- Through the caches --------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* In leaf 7, ECX. */
#define CPUID_CLDEMOTE (1u << 25)

static bool find_demote(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c & CPUID_CLDEMOTE) != 0;
}

/* Asked but once: in a virtual machine the hypervisor answers, which takes a microsecond. */
static bool can_demote(void)
{
    static atomic_int known; /* 0: not asked so far; 1: no; 2: yes */
    /* relaxed: whoever asks finds the same */
    int found = atomic_load_explicit(&known, memory_order_relaxed);

    if (found == 0) {
        found = find_demote() ? 2 : 1;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found == 2;
}

__attribute__((target("cldemote"))) static void demote(uint8_t *lines, size_t len)
{
    for (size_t at = 0; at < len; at += 64)
        _cldemote(lines + at);
}

void tci_copy_over(void *to, const void *from, size_t len)
{
    memcpy(to, from, len);
    if (can_demote())
        demote(to, len);
}

#else

void tci_copy_over(void *to, const void *from, size_t len)
{
    memcpy(to, from, len);
}

#endif

/* ---- Parts of large payloads ---------------------------------------------------------------- */

/* Two ranks of a host that move more than this fill a third-level cache of 32 MiB with their four
 * buffers, and to read what is overwritten whole is a third of the traffic: 32 MiB that each of
 * them copies take 1.7 ms instead of 2.3 to 2.8, and 2 MiB would 75 us instead of 43. */
#define CACHED_MAX ((size_t)8 << 20)

void tci_copy_part(void *to, const void *from, size_t len, size_t whole)
{
    uintptr_t src = (uintptr_t)from, dst = (uintptr_t)to;
    bool is_apart = src + len <= dst || dst + len <= src;

    if (whole > CACHED_MAX && is_apart)
        tci_copy_away(to, from, len);
    else
        memmove(to, from, len);
}
