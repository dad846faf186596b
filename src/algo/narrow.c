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

/* So that each type has loops of its own, without branches, that compilers make vectors of. */
#define INLINE static inline __attribute__((always_inline))

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

/* ---- elements to codes ---------------------------------------------------------------------- */

/* The steps of tci_small_from_f32() with every choice a choice between two numbers. */
INLINE unsigned small_code(float value, const struct tci_small_float *format)
{
    uint32_t bits = tci_f32_bits(value), magnitude = bits & UINT32_C(0x7fffffff);
    unsigned cut = 23 - format->mantissa, sign = (unsigned)(bits >> 31) << (format->width - 1);
    uint32_t anchor = (127 + 1 - format->bias + cut) << 23;
    uint32_t low = tci_f32_bits(tci_f32_from_bits(magnitude) + tci_f32_from_bits(anchor)) - anchor;
    uint32_t high = ((magnitude + (UINT32_C(1) << (cut - 1)) - 1 + (magnitude >> cut & 1)) >> cut) -
                    ((127 - format->bias) << format->mantissa);
    uint32_t code = magnitude < (127 + 1 - format->bias) << 23 ? low : high;

    code = code > format->finite ? format->overflow : code;
    code = magnitude > UINT32_C(0x7f800000) ? format->nan : code;
    return code == format->nan ? code : code | sign;
}

/* The range is that of f32: what would round up to infinity takes the largest value. */
INLINE unsigned bf16_code(float value)
{
    uint32_t bits = tci_f32_bits(value), magnitude = bits & UINT32_C(0x7fffffff);
    uint32_t code = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;

    code = magnitude < UINT32_C(0x7f800000) && code > 0x7f7f ? 0x7f7f : code;
    return magnitude > UINT32_C(0x7f800000) ? TCI_BF16_NAN : code | bits >> 31 << 15;
}

INLINE void small_codes(const float *values, float factor, uint16_t *codes,
                        const struct tci_small_float *format)
{
    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++)
        codes[i] = (uint16_t)small_code(values[i] * factor, format);
}

INLINE void small_values(const uint16_t *codes, float scale, float *values,
                         const struct tci_small_float *format)
{
    float up = tci_f32_from_bits((127 + 127 - format->bias) << 23);
    uint32_t infinity = format->overflow == format->nan ? TCI_F32_NAN : UINT32_C(0x7f800000);

    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++) {
        uint32_t sign = (uint32_t)(codes[i] >> (format->width - 1)) << 31;
        uint32_t magnitude = codes[i] & ((1u << (format->width - 1)) - 1);
        uint32_t bits =
            tci_f32_bits(tci_f32_from_bits(magnitude << (23 - format->mantissa)) * up * scale);

        bits = magnitude == format->overflow ? infinity : bits;
        bits = magnitude > format->finite && magnitude != format->overflow ? TCI_F32_NAN : bits;
        sign = bits == TCI_F32_NAN ? 0 : sign;
        values[i] = tci_f32_from_bits(bits | sign);
    }
}

/* All of a block, whatever its length. */
static void to_codes(const struct tci_narrow *narrow, const float *values, float factor,
                     uint16_t *codes)
{
    switch (narrow->dtype) {
    case TC_DTYPE_BF16:
        for (size_t i = 0; i < TCI_NARROW_BLOCK; i++)
            codes[i] = (uint16_t)bf16_code(values[i]);
        break;
    case TC_DTYPE_F16:
        small_codes(values, factor, codes, &tci_f16);
        break;
    case TC_DTYPE_F8E4M3:
        small_codes(values, factor, codes, &tci_f8e4m3);
        break;
    default:
        small_codes(values, factor, codes, &tci_f8e5m2);
    }
}

static void from_codes(const struct tci_narrow *narrow, const uint16_t *codes, float scale,
                       float *values)
{
    switch (narrow->dtype) {
    case TC_DTYPE_BF16:
        for (size_t i = 0; i < TCI_NARROW_BLOCK; i++)
            values[i] = tci_bf16_to_f32(codes[i]);
        break;
    case TC_DTYPE_F16:
        small_values(codes, scale, values, &tci_f16);
        break;
    case TC_DTYPE_F8E4M3:
        small_values(codes, scale, values, &tci_f8e4m3);
        break;
    default:
        small_values(codes, scale, values, &tci_f8e5m2);
    }
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

    from_codes(narrow, codes, 1, values);
    from_codes(narrow, codes, ldexpf(1, exponent), scaled);
    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++)
        codes[i] -= isfinite(values[i]) && isinf(scaled[i]);
}

static void put(const struct tci_narrow *narrow, const uint16_t *codes, int exponent, uint8_t *part,
                size_t count, size_t block)
{
    size_t len = tci_narrow_len(count, block);
    uint8_t *to = part + block * TCI_NARROW_BLOCK * narrow->size;

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
    uint32_t most = 0;
    int exponent;

    TC_ASSERT(len <= tci_narrow_len(count, block));
    if (len < TCI_NARROW_BLOCK) {
        memset(padded, 0, sizeof(padded));
        memcpy(padded, values, len * sizeof(*values));
        values = padded;
    }
    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++) {
        uint32_t magnitude = tci_f32_bits(values[i]) & UINT32_C(0x7fffffff);

        magnitude = magnitude < UINT32_C(0x7f800000) ? magnitude : 0;
        most = magnitude > most ? magnitude : most;
    }
    exponent = scale_of(narrow, (double)tci_f32_from_bits(most));
    to_codes(narrow, values, ldexpf(1, -exponent), codes);
    if (narrow->is_scaled && exponent + narrow->top >= 127)
        keep_finite(narrow, exponent, codes);
    put(narrow, codes, exponent, part, count, block);
}

/* The f32 that rounds to a narrower type as the f64 does: cut, with the last bit set where
 * something was cut off (rounding to odd, Boldo and Melquiond 2008). */
INLINE float round_to_odd(double value)
{
    float cut = (float)value;
    uint32_t bits = tci_f32_bits(cut) - (fabs((double)cut) > fabs(value) ? 1 : 0);

    return tci_f32_from_bits((double)cut != value ? bits | 1 : bits);
}

void tci_narrow_encode_wide(const struct tci_narrow *narrow, const double *values, size_t len,
                            uint8_t *part, size_t count, size_t block)
{
    const double beyond = 0x1.ffffffp127; /* from here on f32 rounds to infinity */
    uint16_t codes[TCI_NARROW_BLOCK];
    float odd[TCI_NARROW_BLOCK] = {0};
    double most = 0, factor, max = (double)narrow->max;
    int exponent;

    TC_ASSERT(len <= tci_narrow_len(count, block));
    for (size_t i = 0; i < len; i++) {
        double magnitude = fabs(values[i]);

        magnitude = magnitude <= (double)FLT_MAX ? magnitude : 0;
        most = magnitude > most ? magnitude : most;
    }
    exponent = scale_of(narrow, most);
    factor = ldexp(1, -exponent);
    for (size_t i = 0; i < len; i++) {
        double magnitude = fabs(values[i]), scaled = magnitude * factor;

        scaled = scaled > max ? max : scaled;
        scaled = magnitude < beyond ? scaled : magnitude * (double)INFINITY;
        odd[i] = copysignf(round_to_odd(scaled), (float)values[i]);
    }
    to_codes(narrow, odd, 1, codes);
    if (narrow->is_scaled && exponent + narrow->top >= 127)
        keep_finite(narrow, exponent, codes);
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
    from_codes(narrow, codes, ldexpf(1, exponent), whole);
    memcpy(values, whole, len * sizeof(*values));
}
