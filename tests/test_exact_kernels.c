/* test_exact_kernels.c - exact kernels at every length and address; pairs of 16 bits. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 1800, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/reduce.h"
#include "support/reduce_oracle.h"

/* The reference has its own test against big integers, test_exact.c; here it is the measure. */

enum { COUNT_MAX = 130, GUARD = 64, RANKS_MAX = 40, ROOM = GUARD + 8 * COUNT_MAX + GUARD };

static const tc_dtype_t floats[] = {TC_DTYPE_F64,    TC_DTYPE_F32,    TC_DTYPE_F16, TC_DTYPE_BF16,
                                    TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2, TC_DTYPE_C64};

enum { FLOATS = sizeof(floats) / sizeof(floats[0]) };

static unsigned char inputs[RANKS_MAX][ROOM];
static unsigned char output[ROOM + GUARD];
static unsigned char wanted[8 * COUNT_MAX];

static enum tci_isa isa_of(void **state)
{
    enum tci_isa isa = *(const enum tci_isa *)*state;

    if (!tci_isa_usable(isa)) {
        printf("skipped: this build or processor has no %s\n", tci_isa_name(isa));
        skip();
    }
    return isa;
}

/* Three kinds of data, so that units of one kind, and of several, occur: random bits; bytes that
 * are ordinary numbers of one size; ordinary numbers, with a rank here and there of random bits. */
static void fill_inputs(int kind)
{
    uint64_t seed = (uint64_t)kind + 7;

    for (size_t rank = 0; rank < RANKS_MAX; rank++) {
        for (size_t at = 0; at < ROOM; at++) {
            unsigned char any = (unsigned char)oracle_random(&seed);
            unsigned char tame = (unsigned char)(0x38 | (any & 0x83));
            bool is_wild = kind == 0 || (kind == 2 && (at / 64 + rank) % 5 == 0);

            inputs[rank][at] = is_wild ? any : tame;
        }
    }
}

static void for_each_fold(enum tci_isa isa, void (*body)(const struct tci_fold *fold))
{
    for (int kind = 0; kind < 3; kind++) {
        fill_inputs(kind);
        for (size_t k = 0; k < FLOATS; k++) {
            for (int op = TC_REDUCE_SUM; op <= TC_REDUCE_AVG; op++) {
                struct tci_fold fold = {0};

                assert_int_equal(tci_fold_init_exact_isa(&fold, floats[k], (tc_reduce_op_t)op, isa),
                                 TC_OK);
                body(&fold);
            }
        }
    }
}

static void expect(const struct tci_fold *fold, const void *const *in, int ranks, size_t count)
{
    assert_int_equal(tc_reduce_reference_exact(wanted, in, ranks, count, fold->dtype, fold->op),
                     TC_OK);
}

static void check_same(const struct tci_fold *fold, const unsigned char *got, size_t count,
                       int ranks, const char *what)
{
    if (memcmp(got, wanted, count * fold->size) != 0)
        fail_msg("%s: %s of %s, %d ranks, count %zu", what, tc_reduce_op_name(fold->op),
                 tc_dtype_name(fold->dtype), ranks, count);
}

/* ---- Lengths and addresses ------------------------------------------------------------------- */

static void check_length(const struct tci_fold *fold, size_t count, int ranks)
{
    const void *in[RANKS_MAX];
    unsigned char *out = output + GUARD + (count * 3 + (size_t)ranks) % 33;
    unsigned char *end = out + count * fold->size;

    for (int rank = 0; rank < ranks; rank++)
        in[rank] = inputs[rank] + ((size_t)rank * 5 + count) % 31;
    expect(fold, in, ranks, count);
    memset(output, 0xa5, sizeof(output));
    fold->many(out, in, (unsigned)ranks, count);
    check_same(fold, out, count, ranks, "length");
    for (const unsigned char *p = output; p < output + sizeof(output); p++) {
        if (p < out || p >= end)
            assert_int_equal(*p, 0xa5);
    }
}

static void check_lengths(const struct tci_fold *fold)
{
    for (size_t count = 0; count <= COUNT_MAX; count += 1 + (oracle_effort() == 0) * (count % 3)) {
        check_length(fold, count, 2);
        check_length(fold, count, 3);
    }
    check_length(fold, 67, RANKS_MAX);
}

static void any_length_and_address_leave_the_bytes_around_alone(void **state)
{
    for_each_fold(isa_of(state), check_lengths);
}

/* A buffer that ends where it is allocated: sanitizers see one byte too many. */
static void check_tight(const struct tci_fold *fold)
{
    for (size_t count = 1; count <= 67; count += 3) {
        size_t bytes = count * fold->size;
        unsigned char *tight[3];

        for (int rank = 0; rank < 3; rank++) {
            tight[rank] = malloc(bytes);
            assert_non_null(tight[rank]);
            memcpy(tight[rank], inputs[rank], bytes);
        }
        expect(fold, (const void *const *)tight, 3, count);
        fold->many(tight[2], (const void *const *)tight, 3, count);
        check_same(fold, tight[2], count, 3, "tight");
        for (int rank = 0; rank < 3; rank++)
            free(tight[rank]);
    }
}

