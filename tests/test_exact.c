/* test_exact.c - exact sums and averages have the bits of sums in big integers. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs gmp, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <gmp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/exact_sum.h"
#include "core/reduce.h"
#include "support/reduce_oracle.h"

/* ---- The oracle: every float is an integer times 2^-1074 ------------------------------------- */

struct format {
    tc_dtype_t dtype;
    unsigned bits, fraction;        /* in all; behind the point */
    int last;                       /* exponent of the smallest subnormal */
    uint64_t finite, overflow, nan; /* the largest finite code; what is beyond; the canonical NaN */
};

static const struct format formats[] = {
    {TC_DTYPE_F64, 64, 52, -1074, UINT64_C(0x7fefffffffffffff), UINT64_C(0x7ff0000000000000),
     UINT64_C(0x7ff8000000000000)},
    {TC_DTYPE_F32, 32, 23, -149, 0x7f7fffff, 0x7f800000, 0x7fc00000},
    {TC_DTYPE_F16, 16, 10, -24, 0x7bff, 0x7c00, 0x7e00},
    {TC_DTYPE_BF16, 16, 7, -133, 0x7f7f, 0x7f80, 0x7fc0},
    {TC_DTYPE_F8E5M2, 8, 2, -16, 0x7b, 0x7c, 0x7e},
    {TC_DTYPE_F8E4M3, 8, 3, -9, 0x7e, 0x7f, 0x7f},
};

enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

static uint64_t sign_of(const struct format *f)
{
    return UINT64_C(1) << (f->bits - 1);
}

static mpz_t sum, part, low;

/* sum += code; false for infinities and NaNs. */
static int add_code(const struct format *f, uint64_t code)
{
    uint64_t size = code & (sign_of(f) - 1), field = size >> f->fraction;
    uint64_t mantissa = size & ((UINT64_C(1) << f->fraction) - 1);

    if (size > f->finite)
        return 0;
    if (field > 0)
        mantissa |= UINT64_C(1) << f->fraction;
    mpz_import(part, 1, 1, 8, 0, 0, &mantissa);
    mpz_mul_2exp(part, part, (mp_bitcnt_t)(f->last + 1074) + (field > 0 ? field - 1 : 0));
    if ((code & sign_of(f)) != 0)
        mpz_sub(sum, sum, part);
    else
        mpz_add(sum, sum, part);
    return 1;
}

/* The code next to sum / by * 2^-1074, which is not 0. */
static uint64_t round_sum(const struct format *f, unsigned by)
{
    uint64_t sign = mpz_sgn(sum) < 0 ? sign_of(f) : 0, kept, code;
    long cut = f->last + 1074, half;

    mpz_abs(sum, sum);
    for (;; cut++) { /* the first cut behind which few enough bits are left */
        mpz_set_ui(part, by);
        mpz_mul_2exp(part, part, (mp_bitcnt_t)cut);
        mpz_fdiv_qr(part, low, sum, part);
        if (mpz_sizeinbase(part, 2) <= f->fraction + 1)
            break;
        if (mpz_sizeinbase(part, 2) > f->fraction + 3)
            cut += (long)mpz_sizeinbase(part, 2) - (long)f->fraction - 3;
    }
    kept = 0;
    mpz_export(&kept, NULL, 1, 8, 0, 0, part);
    mpz_mul_2exp(low, low, 1);
    mpz_set_ui(part, by);
    mpz_mul_2exp(part, part, (mp_bitcnt_t)cut);
    half = mpz_cmp(low, part);
    if (half > 0 || (half == 0 && kept % 2 == 1))
        kept++;
    /* A carry into the next power of two is the next code as well. */
    code = kept;
    if (kept >> f->fraction != 0)
        code = ((uint64_t)(cut - (f->last + 1074)) << f->fraction) + kept;
    if (code <= f->finite)
        return sign | code;
    return f->overflow == f->nan ? f->nan : sign | f->overflow;
}

static uint64_t read_code(const void *p, const struct format *f, size_t i)
{
    uint64_t code = 0;

    memcpy(&code, (const char *)p + i * (f->bits / 8), f->bits / 8);
    return code;
}

static void write_code(void *p, const struct format *f, size_t i, uint64_t code)
{
    memcpy((char *)p + i * (f->bits / 8), &code, f->bits / 8);
}

