/* narrow.c - f32 as 16- or 8-bit floats, in blocks that share a power of two. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's scale is the power of two that brings its largest finite magnitude as high as the type
 * allows without overflow.  Multiplying by it is exact, so an element is rounded once.  The layout
 * is that of the OCP Microscaling formats (2023) with blocks of 256 instead of 32, since what is
 * lost stays in a residual here.
 */
#include "algo/narrow.h"

#include <math.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/reduce.h"
#include "core/reduce_table.h"

/* Exponents of scales: from the smallest subnormal f32 that a code times the scale may be (f16's
 * smallest is 2^-24) to the largest. */
enum { SCALE_MIN = -125, SCALE_MAX = 127, SCALE_BIAS = 127 };

static const struct tci_narrow_loops *best_loops(void)
{
#ifdef TCI_HAVE_X86_KERNELS
    if (tci_isa_usable(TCI_ISA_AVX2))
        return &tci_narrow_loops_avx2;
#endif
    return &tci_narrow_loops_plain;
}

bool tci_narrow_init(struct tci_narrow *narrow, tc_dtype_t dtype)
{
    static const struct tci_narrow types[] = {
        {TC_DTYPE_BF16, 2, false, 127, 0x1.fep127F, NULL},
        {TC_DTYPE_F16, 2, true, 15, 65504, NULL},
        {TC_DTYPE_F8E4M3, 1, true, 8, 448, NULL},
        {TC_DTYPE_F8E5M2, 1, true, 15, 57344, NULL},
    };

    for (size_t t = 0; t < TCI_LEN(types); t++) {
        if (types[t].dtype != dtype)
            continue;
        *narrow = types[t];
        narrow->loops = best_loops();
        return true;
    }
    return false;
}

static size_t blocks_of(size_t count)
{
    return count / TCI_NARROW_BLOCK + (count % TCI_NARROW_BLOCK != 0);
}

size_t tci_narrow_bytes(const struct tci_narrow *narrow, size_t count)
{
    return count * narrow->size + (narrow->is_scaled ? blocks_of(count) : 0);
}

size_t tci_narrow_len(size_t count, size_t block)
{
    return tci_min(count - block * TCI_NARROW_BLOCK, TCI_NARROW_BLOCK);
}

/* ---- a block ------------------------------------------------------------------------------ */

/* The exponent of the scale that the values of a block are divided by; `most` is the largest finite
 * magnitude. */
static int scale_of(const struct tci_narrow *narrow, double most)
{
    int exponent;

    if (most == 0 || !narrow->is_scaled)
        return 0;
    exponent = ilogb(most) - narrow->top;
    if (ldexp(most, -exponent) > (double)narrow->max)
        exponent++;
    return exponent < SCALE_MIN ? SCALE_MIN : exponent > SCALE_MAX ? SCALE_MAX : exponent;
}

/* A value that rounds up to 2^128 takes the code below.  Seldom needed. */
static void keep_finite(const struct tci_narrow *narrow, int exponent, uint16_t *codes)
{
    float values[TCI_NARROW_BLOCK], scaled[TCI_NARROW_BLOCK];

    narrow->loops->from_codes(narrow, codes, 1, values);
    narrow->loops->from_codes(narrow, codes, ldexpf(1, exponent), scaled);
    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++)
        codes[i] -= isfinite(values[i]) && isinf(scaled[i]);
}

static void put(const struct tci_narrow *narrow, uint16_t *codes, int exponent, uint8_t *part,
                size_t count, size_t block)
{
    size_t len = tci_narrow_len(count, block);
    uint8_t *to = part + block * TCI_NARROW_BLOCK * narrow->size;

    if (narrow->is_scaled && exponent + narrow->top >= 127)
        keep_finite(narrow, exponent, codes);
    if (narrow->size == sizeof(*codes))
        memcpy(to, codes, len * sizeof(*codes));
    else
        for (size_t i = 0; i < len; i++)
            to[i] = (uint8_t)codes[i];
    if (narrow->is_scaled)
        part[count * narrow->size + block] = (uint8_t)(exponent + SCALE_BIAS);
}

void tci_narrow_encode(const struct tci_narrow *narrow, const float *values, size_t len,
                       uint8_t *part, size_t count, size_t block)
{
    uint16_t codes[TCI_NARROW_BLOCK];
    float padded[TCI_NARROW_BLOCK];
    int exponent;

    TC_ASSERT(len <= tci_narrow_len(count, block));
    if (len < TCI_NARROW_BLOCK) {
        memset(padded, 0, sizeof(padded));
        memcpy(padded, values, len * sizeof(*values));
        values = padded;
    }
    exponent = scale_of(narrow, (double)narrow->loops->largest(values));
    narrow->loops->to_codes(narrow, values, ldexpf(1, -exponent), codes);
    put(narrow, codes, exponent, part, count, block);
}

void tci_narrow_encode_wide(const struct tci_narrow *narrow, const double *values, size_t len,
                            uint8_t *part, size_t count, size_t block)
{
    uint16_t codes[TCI_NARROW_BLOCK];
    double padded[TCI_NARROW_BLOCK];
    float scaled[TCI_NARROW_BLOCK];
    int exponent;

    TC_ASSERT(len <= tci_narrow_len(count, block));
    if (len < TCI_NARROW_BLOCK) {
        memset(padded, 0, sizeof(padded));
        memcpy(padded, values, len * sizeof(*values));
        values = padded;
    }
    exponent = scale_of(narrow, narrow->loops->largest_wide(values));
    narrow->loops->narrow_wide(values, ldexp(1, -exponent), (double)narrow->max, scaled);
    narrow->loops->to_codes(narrow, scaled, 1, codes);
    put(narrow, codes, exponent, part, count, block);
}

void tci_narrow_decode(const struct tci_narrow *narrow, const uint8_t *part, size_t count,
                       size_t block, float *values)
{
    size_t len = tci_narrow_len(count, block);
    const uint8_t *from = part + block * TCI_NARROW_BLOCK * narrow->size;
    int exponent = narrow->is_scaled ? (int)part[count * narrow->size + block] - SCALE_BIAS : 0;
    uint16_t codes[TCI_NARROW_BLOCK] = {0};
    float whole[TCI_NARROW_BLOCK];

    /* A peer may have sent anything. */
    exponent = exponent < SCALE_MIN ? SCALE_MIN : exponent > SCALE_MAX ? SCALE_MAX : exponent;
    if (narrow->size == sizeof(*codes))
        memcpy(codes, from, len * sizeof(*codes));
    else
        for (size_t i = 0; i < len; i++)
            codes[i] = from[i];
    narrow->loops->from_codes(narrow, codes, ldexpf(1, exponent), whole);
    memcpy(values, whole, len * sizeof(*values));
}
