/* test_dtype.c - element types: sizes, names, operators, and conversions of the small floats. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "support/reduce_oracle.h"

static const tc_dtype_t small_floats[] = {TC_DTYPE_F16, TC_DTYPE_BF16, TC_DTYPE_F8E4M3,
                                          TC_DTYPE_F8E5M2};

#define SMALL_FLOATS (sizeof(small_floats) / sizeof(small_floats[0]))

static float up(tc_dtype_t dtype, unsigned code)
{
    switch (dtype) {
    case TC_DTYPE_F16:
        return tci_f16_to_f32((uint16_t)code);
    case TC_DTYPE_BF16:
        return tci_bf16_to_f32((uint16_t)code);
    case TC_DTYPE_F8E4M3:
        return tci_f8e4m3_to_f32((uint8_t)code);
    default:
        return tci_f8e5m2_to_f32((uint8_t)code);
    }
}

static unsigned down(tc_dtype_t dtype, float value)
{
    switch (dtype) {
    case TC_DTYPE_F16:
        return tci_f16_from_f32(value);
    case TC_DTYPE_BF16:
        return tci_bf16_from_f32(value);
    case TC_DTYPE_F8E4M3:
        return tci_f8e4m3_from_f32(value);
    default:
        return tci_f8e5m2_from_f32(value);
    }
}

static unsigned codes(tc_dtype_t dtype)
{
    return 1u << (8 * tc_dtype_size(dtype));
}

static void check_down(tc_dtype_t dtype, float value)
{
    assert_int_equal(down(dtype, value), oracle_encode(dtype, value));
    assert_int_equal(down(dtype, -value), oracle_encode(dtype, -(double)value));
}

static void sizes_and_names_are_those_of_the_header(void **state)
{
    static const struct {
        tc_dtype_t dtype;
        size_t size;
        const char *name;
    } rows[] = {
        {TC_DTYPE_F16, 2, "f16"},       {TC_DTYPE_BF16, 2, "bf16"},     {TC_DTYPE_F32, 4, "f32"},
        {TC_DTYPE_I8, 1, "i8"},         {TC_DTYPE_I32, 4, "i32"},       {TC_DTYPE_F64, 8, "f64"},
        {TC_DTYPE_U8, 1, "u8"},         {TC_DTYPE_I16, 2, "i16"},       {TC_DTYPE_U16, 2, "u16"},
        {TC_DTYPE_U32, 4, "u32"},       {TC_DTYPE_I64, 8, "i64"},       {TC_DTYPE_U64, 8, "u64"},
        {TC_DTYPE_F8E4M3, 1, "f8e4m3"}, {TC_DTYPE_F8E5M2, 1, "f8e5m2"}, {TC_DTYPE_BOOL, 1, "bool"},
        {TC_DTYPE_C64, 8, "c64"},
    };

    (void)state;
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        assert_int_equal(tc_dtype_size(rows[k].dtype), rows[k].size);
        assert_string_equal(tc_dtype_name(rows[k].dtype), rows[k].name);
    }
}

static void operators_have_names(void **state)
{
    static const char *const names[] = {"sum", "avg", "max", "min", "prod", "band", "bor", "bxor"};

    (void)state;
    for (int op = 0; op < 8; op++)
        assert_string_equal(tc_reduce_op_name((tc_reduce_op_t)op), names[op]);
    assert_string_equal(tc_reduce_op_name((tc_reduce_op_t)8), "unknown");
    assert_string_equal(tc_reduce_op_name((tc_reduce_op_t)-1), "unknown");
}

static void numbers_that_are_no_type_are_refused(void **state)
{
    static const int numbers[] = {-1, 6, 7, 8, 9, 10, 15, 26, 27, 1000, -1000};

    (void)state;
    for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
        tc_dtype_t dtype = (tc_dtype_t)numbers[k];

        assert_int_equal(tc_dtype_size(dtype), 0);
        assert_string_equal(tc_dtype_name(dtype), "unknown");
        assert_int_equal(tc_reduce_supported(dtype, TC_REDUCE_SUM), TC_ERR_UNSUPPORTED_DTYPE);
    }
}

static void operators_are_defined_where_they_mean_something(void **state)
{
    (void)state;
    for (size_t k = 0; k < 16; k++) {
        for (int op = 0; op < 8; op++) {
            tc_status_t wanted =
                oracle_has(oracle_dtypes[k], (tc_reduce_op_t)op) ? TC_OK : TC_ERR_UNSUPPORTED;

            assert_int_equal(tc_reduce_supported(oracle_dtypes[k], (tc_reduce_op_t)op), wanted);
        }
        assert_int_equal(tc_reduce_supported(oracle_dtypes[k], (tc_reduce_op_t)8),
                         TC_ERR_INVALID_ARG);
        assert_int_equal(tc_reduce_supported(oracle_dtypes[k], (tc_reduce_op_t)-1),
                         TC_ERR_INVALID_ARG);
    }
}

static void every_code_has_its_value_in_f32(void **state)
{
    (void)state;
    for (size_t k = 0; k < SMALL_FLOATS; k++) {
        for (unsigned code = 0; code < codes(small_floats[k]); code++) {
            double wanted = oracle_decode(small_floats[k], code);
            float value = up(small_floats[k], code);

            if (isnan(wanted)) {
                assert_int_equal(tci_f32_bits(value), TCI_F32_NAN);
            } else {
                assert_true(value == wanted);
                assert_int_equal(signbit(value) != 0, signbit(wanted) != 0);
            }
        }
    }
}

static void every_code_that_is_no_nan_comes_back_from_f32(void **state)
{
    (void)state;
    for (size_t k = 0; k < SMALL_FLOATS; k++) {
        for (unsigned code = 0; code < codes(small_floats[k]); code++) {
            if (!isnan(oracle_decode(small_floats[k], code)))
                assert_int_equal(down(small_floats[k], up(small_floats[k], code)), code);
        }
    }
}

/* Rounding is monotone, so it is right everywhere if it is right at each code, at each middle
 * between two codes, and at the f32 on either side of those. */