static uint64_t oracle_sum(const struct format *f, const void *const *in, unsigned ranks, size_t i,
                           unsigned by)
{
    int infinities = 0, all_minus_zero = 1;

    mpz_set_ui(sum, 0);
    for (unsigned rank = 0; rank < ranks; rank++) {
        uint64_t code = read_code(in[rank], f, i), size = code & (sign_of(f) - 1);

        all_minus_zero = all_minus_zero && code == sign_of(f);
        if (add_code(f, code))
            continue;
        if (size != f->overflow || f->overflow == f->nan)
            return f->nan;
        infinities |= code == size ? 1 : 2;
    }
    if (infinities != 0)
        return infinities == 3 ? f->nan : f->overflow | (infinities == 2 ? sign_of(f) : 0);
    if (mpz_sgn(sum) == 0)
        return all_minus_zero ? sign_of(f) : 0;
    return round_sum(f, by);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void check_result(const struct format *f, const void *got, const void *wanted, size_t count,
                         const char *who, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        if (read_code(got, f, i) != read_code(wanted, f, i))
            fail_msg("%s %s of %s: element %zu is %llx, not %llx", who, what,
                     tc_dtype_name(f->dtype), i, (unsigned long long)read_code(got, f, i),
                     (unsigned long long)read_code(wanted, f, i));
    }
}

/* The reference and every family, against `wanted`. */
static void check_families(const struct format *f, const void *const *in, unsigned ranks,
                           size_t count, tc_reduce_op_t op, const void *wanted)
{
    void *out = malloc(count * (f->bits / 8) + 1);

    assert_non_null(out);
    memset(out, 0x5a, count * (f->bits / 8));
    assert_int_equal(tc_reduce_reference_exact(out, in, (int)ranks, count, f->dtype, op), TC_OK);
    check_result(f, out, wanted, count, "reference", tc_reduce_op_name(op));
    for (int isa = 0; isa < TCI_ISA_COUNT; isa++) {
        struct tci_fold fold = {0};

        if (!tci_isa_usable((enum tci_isa)isa))
            continue;
        assert_int_equal(tci_fold_init_exact_isa(&fold, f->dtype, op, (enum tci_isa)isa), TC_OK);
        memset(out, 0x5a, count * (f->bits / 8));
        fold.many(out, in, ranks, count);
        check_result(f, out, wanted, count, tci_isa_name((enum tci_isa)isa), tc_reduce_op_name(op));
    }
    free(out);
}

static void check_both(const struct format *f, const void *const *in, unsigned ranks, size_t count)
{
    void *wanted = malloc(count * (f->bits / 8) + 1);

    assert_non_null(wanted);
    for (size_t i = 0; i < count; i++)
        write_code(wanted, f, i, oracle_sum(f, in, ranks, i, 1));
    check_families(f, in, ranks, count, TC_REDUCE_SUM, wanted);
    for (size_t i = 0; i < count; i++)
        write_code(wanted, f, i, oracle_sum(f, in, ranks, i, ranks));
    check_families(f, in, ranks, count, TC_REDUCE_AVG, wanted);
    free(wanted);
}

/* Rows of codes, one a rank; `count` elements each. */
struct rows {
    unsigned ranks;
    size_t count;
    const void **in;
    unsigned char *data;
};

static struct rows new_rows(unsigned ranks, size_t count)
{
    struct rows rows = {ranks, count, malloc(ranks * sizeof(void *)), calloc(ranks, count * 8)};

    assert_true(rows.in != NULL && rows.data != NULL);
    for (unsigned rank = 0; rank < ranks; rank++)
        rows.in[rank] = rows.data + rank * count * 8;
    return rows;
}

static void put(struct rows *rows, const struct format *f, unsigned rank, size_t i, uint64_t code)
{
    write_code(rows->data + rank * rows->count * 8, f, i, code);
}

