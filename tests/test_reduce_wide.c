/* test_reduce_wide.c - widen, add and round in turn give the bits of the fold at one place. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600, single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "core/dtype.h"
#include "core/reduce_wide.h"

enum { RANKS_MAX = 9, COUNT = 4099, WIDE_MAX = 16 };

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Any bits at all, NaNs and infinities among them. */
static void fill(unsigned char *data, size_t bytes, uint64_t *state)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(next(state) >> 24);
}

static void check_row(tc_dtype_t dtype, tc_reduce_op_t op, unsigned ranks, uint64_t *state)
{
    size_t bytes = COUNT * tc_dtype_size(dtype);
    /* One byte off: inputs and results need no alignment. */
    unsigned char *in[RANKS_MAX], *got = malloc(bytes + 1), *wanted = malloc(bytes + 1);
    const void *inputs[RANKS_MAX];
    void *acc = aligned_alloc(64, (COUNT * WIDE_MAX + 63) / 64 * 64);
    struct tci_fold fold;

    assert_int_equal(tci_fold_init(&fold, dtype, op), TC_OK);
    assert_true(tci_wide_size(&fold) <= WIDE_MAX);
    for (unsigned r = 0; r < ranks; r++) {
        in[r] = malloc(bytes + 1);
        fill(in[r] + 1, bytes, state);
        inputs[r] = in[r] + 1;
    }
    fold.many(wanted + 1, inputs, ranks, COUNT);
    tci_wide_widen(&fold, acc, inputs[0], COUNT);
    for (unsigned r = 1; r < ranks; r++)
        tci_wide_add(&fold, acc, inputs[r], COUNT);
    tci_wide_round(&fold, got + 1, acc, ranks, COUNT);
    if (memcmp(got + 1, wanted + 1, bytes) != 0)
        fail_msg("%s of %s over %u ranks differs", tc_reduce_op_name(op), tc_dtype_name(dtype),
                 ranks);
    for (unsigned r = 0; r < ranks; r++)
        free(in[r]);
    free(acc);
    free(wanted);
    free(got);
}

static void every_type_and_operator_has_the_bits_of_the_fold(void **state)
{
    uint64_t random = 0x9e3779b97f4a7c15;
    unsigned rows = 0;

    (void)state;
    for (int dtype = 0; dtype < TCI_DTYPE_COUNT; dtype++)
        for (int op = 0; op < TCI_REDUCE_OP_COUNT; op++)
            for (unsigned ranks = 2; ranks <= RANKS_MAX; ranks++)
                if (tc_reduce_supported((tc_dtype_t)dtype, (tc_reduce_op_t)op) == TC_OK) {
                    check_row((tc_dtype_t)dtype, (tc_reduce_op_t)op, ranks, &random);
                    rows++;
                }
    print_message("%u rows\n", rows);
}

static void an_accumulator_is_no_larger_than_it_must_be(void **state)
{
    struct tci_fold fold;

    (void)state;
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_F32, TC_REDUCE_SUM), TC_OK);
    assert_int_equal(tci_wide_size(&fold), 8);
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_F32, TC_REDUCE_MAX), TC_OK);
    assert_int_equal(tci_wide_size(&fold), 4);
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_I32, TC_REDUCE_SUM), TC_OK);
    assert_int_equal(tci_wide_size(&fold), 4);
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_I64, TC_REDUCE_AVG), TC_OK);
    assert_int_equal(tci_wide_size(&fold), 16);
    assert_null(tci_wide_find((tc_dtype_t)99, TC_REDUCE_SUM));
    assert_null(tci_wide_find(TC_DTYPE_F32, (tc_reduce_op_t)-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operator_has_the_bits_of_the_fold),
        cmocka_unit_test(an_accumulator_is_no_larger_than_it_must_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
