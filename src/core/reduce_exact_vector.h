/* reduce_exact_vector.h - the exact kernels, written once over a processor family's vocabulary. */
/* SPDX-License-Identifier: Apache-2.0 */

/* A file reduce_<family>.c includes this once, after reduce_vector.h, whose helpers it uses, with
 * EXACT_TABLE, the name of its table, and any_bits(x), whether a vector has a bit set, defined.
 *
 * Three ways, each for what the one before cannot prove that it got right:
 *
 *   1  types of up to 32 bits are added in f64.  While no contribution is so much larger than
 *      another that the ends of the two are more than 53 bits apart, no addition rounds; two
 *      running values, the largest and the smallest size but 0, tell.
 *   2  f64, and what is left: the errors of the additions are themselves added.  That sum is exact
 *      while their sizes together are below the smallest contribution, whose last place divides
 *      them all; beyond, its own error is bounded.
 *   3  tci_exact_elements(): an element at a time.
 *
 * Where the exact sum needs more than the 53 bits of a result that is yet to be rounded to fewer,
 * that result is rounded to odd: of its two neighbours the one whose last bit is 1.  Then a second
 * rounding, to 51 bits or fewer, gives what a single one would.
 * Sources: S. Boldo, G. Melquiond, "When double rounding is odd", 2005 (rounding to odd);
 * D. E. Knuth, "The Art of Computer Programming", vol. 2, 4.2.2 (error of an addition); A. Ziv,
 * "Fast evaluation of elementary mathematical functions with correctly rounded last bit", 1991
 * (round both ends of what the result can be). */

/* Above this number of contributions the counts of bits below no longer hold. */
#define EXACT_RANKS_MAX 8192u

#define ABS_F64(x) ((vf64)((vu64)(x)&SPLAT(vu64, UINT64_C(0x7fffffffffffffff))))

typedef float vf32_half __attribute__((vector_size(VECTOR / 2)));

/* A vector of f32 as two of f64. */
struct wide {
    vf64 a, b;
};

enum { WIDE_LANES = VECTOR / 4 };

HELPER struct wide widen(vf32 x)
{
    vf32_half half[2];

    memcpy(half, &x, VECTOR);
    return (struct wide){__builtin_convertvector(half[0], vf64),
                         __builtin_convertvector(half[1], vf64)};
}

HELPER vf32 narrow(struct wide x)
{
    vf32_half half[2] = {__builtin_convertvector(x.a, vf32_half),
                         __builtin_convertvector(x.b, vf32_half)};
    vf32 y;

    memcpy(&y, half, VECTOR);
    return y;
}

/* ---- Rounding -------------------------------------------------------------------------------- */

/* x + rest rounded to odd, where x is the sum rounded to nearest, or a neighbour of it. */
HELPER vf64 to_odd(vf64 x, vf64 rest)
{
    vu64 inexact = (vu64)(rest > 0) | (vu64)(rest < 0);
    vu64 even = ((vu64)x & SPLAT(vu64, UINT64_C(1))) - SPLAT(vu64, UINT64_C(1));
    vu64 inward = (vu64)((vi64)((vu64)x ^ (vu64)rest) < SPLAT(vi64, INT64_C(0)));

    return (vf64)((vu64)x + ((inward | SPLAT(vu64, UINT64_C(1))) & inexact & even));
}

/* s - q * n without error, q being s / n rounded: q is cut in 26 and 27 bits, whose products with
 * up to 26 bits are exact. */
HELPER vf64 remainder_of(vf64 s, vf64 q, vf64 n)
{
    vf64 upper = (vf64)((vu64)q & SPLAT(vu64, ~UINT64_C(0x7ffffff)));

    return (s - upper * n) - (q - upper) * n;
}

/* An exact sum, divided; for types of up to 32 bits.  Rounding the quotient to f64 first does no
 * harm: where it could, the quotient would have to be next to some m of 25 bits or fewer without
 * being m.  But s and n * m are multiples of the last place of s, n * m having 38 bits or fewer, so
 * s / n is by that, divided by n, away from m, which is more than half of the last place of m. */
HELPER vf64 divide_exact(vf64 s, struct divisor by)
{
    return by.is_power ? s * SPLAT(vf64, by.inverse) : s / SPLAT(vf64, by.value);
}

