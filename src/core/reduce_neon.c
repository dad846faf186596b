/* reduce_neon.c - vector kernels for 64-bit ARM. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce_exact.h"
#include "reduce_table.h"

#ifdef TCI_HAVE_NEON_KERNELS

#include <arm_neon.h>
#include <math.h>

#define VECTOR 16
#define TARGET
#define HELPER       __attribute__((always_inline, unused)) static inline
#define KERNEL_TABLE tci_kernels_neon
#define EXACT_TABLE  tci_exact_neon

typedef unsigned char byte;

typedef int8_t vi8 __attribute__((vector_size(VECTOR)));
typedef uint8_t vu8 __attribute__((vector_size(VECTOR)));
typedef int16_t vi16 __attribute__((vector_size(VECTOR)));
typedef uint16_t vu16 __attribute__((vector_size(VECTOR)));
typedef int32_t vi32 __attribute__((vector_size(VECTOR)));
typedef uint32_t vu32 __attribute__((vector_size(VECTOR)));
typedef int64_t vi64 __attribute__((vector_size(VECTOR)));
typedef uint64_t vu64 __attribute__((vector_size(VECTOR)));
typedef float vf32 __attribute__((vector_size(VECTOR)));
typedef double vf64 __attribute__((vector_size(VECTOR)));

#define DEFINE_EXTREME(name, vec, neon_t, intrinsic)                                               \
    HELPER vec name(vec a, vec b)                                                                  \
    {                                                                                              \
        return (vec)intrinsic((neon_t)a, (neon_t)b);                                               \
    }

DEFINE_EXTREME(min_i8, vi8, int8x16_t, vminq_s8)
DEFINE_EXTREME(max_i8, vi8, int8x16_t, vmaxq_s8)
DEFINE_EXTREME(min_u8, vu8, uint8x16_t, vminq_u8)
DEFINE_EXTREME(max_u8, vu8, uint8x16_t, vmaxq_u8)
DEFINE_EXTREME(min_i16, vi16, int16x8_t, vminq_s16)
DEFINE_EXTREME(max_i16, vi16, int16x8_t, vmaxq_s16)
DEFINE_EXTREME(min_u16, vu16, uint16x8_t, vminq_u16)
DEFINE_EXTREME(max_u16, vu16, uint16x8_t, vmaxq_u16)
DEFINE_EXTREME(min_i32, vi32, int32x4_t, vminq_s32)
DEFINE_EXTREME(max_i32, vi32, int32x4_t, vmaxq_s32)
DEFINE_EXTREME(min_u32, vu32, uint32x4_t, vminq_u32)
DEFINE_EXTREME(max_u32, vu32, uint32x4_t, vmaxq_u32)

/* There are comparisons of 64-bit integers, but no minima. */
#define DEFINE_EXTREME_64(name, vec, relation)                                                     \
    HELPER vec name(vec a, vec b)                                                                  \
    {                                                                                              \
        vec first = (vec)(a relation b);                                                           \
                                                                                                   \
        return (first & a) | (~first & b);                                                         \
    }

DEFINE_EXTREME_64(min_i64, vi64, <)
DEFINE_EXTREME_64(max_i64, vi64, >)
DEFINE_EXTREME_64(min_u64, vu64, <)
DEFINE_EXTREME_64(max_u64, vu64, >)

HELPER vf32 canon_f32(vf32 x)
{
    uint32x4_t number = vceqq_f32((float32x4_t)x, (float32x4_t)x);

    return (vf32)vbslq_u32(number, (uint32x4_t)x, vdupq_n_u32(TCI_F32_NAN));
}

HELPER vf64 canon_f64(vf64 x)
{
    uint64x2_t number = vceqq_f64((float64x2_t)x, (float64x2_t)x);

    return (vf64)vbslq_u64(number, (uint64x2_t)x, vdupq_n_u64(TCI_F64_NAN));
}

HELPER uint8x8_t load_half(const byte *p)
{
    return vld1_u8(p);
}

HELPER void store_half(byte *p, uint8x8_t x)
{
    vst1_u8(p, x);
}

/* Four bytes, with whatever behind them. */
HELPER uint8x8_t load_quarter(const byte *p)
{
    uint32_t word;

    memcpy(&word, p, sizeof(word));
    return vreinterpret_u8_u32(vdup_n_u32(word));
}

HELPER vu32 load_u8_u32(const byte *p)
{
    return (vu32)vmovl_u16(vget_low_u16(vmovl_u8(load_quarter(p))));
}

HELPER vi32 load_i8_i32(const byte *p)
{
    return (vi32)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_quarter(p)))));
}

HELPER vu32 load_u16_u32(const byte *p)
{
    return (vu32)vmovl_u16(vreinterpret_u16_u8(load_half(p)));
}

HELPER vi32 load_i16_i32(const byte *p)
{
    return (vi32)vmovl_s16(vreinterpret_s16_u8(load_half(p)));
}

HELPER vf32 load_f16_f32(const byte *p)
{
    return (vf32)vcvt_f32_f16(vreinterpret_f16_u8(load_half(p)));
}

HELPER vf64 load_f32_f64(const byte *p)
{
    return (vf64)vcvt_f64_f32(vreinterpret_f32_u8(load_half(p)));
}

HELPER vf64 load_i32_f64(const byte *p)
{
    return (vf64)vcvtq_f64_s64(vmovl_s32(vreinterpret_s32_u8(load_half(p))));
}

HELPER vf64 load_u32_f64(const byte *p)
{
    return (vf64)vcvtq_f64_u64(vmovl_u32(vreinterpret_u32_u8(load_half(p))));
}

HELPER void store_u32_u16(byte *p, vu32 x)
{
    store_half(p, vreinterpret_u8_u16(vmovn_u32((uint32x4_t)x)));
}

HELPER void store_u32_u8(byte *p, vu32 x)
{
    uint16x4_t half = vmovn_u32((uint32x4_t)x);
    uint8x8_t quarter = vmovn_u16(vcombine_u16(half, half));
    uint32_t word = vget_lane_u32(vreinterpret_u32_u8(quarter), 0);

    memcpy(p, &word, sizeof(word));
}

HELPER void store_f32_f16(byte *p, vf32 x)
{
    store_half(p, vreinterpret_u8_f16(vcvt_f16_f32((float32x4_t)x)));
}

HELPER void store_f64_f32(byte *p, vf64 x)
{
    store_half(p, vreinterpret_u8_f32(vcvt_f32_f64((float64x2_t)x)));
}

HELPER void store_f64_i32(byte *p, vf64 x)
{
    store_half(p, vreinterpret_u8_s32(vmovn_s64(vcvtq_s64_f64((float64x2_t)x))));
}

HELPER void store_f64_u32(byte *p, vf64 x)
{
    store_half(p, vreinterpret_u8_u32(vmovn_u64(vcvtq_u64_f64((float64x2_t)x))));
}

HELPER void load_edge(byte *p, const byte *from, size_t len)
{
    vst1q_u8(p, vdupq_n_u8(0));
    memcpy(p, from, len);
}

HELPER int any_bits(vu32 x)
{
    return vmaxvq_u32((uint32x4_t)x) != 0;
}

HELPER int any_nan(vf32 x, vf32 y)
{
    return vminvq_u32(vandq_u32(vceqq_f32(x, x), vceqq_f32(y, y))) == 0;
}

#include "reduce_vector.h"

#include "reduce_exact_vector.h"

#else

typedef int tci_reduce_neon_is_empty;

#endif
