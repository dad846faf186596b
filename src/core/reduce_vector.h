/* reduce_vector.h - the vector kernels, written once over a processor family's vocabulary. */
/* SPDX-License-Identifier: Apache-2.0 */

/* A file reduce_<family>.c includes this once, after it has defined its vocabulary:
 *
 *   VECTOR           bytes of a vector                    HELPER  static inline, with the target
 *   TARGET           the target attribute, or nothing     KERNEL_TABLE  the name of its table
 *   min_i8(a, b) …   minima and maxima of the integers    canon_f32(x), canon_f64(x)
 *   load_u8_u32(p)   a vector of u32 from bytes at p; so i8, u16, i16; f16 to f32; f32, i32 and
 *                    u32 to f64; p needs no alignment
 *   store_u32_u8(p, x)   back: u16; f32 to f16; f64 to f32; f64 truncated to i32 and u32
 *   any_nan(x, y)    whether two vectors of f32 have a NaN
 *   load_edge(p, from, len)   VECTOR bytes at p: the first len from `from`, zeros behind
 *
 * Operators are those of C on vectors; what the plain kernels compute element by element is
 * computed here in the same precision and the same order, so the bits are the same. */

#define SPLAT(type, value)    ((type){0} + (value))
#define SELECT(mask, yes, no) (((mask) & (yes)) | (~(mask) & (no)))

/* What AVG divides by.  A power of two has an exact inverse, and multiplying by it gives the bits
 * of the division several times faster. */
struct divisor {
    double value, inverse;
    int is_power;
};

static struct divisor divide_by(unsigned ranks)
{
    return (struct divisor){ranks, 1.0 / ranks, (ranks & (ranks - 1)) == 0};
}

/* Asks for the next stretch of every input, once a stretch.  The blocks below read the inputs by
 * turns, which hides their order from the processor's own prefetching: from memory the sum of 4
 * inputs of f32 runs at 0.9 of memcpy's speed with this and at 0.2 to 0.6 without it, and 1024
 * bytes are no better than 512 (bench/reduce_kernels.c -b 64M).  A prefetch is no access, so it may
 * point beyond the end. */
#define STRETCH_BYTES 512

HELPER void prefetch_stretch(const void *const *in, unsigned ranks, size_t at)
{
    for (unsigned rank = 0; rank < ranks; rank++) {
        uintptr_t next = (uintptr_t)in[rank] + at + STRETCH_BYTES;

        for (size_t line = 0; line < STRETCH_BYTES; line += 64)
            __builtin_prefetch((const void *)(next + line));
    }
}

/* Loops.  `part` is the number of bytes that one accumulator covers in memory; four accumulators
 * stay in registers while the ranks pass by, and a block is stored after all of its inputs were
 * read, so `out` may be one of them.
 *
 *   acc_t load(p)             acc_t fold(acc, p)             store(p, acc, by) */
#define DEFINE_LOOP(name, acc_t, part, load, fold, store)                                          \
    TARGET static void name##_loop(byte *out, const void *const *in, unsigned ranks, size_t bytes, \
                                   struct divisor by)                                              \
    {                                                                                              \
        const byte *src = in[0];                                                                   \
        size_t at = 0;                                                                             \
                                                                                                   \
        for (; at + 4 * (part) <= bytes; at += 4 * (part)) {                                       \
            if (at % STRETCH_BYTES == 0)                                                           \
                prefetch_stretch(in, ranks, at);                                                   \
            src = (const byte *)in[0] + at;                                                        \
            acc_t x0 = load(src), x1 = load(src + (part));                                         \
            acc_t x2 = load(src + 2 * (part)), x3 = load(src + 3 * (part));                        \
                                                                                                   \
            for (unsigned rank = 1; rank < ranks; rank++) {                                        \
                src = (const byte *)in[rank] + at;                                                 \
                x0 = fold(x0, src);                                                                \
                x1 = fold(x1, src + (part));                                                       \
                x2 = fold(x2, src + 2 * (part));                                                   \
                x3 = fold(x3, src + 3 * (part));                                                   \
            }                                                                                      \
            store(out + at, x0, by);                                                               \
            store(out + at + (part), x1, by);                                                      \
            store(out + at + 2 * (part), x2, by);                                                  \
            store(out + at + 3 * (part), x3, by);                                                  \
        }                                                                                          \
        while (at < bytes) {                                                                       \
            byte edge[VECTOR];                                                                     \
            size_t len = bytes - at < (part) ? bytes - at : (part);                                \
                                                                                                   \
            load_edge(edge, (const byte *)in[0] + at, len);                                        \
            acc_t x = load(edge);                                                                  \
                                                                                                   \
            for (unsigned rank = 1; rank < ranks; rank++) {                                        \
                load_edge(edge, (const byte *)in[rank] + at, len);                                 \
                x = fold(x, edge);                                                                 \
            }                                                                                      \
            store(edge, x, by);                                                                    \
            memcpy(out + at, edge, len);                                                           \
            at += len;                                                                             \
        }                                                                                          \
    }

