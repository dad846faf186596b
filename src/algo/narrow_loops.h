/* narrow_loops.h - the loops of narrow.c over a block, for one family of instructions. */
/* SPDX-License-Identifier: Apache-2.0 */
/* Included once by each family, which defines TARGET, as attributes of its functions, and LOOPS,
 * the name of its table.  Each type has loops of its own, of a fixed length and without branches,
 * that compilers make vectors of. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "algo/narrow.h"
#include "core/dtype.h"

#define HELPER TARGET static inline __attribute__((always_inline))
#define LOOP   TARGET static void

/* The steps of tci_small_from_f32() with every choice a choice between two numbers. */
HELPER unsigned small_code(float value, const struct tci_small_float *format)
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
HELPER unsigned bf16_code(float value)
{
    uint32_t bits = tci_f32_bits(value), magnitude = bits & UINT32_C(0x7fffffff);
    uint32_t code = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;

    code = magnitude < UINT32_C(0x7f800000) && code > 0x7f7f ? 0x7f7f : code;
    return magnitude > UINT32_C(0x7f800000) ? TCI_BF16_NAN : code | bits >> 31 << 15;
}

HELPER void small_codes(const float *values, float factor, uint16_t *codes,
                        const struct tci_small_float *format)
{
    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++)
        codes[i] = (uint16_t)small_code(values[i] * factor, format);
}

HELPER void small_values(const uint16_t *codes, float scale, float *values,
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
LOOP to_codes(const struct tci_narrow *narrow, const float *values, float factor, uint16_t *codes)
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

LOOP from_codes(const struct tci_narrow *narrow, const uint16_t *codes, float scale, float *values)
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

/* The largest finite magnitude. */
TARGET static float largest(const float *values)
{
    uint32_t most = 0;

    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++) {
        uint32_t magnitude = tci_f32_bits(values[i]) & UINT32_C(0x7fffffff);

        magnitude &= 0 - (uint32_t)(magnitude < UINT32_C(0x7f800000));
        most = magnitude > most ? magnitude : most;
    }
    return tci_f32_from_bits(most);
}

TARGET static double largest_wide(const double *values)
{
    const double max = (double)FLT_MAX;
    int64_t most = 0, limit, magnitude;
    double value;

    memcpy(&limit, &max, sizeof(limit));
    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++) {
        memcpy(&magnitude, &values[i], sizeof(magnitude));
        magnitude &= INT64_MAX;
        magnitude &= 0 - (int64_t)(magnitude <= limit);
        most = magnitude > most ? magnitude : most;
    }
    memcpy(&value, &most, sizeof(value));
    return value;
}

/* The f32 that rounds to a narrower type as the f64 does: cut, with the last bit set where
 * something was cut off (rounding to odd, Boldo and Melquiond 2008). */
HELPER float round_to_odd(double value)
{
    float cut = (float)value;
    uint32_t bits = tci_f32_bits(cut) - (fabs((double)cut) > fabs(value) ? 1 : 0);

    return tci_f32_from_bits((double)cut != value ? bits | 1 : bits);
}

/* Values times a factor, at most `max` where they are finite. */
LOOP narrow_wide(const double *values, double factor, double max, float *out)
{
    const double beyond = 0x1.ffffffp127; /* from here on f32 rounds to infinity */

    for (size_t i = 0; i < TCI_NARROW_BLOCK; i++) {
        double magnitude = fabs(values[i]), scaled = magnitude * factor;

        scaled = scaled > max ? max : scaled;
        scaled = magnitude < beyond ? scaled : magnitude * (double)INFINITY;
        out[i] = copysignf(round_to_odd(scaled), (float)values[i]);
    }
}

const struct tci_narrow_loops LOOPS = {to_codes, from_codes, largest, largest_wide, narrow_wide};
