/* reduce_wide.c - widen, add, round: the canonical fold in three parts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/reduce_wide.h"

#include <stdint.h>
#include <string.h>

#include "core/dtype.h"

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

typedef unsigned char byte;

struct complex_f64 {
    double re, im;
};

/* ---- accumulators ------------------------------------------------------------------------- */

/* The three loops.  load(p) gives the element at p, fold(acc, x) one more rank, store(p, acc, by)
 * rounds once. */
#define DEFINE_WIDE(name, each, acc_t, load, fold, store)                                          \
    static void name##_widen(void *acc, const void *in, size_t count)                              \
    {                                                                                              \
        acc_t *to = acc;                                                                           \
                                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            to[i] = load((const byte *)in + i * (each));                                           \
    }                                                                                              \
    static void name##_add(void *acc, const void *in, size_t count)                                \
    {                                                                                              \
        acc_t *to = acc;                                                                           \
                                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            to[i] = fold(to[i], load((const byte *)in + i * (each)));                              \
    }                                                                                              \
    static void name##_round(void *out, const void *acc, unsigned ranks, size_t count)             \
    {                                                                                              \
        const acc_t *from = acc;                                                                   \
                                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            store((byte *)out + i * (each), from[i], ranks);                                       \
    }                                                                                              \
    static const struct tci_wide name = {sizeof(acc_t), name##_widen, name##_add, name##_round};

#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))

/* ---- floats ------------------------------------------------------------------------------- */

static float round_f32(double value)
{
    return value != value ? tci_f32_from_bits(TCI_F32_NAN) : (float)value;
}

#define DEFINE_FLOAT(T, stored_t, acc_t, up, down)                                                 \
    static inline acc_t T##_load(const byte *p)                                                    \
    {                                                                                              \
        stored_t value;                                                                            \
                                                                                                   \
        memcpy(&value, p, sizeof(value));                                                          \
        return up(value);                                                                          \
    }                                                                                              \
    static inline void T##_store(byte *p, acc_t acc, unsigned by)                                  \
    {                                                                                              \
        stored_t value = down(acc);                                                                \
                                                                                                   \
        (void)by;                                                                                  \
        memcpy(p, &value, sizeof(value));                                                          \
    }                                                                                              \
    static inline void T##_store_avg(byte *p, acc_t acc, unsigned by)                              \
    {                                                                                              \
        T##_store(p, acc / (acc_t)by, by);                                                         \
    }                                                                                              \
    DEFINE_WIDE(T##_sum, sizeof(stored_t), acc_t, T##_load, ADD, T##_store)                        \
    DEFINE_WIDE(T##_prod, sizeof(stored_t), acc_t, T##_load, MUL, T##_store)                       \
    DEFINE_WIDE(T##_avg, sizeof(stored_t), acc_t, T##_load, ADD, T##_store_avg)

DEFINE_FLOAT(f32, float, double, (double), round_f32)
DEFINE_FLOAT(f16, uint16_t, float, tci_f16_to_f32, tci_f16_from_f32)
DEFINE_FLOAT(bf16, uint16_t, float, tci_bf16_to_f32, tci_bf16_from_f32)
DEFINE_FLOAT(f8e4m3, uint8_t, float, tci_f8e4m3_to_f32, tci_f8e4m3_from_f32)
DEFINE_FLOAT(f8e5m2, uint8_t, float, tci_f8e5m2_to_f32, tci_f8e5m2_from_f32)

static inline struct complex_f64 c64_load(const byte *p)
{
    return (struct complex_f64){f32_load(p), f32_load(p + 4)};
}

static inline struct complex_f64 c64_add(struct complex_f64 a, struct complex_f64 b)
{
    return (struct complex_f64){a.re + b.re, a.im + b.im};
}

static inline struct complex_f64 c64_mul(struct complex_f64 a, struct complex_f64 b)
{
    return (struct complex_f64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static inline void c64_store(byte *p, struct complex_f64 acc, unsigned by)
{
    f32_store(p, acc.re, by);
    f32_store(p + 4, acc.im, by);
}

static inline void c64_store_avg(byte *p, struct complex_f64 acc, unsigned by)
{
    f32_store_avg(p, acc.re, by);
    f32_store_avg(p + 4, acc.im, by);
}

DEFINE_WIDE(c64_sum, 8, struct complex_f64, c64_load, c64_add, c64_store)
DEFINE_WIDE(c64_prod, 8, struct complex_f64, c64_load, c64_mul, c64_store)
DEFINE_WIDE(c64_avg, 8, struct complex_f64, c64_load, c64_add, c64_store_avg)

/* ---- averages of integers ----------------------------------------------------------------- */

/* Truncated toward zero.  Sums of up to 32 bits fit in 64 for 2^31 ranks. */
#define DEFINE_AVERAGE(T, ctype, sum_t, by_t)                                                      \
    static inline sum_t T##_load(const byte *p)                                                    \
    {                                                                                              \
        ctype value;                                                                               \
                                                                                                   \
        memcpy(&value, p, sizeof(value));                                                          \
        return value;                                                                              \
    }                                                                                              \
    static inline void T##_store(byte *p, sum_t acc, unsigned by)                                  \
    {                                                                                              \
        ctype value = (ctype)(acc / (by_t)by);                                                     \
                                                                                                   \
        memcpy(p, &value, sizeof(value));                                                          \
    }                                                                                              \
    DEFINE_WIDE(T##_avg, sizeof(ctype), sum_t, T##_load, ADD, T##_store)

DEFINE_AVERAGE(i8, int8_t, int64_t, int64_t)
DEFINE_AVERAGE(i16, int16_t, int64_t, int64_t)
DEFINE_AVERAGE(i32, int32_t, int64_t, int64_t)
DEFINE_AVERAGE(i64, int64_t, i128, i128)
DEFINE_AVERAGE(u8, uint8_t, int64_t, int64_t)
DEFINE_AVERAGE(u16, uint16_t, int64_t, int64_t)
DEFINE_AVERAGE(u32, uint32_t, int64_t, int64_t)
DEFINE_AVERAGE(u64, uint64_t, u128, u128)

/* ---- the table ---------------------------------------------------------------------------- */

#define FLOAT_ROWS(T)                                                                              \
    {                                                                                              \
        [TC_REDUCE_SUM] = &T##_sum, [TC_REDUCE_PROD] = &T##_prod, [TC_REDUCE_AVG] = &T##_avg       \
    }
#define INTEGER_ROWS(T)                                                                            \
    {                                                                                              \
        [TC_REDUCE_AVG] = &T##_avg                                                                 \
    }

static const struct tci_wide *const table[TCI_DTYPE_COUNT][TCI_REDUCE_OP_COUNT] = {
    [TC_DTYPE_F32] = FLOAT_ROWS(f32),       [TC_DTYPE_F16] = FLOAT_ROWS(f16),
    [TC_DTYPE_BF16] = FLOAT_ROWS(bf16),     [TC_DTYPE_F8E4M3] = FLOAT_ROWS(f8e4m3),
    [TC_DTYPE_F8E5M2] = FLOAT_ROWS(f8e5m2), [TC_DTYPE_C64] = FLOAT_ROWS(c64),
    [TC_DTYPE_I8] = INTEGER_ROWS(i8),       [TC_DTYPE_I16] = INTEGER_ROWS(i16),
    [TC_DTYPE_I32] = INTEGER_ROWS(i32),     [TC_DTYPE_I64] = INTEGER_ROWS(i64),
    [TC_DTYPE_U8] = INTEGER_ROWS(u8),       [TC_DTYPE_U16] = INTEGER_ROWS(u16),
    [TC_DTYPE_U32] = INTEGER_ROWS(u32),     [TC_DTYPE_U64] = INTEGER_ROWS(u64),
};

const struct tci_wide *tci_wide_find(tc_dtype_t dtype, tc_reduce_op_t op)
{
    if ((int)dtype < 0 || (int)dtype >= TCI_DTYPE_COUNT || (int)op < 0 ||
        (int)op >= TCI_REDUCE_OP_COUNT)
        return NULL;
    return table[dtype][op];
}

size_t tci_wide_size(const struct tci_fold *fold)
{
    return fold->wide != NULL ? fold->wide->size : fold->size;
}

void tci_wide_widen(const struct tci_fold *fold, void *acc, const void *in, size_t count)
{
    if (fold->wide != NULL)
        fold->wide->widen(acc, in, count);
    else if (count > 0)
        memcpy(acc, in, count * fold->size);
}

void tci_wide_add(const struct tci_fold *fold, void *acc, const void *in, size_t count)
{
    if (fold->wide != NULL)
        fold->wide->add(acc, in, count);
    else
        fold->pair(acc, acc, in, count);
}

void tci_wide_round(const struct tci_fold *fold, void *out, const void *acc, unsigned ranks,
                    size_t count)
{
    if (fold->wide != NULL) {
        fold->wide->round(out, acc, ranks, count);
        return;
    }
    if (count > 0)
        memcpy(out, acc, count * fold->size);
    if (fold->op == TC_REDUCE_AVG && fold->divide != NULL)
        fold->divide(out, ranks, count);
}