static void free_rows(struct rows *rows)
{
    free(rows->data);
    free(rows->in);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static uint64_t code_of(const struct format *f, double value)
{
    uint64_t code = 0;
    float narrow = (float)value;

    if (f->dtype == TC_DTYPE_F64)
        memcpy(&code, &value, 8);
    else if (f->dtype == TC_DTYPE_F32)
        memcpy(&code, &narrow, 4);
    else
        code = oracle_encode(f->dtype, value);
    return code;
}

static uint64_t minus(const struct format *f, uint64_t code)
{
    return code ^ sign_of(f);
}

static uint64_t one_of(const struct format *f)
{
    return code_of(f, 1);
}

/* ---- Named cases ----------------------------------------------------------------------------- */

/* Every order of up to five contributions, as the elements of one call. */
static void check_orders(const struct format *f, const uint64_t *codes, unsigned ranks)
{
    static const size_t orders[] = {1, 1, 2, 6, 24, 120};
    struct rows rows = new_rows(ranks, orders[ranks]);

    for (size_t order = 0; order < rows.count; order++) {
        uint64_t left[5];
        size_t number = order;

        memcpy(left, codes, ranks * sizeof(*left));
        for (unsigned rank = 0; rank < ranks; rank++) {
            unsigned k = (unsigned)(number % (ranks - rank));

            number /= ranks - rank;
            put(&rows, f, rank, order, left[k]);
            memmove(&left[k], &left[k + 1], (ranks - rank - k - 1) * sizeof(*left));
        }
    }
    check_both(f, rows.in, ranks, rows.count);
    free_rows(&rows);
}

static void every_order_of_1e8_1_minus_1e8_1_gives_2(void **state)
{
    static const double values[] = {1e8, 1, -1e8, 1};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        const struct format *f = &formats[k];
        uint64_t codes[4], zero = 0, two = code_of(f, 2);
        const void *in[4] = {&codes[0], &codes[1], &codes[2], &codes[3]};

        for (size_t v = 0; v < 4; v++)
            codes[v] = code_of(f, values[v]);
        check_orders(f, codes, 4);
        assert_int_equal(tc_reduce_reference_exact(&zero, in, 4, 1, f->dtype, TC_REDUCE_SUM),
                         TC_OK);
        assert_true(zero == two);
    }
}

/* What makes sums hard, by format: the ends of the range, halves of a last place, and little. */
static size_t hard_codes(const struct format *f, uint64_t *codes)
{
    uint64_t one = one_of(f), field = UINT64_C(1) << f->fraction, k = 0;

    codes[k++] = 0;
    codes[k++] = 1;                                           /* the smallest subnormal */
    codes[k++] = field - 1;                                   /* the largest subnormal */
    codes[k++] = field;                                       /* the smallest normal */
    codes[k++] = field + 1;                                   /* and its neighbour */
    codes[k++] = one;                                         /* 1 */
    codes[k++] = one + 1;                                     /* 1 and a last place */
    codes[k++] = one - 1;                                     /* just below 1 */
    codes[k++] = code_of(f, ldexp(1, -(int)f->fraction - 1)); /* half a last place of 1 */
    codes[k++] = code_of(f, ldexp(3, -(int)f->fraction - 2)); /* more than half of it */
    codes[k++] = f->finite;                                   /* the largest */
    codes[k++] = f->finite - 1;
    codes[k++] = f->finite >> f->fraction << f->fraction; /* the largest power of two */
    codes[k++] = (f->finite >> f->fraction << f->fraction) - field * (f->fraction + 2);
    codes[k++] = f->overflow;
    codes[k++] = f->nan;
    return k;
}

static void every_order_of_hard_values_of_up_to_five_ranks(void **state)
{
    uint64_t seed = 11;

    (void)state;
    for (size_t k = 0; k < FORMATS; k++) {
        const struct format *f = &formats[k];
        uint64_t codes[16], chosen[5];
        size_t count = hard_codes(f, codes);
        int trials = oracle_effort() == 0 ? 60 : oracle_effort() == 1 ? 600 : 20000;

        for (int trial = 0; trial < trials; trial++) {
            unsigned ranks = 2 + (unsigned)(oracle_random(&seed) % 4);
            size_t range = trial % 8 == 0 ? count : count - 2;

            for (unsigned rank = 0; rank < ranks; rank++) {
                chosen[rank] = codes[oracle_random(&seed) % range];
                if (oracle_random(&seed) % 2 == 0)
                    chosen[rank] = minus(f, chosen[rank]);
                else if (rank > 0 && oracle_random(&seed) % 4 == 0)
                    chosen[rank] = minus(f, chosen[rank - 1]);
            }
            check_orders(f, chosen, ranks);
        }
    }
}

static void zeros_keep_their_sign_only_together(void **state)
{
    (void)state;
    for (size_t k = 0; k < FORMATS; k++) {
        const struct format *f = &formats[k];

        for (unsigned ranks = 2; ranks <= 5; ranks++) {
            uint64_t codes[5];

            for (unsigned rank = 0; rank < ranks; rank++)
                codes[rank] = sign_of(f);
            check_orders(f, codes, ranks);
            codes[0] = 0;
            check_orders(f, codes, ranks);
            codes[0] = one_of(f);
            codes[1] = minus(f, one_of(f));
            check_orders(f, codes, ranks);
        }
    }
}