static void nothing_beyond_the_last_element_is_read(void **state)
{
    for_each_fold(isa_of(state), check_tight);
}

/* ---- In place -------------------------------------------------------------------------------- */

static void check_in_place(const struct tci_fold *fold)
{
    const void *in[RANKS_MAX];

    for (int ranks = 2; ranks <= 9; ranks++) {
        size_t count = 43 + (size_t)ranks;

        for (int place = 0; place < ranks; place++) {
            unsigned char *out = output + GUARD + place;

            for (int rank = 0; rank < ranks; rank++)
                in[rank] = inputs[rank];
            expect(fold, in, ranks, count);
            memcpy(out, inputs[place], count * fold->size);
            in[place] = out;
            fold->many(out, in, (unsigned)ranks, count);
            check_same(fold, out, count, ranks, "in place");
        }
        for (int rank = 0; rank < ranks; rank++)
            in[rank] = output;
        memcpy(output, inputs[0], count * fold->size);
        expect(fold, in, ranks, count);
        fold->many(output, in, (unsigned)ranks, count);
        check_same(fold, output, count, ranks, "all of its inputs");
    }
}

static void the_output_may_be_any_or_all_of_the_inputs(void **state)
{
    for_each_fold(isa_of(state), check_in_place);
}

/* ---- All pairs of 16 bits -------------------------------------------------------------------- */

enum { CODES = 65536 };

static double values[CODES];

/* Whether `got` is the code next to high + low, which is an exact sum; ties go to the even code.
 * The distances of two neighbours from what lies between them are exact in f64. */
static bool is_nearest(tc_dtype_t dtype, unsigned got, double high, double low)
{
    unsigned size = got & 0x7fff, finite = oracle_finite(dtype);
    double value, below, above, off, half;

    if (isnan(high))
        return isnan(values[got]);
    if (high == 0)
        return values[got] == 0;
    if (isinf(high))
        return values[got] == high;
    if ((got >> 15) != (unsigned)(signbit(high) != 0) || size > finite + 1)
        return false;
    value = size > finite ? oracle_beyond(dtype) : fabs(values[got]);
    above = size >= finite ? oracle_beyond(dtype) - value + (size > finite ? INFINITY : 0)
                           : values[size + 1] - value;
    below = size == 0 ? 0 : value - values[size - 1];
    off = fabs(high) - value;
    low = signbit(high) ? -low : low;
    half = off > 0 || (off == 0 && low > 0) ? above / 2 : -below / 2;
    if (off != half)
        return half > 0 ? off < half : off > half;
    return low == 0 ? size % 2 == 0 : (low < 0) == (half > 0);
}

/* high + low = x + y without error: Knuth's error of an addition. */
static void check_pair(tc_dtype_t dtype, unsigned a, unsigned b, unsigned got)
{
    double x = values[a], y = values[b], high = x + y, part = high - x;
    double low = (x - (high - part)) + (y - part);

    if (!is_nearest(dtype, got, high, isfinite(high) ? low : 0) ||
        (high == 0 && (got >> 15) != (a >> 15 & b >> 15)) || (isnan(high) && got >> 15 != 0))
        fail_msg("%s: %04x + %04x gives %04x", tc_dtype_name(dtype), a, b, got);
}

static void check_partner(tc_dtype_t dtype, unsigned b, enum tci_isa isa)
{
    static uint16_t left[CODES], right[CODES], sums[CODES], averages[CODES];
    const void *in[2] = {left, right};
    struct tci_fold fold = {0};

    for (unsigned a = 0; a < CODES; a++) {
        left[a] = (uint16_t)a;
        right[a] = (uint16_t)b;
    }
    assert_int_equal(tci_fold_init_exact_isa(&fold, dtype, TC_REDUCE_SUM, isa), TC_OK);
    fold.many(sums, in, 2, CODES);
    for (unsigned a = 0; a < CODES; a++)
        check_pair(dtype, a, b, sums[a]);

    /* The average is the sum of the halves, which bf16 and f16 hold but for the smallest. */
    assert_int_equal(tci_fold_init_exact_isa(&fold, dtype, TC_REDUCE_AVG, isa), TC_OK);
    fold.many(averages, in, 2, CODES);
    for (unsigned a = 0; a < CODES; a++) {
        double x = values[a] / 2, y = values[b] / 2, high = x + y, part = high - x;
        double low = (x - (high - part)) + (y - part);

        if (!is_nearest(dtype, averages[a], high, isfinite(high) ? low : 0))
            fail_msg("%s: average of %04x and %04x is %04x", tc_dtype_name(dtype), a, b,
                     averages[a]);
    }
}

/* Those at the ends of the range and around 1, and others; all of them are in
 * test_exact_pairs.c. */