/* To 24 bits and odd, for types of fewer: the bits behind leave a mark in the last that stays. */
HELPER vf64 mark_f32(vf64 x)
{
    vu64 behind = (vu64)x & SPLAT(vu64, UINT64_C(0x1fffffff));
    vu64 mark = (vu64)(behind != SPLAT(vu64, UINT64_C(0))) & SPLAT(vu64, UINT64_C(0x20000000));

    return (vf64)(((vu64)x ^ behind) | mark);
}

/* To bf16, whose subnormals are those of f32 too, and too small for an f32 with a mark: half of the
 * last place, less one if that is even, carries into what stays; a subnormal is rounded by the
 * addition of a number whose last place is that of subnormals. */
HELPER vf64 round_bf16(vf64 x)
{
    vu64 magnitude = (vu64)ABS_F64(canon_f64(x)), sign = (vu64)x ^ (vu64)ABS_F64(x);
    vu64 even = (magnitude >> 45) & SPLAT(vu64, UINT64_C(1));
    vu64 normal = (magnitude + SPLAT(vu64, (UINT64_C(1) << 44) - 1) + even) &
                  SPLAT(vu64, ~((UINT64_C(1) << 45) - 1));
    vf64 anchor = SPLAT(vf64, 0x1p-81); /* 2^(52 - 133) */
    vu64 tiny = (vu64)(((vf64)magnitude + anchor) - anchor);
    vu64 is_tiny = (vu64)((vf64)magnitude < SPLAT(vf64, 0x1p-126));

    return (vf64)(SELECT(is_tiny, tiny, normal) | sign);
}

HELPER void f32_store_wide(byte *p, struct wide x, struct divisor by)
{
    (void)by;
    f32_store(p, narrow(x), (struct divisor){1, 1, 1});
}

#define DEFINE_STORE_WIDE(T)                                                                       \
    HELPER void T##_store_wide(byte *p, struct wide x, struct divisor by)                          \
    {                                                                                              \
        (void)by;                                                                                  \
        T##_down(p, narrow((struct wide){mark_f32(x.a), mark_f32(x.b)}));                          \
    }

DEFINE_STORE_WIDE(f16)
DEFINE_STORE_WIDE(f8e4m3)
DEFINE_STORE_WIDE(f8e5m2)

/* Sums that are subnormal are multiples of the smallest subnormal and need no rounding. */
HELPER void bf16_store_wide(byte *p, struct wide x, struct divisor by)
{
    if (by.value == 1)
        bf16_down(p, narrow((struct wide){mark_f32(x.a), mark_f32(x.b)}));
    else
        bf16_down(p, narrow((struct wide){round_bf16(x.a), round_bf16(x.b)}));
}

/* ---- The second way -------------------------------------------------------------------------- */

/* first + second, the sizes of what was added to second, and the smallest contribution, as a number
 * less one, which makes 0 the largest. */
struct two_sum {
    vf64 first, second, sizes;
    vi64 low;
};

/* The size of x as a number, less one. */
HELPER vi64 low_of(vf64 x)
{
    vu64 size = (vu64)ABS_F64(x);

    return (vi64)((size - SPLAT(vu64, UINT64_C(1))) & SPLAT(vu64, UINT64_C(0x7fffffffffffffff)));
}

HELPER struct two_sum start_two(vf64 x)
{
    return (struct two_sum){x, SPLAT(vf64, 0.0), SPLAT(vf64, 0.0), low_of(x)};
}

/* The error of the addition that gave `sum`. */
HELPER vf64 error_of(vf64 sum, vf64 x, vf64 y)
{
    vf64 part = sum - x;

    return (x - (sum - part)) + (y - part);
}

HELPER struct two_sum add_two(struct two_sum s, vf64 x)
{
    vf64 first = s.first + x, error = error_of(first, s.first, x);

    return (struct two_sum){first, s.second + error, s.sizes + ABS_F64(error),
                            min_i64(s.low, low_of(x))};
}

/* A number and what it lacks, by less than `margin`. */
struct rounded {
    vf64 value, rest, margin;
};

