/* reduce_vector_int.h - part of reduce_vector.h: integers and BOOL. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Integers in their own width. */

#define DEFINE_RAW(T, vec)                                                                         \
    HELPER vec T##_load(const byte *p)                                                             \
    {                                                                                              \
        vec x;                                                                                     \
                                                                                                   \
        memcpy(&x, p, VECTOR);                                                                     \
        return x;                                                                                  \
    }                                                                                              \
    HELPER void T##_store(byte *p, vec x, struct divisor by)                                       \
    {                                                                                              \
        (void)by;                                                                                  \
        memcpy(p, &x, VECTOR);                                                                     \
    }

#define DEFINE_OPERATOR(T, vec, word, operator)                                                    \
    HELPER vec T##_##word##_fold(vec x, const byte *p)                                             \
    {                                                                                              \
        return x operator T##_load(p);                                                             \
    }                                                                                              \
    DEFINE_BOTH(T##_##word, vec, VECTOR, T##_load, T##_##word##_fold, T##_store)

#define DEFINE_CALL(T, vec, word)                                                                  \
    HELPER vec T##_##word##_fold(vec x, const byte *p)                                             \
    {                                                                                              \
        return word##_##T(x, T##_load(p));                                                         \
    }                                                                                              \
    DEFINE_BOTH(T##_##word, vec, VECTOR, T##_load, T##_##word##_fold, T##_store)

/* SUM, PROD and the bitwise operators do not know the sign: the signed types use these too. */
#define DEFINE_UNSIGNED(T, vec, size)                                                              \
    DEFINE_RAW(T, vec)                                                                             \
    DEFINE_OPERATOR(T, vec, sum, +)                                                                \
    DEFINE_OPERATOR(T, vec, prod, *)                                                               \
    DEFINE_CALL(T, vec, min)                                                                       \
    DEFINE_CALL(T, vec, max)                                                                       \
    DEFINE_ENTRY(T##_sum, size, T##_sum)                                                           \
    DEFINE_ENTRY(T##_prod, size, T##_prod)                                                         \
    DEFINE_ENTRY(T##_min, size, T##_min)                                                           \
    DEFINE_ENTRY(T##_max, size, T##_max)

#define DEFINE_SIGNED(T, vec, size)                                                                \
    DEFINE_RAW(T, vec)                                                                             \
    DEFINE_CALL(T, vec, min)                                                                       \
    DEFINE_CALL(T, vec, max)                                                                       \
    DEFINE_ENTRY(T##_min, size, T##_min)                                                           \
    DEFINE_ENTRY(T##_max, size, T##_max)

DEFINE_UNSIGNED(u8, vu8, 1)
DEFINE_UNSIGNED(u16, vu16, 2)
DEFINE_UNSIGNED(u32, vu32, 4)
DEFINE_UNSIGNED(u64, vu64, 8)
DEFINE_SIGNED(i8, vi8, 1)
DEFINE_SIGNED(i16, vi16, 2)
DEFINE_SIGNED(i32, vi32, 4)
DEFINE_SIGNED(i64, vi64, 8)

DEFINE_OPERATOR(u64, vu64, band, &)
DEFINE_OPERATOR(u64, vu64, bor, |)
DEFINE_OPERATOR(u64, vu64, bxor, ^)

#define DEFINE_BITWISE(T, size)                                                                    \
    DEFINE_ENTRY(T##_band, size, u64_band)                                                         \
    DEFINE_ENTRY(T##_bor, size, u64_bor)                                                           \
    DEFINE_ENTRY(T##_bxor, size, u64_bxor)

DEFINE_BITWISE(bits8, 1)
DEFINE_BITWISE(bits16, 2)
DEFINE_BITWISE(bits32, 4)
DEFINE_BITWISE(bits64, 8)

/* BOOL: the accumulator is a mask, all ones for true. */
HELPER vu8 bool_load(const byte *p)
{
    return (vu8)(u8_load(p) != SPLAT(vu8, 0));
}

HELPER void bool_store(byte *p, vu8 x, struct divisor by)
{
    u8_store(p, x & SPLAT(vu8, 1), by);
}

#define DEFINE_BOOL(word, operator)                                                                \
    HELPER vu8 bool_##word##_fold(vu8 x, const byte *p)                                            \
    {                                                                                              \
        return x operator bool_load(p);                                                            \
    }                                                                                              \
    DEFINE_BOTH(bool_##word, vu8, VECTOR, bool_load, bool_##word##_fold, bool_store)               \
    DEFINE_ENTRY(bool_##word, 1, bool_##word)

DEFINE_BOOL(and, &)
DEFINE_BOOL(or, |)
DEFINE_BOOL(xor, ^)

/* AVG of integers.
 *
 * The sum is exact in an i32 or an f64.  The quotient is the truncated (|sum| + 1/2) * (1 / ranks):
 * one half keeps the true value at least 1 / (2 ranks) away from every integer, and two roundings
 * move it by less than that while |sum| + 1/2 < 2^22 (f32) or 2^51 (f64).  More ranks than that
 * allows take the plain kernel. */
#define AVG_RANKS_8_BITS  8192u   /* 8192 * 255 < 2^21 */
#define AVG_RANKS_16_BITS 64u     /* 64 * 65535 + 1/2 < 2^22 */
#define AVG_RANKS_32_BITS 262144u /* 2^18 * 2^32 < 2^51 */

HELPER vu32 divide_i32(vi32 sum, struct divisor by)
{
    vf32 x = __builtin_convertvector(sum, vf32);
    vf32 half = (vf32)(((vu32)x & SPLAT(vu32, 0x80000000u)) | (vu32)SPLAT(vf32, 0.5f));

    return (vu32) __builtin_convertvector((x + half) * SPLAT(vf32, (float)by.inverse), vi32);
}

HELPER vf64 divide_f64(vf64 sum, struct divisor by)
{
    vu64 sign = (vu64)sum & SPLAT(vu64, UINT64_C(1) << 63);

    return (sum + (vf64)(sign | (vu64)SPLAT(vf64, 0.5))) * SPLAT(vf64, by.inverse);
}

#define DEFINE_INTEGER_AVG(T, dtype, size, acc_t, part, limit)                                     \
    DEFINE_LOOP(T##_avg, acc_t, part, T##_avg_load, T##_avg_fold, T##_avg_store)                   \
    static void T##_avg_many(void *out, const void *const *in, unsigned ranks, size_t count)       \
    {                                                                                              \
        if (ranks <= (limit))                                                                      \
            T##_avg_loop(out, in, ranks, count *(size), divide_by(ranks));                         \
        else                                                                                       \
            tci_kernels_plain[dtype][TC_REDUCE_AVG].many(out, in, ranks, count);                   \
    }

/* `wide` is the type that load gives: i32 or u32, which adds the same bits. */
#define DEFINE_SMALL_AVG(T, dtype, size, wide, stored, mask, limit)                                \
    HELPER vi32 T##_avg_load(const byte *p)                                                        \
    {                                                                                              \
        return (vi32)load_##T##_##wide(p);                                                         \
    }                                                                                              \
    HELPER vi32 T##_avg_fold(vi32 x, const byte *p)                                                \
    {                                                                                              \
        return x + (vi32)load_##T##_##wide(p);                                                     \
    }                                                                                              \
    HELPER void T##_avg_store(byte *p, vi32 x, struct divisor by)                                  \
    {                                                                                              \
        store_u32_##stored(p, divide_i32(x, by) & SPLAT(vu32, mask));                              \
    }                                                                                              \
    DEFINE_INTEGER_AVG(T, dtype, size, vi32, VECTOR *(size) / 4, limit)

#define DEFINE_WIDE_AVG(T, dtype, limit)                                                           \
    HELPER vf64 T##_avg_fold(vf64 x, const byte *p)                                                \
    {                                                                                              \
        return x + load_##T##_f64(p);                                                              \
    }                                                                                              \
    HELPER vf64 T##_avg_load(const byte *p)                                                        \
    {                                                                                              \
        return load_##T##_f64(p);                                                                  \
    }                                                                                              \
    HELPER void T##_avg_store(byte *p, vf64 x, struct divisor by)                                  \
    {                                                                                              \
        store_f64_##T(p, divide_f64(x, by));                                                       \
    }                                                                                              \
    DEFINE_INTEGER_AVG(T, dtype, 4, vf64, VECTOR / 2, limit)

DEFINE_SMALL_AVG(i8, TC_DTYPE_I8, 1, i32, u8, 0xffu, AVG_RANKS_8_BITS)
DEFINE_SMALL_AVG(u8, TC_DTYPE_U8, 1, u32, u8, 0xffu, AVG_RANKS_8_BITS)
DEFINE_SMALL_AVG(i16, TC_DTYPE_I16, 2, i32, u16, 0xffffu, AVG_RANKS_16_BITS)
DEFINE_SMALL_AVG(u16, TC_DTYPE_U16, 2, u32, u16, 0xffffu, AVG_RANKS_16_BITS)
DEFINE_WIDE_AVG(i32, TC_DTYPE_I32, AVG_RANKS_32_BITS)
DEFINE_WIDE_AVG(u32, TC_DTYPE_U32, AVG_RANKS_32_BITS)