/* Partial sums are beyond the range, the sum is not; nor is an average, whose sum is. */
static void only_the_result_overflows(void **state)
{
    (void)state;
    for (size_t k = 0; k < FORMATS; k++) {
        const struct format *f = &formats[k];
        uint64_t most = f->finite, codes[5] = {most, most, minus(f, most), minus(f, most), 1};
        uint64_t equal[5] = {most, most, most, most, most};

        check_orders(f, codes, 5);
        check_orders(f, codes, 3);
        check_orders(f, equal, 5);
        check_orders(f, equal, 4);
        check_orders(f, equal, 2);
        equal[4] = minus(f, most);
        check_orders(f, equal, 5);
    }
}

/* ---- Random cases ---------------------------------------------------------------------------- */

enum style { ANY_BITS, NEAR_ONE, WIDE, CANCELING, TINY, TIES, STYLES };

static uint64_t random_code(const struct format *f, enum style style, uint64_t *seed)
{
    uint64_t bits = oracle_random(seed), mask = (UINT64_C(1) << f->fraction) - 1;
    uint64_t sign = bits & 1 ? sign_of(f) : 0, one = one_of(f) >> f->fraction;
    uint64_t fields = f->finite >> f->fraction;

    bits >>= 1;
    switch (style) {
    case ANY_BITS:
        return bits & (sign_of(f) - 1) ? sign | (bits % (f->finite + 1)) : sign;
    case NEAR_ONE:
        return sign | ((one - bits % 3) << f->fraction) | (bits >> 8 & mask);
    case WIDE: /* powers of two, and their neighbours, all over the range */
        return sign | (bits % fields << f->fraction) | (bits >> 60 & 1);
    case TINY:
        return sign | (bits >> 8) % (4 * (mask + 1));
    default: /* TIES, CANCELING: few bits, so that sums end in halves of a last place */
        return sign | ((bits % fields) << f->fraction) | (bits >> 20 & mask & ~(mask >> 1));
    }
}

static void fill_style(struct rows *rows, const struct format *f, enum style style, uint64_t *seed)
{
    for (size_t i = 0; i < rows->count; i++) {
        for (unsigned rank = 0; rank < rows->ranks; rank++) {
            uint64_t code = random_code(f, style, seed);

            if ((style == CANCELING || style == TIES) && rank > 0 && oracle_random(seed) % 2 == 0)
                code = minus(f, read_code(rows->in[oracle_random(seed) % rank], f, i));
            put(rows, f, rank, i, code);
        }
    }
}

static void check_random(const struct format *f, unsigned ranks, size_t count, uint64_t *seed)
{
    struct rows rows = new_rows(ranks, count);

    for (int style = 0; style < STYLES; style++) {
        fill_style(&rows, f, (enum style)style, seed);
        check_both(f, rows.in, ranks, count);
    }
    free_rows(&rows);
}

static void random_values_of_up_to_1024_ranks(void **state)
{
    static const unsigned ranks[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 33, 100, 255, 1000, 1024};
    size_t trials = oracle_effort() == 0 ? 2 : oracle_effort() == 1 ? 40 : 400;
    uint64_t seed = 23;

    (void)state;
    for (size_t k = 0; k < FORMATS; k++) {
        for (size_t n = 0; n < sizeof(ranks) / sizeof(ranks[0]); n++)
            check_random(&formats[k], ranks[n], 1 + trials * 50 / (ranks[n] + 10), &seed);
    }
}

/* One more than the vector kernels count bits for. */
static void more_ranks_than_the_vector_kernels_take(void **state)
{
    uint64_t seed = 5;

    (void)state;
    for (size_t k = 0; k < FORMATS; k++) {
        check_random(&formats[k], 8192, 3, &seed);
        check_random(&formats[k], 8193, 3, &seed);
    }
}

/* The sum is a tie of the format and a little more; the ones, and a power of two and its negative
 * neighbour, lie so far apart that f64 just holds, or just loses, the little. */
static void check_little_beyond_a_tie(const struct format *f, unsigned ranks)
{
    int top = (int)log2(ranks - 3), digits = (int)f->fraction;
    struct rows rows = new_rows(ranks, 2 * 64);

    for (int k = 0; k < 64; k++) {
        for (unsigned rank = 0; rank < ranks; rank++)
            put(&rows, f, rank, (size_t)k, one_of(f));
        put(&rows, f, ranks - 4, (size_t)k, code_of(f, 1));
        put(&rows, f, ranks - 3, (size_t)k, code_of(f, ldexp(1, top - digits - 1)));
        put(&rows, f, ranks - 2, (size_t)k, minus(f, code_of(f, ldexp(1, top - k))));
        put(&rows, f, ranks - 1, (size_t)k, code_of(f, ldexp(1, top - k)) + 1);
    }
    for (size_t i = 64; i < 128; i++) {
        for (unsigned rank = 0; rank < ranks; rank++)
            put(&rows, f, rank, i, minus(f, read_code(rows.in[rank], f, i - 64)));
    }
    check_both(f, rows.in, ranks, rows.count);
    free_rows(&rows);
}

