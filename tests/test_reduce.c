/* test_reduce.c - kernels at every length, address, number of ranks, and in place. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/reduce.h"
#include "support/reduce_oracle.h"

/* The values of elements have their own test, test_reduce_values.c: random bits do here. */

#define OPS       8
#define COUNT_MAX 130
#define GUARD     64
#define RANKS_MAX 64
#define ROOM      (GUARD + 8 * COUNT_MAX + GUARD)

static unsigned char inputs[RANKS_MAX][ROOM];
static unsigned char output[ROOM + GUARD];
static unsigned char wanted[8 * COUNT_MAX];

static int fill_inputs(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (size_t rank = 0; rank < RANKS_MAX; rank++) {
        for (size_t at = 0; at < ROOM; at++)
            inputs[rank][at] = (unsigned char)oracle_random(&seed);
    }
    return 0;
}

static enum tci_isa isa_of(void **state)
{
    enum tci_isa isa = *(const enum tci_isa *)*state;

    if (!tci_isa_usable(isa)) {
        printf("skipped: this build or processor has no %s\n", tci_isa_name(isa));
        skip();
    }
    return isa;
}

/* Calls body(fold) for each row of the table. */
static void for_each_fold(enum tci_isa isa, void (*body)(const struct tci_fold *fold))
{
    for (size_t k = 0; k < 16; k++) {
        for (int op = 0; op < OPS; op++) {
            struct tci_fold fold = {0};

            if (tci_fold_init_isa(&fold, oracle_dtypes[k], (tc_reduce_op_t)op, isa) == TC_OK)
                body(&fold);
        }
    }
}

static void check_same(const struct tci_fold *fold, const unsigned char *got, size_t count,
                       const char *what)
{
    if (memcmp(got, wanted, count * fold->size) != 0)
        fail_msg("%s of %s %s, count %zu", what, tc_dtype_name(fold->dtype),
                 tc_reduce_op_name(fold->op), count);
}

/* The reference's result, which test_reduce_values.c proves. */
static void expect(const struct tci_fold *fold, const void *const *in, int ranks, size_t count,
                   tc_reduce_op_t op)
{
    assert_int_equal(tc_reduce_reference(wanted, in, ranks, count, fold->dtype, op), TC_OK);
}

static void guard_output(void)
{
    memset(output, 0xa5, sizeof(output));
}

static void check_guards(const unsigned char *begin, const unsigned char *end)
{
    for (const unsigned char *p = output; p < output + sizeof(output); p++) {
        if (p < begin || p >= end)
            assert_int_equal(*p, 0xa5);
    }
}

/* ---- Lengths and addresses ---- */

static void check_length(const struct tci_fold *fold, size_t count, int ranks)
{
    const void *in[RANKS_MAX];
    unsigned char *out = output + GUARD + (count * 3 + (size_t)ranks) % 33;
    tc_reduce_op_t pair_op = fold->op == TC_REDUCE_AVG ? TC_REDUCE_SUM : fold->op;

    for (int rank = 0; rank < ranks; rank++)
        in[rank] = inputs[rank] + ((size_t)rank * 5 + count) % 31;

    expect(fold, in, ranks, count, fold->op);
    guard_output();
    fold->many(out, in, (unsigned)ranks, count);
    check_same(fold, out, count, "many");
    check_guards(out, out + count * fold->size);

    expect(fold, in, 2, count, pair_op);
    guard_output();
    fold->pair(out, in[0], in[1], count);
    check_same(fold, out, count, "pair");
    check_guards(out, out + count * fold->size);
}

static void check_lengths(const struct tci_fold *fold)
{
    for (size_t count = 0; count <= COUNT_MAX; count++) {
        check_length(fold, count, 2);
        check_length(fold, count, 3);
    }
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
        unsigned char *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
        const void *in[3] = {a, b, c};

        assert_true(a != NULL && b != NULL && c != NULL);
        memcpy(a, inputs[0], bytes);
        memcpy(b, inputs[1], bytes);
        memcpy(c, inputs[2], bytes);
        expect(fold, in, 3, count, fold->op);
        fold->many(c, in, 3, count);
        check_same(fold, c, count, "many");
        fold->pair(b, a, b, count);
        if (fold->divide != NULL)
            fold->divide(b, 3, count);
        free(c);
        free(b);
        free(a);
    }
}

static void nothing_beyond_the_last_element_is_read(void **state)
{
    for_each_fold(isa_of(state), check_tight);
}

static void check_divide_lengths(const struct tci_fold *fold)
{
    for (size_t count = 0; count <= COUNT_MAX && fold->divide != NULL; count++) {
        unsigned char *buf = output + GUARD + count % 33;

        memcpy(wanted, inputs[0], count * fold->size);
        oracle_divide(wanted, 3, count, fold->dtype);
        guard_output();
        memcpy(buf, inputs[0], count * fold->size);
        fold->divide(buf, 3, count);
        check_same(fold, buf, count, "divide");
        check_guards(buf, buf + count * fold->size);
    }
}