/* Where no addition had an error, `first` is the sum, and keeps the sign of a zero.  Errors and
 * contributions are multiples of the last place of the smallest one, so that 53 bits hold a sum of
 * errors as long as it is smaller than that one; among subnormals always.  Else each of the
 * additions has an error of at most 2^-53 of the sizes so far; four times that covers the rounding
 * here. */
HELPER struct rounded join_two(struct two_sum s, double ranks)
{
    vf64 value = s.first + s.second;
    vf64 rest = error_of(value, s.first, s.second);
    vu64 is_first = (vu64)(s.second == SPLAT(vf64, 0.0));
    vf64 low = (vf64)(((vu64)s.low + SPLAT(vu64, UINT64_C(1))) &
                      SPLAT(vu64, UINT64_C(0x7ff0000000000000)));
    vu64 is_exact = (vu64)(s.sizes <= low);
    vf64 margin = s.sizes * SPLAT(vf64, ranks * 0x1p-51);

    value = (vf64)SELECT(is_first, (vu64)s.first, (vu64)value);
    return (struct rounded){value, rest, (vf64)(~is_exact & (vu64)margin)};
}

/* Types of up to 32 bits: rounded to odd.  Hard where the sign of the rest is in doubt, and
 * averages of a sum of more than 53 bits, but by a power of two. */
HELPER vf64 finish_odd(struct rounded r, struct divisor by, vu64 *hard)
{
    vu64 is_exact = (vu64)(r.margin == SPLAT(vf64, 0.0));
    vu64 is_short = is_exact & (vu64)(r.rest == SPLAT(vf64, 0.0));

    if (by.is_power) {
        *hard = ~(is_exact | (vu64)(ABS_F64(r.rest) > r.margin));
        return to_odd(r.value, r.rest) * SPLAT(vf64, by.inverse);
    }
    *hard = ~is_short;
    return divide_exact(r.value, by);
}

/* F64: both ends of what the sum can be round to the same, or it is hard. */
HELPER vf64 finish_sum(struct rounded r, vu64 *hard)
{
    vf64 margin = r.margin + ABS_F64(r.rest) * SPLAT(vf64, 0x1p-52);
    vf64 low = r.value + (r.rest - margin), high = r.value + (r.rest + margin);

    *hard = ~((vu64)(r.margin == SPLAT(vf64, 0.0)) | (vu64)(low == high));
    return r.value;
}

/* Quotients that are 0, or that the multiplication or the remainder finds far from the subnormals,
 * and no infinity. */
HELPER vu64 is_ordinary(vf64 q, struct rounded r)
{
    vu64 is_zero = (vu64)(r.value == SPLAT(vf64, 0.0)) & (vu64)(r.margin == SPLAT(vf64, 0.0));

    return is_zero | ((vu64)(ABS_F64(q) > SPLAT(vf64, 0x1p-900)) &
                      (vu64)(ABS_F64(q) < SPLAT(vf64, (double)INFINITY)));
}

/* The same for the quotient. */
HELPER vf64 finish_avg(struct rounded r, struct divisor by, vu64 *hard)
{
    vf64 n = SPLAT(vf64, by.value), q = r.value / n;
    vf64 w = (remainder_of(r.value, q, n) + r.rest) / n;
    vf64 margin = r.margin / n + ABS_F64(w) * SPLAT(vf64, 0x1p-50);
    vf64 low = q + (w - margin), high = q + (w + margin);
    vu64 is_zero = (vu64)(q == SPLAT(vf64, 0.0));

    if (by.is_power) {
        q = finish_sum(r, hard) * SPLAT(vf64, by.inverse);
        *hard |= ~is_ordinary(q, r);
        return q;
    }
    *hard = ~(is_ordinary(q, r) & (is_zero | (vu64)(low == high)));
    return (vf64)SELECT(is_zero, (vu64)q, (vu64)low);
}

/* Lanes that are hard, one at a time, into the elements that were stored. */
HELPER void redo_hard(byte *stored, const struct tci_exact_source *source, size_t count,
                      const vu64 *hard, unsigned vectors)
{
    uint64_t lanes[WIDE_LANES];

    memcpy(lanes, hard, vectors * VECTOR);
    for (size_t i = 0; i < count; i++) {
        if (lanes[i] != 0) {
            tci_exact_elements(stored, source, count, lanes);
            return;
        }
    }
}

