/* test_reduce_values.c - every family of kernels gives the bits of an independent oracle. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/reduce.h"
#include "support/reduce_oracle.h"

/* Families that this machine lacks are left out here; test_reduce.c says which. */

#define SMALL_BLOCK 65536
#define OPS         8

static void *allocate(size_t bytes)
{
    void *p = malloc(bytes);

    assert_non_null(p);
    return p;
}

/* cmocka's own comparison prints every byte that differs; the first is enough. */
static void check_bytes(const void *got, const void *wanted, size_t bytes, const char *what,
                        const struct tci_fold *fold, enum tci_isa isa)
{
    const unsigned char *a = got, *b = wanted;

    if (memcmp(got, wanted, bytes) == 0)
        return;
    for (size_t k = 0; k < bytes; k++) {
        if (a[k] != b[k])
            fail_msg("%s %s %s %s: byte %zu of element %zu is %02x, not %02x", tci_isa_name(isa),
                     what, tc_dtype_name(fold->dtype), tc_reduce_op_name(fold->op), k % fold->size,
                     k / fold->size, a[k], b[k]);
    }
}

/* pair() has the bits of many() of two, but for AVG, where it has those of SUM. */
static void check_pair(const struct tci_fold *fold, enum tci_isa isa, const void *const *in,
                       size_t count, unsigned char *out, unsigned char *wanted)
{
    if (fold->op == TC_REDUCE_AVG)
        oracle_reduce(wanted, in, 2, count, fold->dtype, TC_REDUCE_SUM);
    fold->pair(out, in[0], in[1], count);
    check_bytes(out, wanted, count * fold->size, "pair", fold, isa);
    if (fold->op == TC_REDUCE_AVG)
        oracle_reduce(wanted, in, 2, count, fold->dtype, TC_REDUCE_AVG);
}

/* many() of every usable family, tc_reduce_reference(), and pair() where there are two ranks. */
static void check_all(const void *const *in, unsigned ranks, size_t count, tc_dtype_t dtype,
                      tc_reduce_op_t op)
{
    size_t bytes = count * oracle_size(dtype);
    unsigned char *wanted = allocate(bytes), *out = allocate(bytes);

    oracle_reduce(wanted, in, ranks, count, dtype, op);
    for (int isa = 0; isa < TCI_ISA_COUNT; isa++) {
        struct tci_fold fold = {0};

        if (!tci_isa_usable((enum tci_isa)isa))
            continue;
        assert_int_equal(tci_fold_init_isa(&fold, dtype, op, (enum tci_isa)isa), TC_OK);
        memset(out, 0x5a, bytes);
        fold.many(out, in, ranks, count);
        check_bytes(out, wanted, bytes, "many", &fold, (enum tci_isa)isa);
        if (ranks == 2)
            check_pair(&fold, (enum tci_isa)isa, in, count, out, wanted);
    }
    memset(out, 0x5a, bytes);
    assert_int_equal(tc_reduce_reference(out, in, (int)ranks, count, dtype, op), TC_OK);
    assert_memory_equal(out, wanted, bytes);
    free(out);
    free(wanted);
}

static void check_all_ops(const void *const *in, unsigned ranks, size_t count, tc_dtype_t dtype)
{
    for (int op = 0; op < OPS; op++) {
        if (oracle_has(dtype, (tc_reduce_op_t)op))
            check_all(in, ranks, count, dtype, (tc_reduce_op_t)op);
    }
}

static void check_divide(const void *src, unsigned ranks, size_t count, tc_dtype_t dtype)
{
    size_t bytes = count * oracle_size(dtype);
    unsigned char *wanted = allocate(bytes), *buf = allocate(bytes);

    memcpy(wanted, src, bytes);
    oracle_divide(wanted, ranks, count, dtype);
    for (int isa = 0; isa < TCI_ISA_COUNT; isa++) {
        struct tci_fold fold = {0};

        if (!tci_isa_usable((enum tci_isa)isa))
            continue;
        assert_int_equal(tci_fold_init_isa(&fold, dtype, TC_REDUCE_AVG, (enum tci_isa)isa), TC_OK);
        memcpy(buf, src, bytes);
        fold.divide(buf, ranks, count);
        check_bytes(buf, wanted, bytes, "divide", &fold, (enum tci_isa)isa);
    }
    free(buf);
    free(wanted);
}

static const unsigned divisors[] = {1, 2, 3, 4, 5, 7, 8, 10, 64, 100, 255, 1000, 65536, 16777217};

#define DIVISORS (sizeof(divisors) / sizeof(divisors[0]))

