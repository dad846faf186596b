/* reduce_avx2.c - vector kernels for x86-64 with AVX2 and F16C. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce_exact.h"
#include "reduce_table.h"

#ifdef TCI_HAVE_X86_KERNELS

#include <immintrin.h>
#include <math.h>

#define VECTOR       32
#define TARGET       __attribute__((target("avx2,f16c")))
#define HELPER       TARGET __attribute__((always_inline, unused)) static inline
#define KERNEL_TABLE tci_kernels_avx2
#define EXACT_TABLE  tci_exact_avx2

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

#define DEFINE_EXTREME(name, vec, intrinsic)                                                       \
    HELPER vec name(vec a, vec b)                                                                  \
    {                                                                                              \
        return (vec)intrinsic((__m256i)a, (__m256i)b);                                             \
    }

DEFINE_EXTREME(min_i8, vi8, _mm256_min_epi8)
DEFINE_EXTREME(max_i8, vi8, _mm256_max_epi8)
DEFINE_EXTREME(min_u8, vu8, _mm256_min_epu8)
DEFINE_EXTREME(max_u8, vu8, _mm256_max_epu8)
DEFINE_EXTREME(min_i16, vi16, _mm256_min_epi16)
DEFINE_EXTREME(max_i16, vi16, _mm256_max_epi16)
DEFINE_EXTREME(min_u16, vu16, _mm256_min_epu16)
DEFINE_EXTREME(max_u16, vu16, _mm256_max_epu16)
DEFINE_EXTREME(min_i32, vi32, _mm256_min_epi32)
DEFINE_EXTREME(max_i32, vi32, _mm256_max_epi32)
DEFINE_EXTREME(min_u32, vu32, _mm256_min_epu32)
DEFINE_EXTREME(max_u32, vu32, _mm256_max_epu32)

/* AVX2 compares signed 64-bit integers only: the sign bit is turned for unsigned ones. */
HELPER __m256i select_i64(__m256i greater, __m256i yes, __m256i no)
{
    return _mm256_blendv_epi8(no, yes, greater);
}

HELPER vi64 min_i64(vi64 a, vi64 b)
{
    return (vi64)select_i64(_mm256_cmpgt_epi64((__m256i)a, (__m256i)b), (__m256i)b, (__m256i)a);
}

HELPER vi64 max_i64(vi64 a, vi64 b)
{
    return (vi64)select_i64(_mm256_cmpgt_epi64((__m256i)a, (__m256i)b), (__m256i)a, (__m256i)b);
}

HELPER __m256i greater_u64(vu64 a, vu64 b)
{
    __m256i turn = _mm256_set1_epi64x(INT64_MIN);

    return _mm256_cmpgt_epi64(_mm256_xor_si256((__m256i)a, turn),
                              _mm256_xor_si256((__m256i)b, turn));
}

HELPER vu64 min_u64(vu64 a, vu64 b)
{
    return (vu64)select_i64(greater_u64(a, b), (__m256i)b, (__m256i)a);
}

HELPER vu64 max_u64(vu64 a, vu64 b)
{
    return (vu64)select_i64(greater_u64(a, b), (__m256i)a, (__m256i)b);
}

HELPER vf32 canon_f32(vf32 x)
{
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)TCI_F32_NAN));

    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

HELPER vf64 canon_f64(vf64 x)
{
    __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x((long long)TCI_F64_NAN));

    return _mm256_blendv_pd(x, nan, _mm256_cmp_pd(x, x, _CMP_UNORD_Q));
}

HELPER __m128i load_half(const byte *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

HELPER void store_half(byte *p, __m128i x)
{
    _mm_storeu_si128((__m128i *)p, x);
}

HELPER vu32 load_u8_u32(const byte *p)
{
    return (vu32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

HELPER vi32 load_i8_i32(const byte *p)
{
    return (vi32)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

HELPER vu32 load_u16_u32(const byte *p)
{
    return (vu32)_mm256_cvtepu16_epi32(load_half(p));
}

HELPER vi32 load_i16_i32(const byte *p)
{
    return (vi32)_mm256_cvtepi16_epi32(load_half(p));
}

HELPER vf32 load_f16_f32(const byte *p)
{
    return _mm256_cvtph_ps(load_half(p));
}

HELPER vf64 load_f32_f64(const byte *p)
{
    return _mm256_cvtps_pd(_mm_castsi128_ps(load_half(p)));
}

HELPER vf64 load_i32_f64(const byte *p)
{
    return _mm256_cvtepi32_pd(load_half(p));
}

/* Moved by 2^31 into the range of signed integers, and back: both exact. */
HELPER vf64 load_u32_f64(const byte *p)
{
    __m128i moved = _mm_xor_si128(load_half(p), _mm_set1_epi32(INT32_MIN));

    return _mm256_add_pd(_mm256_cvtepi32_pd(moved), _mm256_set1_pd(2147483648.0));
}

/* The two lanes are packed by themselves; the low part of each result is then joined. */
HELPER __m128i pack_u16(vu32 x)
{
    __m256i packed = _mm256_packus_epi32((__m256i)x, (__m256i)x);

    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

HELPER void store_u32_u16(byte *p, vu32 x)
{
    store_half(p, pack_u16(x));
}

HELPER void store_u32_u8(byte *p, vu32 x)
{
    __m128i packed = pack_u16(x);

    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(packed, packed));
}

HELPER void store_f32_f16(byte *p, vf32 x)
{
    store_half(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

HELPER void store_f64_f32(byte *p, vf64 x)
{
    store_half(p, _mm_castps_si128(_mm256_cvtpd_ps(x)));
}

HELPER void store_f64_i32(byte *p, vf64 x)
{
    store_half(p, _mm256_cvttpd_epi32(x));
}

HELPER void store_f64_u32(byte *p, vf64 x)
{
    __m256d whole = _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    __m128i moved = _mm256_cvttpd_epi32(_mm256_sub_pd(whole, _mm256_set1_pd(2147483648.0)));

    store_half(p, _mm_xor_si128(moved, _mm_set1_epi32(INT32_MIN)));
}

HELPER void load_edge(byte *p, const byte *from, size_t len)
{
    _mm256_storeu_si256((__m256i *)p, _mm256_setzero_si256());
    memcpy(p, from, len);
}

HELPER int any_bits(vu32 x)
{
    return _mm256_testz_si256((__m256i)x, (__m256i)x) == 0;
}

HELPER int any_nan(vf32 x, vf32 y)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_UNORD_Q)) != 0;
}

#include "reduce_vector.h"

#include "reduce_exact_vector.h"

#else

typedef int tci_reduce_avx2_is_empty;

#endif
