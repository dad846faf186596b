/* test_special_values.c - NaNs, infinities, zeros of both signs and subnormals, in collectives. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, also shared */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/reduce_oracle.h"
#include "support/world.h"

enum { RANKS = 4, COUNT = 4096 };

static const tc_dtype_t floats[] = {TC_DTYPE_F64,    TC_DTYPE_F32,    TC_DTYPE_F16, TC_DTYPE_BF16,
                                    TC_DTYPE_F8E4M3, TC_DTYPE_F8E5M2, TC_DTYPE_C64};

enum { FLOATS = sizeof(floats) / sizeof(floats[0]) };

static struct world world;
static unsigned char inputs[RANKS][COUNT * 8], results[RANKS][COUNT * 8], wanted[COUNT * 8];

/* What the bits of a type mean. */
struct layout {
    size_t part;            /* bytes of an element, or of a component */
    uint64_t inf, one, nan; /* the first code beyond the finite ones; 1; the canonical NaN */
};

static struct layout layout_of(tc_dtype_t dtype)
{
    switch (dtype) {
    case TC_DTYPE_F64:
        return (struct layout){8, UINT64_C(0x7ff) << 52, UINT64_C(0x3ff) << 52,
                               UINT64_C(0x7ff8) << 48};
    case TC_DTYPE_F16:
        return (struct layout){2, 0x7c00, 0x3c00, 0x7e00};
    case TC_DTYPE_BF16:
        return (struct layout){2, 0x7f80, 0x3f80, 0x7fc0};
    case TC_DTYPE_F8E4M3:
        return (struct layout){1, 0x7f, 0x38, 0x7f};
    case TC_DTYPE_F8E5M2:
        return (struct layout){1, 0x7c, 0x3c, 0x7e};
    default:
        return (struct layout){4, 0x7f800000, 0x3f800000, 0x7fc00000};
    }
}

/* NaNs with payloads, quiet and signaling, infinities, zeros, the ends of the subnormals and of the
 * normal numbers, and 1; of either sign. */
static uint64_t special(const struct layout *layout, uint64_t random)
{
    uint64_t sign = random & 1 ? UINT64_C(1) << (8 * layout->part - 1) : 0;
    uint64_t fraction = layout->nan == layout->inf ? 8 : (layout->nan ^ layout->inf) << 1;
    const uint64_t codes[] = {layout->inf,
                              layout->nan,
                              layout->inf | (fraction - 1), /* all of the payload */
                              layout->inf | 1,              /* signaling */
                              0,
                              0,
                              1,
                              fraction - 1,
                              fraction,
                              layout->inf - 1,
                              layout->one,
                              layout->one + 1};

    /* Most elements have no NaN and no infinity, so that there is something else to see. */
    return sign | codes[random % 5 == 0 ? (random >> 8) % 12 : 4 + (random >> 8) % 8];
}

static void fill(tc_dtype_t dtype)
{
    struct layout layout = layout_of(dtype);
    size_t parts = COUNT * tc_dtype_size(dtype) / layout.part;
    uint64_t seed = (uint64_t)dtype + 1;

    for (size_t rank = 0; rank < RANKS; rank++) {
        for (size_t i = 0; i < parts; i++) {
            uint64_t code = special(&layout, oracle_random(&seed));

            memcpy(inputs[rank] + i * layout.part, &code, layout.part);
        }
    }
}

static void reduce(tc_dtype_t dtype, tc_reduce_op_t op, int numerics, const char *algorithm)
{
    tc_future *futures[RANKS];
    tc_options options;

    tc_options_default(&options);
    options.numerics = numerics;
    options.algorithm = algorithm;
    memset(results, 0x5a, sizeof(results));
    for (int rank = 0; rank < RANKS; rank++)
        futures[rank] = tc_allreduce_async(world.group[rank], 1, inputs[rank], results[rank], COUNT,
                                           dtype, op, &options);
    for (int rank = 0; rank < RANKS; rank++) {
        if (world_wait(&world, futures[rank]) != TC_OK)
            fail_msg("%s", tc_future_error(futures[rank])->message);
        tc_future_release(futures[rank]);
    }
    for (int rank = 1; rank < RANKS; rank++)
        assert_memory_equal(results[rank], results[0], COUNT * tc_dtype_size(dtype));
}

