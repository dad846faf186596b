/* test_narrow.c - f32 as 16- and 8-bit floats: rounded once, to the nearest, and never beyond. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/narrow.h"
#include "support/reduce_oracle.h"

enum { COUNT_MAX = 1000 };

static const tc_dtype_t types[] = {TC_DTYPE_BF16, TC_DTYPE_F16, TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2};

static struct tci_narrow narrow;
static bool is_plain; /* the portable loops; else the fastest */
static double given[COUNT_MAX];
static float got[COUNT_MAX];
static uint8_t part[4 * COUNT_MAX];

static void open_type(tc_dtype_t type)
{
    assert_true(tci_narrow_init(&narrow, type));
    if (is_plain)
        narrow.loops = &tci_narrow_loops_plain;
}

/* A part there and back. */
static void travel(tc_dtype_t type, size_t count)
{
    size_t bytes;

    open_type(type);
    bytes = tci_narrow_bytes(&narrow, count);
    memset(part, 0xa5, sizeof(part));
    for (size_t b = 0; b * TCI_NARROW_BLOCK < count; b++)
        tci_narrow_encode_wide(&narrow, given + b * TCI_NARROW_BLOCK, tci_narrow_len(count, b),
                               part, count, b);
    for (size_t b = 0; b * TCI_NARROW_BLOCK < count; b++)
        tci_narrow_decode(&narrow, part, count, b, got + b * TCI_NARROW_BLOCK);
    assert_true(part[bytes] == 0xa5);
}

/* What a format can do, in its own words: bits of the significand, the smallest step. */
static int significand_of(tc_dtype_t type)
{
    return type == TC_DTYPE_BF16 ? 8 : type == TC_DTYPE_F16 ? 11 : type == TC_DTYPE_F8E4M3 ? 4 : 3;
}

static int smallest_of(tc_dtype_t type)
{
    return type == TC_DTYPE_BF16     ? -133
           : type == TC_DTYPE_F16    ? -24
           : type == TC_DTYPE_F8E4M3 ? -9
                                     : -16;
}

static double largest_of(tc_dtype_t type)
{
    return type == TC_DTYPE_BF16     ? 0x1.fep127
           : type == TC_DTYPE_F16    ? 65504
           : type == TC_DTYPE_F8E4M3 ? 448
                                     : 57344;
}

/* The smallest power of two, times which the type reaches the largest of a block. */
static double scale_of(tc_dtype_t type, const double *values, size_t count)
{
    double most = 0, scale = 0x1p-125;

    if (type == TC_DTYPE_BF16)
        return 1;
    for (size_t i = 0; i < count; i++)
        if (fabs(values[i]) <= (double)FLT_MAX)
            most = fmax(most, fabs(values[i]));
    if (most == 0)
        return 1;
    while (most > largest_of(type) * scale)
        scale *= 2;
    return scale;
}

/* To the nearest multiple of the step at its place, ties to even: the definition. */
static double rounded(tc_dtype_t type, double value, double scale)
{
    double scaled = value / scale, step, result;
    int exponent;

    if (isnan(value) || isinf((float)value))
        return type == TC_DTYPE_F8E4M3 ? (double)NAN : value;
    if (scaled == 0)
        return scaled;
    exponent = ilogb(scaled) - significand_of(type) + 1;
    step = ldexp(1, exponent < smallest_of(type) ? smallest_of(type) : exponent);
    result = nearbyint(scaled / step) * step;
    result = fmin(fmax(result, -largest_of(type)), largest_of(type));
    if (fabs(result) * scale > (double)FLT_MAX)
        result -= copysign(step, result); /* the step below a power of two */
    return result * scale;
}

static void check(tc_dtype_t type, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t block = i / TCI_NARROW_BLOCK * TCI_NARROW_BLOCK;
        double scale = scale_of(type, given + block, tci_narrow_len(count, i / TCI_NARROW_BLOCK));
        double expected = rounded(type, given[i], scale);

        if (isnan(expected) ? !isnan(got[i]) : (double)got[i] != expected)
            fail_msg("%s: %zu of %zu: %a became %a, not %a", tc_dtype_name(type), i, count,
                     given[i], (double)got[i], expected);
        assert_true(isnan(expected) || !signbit(got[i]) == !signbit(given[i]));
    }
}

/* Of any size, and with more digits than an f32 has. */
static double drawn(uint64_t *random, int spread)
{
    uint64_t bits = oracle_random(random);
    double value = ldexp((double)(bits >> 11), (int)(bits % (uint64_t)spread) - spread / 2 - 52);

    return bits >> 10 & 1 ? -value : value;
}

static void elements_are_rounded_once_to_the_nearest(void **state)
{
    static const size_t counts[] = {1, 2, 255, 256, 257, 1000};
    static const int spreads[] = {1, 6, 30, 200};
    uint64_t random = 1;

    (void)state;
    for (size_t t = 0; t < 4; t++)
        for (size_t c = 0; c < 6; c++)
            for (size_t s = 0; s < 4; s++)
                for (int round = 0; round < 20; round++) {
                    for (size_t i = 0; i < counts[c]; i++)
                        given[i] = drawn(&random, spreads[s]);
                    travel(types[t], counts[c]);
                    check(types[t], counts[c]);
                }
}