static int is_float(tc_dtype_t dtype)
{
    return oracle_has(dtype, TC_REDUCE_AVG) && !oracle_has(dtype, TC_REDUCE_BAND);
}

/* ---- 8 bits ---- */

static void all_pairs_of_8_bit_elements(void **state)
{
    unsigned char *a = allocate(SMALL_BLOCK), *b = allocate(SMALL_BLOCK);
    const void *in[2] = {a, b};

    (void)state;
    for (size_t k = 0; k < SMALL_BLOCK; k++) {
        a[k] = (unsigned char)(k >> 8);
        b[k] = (unsigned char)k;
    }

    for (size_t k = 0; k < 16; k++) {
        if (oracle_size(oracle_dtypes[k]) == 1)
            check_all_ops(in, 2, SMALL_BLOCK, oracle_dtypes[k]);
    }
    free(b);
    free(a);
}

/* ---- 16 bits ---- */

/* Zeros, ones, extremes, subnormals, infinities and NaNs of F16 and of BF16. */
static const uint16_t special_16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x007f, 0x0080, 0x3c00, 0xbc00,
    0x3f80, 0xbf80, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfe00, 0x7f7f, 0xff7f, 0x7f80,
    0xff80, 0x7f81, 0x7fc0, 0xffc0, 0x7fff, 0xffff, 0x1400, 0x3555, 0x4900, 0x6401,
};

#define SPECIAL_16 (sizeof(special_16) / sizeof(special_16[0]))

static void all_16_bit_elements_with_special_and_random_partners(void **state)
{
    static const unsigned partners[] = {8, SPECIAL_16 + 8, 1024};
    uint16_t *a = allocate(2 * SMALL_BLOCK), *b = allocate(2 * SMALL_BLOCK);
    const void *in[2] = {a, b};
    uint64_t seed = 16;

    (void)state;
    for (size_t k = 0; k < SMALL_BLOCK; k++)
        a[k] = (uint16_t)k;

    for (unsigned partner = 0; partner < partners[oracle_effort()]; partner++) {
        uint16_t random = (uint16_t)oracle_random(&seed);

        /* quick: a partner of its own for each element, so that all specials take part */
        for (size_t k = 0; k < SMALL_BLOCK; k++) {
            if (oracle_effort() == 0)
                b[k] = special_16[(k * 5 + k / 32 + partner) % SPECIAL_16];
            else
                b[k] = partner < SPECIAL_16 ? special_16[partner] : random;
        }
        in[0] = partner % 2 == 0 ? a : b;
        in[1] = partner % 2 == 0 ? b : a;
        for (size_t k = 0; k < 16; k++) {
            if (oracle_size(oracle_dtypes[k]) == 2)
                check_all_ops(in, 2, SMALL_BLOCK, oracle_dtypes[k]);
        }
    }
    free(b);
    free(a);
}

static void every_8_and_16_bit_float_divided(void **state)
{
    uint16_t *a = allocate(2 * SMALL_BLOCK);

    (void)state;
    for (size_t k = 0; k < SMALL_BLOCK; k++)
        a[k] = (uint16_t)k;

    for (size_t k = 0; k < DIVISORS; k++) {
        check_divide(a, divisors[k], SMALL_BLOCK, TC_DTYPE_F16);
        check_divide(a, divisors[k], SMALL_BLOCK, TC_DTYPE_BF16);
        check_divide(a, divisors[k], SMALL_BLOCK / 8, TC_DTYPE_F8E4M3);
        check_divide(a, divisors[k], SMALL_BLOCK / 8, TC_DTYPE_F8E5M2);
    }
    free(a);
}

/* ---- 32 and 64 bits ---- */

static const uint32_t special_32[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x3f800000, 0xbf800000, 0x3f800001, 0x33800000, 0x33000000, 0x33000001, 0x7f7fffff, 0xff7fffff,
    0x73000000, 0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fc00000, 0xffc00000, 0x7fffffff,
    0xffffffff, 0x0000ffff, 0x12345678, 0x4b800000, 0x5f000000, 0x20000000,
};

static const uint64_t special_64[] = {
    UINT64_C(0x0000000000000000), UINT64_C(0x8000000000000000), UINT64_C(0x0000000000000001),
    UINT64_C(0x8000000000000001), UINT64_C(0x000fffffffffffff), UINT64_C(0x0010000000000000),
    UINT64_C(0x8010000000000000), UINT64_C(0x3ff0000000000000), UINT64_C(0xbff0000000000000),
    UINT64_C(0x3ff0000000000001), UINT64_C(0x3ca0000000000000), UINT64_C(0x3c90000000000001),
    UINT64_C(0x7fefffffffffffff), UINT64_C(0xffefffffffffffff), UINT64_C(0x7c80000000000000),
    UINT64_C(0x7ff0000000000000), UINT64_C(0xfff0000000000000), UINT64_C(0x7ff0000000000001),
    UINT64_C(0xfff0000000000001), UINT64_C(0x7ff8000000000000), UINT64_C(0xfff8000000000000),
    UINT64_C(0x7fffffffffffffff), UINT64_C(0xffffffffffffffff), UINT64_C(0x00000000ffffffff),
};