static void any_length_can_be_divided(void **state)
{
    for_each_fold(isa_of(state), check_divide_lengths);
}

/* ---- In place ---- */

static void check_in_place_of(const struct tci_fold *fold, size_t count, int ranks, int place)
{
    const void *in[RANKS_MAX];
    unsigned char *out = output + GUARD + count % 17;

    for (int rank = 0; rank < ranks; rank++)
        in[rank] = inputs[rank];

    expect(fold, in, ranks, count, fold->op);
    guard_output();
    memcpy(out, inputs[place], count * fold->size);
    in[place] = out;
    fold->many(out, in, (unsigned)ranks, count);
    check_same(fold, out, count, "many in place");
    check_guards(out, out + count * fold->size);
}

static void check_in_place(const struct tci_fold *fold)
{
    for (size_t count = 1; count <= COUNT_MAX; count += 43) {
        for (int ranks = 2; ranks <= 9; ranks++) {
            for (int place = 0; place < ranks; place++)
                check_in_place_of(fold, count, ranks, place);
        }
    }
}

static void the_output_may_be_any_one_of_the_inputs(void **state)
{
    for_each_fold(isa_of(state), check_in_place);
}

static void check_pair_in_place(const struct tci_fold *fold)
{
    const void *in[2] = {inputs[0], inputs[1]};
    tc_reduce_op_t op = fold->op == TC_REDUCE_AVG ? TC_REDUCE_SUM : fold->op;

    for (size_t count = 1; count <= COUNT_MAX; count += 43) {
        expect(fold, in, 2, count, op);
        memcpy(output, inputs[0], count * fold->size);
        fold->pair(output, output, inputs[1], count);
        check_same(fold, output, count, "pair onto the first");
        memcpy(output, inputs[1], count * fold->size);
        fold->pair(output, inputs[0], output, count);
        check_same(fold, output, count, "pair onto the second");
    }
}

static void the_output_of_a_pair_may_be_either_input(void **state)
{
    for_each_fold(isa_of(state), check_pair_in_place);
}

static void check_same_input(const struct tci_fold *fold)
{
    const void *in[5] = {output, output, output, output, output};

    memcpy(output, inputs[0], 100 * fold->size);
    expect(fold, in, 5, 100, fold->op);
    fold->many(output, in, 5, 100);
    check_same(fold, output, 100, "many onto all of its inputs");
}

static void all_inputs_may_be_the_output(void **state)
{
    for_each_fold(isa_of(state), check_same_input);
}

/* ---- Ranks ---- */

static void check_ranks(const struct tci_fold *fold)
{
    static const int ranks[] = {2, 3, 4, 5, 6, 7, 8, 9, 17, 64};
    const void *in[RANKS_MAX];

    for (int rank = 0; rank < RANKS_MAX; rank++)
        in[rank] = inputs[rank] + rank % 3;

    for (size_t k = 0; k < sizeof(ranks) / sizeof(ranks[0]); k++) {
        oracle_reduce(wanted, in, (unsigned)ranks[k], COUNT_MAX, fold->dtype, fold->op);
        fold->many(output, in, (unsigned)ranks[k], COUNT_MAX);
        check_same(fold, output, COUNT_MAX, "many");
    }
}

static void any_number_of_ranks_gives_the_bits_of_the_oracle(void **state)
{
    for_each_fold(isa_of(state), check_ranks);
}

/* ---- Looking kernels up ---- */

static void rows_are_complete_and_divide_is_there_for_averages_of_floats(void **state)
{
    enum tci_isa isa = isa_of(state);

    for (size_t k = 0; k < 16; k++) {
        for (int op = 0; op < OPS; op++) {
            struct tci_fold fold = {0};
            tc_dtype_t dtype = oracle_dtypes[k];
            tc_status_t status = tci_fold_init_isa(&fold, dtype, (tc_reduce_op_t)op, isa);
            int is_float = !oracle_has(dtype, TC_REDUCE_BAND);

            assert_int_equal(status, tc_reduce_supported(dtype, (tc_reduce_op_t)op));
            if (status != TC_OK)
                continue;
            assert_int_equal(fold.dtype, dtype);
            assert_int_equal(fold.op, op);
            assert_int_equal(fold.size, tc_dtype_size(dtype));
            assert_true(fold.many != NULL && fold.pair != NULL);
            assert_int_equal(fold.divide != NULL, op == TC_REDUCE_AVG && is_float);
        }
    }
}

static void the_chosen_family_is_the_last_one_that_is_usable(void **state)
{
    struct tci_fold fold = {0}, same = {0};
    enum tci_isa isa = (enum tci_isa)(TCI_ISA_COUNT - 1);

    (void)state;
    while (!tci_isa_usable(isa))
        isa = (enum tci_isa)(isa - 1);

    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_F32, TC_REDUCE_SUM), TC_OK);
    assert_int_equal(tci_fold_init_isa(&same, TC_DTYPE_F32, TC_REDUCE_SUM, isa), TC_OK);
    assert_true(fold.many == same.many && fold.pair == same.pair);
}

