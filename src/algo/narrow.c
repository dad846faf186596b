/* narrow.c - f32 as 16- or 8-bit floats, in blocks that share a power of two. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's scale is the power of two that brings its largest finite magnitude as high as the type
 * allows without overflow.  Multiplying by it is exact, so an element is rounded once.  The layout
 * is that of the OCP Microscaling formats (2023) with blocks of 256 instead of 32, since what is
 * lost stays in a residual here.
 */
#include "algo/narrow.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/dtype.h"

/* Exponents of scales: from the smallest subnormal f32 that a code times the scale may be (f16's
 * smallest is 2^-24) to the largest. */
enum { SCALE_MIN = -125, SCALE_MAX = 127, SCALE_BIAS = 127 };

bool tci_narrow_init(struct tci_narrow *narrow, tc_dtype_t dtype)
{
    static const struct tci_narrow types[] = {
        {TC_DTYPE_BF16, 2, false, 127, 0x1.fep127F},
        {TC_DTYPE_F16, 2, true, 15, 65504},
        {TC_DTYPE_F8E4M3, 1, true, 8, 448},
        {TC_DTYPE_F8E5M2, 1, true, 15, 57344},
    };

    for (size_t t = 0; t < TCI_LEN(types); t++) {
        if (types[t].dtype != dtype)
            continue;
        *narrow = types[t];
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

/* ---- one element -------------------------------------------------------------------------- */

/* The f32 that rounds to a narrower type as the f64 does: cut, with the last bit set where
 * something was cut off (rounding to odd, Boldo and Melquiond 2008). */
static float round_to_odd(double value)
{
    float cut = (float)value;
    uint32_t bits;

    if (isnan(value) || (double)cut == value)
        return cut;
    bits = tci_f32_bits(cut);
    if (fabs((double)cut) > fabs(value))
        bits--;
    return tci_f32_from_bits(bits | 1);
}

static uint16_t to_code(const struct tci_narrow *narrow, float value)
{
    switch (narrow->dtype) {
    case TC_DTYPE_BF16:
        return tci_bf16_from_f32(value);
    case TC_DTYPE_F16:
        return tci_f16_from_f32(value);
    case TC_DTYPE_F8E4M3:
        return tci_f8e4m3_from_f32(value);
    default:
        return tci_f8e5m2_from_f32(value);
    }
}

static float from_code(const struct tci_narrow *narrow, uint16_t code)
{
    switch (narrow->dtype) {
    case TC_DTYPE_BF16:
        return tci_bf16_to_f32(code);
    case TC_DTYPE_F16:
        return tci_f16_to_f32(code);
    case TC_DTYPE_F8E4M3:
        return tci_f8e4m3_to_f32((uint8_t)code);
    default:
        return tci_f8e5m2_to_f32((uint8_t)code);
    }
}

/* ---- a block ------------------------------------------------------------------------------ */

/* The exponent of the scale that values are divided by. */
static int scale_of(const struct tci_narrow *narrow, const double *values, size_t len)
{
    double most = 0;
    int exponent;

    for (size_t i = 0; i < len; i++) {
        double magnitude = fabs(values[i]);

        if (magnitude > most && magnitude <= (double)FLT_MAX)
            most = magnitude;
    }
    if (most == 0)
        return 0;
    exponent = ilogb(most) - narrow->top;
    if (ldexp(most, -exponent) > (double)narrow->max)
        exponent++;
    return exponent < SCALE_MIN ? SCALE_MIN : exponent > SCALE_MAX ? SCALE_MAX : exponent;
}

/* Beyond f32's range is infinity; within it a value stays finite. */
static float fit(const struct tci_narrow *narrow, double value, double factor)
{
    if (isnan(value) || isinf((float)value))
        return (float)value;
    value *= factor;
    if (fabs(value) > (double)narrow->max)
        return value > 0 ? narrow->max : -narrow->max;
    return round_to_odd(value);
}

/* A value that rounds up to 2^128 takes the code below. */
static uint16_t keep_finite(const struct tci_narrow *narrow, uint16_t code, int exponent)
{
    float value = from_code(narrow, code);

    return isfinite(value) && isinf(value * ldexpf(1, exponent)) ? (uint16_t)(code - 1) : code;
}

void tci_narrow_encode(const struct tci_narrow *narrow, const double *values, size_t len,
                       uint8_t *part, size_t count, size_t block)
{
    size_t room = tci_narrow_len(count, block), first = block * TCI_NARROW_BLOCK;
    int exponent = narrow->is_scaled ? scale_of(narrow, values, len) : 0;
    double factor = ldexp(1, -exponent);

    TC_ASSERT(len <= room);
    for (size_t i = 0; i < room; i++) {
        uint16_t code = i < len ? to_code(narrow, fit(narrow, values[i], factor)) : 0;

        if (narrow->is_scaled && exponent + narrow->top >= 127)
            code = keep_finite(narrow, code, exponent);
        if (narrow->size == 1)
            part[first + i] = (uint8_t)code;
        else
            memcpy(part + (first + i) * sizeof(code), &code, sizeof(code));
    }
    if (narrow->is_scaled)
        part[count * narrow->size + block] = (uint8_t)(exponent + SCALE_BIAS);
}

void tci_narrow_decode(const struct tci_narrow *narrow, const uint8_t *part, size_t count,
                       size_t block, float *values)
{
    size_t len = tci_narrow_len(count, block), first = block * TCI_NARROW_BLOCK;
    int exponent = narrow->is_scaled ? (int)part[count * narrow->size + block] - SCALE_BIAS : 0;
    float scale;

    /* A peer may have sent anything. */
    exponent = exponent < SCALE_MIN ? SCALE_MIN : exponent > SCALE_MAX ? SCALE_MAX : exponent;
    scale = ldexpf(1, exponent);

    for (size_t i = 0; i < len; i++) {
        uint16_t code = part[first + i];

        if (narrow->size == 2)
            memcpy(&code, part + (first + i) * sizeof(code), sizeof(code));
        values[i] = from_code(narrow, code) * scale;
    }
}