#define SPECIAL_32 (sizeof(special_32) / sizeof(special_32[0]))
#define SPECIAL_64 (sizeof(special_64) / sizeof(special_64[0]))

static void specials_with_specials_in_32_bits(void **state)
{
    enum { COUNT = SPECIAL_32 * SPECIAL_32 * SPECIAL_32 };
    uint32_t *a = allocate(3 * sizeof(*a) * COUNT), *b = a + COUNT, *c = b + COUNT;
    const void *in[3] = {a, b, c};

    (void)state;
    for (size_t k = 0; k < COUNT; k++) {
        a[k] = special_32[k % SPECIAL_32];
        b[k] = special_32[k / SPECIAL_32 % SPECIAL_32];
        c[k] = special_32[k / SPECIAL_32 / SPECIAL_32];
    }

    for (size_t k = 0; k < 16; k++) {
        tc_dtype_t dtype = oracle_dtypes[k];

        if (oracle_size(dtype) == 4 || dtype == TC_DTYPE_C64) {
            check_all_ops(in, 2, COUNT * 4 / oracle_size(dtype), dtype);
            check_all_ops(in, 3, COUNT * 4 / oracle_size(dtype), dtype);
        }
        for (size_t by = 0; by < DIVISORS && is_float(dtype); by++)
            check_divide(a, divisors[by], SPECIAL_32 * 4 / oracle_size(dtype), dtype);
    }
    free(a);
}

static void specials_with_specials_in_64_bits(void **state)
{
    enum { COUNT = SPECIAL_64 * SPECIAL_64 * SPECIAL_64 };
    uint64_t *a = allocate(3 * sizeof(*a) * COUNT), *b = a + COUNT, *c = b + COUNT;
    const void *in[3] = {a, b, c};

    (void)state;
    for (size_t k = 0; k < COUNT; k++) {
        a[k] = special_64[k % SPECIAL_64];
        b[k] = special_64[k / SPECIAL_64 % SPECIAL_64];
        c[k] = special_64[k / SPECIAL_64 / SPECIAL_64];
    }

    for (size_t k = 0; k < 16; k++) {
        if (oracle_size(oracle_dtypes[k]) == 8) {
            check_all_ops(in, 2, COUNT, oracle_dtypes[k]);
            check_all_ops(in, 3, COUNT, oracle_dtypes[k]);
        }
    }
    for (size_t by = 0; by < DIVISORS; by++)
        check_divide(a, divisors[by], SPECIAL_64, TC_DTYPE_F64);
    free(a);
}

/* Any bits; or floats of close exponents, so that sums cancel and round; or mostly subnormals. */
static void fill_random(unsigned char *p, size_t bytes, int style, uint64_t *seed)
{
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t bits = oracle_random(seed);

        if (style == 1)
            bits = (bits & UINT64_C(0x83ffffff83ffffff)) | UINT64_C(0x3c0000003c000000);
        if (style == 2)
            bits &= UINT64_C(0x80ffffff80ffffff);
        memcpy(p + at, &bits, 8);
    }
}

static void random_bits_of_several_ranks(void **state)
{
    static const size_t counts[] = {512, 16384, 262144};
    size_t count = counts[oracle_effort()];
    unsigned char *data = allocate(7 * 8 * count);
    const void *in[7];
    uint64_t seed = 32;

    (void)state;
    for (size_t rank = 0; rank < 7; rank++)
        in[rank] = data + rank * 8 * count;

    for (int style = 0; style < 3; style++) {
        fill_random(data, 7 * 8 * count, style, &seed);
        for (size_t k = 0; k < 16; k++) {
            check_all_ops(in, 2, count, oracle_dtypes[k]);
            check_all_ops(in, 3, count, oracle_dtypes[k]);
            check_all_ops(in, 4, count, oracle_dtypes[k]);
            check_all_ops(in, 7, count, oracle_dtypes[k]);
            for (size_t by = 0; by < DIVISORS && is_float(oracle_dtypes[k]); by++)
                check_divide(data, divisors[by], count / 4, oracle_dtypes[k]);
        }
    }
    free(data);
}