static void a_family_that_is_not_usable_is_refused(void **state)
{
    struct tci_fold fold = {0};

    (void)state;
    assert_true(tci_isa_usable(TCI_ISA_PLAIN));
    for (int isa = -1; isa <= TCI_ISA_COUNT; isa++) {
        if (!tci_isa_usable((enum tci_isa)isa))
            assert_int_equal(
                tci_fold_init_isa(&fold, TC_DTYPE_F32, TC_REDUCE_SUM, (enum tci_isa)isa),
                TC_ERR_UNSUPPORTED);
    }
    assert_string_equal(tci_isa_name(TCI_ISA_PLAIN), "plain");
    assert_string_equal(tci_isa_name(TCI_ISA_COUNT), "unknown");
}

static void types_and_operators_without_meaning_are_refused(void **state)
{
    struct tci_fold fold = {0};

    (void)state;
    assert_int_equal(tci_fold_init(&fold, (tc_dtype_t)6, TC_REDUCE_SUM), TC_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_F32, TC_REDUCE_BAND), TC_ERR_UNSUPPORTED);
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_F32, (tc_reduce_op_t)99), TC_ERR_INVALID_ARG);
}

/* ---- The public reference ---- */

static void the_reference_of_one_rank_copies_every_bit(void **state)
{
    const void *in[1] = {inputs[0]};

    (void)state;
    for (size_t k = 0; k < 16; k++) {
        for (int op = 0; op < OPS; op++) {
            if (!oracle_has(oracle_dtypes[k], (tc_reduce_op_t)op))
                continue;
            memset(output, 0, sizeof(output));
            assert_int_equal(
                tc_reduce_reference(output, in, 1, COUNT_MAX, oracle_dtypes[k], (tc_reduce_op_t)op),
                TC_OK);
            assert_memory_equal(output, inputs[0], COUNT_MAX * oracle_size(oracle_dtypes[k]));
        }
    }
}

static void the_reference_refuses_bad_arguments(void **state)
{
    float a = 1, out = 0;
    const void *in[2] = {&a, NULL};

    (void)state;
    assert_int_equal(tc_reduce_reference(NULL, NULL, 2, 0, TC_DTYPE_F32, TC_REDUCE_SUM), TC_OK);
    assert_int_equal(tc_reduce_reference(&out, in, 0, 1, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference(&out, in, -1, 0, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference(&out, in, 2, 1, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference(NULL, in, 1, 1, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference(&out, NULL, 1, 1, TC_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    assert_int_equal(tc_reduce_reference(&out, in, 1, 1, TC_DTYPE_F32, TC_REDUCE_BOR),
                     TC_ERR_UNSUPPORTED);
    assert_int_equal(tc_reduce_reference(&out, in, 1, 1, (tc_dtype_t)9, TC_REDUCE_SUM),
                     TC_ERR_UNSUPPORTED_DTYPE);
    assert_true(out == 0);
}

static enum tci_isa isas[] = {TCI_ISA_PLAIN, TCI_ISA_AVX2, TCI_ISA_AVX512, TCI_ISA_NEON};

#define CASE(isa, ISA, sentence)                                                                   \
    {                                                                                              \
#isa ": " #sentence, sentence, NULL, NULL, &isas[ISA]                                      \
    }

#define CASES(isa, ISA)                                                                            \
    CASE(isa, ISA, any_length_and_address_leave_the_bytes_around_alone),                           \
        CASE(isa, ISA, nothing_beyond_the_last_element_is_read),                                   \
        CASE(isa, ISA, any_length_can_be_divided),                                                 \
        CASE(isa, ISA, the_output_may_be_any_one_of_the_inputs),                                   \
        CASE(isa, ISA, the_output_of_a_pair_may_be_either_input),                                  \
        CASE(isa, ISA, all_inputs_may_be_the_output),                                              \
        CASE(isa, ISA, any_number_of_ranks_gives_the_bits_of_the_oracle),                          \
        CASE(isa, ISA, rows_are_complete_and_divide_is_there_for_averages_of_floats)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASES(plain, TCI_ISA_PLAIN),
        CASES(avx2, TCI_ISA_AVX2),
        CASES(avx512, TCI_ISA_AVX512),
        CASES(neon, TCI_ISA_NEON),
        cmocka_unit_test(the_chosen_family_is_the_last_one_that_is_usable),
        cmocka_unit_test(a_family_that_is_not_usable_is_refused),
        cmocka_unit_test(types_and_operators_without_meaning_are_refused),
        cmocka_unit_test(the_reference_of_one_rank_copies_every_bit),
        cmocka_unit_test(the_reference_refuses_bad_arguments),
    };

    return cmocka_run_group_tests(tests, fill_inputs, NULL);
}