/* Two ranks: the hot case of every plan that folds on arrival. */
#define DEFINE_PAIR(name, acc_t, part, load, fold, store)                                          \
    TARGET static void name##_pair_loop(byte *out, const byte *a, const byte *b, size_t bytes)     \
    {                                                                                              \
        const struct divisor by = {1, 1, 1};                                                       \
        size_t at = 0;                                                                             \
                                                                                                   \
        for (; at + 2 * (part) <= bytes; at += 2 * (part)) {                                       \
            acc_t x0 = fold(load(a + at), b + at);                                                 \
            acc_t x1 = fold(load(a + at + (part)), b + at + (part));                               \
                                                                                                   \
            store(out + at, x0, by);                                                               \
            store(out + at + (part), x1, by);                                                      \
        }                                                                                          \
        while (at < bytes) {                                                                       \
            byte edge_a[VECTOR], edge_b[VECTOR];                                                   \
            size_t len = bytes - at < (part) ? bytes - at : (part);                                \
                                                                                                   \
            load_edge(edge_a, a + at, len);                                                        \
            load_edge(edge_b, b + at, len);                                                        \
            store(edge_a, fold(load(edge_a), edge_b), by);                                         \
            memcpy(out + at, edge_a, len);                                                         \
            at += len;                                                                             \
        }                                                                                          \
    }

#define DEFINE_BOTH(name, acc_t, part, load, fold, store)                                          \
    DEFINE_LOOP(name, acc_t, part, load, fold, store)                                              \
    DEFINE_PAIR(name, acc_t, part, load, fold, store)

/* The table's functions.  Loops count bytes, so types share them. */
#define DEFINE_ENTRY(name, size, loop)                                                             \
    static void name##_pair(void *out, const void *a, const void *b, size_t count)                 \
    {                                                                                              \
        loop##_pair_loop(out, a, b, count *(size));                                                \
    }                                                                                              \
    static void name##_many(void *out, const void *const *in, unsigned ranks, size_t count)        \
    {                                                                                              \
        if (ranks == 2)                                                                            \
            loop##_pair_loop(out, in[0], in[1], count *(size));                                    \
        else                                                                                       \
            loop##_loop(out, in, ranks, count *(size), divide_by(1));                              \
    }

#define DEFINE_AVG_ENTRY(name, size, loop)                                                         \
    static void name##_many(void *out, const void *const *in, unsigned ranks, size_t count)        \
    {                                                                                              \
        loop##_loop(out, in, ranks, count *(size), divide_by(ranks));                              \
    }                                                                                              \
    static void name##_divide(void *buf, unsigned ranks, size_t count)                             \
    {                                                                                              \
        const void *in[1] = {buf};                                                                 \
                                                                                                   \
        loop##_loop(buf, in, 1, count *(size), divide_by(ranks));                                  \
    }

#include "reduce_vector_int.h"

#include "reduce_vector_float.h"

/* The table.  pair() of AVG is that of SUM; rows that are missing are the plain ones. */
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

#define INTEGER_ROWS(T, width)                                                                     \
    [TC_REDUCE_SUM] = ROW(u##width##_sum), [TC_REDUCE_PROD] = ROW(u##width##_prod),                \
    [TC_REDUCE_MIN] = ROW(T##_min), [TC_REDUCE_MAX] = ROW(T##_max),                                \
    [TC_REDUCE_BAND] = ROW(bits##width##_band), [TC_REDUCE_BOR] = ROW(bits##width##_bor),          \
    [TC_REDUCE_BXOR] = ROW(bits##width##_bxor)

#define AVG_ROW(T, width) [TC_REDUCE_AVG] = {T##_avg_many, u##width##_sum_pair, NULL}

tci_kernel_table KERNEL_TABLE = {
    [TC_DTYPE_F64] = FLOAT_ROWS(f64),
    [TC_DTYPE_F32] = FLOAT_ROWS(f32),
    [TC_DTYPE_F16] = FLOAT_ROWS(f16),
    [TC_DTYPE_BF16] = FLOAT_ROWS(bf16),
    [TC_DTYPE_F8E4M3] = FLOAT_ROWS(f8e4m3),
    [TC_DTYPE_F8E5M2] = FLOAT_ROWS(f8e5m2),
    [TC_DTYPE_I8] = {INTEGER_ROWS(i8, 8), AVG_ROW(i8, 8)},
    [TC_DTYPE_U8] = {INTEGER_ROWS(u8, 8), AVG_ROW(u8, 8)},
    [TC_DTYPE_I16] = {INTEGER_ROWS(i16, 16), AVG_ROW(i16, 16)},
    [TC_DTYPE_U16] = {INTEGER_ROWS(u16, 16), AVG_ROW(u16, 16)},
    [TC_DTYPE_I32] = {INTEGER_ROWS(i32, 32), AVG_ROW(i32, 32)},
    [TC_DTYPE_U32] = {INTEGER_ROWS(u32, 32), AVG_ROW(u32, 32)},
    [TC_DTYPE_I64] = {INTEGER_ROWS(i64, 64)},
    [TC_DTYPE_U64] = {INTEGER_ROWS(u64, 64)},
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
            [TC_REDUCE_AVG] = {c64_avg_many, c64_sum_pair, c64_avg_divide},
        },
};