/* ---- The average of integers, where vector kernels hand over to the plain one ---- */

/* All ranks at the lowest value, at the highest, and changing, in turn by element. */
static void check_average(tc_dtype_t dtype, unsigned ranks)
{
    enum { COUNT = 67 };
    unsigned char rows[3][COUNT * 8];
    const void **in = allocate(ranks * sizeof(*in));
    uint64_t seed = ranks;

    for (size_t row = 0; row < 3; row++) {
        fill_random(rows[row], COUNT * 8, 0, &seed);
        memset(rows[row], 0xff, 16);
        memset(rows[row] + 16, 0x00, 16);
        for (size_t k = 32; k < 96; k++) /* 0x80…00 and 0x7f…ff, little-endian */
            rows[row][k] =
                (k + 1) % oracle_size(dtype) == 0 ? (k < 64 ? 0x80 : 0x7f) : (k < 64 ? 0x00 : 0xff);
    }
    for (unsigned rank = 0; rank < ranks; rank++)
        in[rank] = rows[oracle_random(&seed) % 3];

    check_all(in, ranks, COUNT, dtype, TC_REDUCE_AVG);
    free(in);
}

static void average_of_integers_truncates_for_any_number_of_ranks(void **state)
{
    static const unsigned counts[] = {2, 3, 5, 6, 9, 63, 64, 65, 100, 1023, 8191, 8192, 8193};
    static const unsigned large[] = {33414, 262144, 262145}; /* 255 * 33414 > 2^23 */

    (void)state;
    for (size_t k = 0; k < 16; k++) {
        tc_dtype_t dtype = oracle_dtypes[k];

        if (is_float(dtype) || dtype == TC_DTYPE_BOOL)
            continue;
        for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++)
            check_average(dtype, counts[n]);
        for (size_t n = 0; n < 3 && oracle_effort() > 0 && oracle_size(dtype) != 8; n++)
            check_average(dtype, large[n]);
    }
}

/* All ranks have the same element, and one has a little more or nothing more: the sum is a multiple
 * of the ranks, or just below the next.  With 41, 47, 55 and 61 ranks in f32, and with 49, 98, 103
 * and 107 in f64, some product of such a sum with 1 / ranks rounds to below the quotient. */
static void check_multiples(unsigned ranks, tc_dtype_t dtype)
{
    uint32_t *rows = allocate(2 * SMALL_BLOCK * sizeof(*rows));
    const void *in[107];
    size_t size = oracle_size(dtype);

    for (unsigned extra = 0; extra < ranks; extra += ranks - 1) {
        for (size_t k = 0; k < SMALL_BLOCK; k++) {
            uint32_t value = (uint32_t)(size == 4 ? k * 65521 : k);
            uint32_t other = value + extra;

            memcpy((char *)rows + k * size, &value, size);
            memcpy((char *)(rows + SMALL_BLOCK) + k * size, &other, size);
        }
        for (unsigned rank = 0; rank < ranks; rank++)
            in[rank] = rank == 0 ? rows + SMALL_BLOCK : rows;
        check_all(in, ranks, SMALL_BLOCK, dtype, TC_REDUCE_AVG);
    }
    free(rows);
}

static void average_is_exact_next_to_every_multiple_of_the_ranks(void **state)
{
    static const unsigned few[] = {41, 49, 3, 47, 55, 61, 64, 98, 103, 107};

    (void)state;
    for (size_t k = 0; k < (oracle_effort() == 0 ? 2 : sizeof(few) / sizeof(few[0])); k++) {
        check_multiples(few[k], TC_DTYPE_U16);
        check_multiples(few[k], TC_DTYPE_I16);
        check_multiples(few[k], TC_DTYPE_U32);
        check_multiples(few[k], TC_DTYPE_I32);
    }
    for (unsigned ranks = 2; ranks <= 64 && oracle_effort() == 2; ranks++) {
        check_multiples(ranks, TC_DTYPE_U16);
        check_multiples(ranks, TC_DTYPE_I16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pairs_of_8_bit_elements),
        cmocka_unit_test(all_16_bit_elements_with_special_and_random_partners),
        cmocka_unit_test(every_8_and_16_bit_float_divided),
        cmocka_unit_test(specials_with_specials_in_32_bits),
        cmocka_unit_test(specials_with_specials_in_64_bits),
        cmocka_unit_test(random_bits_of_several_ranks),
        cmocka_unit_test(average_of_integers_truncates_for_any_number_of_ranks),
        cmocka_unit_test(average_is_exact_next_to_every_multiple_of_the_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
