/* reduce_plain.c - the definition of every reduction, in portable C. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <stdint.h>
#include <string.h>

#include "reduce_table.h"

#if FLT_EVAL_METHOD != 0
#error "float and double must be evaluated in their own precision"
#endif

#ifndef __SIZEOF_INT128__
#error "the average of 64-bit integers needs a 128-bit sum"
#endif

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

typedef unsigned char byte;

struct complex_f64 {
    double re, im;
};

/* Elements whose accumulators are kept at a time: 4 KiB at most, so they stay in the first cache
 * while each input passes by once. */
#define BLOCK_ELEMENTS 256

/* How a kernel is made.
 *
 *   load(p)            the element at p, in its accumulator
 *   fold(acc, acc)     one more rank, from the left
 *   store(p, acc, by)  the result, rounded once; `by` is the number of ranks, read by AVG alone
 *
 * A block is stored after all of its inputs were read, so `out` may be one of them. */
#define DEFINE_LOOP(name, size, acc_t, load, fold, store)                                          \
    static void name##_loop(byte *out, const void *const *in, unsigned ranks, size_t count,        \
                            unsigned by)                                                           \
    {                                                                                              \
        acc_t acc[BLOCK_ELEMENTS];                                                                 \
                                                                                                   \
        for (size_t base = 0; base < count; base += BLOCK_ELEMENTS) {                              \
            size_t n = count - base < BLOCK_ELEMENTS ? count - base : BLOCK_ELEMENTS;              \
                                                                                                   \
            for (size_t i = 0; i < n; i++)                                                         \
                acc[i] = load((const byte *)in[0] + (base + i) * (size));                          \
            for (unsigned rank = 1; rank < ranks; rank++) {                                        \
                const byte *src = (const byte *)in[rank] + base * (size);                          \
                                                                                                   \
                for (size_t i = 0; i < n; i++)                                                     \
                    acc[i] = fold(acc[i], load(src + i * (size)));                                 \
            }                                                                                      \
            for (size_t i = 0; i < n; i++)                                                         \
                store(out + (base + i) * (size), acc[i], by);                                      \
        }                                                                                          \
    }

/* The table's members of a kernel with pair(), and of an average, which has none. */
#define DEFINE_KERNEL(name, size, acc_t, load, fold, store)                                        \
    DEFINE_LOOP(name, size, acc_t, load, fold, store)                                              \
    static void name##_many(void *out, const void *const *in, unsigned ranks, size_t count)        \
    {                                                                                              \
        name##_loop(out, in, ranks, count, 1);                                                     \
    }                                                                                              \
    static void name##_pair(void *out, const void *a, const void *b, size_t count)                 \
    {                                                                                              \
        const void *in[2] = {a, b};                                                                \
                                                                                                   \
        name##_loop(out, in, 2, count, 1);                                                         \
    }

#define DEFINE_AVG(name, size, acc_t, load, fold, store)                                           \
    DEFINE_LOOP(name, size, acc_t, load, fold, store)                                              \
    static void name##_many(void *out, const void *const *in, unsigned ranks, size_t count)        \
    {                                                                                              \
        name##_loop(out, in, ranks, count, ranks);                                                 \
    }

#define DEFINE_DIVIDE(name)                                                                        \
    static void name##_divide(void *buf, unsigned ranks, size_t count)                             \
    {                                                                                              \
        const void *in[1] = {buf};                                                                 \
                                                                                                   \
        name##_loop(buf, in, 1, count, ranks);                                                     \
    }