static uint64_t code_at(const unsigned char *data, const struct layout *layout, size_t i)
{
    uint64_t code = 0;

    memcpy(&code, data + i * layout->part, layout->part);
    return code;
}

/* What every order gives alike: each NaN is the canonical one; a NaN that came in comes out, and so
 * do infinities of both signs; with MIN and MAX all of the reference. */
static void check_fast(tc_dtype_t dtype, tc_reduce_op_t op)
{
    struct layout layout = layout_of(dtype);
    uint64_t top = UINT64_C(1) << (8 * layout.part - 1);
    size_t parts = COUNT * tc_dtype_size(dtype) / layout.part;

    if (op == TC_REDUCE_MIN || op == TC_REDUCE_MAX)
        assert_memory_equal(results[0], wanted, COUNT * tc_dtype_size(dtype));
    for (size_t i = 0; i < parts; i++) {
        uint64_t got = code_at(results[0], &layout, i), size = got & (top - 1);
        bool has_nan = false, is_zero = true;

        for (size_t rank = 0; rank < RANKS; rank++) {
            uint64_t code = code_at(inputs[rank], &layout, i) & (top - 1);

            has_nan |= code > layout.inf || code == layout.nan;
            is_zero &= code == 0;
        }
        if (size > layout.inf || size == layout.nan)
            assert_int_equal(got, layout.nan);
        if (has_nan)
            assert_int_equal(got, layout.nan);
        if (is_zero && (op == TC_REDUCE_SUM || op == TC_REDUCE_AVG))
            assert_int_equal(got, code_at(wanted, &layout, i));
    }
}

static void check_type(tc_dtype_t dtype)
{
    static const char *const canonical[] = {"oneshot", "direct", "centralized", "wide_chain"};
    static const char *const fast[] = {
        "ring", "recursive_doubling", "halving_doubling", "tree", "chain", "double_tree", "biring"};
    size_t bytes = COUNT * tc_dtype_size(dtype);

    fill(dtype);
    for (int op = TC_REDUCE_SUM; op <= TC_REDUCE_PROD; op++) {
        const void *const in[RANKS] = {inputs[0], inputs[1], inputs[2], inputs[3]};

        if (tc_reduce_reference(wanted, in, RANKS, COUNT, dtype, (tc_reduce_op_t)op) != TC_OK)
            continue;
        for (size_t k = 0; k < sizeof(canonical) / sizeof(canonical[0]); k++) {
            reduce(dtype, (tc_reduce_op_t)op, TC_NUMERICS_CANONICAL, canonical[k]);
            assert_memory_equal(results[0], wanted, bytes);
        }
        if (dtype == TC_DTYPE_C64 && op == TC_REDUCE_PROD)
            continue; /* a NaN in one component alone is no NaN of both */
        for (size_t k = 0; k < sizeof(fast) / sizeof(fast[0]); k++) {
            reduce(dtype, (tc_reduce_op_t)op, TC_NUMERICS_FAST, fast[k]);
            check_fast(dtype, (tc_reduce_op_t)op);
        }
        if (op == TC_REDUCE_PROD)
            continue;
        assert_int_equal(
            tc_reduce_reference_exact(wanted, in, RANKS, COUNT, dtype, (tc_reduce_op_t)op), TC_OK);
        reduce(dtype, (tc_reduce_op_t)op, TC_NUMERICS_EXACT, NULL);
        assert_memory_equal(results[0], wanted, bytes);
    }
}

static void every_type_has_them_in_all_numerics(void **state)
{
    (void)state;
    world_open(&world, RANKS, NULL);
    for (size_t t = 0; t < FLOATS; t++)
        check_type(floats[t]);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_them_in_all_numerics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