static void a_little_beyond_a_tie_counts_at_any_distance(void **state)
{
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        for (unsigned ranks = 5; ranks <= 40; ranks++)
            check_little_beyond_a_tie(&formats[k], ranks);
    }
}

/* (3 + 3 * 2^-53 + 2^-1074) / 3 is more than a tie by what no digit of the quotient shows. */
static void what_is_left_of_a_quotient_counts(void **state)
{
    uint64_t codes[3] = {code_of(&formats[0], 3), code_of(&formats[0], 0x3p-53),
                         code_of(&formats[0], 0x1p-1074)};

    (void)state;
    check_orders(&formats[0], codes, 3);
    codes[2] = minus(&formats[0], codes[2]);
    check_orders(&formats[0], codes, 3);
}

static void sums_are_divided_by_any_number(void **state)
{
    struct tci_exact_sum exact;
    uint64_t seed = 77;

    (void)state;
    tci_exact_init(&exact);
    for (int trial = 0; trial < 20000; trial++) {
        const struct format *f = &formats[trial % 2]; /* F64 and F32 */
        unsigned by = 1 + (unsigned)(oracle_random(&seed) % 0x7fffffff) / (1 + trial % 1000);
        double value;
        float narrow;

        mpz_set_ui(sum, 0);
        for (int k = 0; k <= trial % 3; k++) {
            uint64_t code = random_code(f, (enum style)(trial / 3 % STYLES), &seed);

            add_code(f, code);
            memcpy(&narrow, &code, 4);
            memcpy(&value, &code, 8);
            tci_exact_add(&exact, f->bits == 64 ? value : (double)narrow);
        }
        value =
            tci_exact_round(&exact, by, &(struct tci_exact_format){(int)f->fraction + 1, f->last});
        tci_exact_clear(&exact);
        if (mpz_sgn(sum) == 0)
            assert_true(value == 0);
        else
            assert_true(code_of(f, value) == round_sum(f, by));
    }
}

static void each_component_of_c64_is_a_sum_of_f32(void **state)
{
    const struct format *f = &formats[1];
    struct rows rows = new_rows(5, 42);
    uint64_t seed = 3;
    unsigned char apart[42 * 8], together[42 * 8];

    (void)state;
    fill_style(&rows, f, WIDE, &seed);
    for (int op = TC_REDUCE_SUM; op <= TC_REDUCE_AVG; op++) {
        assert_int_equal(
            tc_reduce_reference_exact(apart, rows.in, 5, 42, TC_DTYPE_F32, (tc_reduce_op_t)op),
            TC_OK);
        for (int isa = 0; isa < TCI_ISA_COUNT; isa++) {
            struct tci_fold fold = {0};

            if (tci_fold_init_exact_isa(&fold, TC_DTYPE_C64, (tc_reduce_op_t)op,
                                        (enum tci_isa)isa) != TC_OK)
                continue;
            fold.many(together, rows.in, 5, 21);
            assert_memory_equal(together, apart, 42 * 4);
        }
    }
    free_rows(&rows);
}

static int open_numbers(void **state)
{
    (void)state;
    mpz_inits(sum, part, low, NULL);
    return 0;
}

static int close_numbers(void **state)
{
    (void)state;
    mpz_clears(sum, part, low, NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_1e8_1_minus_1e8_1_gives_2),
        cmocka_unit_test(every_order_of_hard_values_of_up_to_five_ranks),
        cmocka_unit_test(zeros_keep_their_sign_only_together),
        cmocka_unit_test(only_the_result_overflows),
        cmocka_unit_test(random_values_of_up_to_1024_ranks),
        cmocka_unit_test(more_ranks_than_the_vector_kernels_take),
        cmocka_unit_test(a_little_beyond_a_tie_counts_at_any_distance),
        cmocka_unit_test(what_is_left_of_a_quotient_counts),
        cmocka_unit_test(sums_are_divided_by_any_number),
        cmocka_unit_test(each_component_of_c64_is_a_sum_of_f32),
    };

    return cmocka_run_group_tests(tests, open_numbers, close_numbers);
}