/* `len` bytes of one rank: where they lie if they are a whole `part`, else in `edge`. */
HELPER const byte *take(byte *edge, const struct tci_exact_source *source, unsigned rank,
                        size_t len, size_t part)
{
    const byte *src = (const byte *)source->in[rank] + source->at;

    if (len == part)
        return src;
    load_edge(edge, src, len);
    return edge;
}

/* `len` bytes of a type of up to 32 bits, from the inputs at source->at into `stored`, which may be
 * one of them. */
#define DEFINE_SECOND_WAY(T, size, load)                                                           \
    TARGET __attribute__((noinline)) static void T##_second_way(                                   \
        byte *stored, const struct tci_exact_source *source, size_t len, struct divisor by)        \
    {                                                                                              \
        enum { PART = WIDE_LANES * (size) };                                                       \
        byte edge[VECTOR];                                                                         \
        vu64 hard[2];                                                                              \
        struct wide x = widen(load(take(edge, source, 0, len, PART)));                             \
        struct two_sum a = start_two(x.a), b = start_two(x.b);                                     \
                                                                                                   \
        for (unsigned rank = 1; rank < source->ranks; rank++) {                                    \
            x = widen(load(take(edge, source, rank, len, PART)));                                  \
            a = add_two(a, x.a);                                                                   \
            b = add_two(b, x.b);                                                                   \
        }                                                                                          \
        x.a = finish_odd(join_two(a, source->ranks), by, &hard[0]);                                \
        x.b = finish_odd(join_two(b, source->ranks), by, &hard[1]);                                \
        T##_store_wide(edge, x, by);                                                               \
        redo_hard(edge, source, len / (size), hard, 2);                                            \
        memcpy(stored, edge, len);                                                                 \
    }

/* ---- The first way --------------------------------------------------------------------------- */

/* A sum in f64, with the largest size and the smallest less one, which makes 0 the largest. */
struct watched {
    struct wide sum;
    vu32 top, low;
};

HELPER struct watched start_watched(vf32 x)
{
    vu32 size = (vu32)x & SPLAT(vu32, 0x7fffffffu);

    return (struct watched){widen(x), size, size - SPLAT(vu32, 1u)};
}

HELPER struct watched add_watched(struct watched s, vf32 x)
{
    struct wide y = widen(x);
    vu32 size = (vu32)x & SPLAT(vu32, 0x7fffffffu);

    return (struct watched){{s.sum.a + y.a, s.sum.b + y.b},
                            max_u32(s.top, size),
                            min_u32(s.low, size - SPLAT(vu32, 1u))};
}

/* Lanes in which the exponents lie further apart than `spread_max`, but for those with infinities
 * and NaNs, which need no exact sum. */
HELPER vu32 is_spread(vu32 top, vu32 low, int spread_max)
{
    vi32 spread = (vi32)(top >> 23) - (vi32)((low + SPLAT(vu32, 1u)) >> 23);

    return (vu32)(spread > SPLAT(vi32, spread_max)) & (vu32)(top < SPLAT(vu32, 0x7f800000u));
}

/* What a sum of this many contributions has more bits than one of them. */
static int carry_bits(unsigned ranks)
{
    return ranks > 1 ? 32 - __builtin_clz(ranks - 1) : 0;
}

/* `len` bytes of a type of up to 32 bits, from the inputs at from->at into `out`, which may be one
 * of them: two vectors at a time, each stored after all of its inputs were read. */