/* Folds of one accumulator.  The comparisons of MIN and MAX know NaN and the sign of zero. */
#define DEFINE_FLOAT_FOLDS(acc_t, suffix)                                                          \
    static acc_t add_##suffix(acc_t a, acc_t b)                                                    \
    {                                                                                              \
        return a + b;                                                                              \
    }                                                                                              \
    static acc_t mul_##suffix(acc_t a, acc_t b)                                                    \
    {                                                                                              \
        return a * b;                                                                              \
    }                                                                                              \
    static acc_t min_##suffix(acc_t a, acc_t b)                                                    \
    {                                                                                              \
        if (a != a || b != b)                                                                      \
            return a + b;                                                                          \
        if (a == b)                                                                                \
            return __builtin_signbit(a) ? a : b;                                                   \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    static acc_t max_##suffix(acc_t a, acc_t b)                                                    \
    {                                                                                              \
        if (a != a || b != b)                                                                      \
            return a + b;                                                                          \
        if (a == b)                                                                                \
            return __builtin_signbit(a) ? b : a;                                                   \
        return a > b ? a : b;                                                                      \
    }

#define DEFINE_FOLD(name, acc_t, expression)                                                       \
    static acc_t name(acc_t a, acc_t b)                                                            \
    {                                                                                              \
        return expression;                                                                         \
    }

DEFINE_FLOAT_FOLDS(float, f32)
DEFINE_FLOAT_FOLDS(double, f64)
DEFINE_FOLD(add_u64, uint64_t, a + b)
DEFINE_FOLD(mul_u64, uint64_t, a *b)
DEFINE_FOLD(and_u64, uint64_t, a &b)
DEFINE_FOLD(or_u64, uint64_t, a | b)
DEFINE_FOLD(xor_u64, uint64_t, a ^ b)
DEFINE_FOLD(min_u64, uint64_t, a < b ? a : b)
DEFINE_FOLD(max_u64, uint64_t, a > b ? a : b)
DEFINE_FOLD(min_i64, int64_t, a < b ? a : b)
DEFINE_FOLD(max_i64, int64_t, a > b ? a : b)
DEFINE_FOLD(add_i64, int64_t, a + b)
DEFINE_FOLD(add_i128, i128, a + b)
DEFINE_FOLD(add_u128, u128, a + b)

/* The quotient truncated toward zero; most sums of 64-bit integers need no 128-bit division. */
static int64_t divide_i64(int64_t sum, unsigned by)
{
    return sum / (int64_t)by;
}

static int64_t divide_i128(i128 sum, unsigned by)
{
    return sum == (int64_t)sum ? (int64_t)sum / (int64_t)by : (int64_t)(sum / (i128)by);
}

static uint64_t divide_u128(u128 sum, unsigned by)
{
    return sum == (uint64_t)sum ? (uint64_t)sum / by : (uint64_t)(sum / by);
}

/* Integers.  A sum modulo 2^64 cut to fewer bits is the sum modulo that power.  AVG of up to 32
 * bits sums at most 2^31 ranks exactly in 64. */
#define DEFINE_INTEGER(T, ctype, wide_t, fold_suffix, sum_t, sum_suffix, quotient)                 \
    static wide_t T##_load(const byte *p)                                                          \
    {                                                                                              \
        ctype value;                                                                               \
                                                                                                   \
        memcpy(&value, p, sizeof(value));                                                          \
        return value;                                                                              \
    }                                                                                              \
    static uint64_t T##_load_bits(const byte *p)                                                   \
    {                                                                                              \
        return (uint64_t)T##_load(p);                                                              \
    }                                                                                              \
    static void T##_store(byte *p, wide_t acc, unsigned by)                                        \
    {                                                                                              \
        ctype value = (ctype)acc;                                                                  \
                                                                                                   \
        (void)by;                                                                                  \
        memcpy(p, &value, sizeof(value));                                                          \
    }                                                                                              \
    static void T##_store_bits(byte *p, uint64_t acc, unsigned by)                                 \
    {                                                                                              \
        T##_store(p, (wide_t)acc, by);                                                             \
    }                                                                                              \
    static void T##_store_avg(byte *p, sum_t acc, unsigned by)                                     \
    {                                                                                              \
        T##_store(p, (wide_t)quotient(acc, by), by);                                               \
    }                                                                                              \
    DEFINE_KERNEL(T##_sum, sizeof(ctype), uint64_t, T##_load_bits, add_u64, T##_store_bits)        \
    DEFINE_KERNEL(T##_prod, sizeof(ctype), uint64_t, T##_load_bits, mul_u64, T##_store_bits)       \
    DEFINE_KERNEL(T##_band, sizeof(ctype), uint64_t, T##_load_bits, and_u64, T##_store_bits)       \
    DEFINE_KERNEL(T##_bor, sizeof(ctype), uint64_t, T##_load_bits, or_u64, T##_store_bits)         \
    DEFINE_KERNEL(T##_bxor, sizeof(ctype), uint64_t, T##_load_bits, xor_u64, T##_store_bits)       \
    DEFINE_KERNEL(T##_min, sizeof(ctype), wide_t, T##_load, min_##fold_suffix, T##_store)          \
    DEFINE_KERNEL(T##_max, sizeof(ctype), wide_t, T##_load, max_##fold_suffix, T##_store)          \
    DEFINE_AVG(T##_avg, sizeof(ctype), sum_t, T##_load, add_##sum_suffix, T##_store_avg)

DEFINE_INTEGER(i8, int8_t, int64_t, i64, int64_t, i64, divide_i64)
DEFINE_INTEGER(i16, int16_t, int64_t, i64, int64_t, i64, divide_i64)
DEFINE_INTEGER(i32, int32_t, int64_t, i64, int64_t, i64, divide_i64)
DEFINE_INTEGER(i64, int64_t, int64_t, i64, i128, i128, divide_i128)
DEFINE_INTEGER(u8, uint8_t, uint64_t, u64, int64_t, i64, divide_i64)
DEFINE_INTEGER(u16, uint16_t, uint64_t, u64, int64_t, i64, divide_i64)
DEFINE_INTEGER(u32, uint32_t, uint64_t, u64, int64_t, i64, divide_i64)
DEFINE_INTEGER(u64, uint64_t, uint64_t, u64, u128, u128, divide_u128)

/* BOOL: any byte but 0 is true, results are 0 or 1. */
static uint64_t bool_load(const byte *p)
{
    return *p != 0;
}

static void bool_store(byte *p, uint64_t acc, unsigned by)
{
    (void)by;
    *p = (byte)acc;
}

DEFINE_KERNEL(bool_or, 1, uint64_t, bool_load, or_u64, bool_store)
DEFINE_KERNEL(bool_and, 1, uint64_t, bool_load, and_u64, bool_store)
DEFINE_KERNEL(bool_xor, 1, uint64_t, bool_load, xor_u64, bool_store)

/* Rounding of accumulators, with the canonical NaN. */
static double round_f64(double value)
{
    static const uint64_t nan_bits = TCI_F64_NAN;

    if (value != value)
        memcpy(&value, &nan_bits, sizeof(value));
    return value;
}

static float round_f32(double value)
{
    return value != value ? tci_f32_from_bits(TCI_F32_NAN) : (float)value;
}

/* Floats: `stored_t` is what is in memory, `up` and `down` convert to the accumulator and back. */
#define DEFINE_FLOAT(T, stored_t, acc_t, suffix, up, down)                                         \
    static acc_t T##_load(const byte *p)                                                           \
    {                                                                                              \
        stored_t value;                                                                            \
                                                                                                   \
        memcpy(&value, p, sizeof(value));                                                          \
        return up(value);                                                                          \
    }                                                                                              \
    static void T##_store(byte *p, acc_t acc, unsigned by)                                         \
    {                                                                                              \
        stored_t value = down(acc);                                                                \
                                                                                                   \
        (void)by;                                                                                  \
        memcpy(p, &value, sizeof(value));                                                          \
    }                                                                                              \
    static void T##_store_avg(byte *p, acc_t acc, unsigned by)                                     \
    {                                                                                              \
        T##_store(p, acc / (acc_t)by, by);                                                         \
    }                                                                                              \
    DEFINE_KERNEL(T##_sum, sizeof(stored_t), acc_t, T##_load, add_##suffix, T##_store)             \
    DEFINE_KERNEL(T##_prod, sizeof(stored_t), acc_t, T##_load, mul_##suffix, T##_store)            \
    DEFINE_KERNEL(T##_min, sizeof(stored_t), acc_t, T##_load, min_##suffix, T##_store)             \
    DEFINE_KERNEL(T##_max, sizeof(stored_t), acc_t, T##_load, max_##suffix, T##_store)             \
    DEFINE_AVG(T##_avg, sizeof(stored_t), acc_t, T##_load, add_##suffix, T##_store_avg)            \
    DEFINE_DIVIDE(T##_avg)

DEFINE_FLOAT(f64, double, double, f64, (double), round_f64)
DEFINE_FLOAT(f32, float, double, f64, (double), round_f32)
DEFINE_FLOAT(f16, uint16_t, float, f32, tci_f16_to_f32, tci_f16_from_f32)
DEFINE_FLOAT(bf16, uint16_t, float, f32, tci_bf16_to_f32, tci_bf16_from_f32)
DEFINE_FLOAT(f8e4m3, uint8_t, float, f32, tci_f8e4m3_to_f32, tci_f8e4m3_from_f32)
DEFINE_FLOAT(f8e5m2, uint8_t, float, f32, tci_f8e5m2_to_f32, tci_f8e5m2_from_f32)

/* C64: two f32, each component rounded by itself. */
static struct complex_f64 c64_load(const byte *p)
{
    return (struct complex_f64){f32_load(p), f32_load(p + 4)};
}

static void c64_store(byte *p, struct complex_f64 acc, unsigned by)
{
    f32_store(p, acc.re, by);
    f32_store(p + 4, acc.im, by);
}

static void c64_store_avg(byte *p, struct complex_f64 acc, unsigned by)
{
    f32_store_avg(p, acc.re, by);
    f32_store_avg(p + 4, acc.im, by);
}

static struct complex_f64 add_c64(struct complex_f64 a, struct complex_f64 b)
{
    return (struct complex_f64){a.re + b.re, a.im + b.im};
}

static struct complex_f64 mul_c64(struct complex_f64 a, struct complex_f64 b)
{
    return (struct complex_f64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

DEFINE_KERNEL(c64_sum, 8, struct complex_f64, c64_load, add_c64, c64_store)
DEFINE_KERNEL(c64_prod, 8, struct complex_f64, c64_load, mul_c64, c64_store)
DEFINE_AVG(c64_avg, 8, struct complex_f64, c64_load, add_c64, c64_store_avg)
DEFINE_DIVIDE(c64_avg)

/* The table.  pair() of AVG is that of SUM. */
#define ROW(name)                                                                                  \
    {                                                                                              \
        name##_many, name##_pair, NULL                                                             \
    }

#define FLOAT_ROWS(T)                                                                              \
    {                                                                                              \
        [TC_REDUCE_SUM] = ROW(T##_sum), [TC_REDUCE_PROD] = ROW(T##_prod),                          \
        [TC_REDUCE_MIN] = ROW(T##_min), [TC_REDUCE_MAX] = ROW(T##_max),                            \
        [TC_REDUCE_AVG] = {T##_avg_many, T##_sum_pair, T##_avg_divide},                            \
    }

#define INTEGER_ROWS(T)                                                                            \
    {                                                                                              \
        [TC_REDUCE_SUM] = ROW(T##_sum), [TC_REDUCE_PROD] = ROW(T##_prod),                          \
        [TC_REDUCE_MIN] = ROW(T##_min), [TC_REDUCE_MAX] = ROW(T##_max),                            \
        [TC_REDUCE_BAND] = ROW(T##_band), [TC_REDUCE_BOR] = ROW(T##_bor),                          \
        [TC_REDUCE_BXOR] = ROW(T##_bxor), [TC_REDUCE_AVG] = {T##_avg_many, T##_sum_pair, NULL},    \
    }

tci_kernel_table tci_kernels_plain = {
    [TC_DTYPE_F64] = FLOAT_ROWS(f64),
    [TC_DTYPE_F32] = FLOAT_ROWS(f32),
    [TC_DTYPE_F16] = FLOAT_ROWS(f16),
    [TC_DTYPE_BF16] = FLOAT_ROWS(bf16),
    [TC_DTYPE_F8E4M3] = FLOAT_ROWS(f8e4m3),
    [TC_DTYPE_F8E5M2] = FLOAT_ROWS(f8e5m2),
    [TC_DTYPE_I8] = INTEGER_ROWS(i8),
    [TC_DTYPE_I16] = INTEGER_ROWS(i16),
    [TC_DTYPE_I32] = INTEGER_ROWS(i32),
    [TC_DTYPE_I64] = INTEGER_ROWS(i64),
    [TC_DTYPE_U8] = INTEGER_ROWS(u8),
    [TC_DTYPE_U16] = INTEGER_ROWS(u16),
    [TC_DTYPE_U32] = INTEGER_ROWS(u32),
    [TC_DTYPE_U64] = INTEGER_ROWS(u64),
    [TC_DTYPE_BOOL] =
        {
            [TC_REDUCE_SUM] = ROW(bool_or),
            [TC_REDUCE_MAX] = ROW(bool_or),
            [TC_REDUCE_BOR] = ROW(bool_or),
            [TC_REDUCE_MIN] = ROW(bool_and),
            [TC_REDUCE_PROD] = ROW(bool_and),
            [TC_REDUCE_BAND] = ROW(bool_and),
            [TC_REDUCE_BXOR] = ROW(bool_xor),
        },
    [TC_DTYPE_C64] =
        {
            [TC_REDUCE_SUM] = ROW(c64_sum),
            [TC_REDUCE_PROD] = ROW(c64_prod),
            [TC_REDUCE_AVG] = {c64_avg_many, c64_sum_pair, c64_avg_divide},
        },
};