static void check_pairs(tc_dtype_t dtype, enum tci_isa isa)
{
    unsigned stride = oracle_effort() == 0 ? 8191 : oracle_effort() == 1 ? 1009 : 257;

    for (unsigned code = 0; code < CODES; code++)
        values[code] = oracle_decode(dtype, code);
    for (unsigned b = 0; b < CODES; b += stride)
        check_partner(dtype, b, isa);
    for (unsigned k = 0; k < 6; k++) {
        unsigned finite = oracle_finite(dtype);
        const unsigned ends[] = {1, 0x8000, finite, finite + 1, 0x8000 + finite, CODES - 1};

        check_partner(dtype, ends[k], isa);
    }
}

static void pairs_of_f16_and_bf16_are_rounded_once(void **state)
{
    enum tci_isa isa = isa_of(state);

    check_pairs(TC_DTYPE_F16, isa);
    check_pairs(TC_DTYPE_BF16, isa);
}

/* ---- Looking kernels up ---------------------------------------------------------------------- */

static void what_is_exact_anyway_has_the_canonical_kernels(void **state)
{
    (void)state;
    for (size_t k = 0; k < 16; k++) {
        for (int op = TC_REDUCE_SUM; op <= TC_REDUCE_BXOR; op++) {
            struct tci_fold exact = {0}, canonical = {0};
            bool is_float = !oracle_has(oracle_dtypes[k], TC_REDUCE_BAND);
            tc_status_t status = tci_fold_init(&canonical, oracle_dtypes[k], (tc_reduce_op_t)op);

            if (status == TC_OK && is_float && op == TC_REDUCE_PROD)
                status = TC_ERR_UNSUPPORTED;
            assert_int_equal(tci_exact_supported(oracle_dtypes[k], (tc_reduce_op_t)op), status);
            assert_int_equal(tci_fold_init_exact(&exact, oracle_dtypes[k], (tc_reduce_op_t)op),
                             status);
            if (status != TC_OK)
                continue;
            if (is_float && op <= TC_REDUCE_AVG)
                assert_true(exact.many != canonical.many && exact.pair == NULL);
            else
                assert_memory_equal(&exact, &canonical, sizeof(exact));
        }
    }
}

static void the_reference_refuses_bad_arguments(void **state)
{
    float a = 1, out = 0;
    const void *in[2] = {&a, NULL};

    (void)state;
    assert_int_equal(tc_reduce_reference_exact(NULL, NULL, 2, 0, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_OK);
    assert_int_equal(tc_reduce_reference_exact(&out, in, 0, 1, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference_exact(&out, in, 2, 1, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference_exact(NULL, in, 1, 1, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference_exact(&out, NULL, 2, 1, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference_exact(&out, in, 1, 1, TC_DTYPE_F32, TC_REDUCE_PROD),
                     TC_ERR_UNSUPPORTED);
    assert_int_equal(tc_reduce_reference_exact(&out, in, 1, 1, TC_DTYPE_F32, TC_REDUCE_BOR),
                     TC_ERR_UNSUPPORTED);
    assert_int_equal(tc_reduce_reference_exact(&out, in, 1, 1, (tc_dtype_t)9, TC_REDUCE_SUM),
                     TC_ERR_UNSUPPORTED_DTYPE);
    assert_true(out == 0);
}

static void the_reference_of_one_rank_copies_every_bit(void **state)
{
    const void *in[1] = {inputs[0]};

    (void)state;
    fill_inputs(0);
    for (size_t k = 0; k < FLOATS; k++) {
        memset(output, 0, sizeof(output));
        assert_int_equal(
            tc_reduce_reference_exact(output, in, 1, COUNT_MAX, floats[k], TC_REDUCE_AVG), TC_OK);
        assert_memory_equal(output, inputs[0], COUNT_MAX * oracle_size(floats[k]));
    }
}

static enum tci_isa isas[] = {TCI_ISA_PLAIN, TCI_ISA_AVX2, TCI_ISA_AVX512, TCI_ISA_NEON};

#define CASE(isa, ISA, sentence)                                                                   \
    {                                                                                              \
#isa ": " #sentence, sentence, NULL, NULL, &isas[ISA]                                      \
    }

#define CASES(isa, ISA)                                                                            \
    CASE(isa, ISA, any_length_and_address_leave_the_bytes_around_alone),                           \
        CASE(isa, ISA, nothing_beyond_the_last_element_is_read),                                   \
        CASE(isa, ISA, the_output_may_be_any_or_all_of_the_inputs),                                \
        CASE(isa, ISA, pairs_of_f16_and_bf16_are_rounded_once)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASES(plain, TCI_ISA_PLAIN),
        CASES(avx2, TCI_ISA_AVX2),
        CASES(avx512, TCI_ISA_AVX512),
        CASES(neon, TCI_ISA_NEON),
        cmocka_unit_test(what_is_exact_anyway_has_the_canonical_kernels),
        cmocka_unit_test(the_reference_refuses_bad_arguments),
        cmocka_unit_test(the_reference_of_one_rank_copies_every_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
