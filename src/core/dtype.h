/* dtype.h - conversions between the small floats and f32, with one rounding. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_DTYPE_H
#define TCI_DTYPE_H

#include <stdint.h>
#include <string.h>

#include "tcdist/dtype.h"

/* One past the largest number of an element type, and of an operator; tables have these lengths.
 * Numbers 6 to 15 of the types are not carried. */
#define TCI_DTYPE_COUNT     ((int)TC_DTYPE_C64 + 1)
#define TCI_REDUCE_OP_COUNT ((int)TC_REDUCE_BXOR + 1)

/* The canonical NaN of each type: quiet, positive, only the leading bit of the mantissa set; f8e4m3
 * has a single NaN but for the sign. */
#define TCI_F64_NAN    UINT64_C(0x7ff8000000000000)
#define TCI_F32_NAN    UINT32_C(0x7fc00000)
#define TCI_F16_NAN    0x7e00u
#define TCI_BF16_NAN   0x7fc0u
#define TCI_F8E5M2_NAN 0x7eu
#define TCI_F8E4M3_NAN 0x7fu

/* The rules of all conversions below.
 *
 *   up    exact.  Every NaN becomes the canonical NaN of f32.
 *   down  one rounding, to nearest with ties to even, into subnormals as well; nothing is flushed.
 *         A NaN becomes the canonical NaN of the target.  What rounds beyond the largest finite
 *         value becomes infinity of the same sign; f8e4m3, which has no infinity, makes it its
 *         canonical NaN (so above 464, and for infinity itself).
 *
 * They use integer instructions and f32 additions and multiplications that are exact or round in
 * the default floating-point environment; the same steps in the vector kernels give the same bits.
 * Any thread. */

static inline uint32_t tci_f32_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float tci_f32_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* A format of one sign bit, an exponent and `mantissa` bits, biased by `bias`. */
struct tci_small_float {
    unsigned width;    /* bits in all */
    unsigned mantissa; /* bits behind the point */
    unsigned bias;     /* the exponent field of 1.0 */
    unsigned finite;   /* the largest finite value; what is above are infinities and NaNs */
    unsigned overflow; /* what values beyond it become; the sign is kept unless it is a NaN */
    unsigned nan;      /* the canonical NaN */
};

static const struct tci_small_float tci_f16 = {16, 10, 15, 0x7bff, 0x7c00, TCI_F16_NAN};
static const struct tci_small_float tci_f8e5m2 = {8, 2, 15, 0x7b, 0x7c, TCI_F8E5M2_NAN};
static const struct tci_small_float tci_f8e4m3 = {8, 3, 7, 0x7e, TCI_F8E4M3_NAN, TCI_F8E4M3_NAN};

/* Shifted into place the exponent is too small by 127 - bias, which one exact multiplication by a
 * power of two repairs, for subnormals too. */
static inline float tci_small_to_f32(unsigned code, const struct tci_small_float *format)
{
    uint32_t sign = (uint32_t)(code >> (format->width - 1)) << 31;
    uint32_t magnitude = code & ((1u << (format->width - 1)) - 1);
    float scale = tci_f32_from_bits((127 + 127 - format->bias) << 23);
    float value = tci_f32_from_bits(magnitude << (23 - format->mantissa)) * scale;

    if (magnitude > format->finite) /* 0x7f800000 is infinity */
        return tci_f32_from_bits(magnitude == format->overflow && format->overflow != format->nan
                                     ? sign | UINT32_C(0x7f800000)
                                     : TCI_F32_NAN);
    return tci_f32_from_bits(sign | tci_f32_bits(value));
}

/* Normal results: add half of the last place that stays, less one bit when the part that stays is
 * even, and cut.  Subnormal results: add the power of two whose last place in f32 is the format's
 * smallest subnormal; the processor then rounds, and the sum's low bits are the code. */
static inline unsigned tci_small_from_f32(float value, const struct tci_small_float *format)
{
    uint32_t bits = tci_f32_bits(value);
    uint32_t magnitude = bits & UINT32_C(0x7fffffff);
    unsigned sign = (unsigned)(bits >> 31) << (format->width - 1);
    unsigned cut = 23 - format->mantissa;
    uint32_t anchor = (127 + 1 - format->bias + cut) << 23;
    unsigned code;

    if (magnitude > UINT32_C(0x7f800000))
        return format->nan;
    if (magnitude < (127 + 1 - format->bias) << 23) {
        code = tci_f32_bits(tci_f32_from_bits(magnitude) + tci_f32_from_bits(anchor)) - anchor;
    } else {
        uint32_t even = (magnitude >> cut) & 1;

        code = (magnitude + (UINT32_C(1) << (cut - 1)) - 1 + even) >> cut;
        code -= (127 - format->bias) << format->mantissa;
    }
    if (code <= format->finite)
        return sign | code;
    return format->overflow == format->nan ? format->nan : sign | format->overflow;
}

static inline float tci_f16_to_f32(uint16_t code)
{
    return tci_small_to_f32(code, &tci_f16);
}

static inline uint16_t tci_f16_from_f32(float value)
{
    return (uint16_t)tci_small_from_f32(value, &tci_f16);
}

static inline float tci_f8e5m2_to_f32(uint8_t code)
{
    return tci_small_to_f32(code, &tci_f8e5m2);
}

static inline uint8_t tci_f8e5m2_from_f32(float value)
{
    return (uint8_t)tci_small_from_f32(value, &tci_f8e5m2);
}

static inline float tci_f8e4m3_to_f32(uint8_t code)
{
    return tci_small_to_f32(code, &tci_f8e4m3);
}

static inline uint8_t tci_f8e4m3_from_f32(float value)
{
    return (uint8_t)tci_small_from_f32(value, &tci_f8e4m3);
}

static inline float tci_bf16_to_f32(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;

    return tci_f32_from_bits((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? TCI_F32_NAN
                                                                                  : bits);
}

static inline uint16_t tci_bf16_from_f32(float value)
{
    uint32_t bits = tci_f32_bits(value);

    if ((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000))
        return TCI_BF16_NAN;
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#endif