static void rounding_turns_at_the_middle_between_any_two_codes(void **state)
{
    (void)state;
    for (size_t k = 0; k < SMALL_FLOATS; k++) {
        tc_dtype_t dtype = small_floats[k];

        for (unsigned code = 0; code <= oracle_finite(dtype); code++) {
            double low = oracle_decode(dtype, code);
            double high =
                code < oracle_finite(dtype) ? oracle_decode(dtype, code + 1) : oracle_beyond(dtype);
            float points[] = {(float)low, (float)((low + high) / 2)};

            for (int at = 0; at < 2; at++) {
                check_down(dtype, points[at]);
                check_down(dtype, nextafterf(points[at], INFINITY));
                check_down(dtype, nextafterf(points[at], 0));
            }
        }
    }
}

static void f32_of_random_bits_are_rounded_to_the_nearest_code(void **state)
{
    static const int counts[] = {20000, 400000, 20000000};
    uint64_t seed = 1;

    (void)state;
    for (int k = 0; k < counts[oracle_effort()]; k++)
        check_down(small_floats[k % 4], tci_f32_from_bits((uint32_t)oracle_random(&seed)));
}

static void overflow_gives_infinity_and_in_f8e4m3_its_nan(void **state)
{
    (void)state;
    assert_int_equal(tci_f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(tci_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(tci_f16_from_f32(-1e30f), 0xfc00);
    assert_int_equal(tci_bf16_from_f32(3.4e38f), 0x7f80);
    assert_int_equal(tci_f8e5m2_from_f32(61439.996f), 0x7b);
    assert_int_equal(tci_f8e5m2_from_f32(-61440.0f), 0xfc);
    assert_int_equal(tci_f8e4m3_from_f32(464.0f), 0x7e);
    assert_int_equal(tci_f8e4m3_from_f32(-464.00003f), 0x7f);
    assert_int_equal(tci_f8e4m3_from_f32(-INFINITY), 0x7f);
}

static void every_kind_of_nan_becomes_the_canonical_one(void **state)
{
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001,
                                    0xff800001, 0x7fffffff, 0xffffffff};

    (void)state;
    for (size_t k = 0; k < sizeof(nans) / sizeof(nans[0]); k++) {
        float nan_value = tci_f32_from_bits(nans[k]);

        assert_int_equal(tci_f16_from_f32(nan_value), 0x7e00);
        assert_int_equal(tci_bf16_from_f32(nan_value), 0x7fc0);
        assert_int_equal(tci_f8e4m3_from_f32(nan_value), 0x7f);
        assert_int_equal(tci_f8e5m2_from_f32(nan_value), 0x7e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_names_are_those_of_the_header),
        cmocka_unit_test(operators_have_names),
        cmocka_unit_test(numbers_that_are_no_type_are_refused),
        cmocka_unit_test(operators_are_defined_where_they_mean_something),
        cmocka_unit_test(every_code_has_its_value_in_f32),
        cmocka_unit_test(every_code_that_is_no_nan_comes_back_from_f32),
        cmocka_unit_test(rounding_turns_at_the_middle_between_any_two_codes),
        cmocka_unit_test(f32_of_random_bits_are_rounded_to_the_nearest_code),
        cmocka_unit_test(overflow_gives_infinity_and_in_f8e4m3_its_nan),
        cmocka_unit_test(every_kind_of_nan_becomes_the_canonical_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