static void f32_gives_the_codes_that_f64_gives(void **state)
{
    static uint8_t wide[4 * COUNT_MAX];
    static float values[COUNT_MAX];
    uint64_t random = 2;

    (void)state;
    for (int round = 0; round < 400; round++) {
        size_t count = 1 + oracle_random(&random) % 600;

        for (size_t i = 0; i < count; i++) {
            values[i] = (float)drawn(&random, round % 2 == 0 ? 20 : 290);
            if (round % 7 == 0 && i % 50 == 3)
                values[i] = i % 100 == 3 ? INFINITY : NAN;
            given[i] = (double)values[i];
        }
        travel(types[round % 4], count);
        memcpy(wide, part, sizeof(wide));
        memset(part, 0xa5, sizeof(part));
        for (size_t b = 0; b * TCI_NARROW_BLOCK < count; b++)
            tci_narrow_encode(&narrow, values + b * TCI_NARROW_BLOCK, tci_narrow_len(count, b),
                              part, count, b);
        assert_memory_equal(part, wide, sizeof(wide));
    }
}

/* Halfway cases of every type, which f64 sums reach and f32 would hide: double rounding shows. */
static void a_hair_beyond_halfway_is_seen(void **state)
{
    (void)state;
    for (size_t t = 0; t < 4; t++) {
        double half = ldexp(1, -significand_of(types[t]));

        given[0] = 1 + half;
        given[1] = 1 + half + 0x1p-50;
        given[2] = 1 + 3 * half;
        given[3] = 1 + 3 * half - 0x1p-50;
        given[4] = -1 - half - 0x1p-40;
        travel(types[t], 5);
        assert_true(got[0] == 1);
        assert_true((double)got[1] == 1 + 2 * half);
        assert_true((double)got[2] == 1 + 4 * half);
        assert_true((double)got[3] == 1 + 2 * half);
        assert_true((double)got[4] == -1 - 2 * half);
        check(types[t], 5);
    }
}

static void what_is_finite_stays_finite(void **state)
{
    (void)state;
    for (size_t t = 0; t < 4; t++) {
        given[0] = (double)FLT_MAX;
        given[1] = -(double)FLT_MAX;
        given[2] = (double)FLT_MIN;
        given[3] = 0x1p-149;
        given[4] = -0.0;
        travel(types[t], 5);
        check(types[t], 5);
        assert_true(isfinite(got[0]) && got[0] > FLT_MAX * 0.8f && got[1] == -got[0]);

        given[0] = 0x1p-149;
        travel(types[t], 1);
        check(types[t], 1);
        assert_true(types[t] != TC_DTYPE_F16 || got[0] == 0x1p-149f);
    }
}

static void infinity_and_nan_leave_the_rest_alone(void **state)
{
    (void)state;
    for (size_t t = 0; t < 4; t++) {
        given[0] = INFINITY;
        given[1] = 3;
        given[2] = NAN;
        given[3] = -INFINITY;
        given[4] = 2 * (double)FLT_MAX;
        travel(types[t], 5);
        assert_true(got[1] == 3 && isnan(got[2]));
        if (types[t] == TC_DTYPE_F8E4M3)
            assert_true(isnan(got[0]) && isnan(got[3]) && isnan(got[4]));
        else
            assert_true(got[0] == INFINITY && got[3] == -INFINITY && got[4] == INFINITY);
    }
}

static void a_short_block_is_filled_with_zeros(void **state)
{
    (void)state;
    for (size_t t = 0; t < 4; t++) {
        open_type(types[t]);
        given[0] = 7;
        tci_narrow_encode_wide(&narrow, given, 1, part, 300, 1);
        tci_narrow_decode(&narrow, part, 300, 1, got);
        assert_true(got[0] == 7);
        for (size_t i = 1; i < 44; i++)
            assert_true(got[i] == 0);
    }
}

/* Whatever a peer sends is decoded without a fault. */
static void any_bytes_are_decoded(void **state)
{
    (void)state;
    for (size_t t = 0; t < 4; t++)
        for (int byte = 0; byte < 256; byte++) {
            open_type(types[t]);
            memset(part, byte, sizeof(part));
            tci_narrow_decode(&narrow, part, 256, 0, got);
            assert_memory_equal(&got[0], &got[255], sizeof(float));
        }
    assert_false(tci_narrow_init(&narrow, TC_DTYPE_F32));
    assert_false(tci_narrow_init(&narrow, TC_DTYPE_I8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_rounded_once_to_the_nearest),
        cmocka_unit_test(f32_gives_the_codes_that_f64_gives),
        cmocka_unit_test(a_hair_beyond_halfway_is_seen),
        cmocka_unit_test(what_is_finite_stays_finite),
        cmocka_unit_test(infinity_and_nan_leave_the_rest_alone),
        cmocka_unit_test(a_short_block_is_filled_with_zeros),
        cmocka_unit_test(any_bytes_are_decoded),
    };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    is_plain = true;
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