#define DEFINE_EXACT_LOOP(name, size, load, state, start, add, finish)                             \
    TARGET static void name(byte *out, const struct tci_exact_source *from, size_t len,            \
                            struct divisor by)                                                     \
    {                                                                                              \
        enum { PART = WIDE_LANES * (size) };                                                       \
        struct tci_exact_source source = *from;                                                    \
        size_t end = source.at + len;                                                              \
                                                                                                   \
        for (; source.at + 2 * PART <= end; source.at += PART, out += PART) {                      \
            if ((source.at - from->at) % STRETCH_BYTES == 0)                                       \
                prefetch_stretch(source.in, source.ranks, source.at);                              \
            const byte *src = (const byte *)source.in[0] + source.at;                              \
            struct state x0 = start(load(src)), x1 = start(load(src + PART));                      \
                                                                                                   \
            for (unsigned rank = 1; rank < source.ranks; rank++) {                                 \
                src = (const byte *)source.in[rank] + source.at;                                   \
                x0 = add(x0, load(src));                                                           \
                x1 = add(x1, load(src + PART));                                                    \
            }                                                                                      \
            finish(out, &source, PART, x0, by);                                                    \
            source.at += PART;                                                                     \
            out += PART;                                                                           \
            finish(out, &source, PART, x1, by);                                                    \
        }                                                                                          \
        while (source.at < end) {                                                                  \
            byte edge[VECTOR];                                                                     \
            size_t some = end - source.at < PART ? end - source.at : PART;                         \
            struct state x = start(load(take(edge, &source, 0, some, PART)));                      \
                                                                                                   \
            for (unsigned rank = 1; rank < source.ranks; rank++)                                   \
                x = add(x, load(take(edge, &source, rank, some, PART)));                           \
            finish(edge, &source, some, x, by);                                                    \
            memcpy(out, edge, some);                                                               \
            source.at += some;                                                                     \
            out += some;                                                                           \
        }                                                                                          \
    }

/* In f64.  Contributions of `precision` bits have sums of 53 while their exponents are no further
 * apart than is left; 0: always. */
