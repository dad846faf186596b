/* test_exact_pairs.c - the exact sum and average of every pair of 16-bit floats, in all kernels. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 3600, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/reduce.h"
#include "support/reduce_oracle.h"

/* 2^32 pairs take an oracle of a few nanoseconds: the sum in f64 with its error, rounded to odd,
 * and then once to 16 bits, by integers.  test_exact_kernels.c asks another one, for some of the
 * pairs. */

enum { CODES = 65536 };

/* A type of 16 bits, as its fields say. */
struct format {
    tc_dtype_t dtype;
    int mantissa; /* bits, without the hidden one */
    int bias;
    unsigned nan; /* the canonical one */
};

static const struct format formats[] = {{TC_DTYPE_F16, 10, 15, 0x7e00},
                                        {TC_DTYPE_BF16, 7, 127, 0x7fc0}};

static double values[CODES];
static uint16_t left[CODES], right[CODES], wanted[CODES], got[CODES];

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* x + y with its last bit set where it is not exact: rounded to odd, so that rounding it again, to
 * two bits less or fewer, is as rounding the sum itself. */
static inline uint64_t add_to_odd(double x, double y)
{
    double high = x + y, part = high - x, low = (x - (high - part)) + (y - part);
    uint64_t bits = bits_of(high), is_nearer = bits_of(low) >> 63 != bits >> 63;

    return low != 0 && isfinite(high) ? (bits - is_nearer) | 1 : bits;
}

/* The code next to a finite or infinite f64, ties to even. */
static inline unsigned round_to(const struct format *format, uint64_t bits, double grain)
{
    const int drop = 52 - format->mantissa;
    const uint64_t infinity = 0x7fffu >> format->mantissa << format->mantissa;
    unsigned sign = (unsigned)(bits >> 63) << 15, code;
    uint64_t size = bits & (UINT64_MAX >> 1);
    double value;

    if (size >> 52 > (uint64_t)(1023 - format->bias)) {
        size += (UINT64_C(1) << (drop - 1)) - 1 + (size >> drop & 1);
        size = (size >> drop) - ((uint64_t)(1023 - format->bias) << format->mantissa);
        code = (unsigned)(size < infinity ? size : infinity);
    } else {
        memcpy(&value, &size, sizeof(value));
        code = (unsigned)(bits_of(value * grain + 0x1p52) & 0xffff);
    }
    return sign | code;
}

/* (values[a] + values[b]) * scale for all a. */
static void expect(const struct format *format, unsigned b, double scale)
{
    double y = values[b] * scale, grain = ldexp(1, format->mantissa + format->bias - 1);

    for (unsigned a = 0; a < CODES; a++) {
        double x = values[a] * scale;

        wanted[a] =
            (uint16_t)(isnan(x + y) ? format->nan : round_to(format, add_to_odd(x, y), grain));
    }
}

static void compare(const struct format *format, unsigned b, tc_reduce_op_t op)
{
    const void *in[2] = {left, right};

    for (int isa = 0; isa < TCI_ISA_COUNT; isa++) {
        struct tci_fold fold = {0};

        /* The plain kernels add up one element at a time: of all pairs they have a share. */
        if (!tci_isa_usable((enum tci_isa)isa) || (isa == TCI_ISA_PLAIN && b % 61 != 0))
            continue;
        assert_int_equal(tci_fold_init_exact_isa(&fold, format->dtype, op, (enum tci_isa)isa),
                         TC_OK);
        fold.many(got, in, 2, CODES);
        if (memcmp(got, wanted, sizeof(got)) == 0)
            continue;
        for (unsigned a = 0; a < CODES; a++)
            if (got[a] != wanted[a])
                fail_msg("%s: %s of %s %04x and %04x is %04x, not %04x",
                         tci_isa_name((enum tci_isa)isa), tc_reduce_op_name(op),
                         tc_dtype_name(format->dtype), a, b, got[a], wanted[a]);
    }
}

/* All partners with full effort; else one in 1009, or 8191. */
static void every_pair_is_rounded_once(void **state)
{
    static const unsigned strides[] = {8191, 1009, 1};
    const struct format *format = *state;

    for (unsigned code = 0; code < CODES; code++) {
        values[code] = oracle_decode(format->dtype, code);
        left[code] = (uint16_t)code;
    }
    assert_int_equal(oracle_encode(format->dtype, (double)NAN), format->nan);
    for (unsigned b = 0; b < CODES; b += strides[oracle_effort()]) {
        for (unsigned a = 0; a < CODES; a++)
            right[a] = (uint16_t)b;
        expect(format, b, 1);
        compare(format, b, TC_REDUCE_SUM);
        expect(format, b, 0.5);
        compare(format, b, TC_REDUCE_AVG);
    }
}

static void the_oracle_rounds_as_the_slow_one(void **state)
{
    const struct format *format = *state;
    double grain = ldexp(1, format->mantissa + format->bias - 1);
    uint64_t seed = 5;

    for (int k = 0; k < 200000; k++) {
        int exponent =
            (int)(oracle_random(&seed) % (2 * (unsigned)format->bias + 20)) - format->bias - 12;
        double value = ldexp((double)(int64_t)(oracle_random(&seed) >> (k % 53)), exponent - 63);

        value = k % 2 == 0 ? value : -value;
        assert_int_equal(round_to(format, bits_of(value), grain),
                         oracle_encode(format->dtype, value));
    }
}

int main(void)
{
#define CASE(name, format)                                                                         \
    {                                                                                              \
        name ": every pair is rounded once", every_pair_is_rounded_once, NULL, NULL,               \
            (void *)(uintptr_t)(format)                                                            \
    }
#define ORACLE(name, format)                                                                       \
    {                                                                                              \
        name ": the oracle rounds as the slow one", the_oracle_rounds_as_the_slow_one, NULL, NULL, \
            (void *)(uintptr_t)(format)                                                            \
    }
    const struct CMUnitTest tests[] = {ORACLE("f16", &formats[0]), ORACLE("bf16", &formats[1]),
                                       CASE("f16", &formats[0]), CASE("bf16", &formats[1])};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
