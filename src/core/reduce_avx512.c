/* reduce_avx512.c - vector kernels for x86-64 with AVX-512 F, BW, DQ and VL. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce_exact.h"
#include "reduce_table.h"

#ifdef TCI_HAVE_X86_KERNELS

#include <immintrin.h>
#include <math.h>

#define VECTOR       64
#define TARGET       __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#define HELPER       TARGET __attribute__((always_inline, unused)) static inline
#define KERNEL_TABLE tci_kernels_avx512
#define EXACT_TABLE  tci_exact_avx512

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
        return (vec)intrinsic((__m512i)a, (__m512i)b);                                             \
    }

DEFINE_EXTREME(min_i8, vi8, _mm512_min_epi8)
DEFINE_EXTREME(max_i8, vi8, _mm512_max_epi8)
DEFINE_EXTREME(min_u8, vu8, _mm512_min_epu8)
DEFINE_EXTREME(max_u8, vu8, _mm512_max_epu8)
DEFINE_EXTREME(min_i16, vi16, _mm512_min_epi16)
DEFINE_EXTREME(max_i16, vi16, _mm512_max_epi16)
DEFINE_EXTREME(min_u16, vu16, _mm512_min_epu16)
DEFINE_EXTREME(max_u16, vu16, _mm512_max_epu16)
DEFINE_EXTREME(min_i32, vi32, _mm512_min_epi32)
DEFINE_EXTREME(max_i32, vi32, _mm512_max_epi32)
DEFINE_EXTREME(min_u32, vu32, _mm512_min_epu32)
DEFINE_EXTREME(max_u32, vu32, _mm512_max_epu32)
DEFINE_EXTREME(min_i64, vi64, _mm512_min_epi64)
DEFINE_EXTREME(max_i64, vi64, _mm512_max_epi64)
DEFINE_EXTREME(min_u64, vu64, _mm512_min_epu64)
DEFINE_EXTREME(max_u64, vu64, _mm512_max_epu64)

HELPER vf32 canon_f32(vf32 x)
{
    __m512i nan = _mm512_set1_epi32((int)TCI_F32_NAN);

    return (vf32)_mm512_mask_mov_epi32((__m512i)x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
}

HELPER vf64 canon_f64(vf64 x)
{
    __m512i nan = _mm512_set1_epi64((long long)TCI_F64_NAN);

    return (vf64)_mm512_mask_mov_epi64((__m512i)x, _mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q), nan);
}

HELPER __m128i load_quarter(const byte *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

HELPER __m256i load_half(const byte *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

HELPER void store_half(byte *p, __m256i x)
{
    _mm256_storeu_si256((__m256i *)p, x);
}

HELPER vu32 load_u8_u32(const byte *p)
{
    return (vu32)_mm512_cvtepu8_epi32(load_quarter(p));
}

HELPER vi32 load_i8_i32(const byte *p)
{
    return (vi32)_mm512_cvtepi8_epi32(load_quarter(p));
}

HELPER vu32 load_u16_u32(const byte *p)
{
    return (vu32)_mm512_cvtepu16_epi32(load_half(p));
}

HELPER vi32 load_i16_i32(const byte *p)
{
    return (vi32)_mm512_cvtepi16_epi32(load_half(p));
}

HELPER vf32 load_f16_f32(const byte *p)
{
    return _mm512_cvtph_ps(load_half(p));
}

HELPER vf64 load_f32_f64(const byte *p)
{
    return _mm512_cvtps_pd(_mm256_castsi256_ps(load_half(p)));
}

HELPER vf64 load_i32_f64(const byte *p)
{
    return _mm512_cvtepi32_pd(load_half(p));
}

HELPER vf64 load_u32_f64(const byte *p)
{
    return _mm512_cvtepu32_pd(load_half(p));
}

HELPER void store_u32_u16(byte *p, vu32 x)
{
    store_half(p, _mm512_cvtepi32_epi16((__m512i)x));
}

HELPER void store_u32_u8(byte *p, vu32 x)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8((__m512i)x));
}

HELPER void store_f32_f16(byte *p, vf32 x)
{
    store_half(p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

HELPER void store_f64_f32(byte *p, vf64 x)
{
    store_half(p, _mm256_castps_si256(_mm512_cvtpd_ps(x)));
}

HELPER void store_f64_i32(byte *p, vf64 x)
{
    store_half(p, _mm512_cvttpd_epi32(x));
}

HELPER void store_f64_u32(byte *p, vf64 x)
{
    store_half(p, _mm512_cvttpd_epu32(x));
}

/* A masked load touches no byte beyond len. */
HELPER void load_edge(byte *p, const byte *from, size_t len)
{
    __mmask64 mask = len < 64 ? ((__mmask64)1 << len) - 1 : ~(__mmask64)0;

    _mm512_storeu_si512(p, _mm512_maskz_loadu_epi8(mask, from));
}

HELPER int any_bits(vu32 x)
{
    return _mm512_test_epi32_mask((__m512i)x, (__m512i)x) != 0;
}

HELPER int any_nan(vf32 x, vf32 y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q) != 0;
}

#include "reduce_vector.h"

#include "reduce_exact_vector.h"

#else

typedef int tci_reduce_avx512_is_empty;

#endif