#define DEFINE_FIRST_WAY(T, size, load, precision)                                                 \
    DEFINE_SECOND_WAY(T, size, load)                                                               \
    HELPER void T##_finish(byte *out, const struct tci_exact_source *source, size_t len,           \
                           struct watched s, struct divisor by)                                    \
    {                                                                                              \
        int spread_max = 53 - (precision)-carry_bits(source->ranks);                               \
                                                                                                   \
        if ((precision) != 0 && any_bits(is_spread(s.top, s.low, spread_max)))                     \
            T##_second_way(out, source, len, by);                                                  \
        else                                                                                       \
            T##_store_wide(                                                                        \
                out, (struct wide){divide_exact(s.sum.a, by), divide_exact(s.sum.b, by)}, by);     \
    }                                                                                              \
    DEFINE_EXACT_LOOP(T##_first_way, size, load, watched, start_watched, add_watched, T##_finish)

/* All values of f16 and of the f8 are multiples of one number, and 8192 of the largest take less
 * than 53 bits of it: no addition in f64 rounds. */
DEFINE_FIRST_WAY(f32, 4, f32_load, 24)
DEFINE_FIRST_WAY(bf16, 2, bf16_up, 8)
DEFINE_FIRST_WAY(f16, 2, f16_up, 0)
DEFINE_FIRST_WAY(f8e4m3, 1, f8e4m3_up, 0)
DEFINE_FIRST_WAY(f8e5m2, 1, f8e5m2_up, 0)

#include "reduce_exact_bf16.h"

/* ---- F64 ------------------------------------------------------------------------------------- */

HELPER void f64_finish(byte *out, const struct tci_exact_source *source, size_t len,
                       struct two_sum s, struct divisor by)
{
    struct rounded r = join_two(s, source->ranks);
    byte edge[VECTOR];
    vu64 hard;
    vf64 x = by.value == 1 ? finish_sum(r, &hard) : finish_avg(r, by, &hard);

    memcpy(edge, &x, VECTOR);
    if (any_bits((vu32)hard))
        redo_hard(edge, source, len / 8, &hard, 1);
    memcpy(out, edge, len);
}

TARGET static void f64_exact_loop(byte *out, const struct tci_exact_source *from, size_t len,
                                  struct divisor by)
{
    struct tci_exact_source source = *from;
    size_t end = source.at + len;

    for (; source.at + 2 * VECTOR <= end; source.at += VECTOR, out += VECTOR) {
        if ((source.at - from->at) % STRETCH_BYTES == 0)
            prefetch_stretch(source.in, source.ranks, source.at);
        const byte *src = (const byte *)source.in[0] + source.at;
        struct two_sum x0 = start_two(f64_up(src)), x1 = start_two(f64_up(src + VECTOR));

        for (unsigned rank = 1; rank < source.ranks; rank++) {
            src = (const byte *)source.in[rank] + source.at;
            x0 = add_two(x0, f64_up(src));
            x1 = add_two(x1, f64_up(src + VECTOR));
        }
        f64_finish(out, &source, VECTOR, x0, by);
        source.at += VECTOR;
        out += VECTOR;
        f64_finish(out, &source, VECTOR, x1, by);
    }
    while (source.at < end) {
        byte edge[VECTOR];
        size_t some = end - source.at < VECTOR ? end - source.at : VECTOR;

        load_edge(edge, (const byte *)source.in[0] + source.at, some);
        struct two_sum x = start_two(f64_up(edge));

        for (unsigned rank = 1; rank < source.ranks; rank++) {
            load_edge(edge, (const byte *)source.in[rank] + source.at, some);
            x = add_two(x, f64_up(edge));
        }
        f64_finish(out, &source, some, x, by);
        source.at += some;
        out += some;
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The sum of two is rounded once by the canonical kernels as well. */
#define DEFINE_EXACT_ENTRY(T, size, loop, pair, dtype, parts)                                      \
    static void T##_exact_sum(void *out, const void *const *in, unsigned ranks, size_t count)      \
    {                                                                                              \
        const struct tci_exact_source source = {in, 0, ranks, 1, dtype};                           \
                                                                                                   \
        if (ranks == 2)                                                                            \
            pair(out, in[0], in[1], count *(size));                                                \
        else if (ranks <= EXACT_RANKS_MAX)                                                         \
            loop(out, &source, count *(size), divide_by(1));                                       \
        else                                                                                       \
            tci_exact_elements(out, &source, count *(parts), NULL);                                \
    }                                                                                              \
    static void T##_exact_avg(void *out, const void *const *in, unsigned ranks, size_t count)      \
    {                                                                                              \
        const struct tci_exact_source source = {in, 0, ranks, ranks, dtype};                       \
                                                                                                   \
        if (ranks <= EXACT_RANKS_MAX)                                                              \
            loop(out, &source, count *(size), divide_by(ranks));                                   \
        else                                                                                       \
            tci_exact_elements(out, &source, count *(parts), NULL);                                \
    }

DEFINE_EXACT_ENTRY(f64, 8, f64_exact_loop, f64_sum_pair_loop, TC_DTYPE_F64, 1)
DEFINE_EXACT_ENTRY(f32, 4, f32_first_way, f32_sum_pair_loop, TC_DTYPE_F32, 1)
DEFINE_EXACT_ENTRY(f16, 2, f16_first_way, f16_sum_pair_loop, TC_DTYPE_F16, 1)
DEFINE_EXACT_ENTRY(bf16, 2, bf16_exact_loop, bf16_sum_pair_loop, TC_DTYPE_BF16, 1)
DEFINE_EXACT_ENTRY(f8e4m3, 1, f8e4m3_first_way, f8e4m3_sum_pair_loop, TC_DTYPE_F8E4M3, 1)
DEFINE_EXACT_ENTRY(f8e5m2, 1, f8e5m2_first_way, f8e5m2_sum_pair_loop, TC_DTYPE_F8E5M2, 1)
DEFINE_EXACT_ENTRY(c64, 8, f32_first_way, f32_sum_pair_loop, TC_DTYPE_F32, 2)

#define EXACT_ROW(T)                                                                               \
    {                                                                                              \
        [TCI_EXACT_SUM] = T##_exact_sum, [TCI_EXACT_AVG] = T##_exact_avg                           \
    }

tci_exact_table EXACT_TABLE = {
    [TC_DTYPE_F64] = EXACT_ROW(f64),       [TC_DTYPE_F32] = EXACT_ROW(f32),
    [TC_DTYPE_F16] = EXACT_ROW(f16),       [TC_DTYPE_BF16] = EXACT_ROW(bf16),
    [TC_DTYPE_F8E4M3] = EXACT_ROW(f8e4m3), [TC_DTYPE_F8E5M2] = EXACT_ROW(f8e5m2),
    [TC_DTYPE_C64] = EXACT_ROW(c64),
};
