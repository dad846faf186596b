/* test_topk.c - the largest elements are chosen, ties by index, and the rest stays. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/topk.h"
#include "support/reduce_oracle.h"

#include "tcdist/tcdist.h"

enum { COUNT_MAX = 3000 };

static float values[COUNT_MAX], residual[COUNT_MAX], before[COUNT_MAX], kept[COUNT_MAX];
static uint32_t indices[COUNT_MAX];
static uint64_t wide[COUNT_MAX];

static tc_sparse output(size_t room)
{
    return (tc_sparse){
        .indices = indices, .values = kept, .k = 99, .room = room, .index_dtype = TC_DTYPE_U32};
}

/* Of two elements of `x` the one that is taken first. */
static int compare(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    uint32_t left = tci_magnitude(before[i]), right = tci_magnitude(before[j]);

    if (left != right)
        return left < right ? 1 : -1;
    return i < j ? -1 : 1;
}

static int ascending(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

    return i < j ? -1 : i > j;
}

/* What was chosen, by sorting all of it. */
static void check_choice(const tc_sparse *out, size_t count, size_t k)
{
    static uint32_t order[COUNT_MAX];
    size_t at = 0;

    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    qsort(order, count, sizeof(*order), compare);
    qsort(order, k, sizeof(*order), ascending);
    assert_int_equal(out->k, k);
    for (size_t i = 0; i < count; i++) {
        if (at < k && order[at] == i) {
            assert_int_equal(indices[at], i);
            assert_memory_equal(&kept[at], &before[i], sizeof(float));
            assert_true(residual[i] == 0);
            at++;
        } else {
            assert_memory_equal(&residual[i], &before[i], sizeof(float));
        }
    }
}

/* Few different magnitudes, so that there are many ties. */
static float drawn(uint64_t *random, int levels)
{
    float value = (float)(oracle_random(random) % (uint64_t)levels) / 7;

    return oracle_random(random) % 2 == 0 ? value : -value;
}

static void the_k_largest_are_taken_and_the_rest_stays(void **state)
{
    static const size_t counts[] = {0, 1, 2, 7, 100, 2999};
    uint64_t random;

    (void)state;
    random = 1;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (int levels = 1; levels < 100000; levels *= 9)
            for (size_t part = 0; part <= 4; part++) {
                size_t count = counts[c], k = count * part / 4;
                tc_sparse out = output(k);
                for (size_t i = 0; i < count; i++) {
                    values[i] = drawn(&random, levels);
                    residual[i] = drawn(&random, levels);
                    before[i] = values[i] + residual[i];
                }
                assert_int_equal(tc_topk_select(values, residual, count, k, &out), TC_OK);
                check_choice(&out, count, k);
            }
}

static void without_a_residual_the_values_are_as_they_were(void **state)
{
    tc_sparse out = {.indices = wide, .values = kept, .room = 5, .index_dtype = TC_DTYPE_U64};
    const float given[] = {1, -5, 0.5f, 5, 3};

    (void)state;
    assert_int_equal(tc_topk_select(given, NULL, 5, 2, &out), TC_OK);

    assert_int_equal(out.k, 2);
    assert_int_equal(wide[0], 1);
    assert_int_equal(wide[1], 3);
    assert_true(kept[0] == -5 && kept[1] == 5);
    assert_true(given[0] == 1 && given[3] == 5);
}

static void nan_and_infinity_come_first_and_leave_nothing(void **state)
{
    const float given[] = {1, INFINITY, NAN, -2, -NAN, -INFINITY};
    float left[6] = {0};
    tc_sparse out = output(3);

    (void)state;
    assert_int_equal(tc_topk_select(given, left, 6, 3, &out), TC_OK);

    assert_int_equal(out.k, 3);
    assert_int_equal(indices[0], 1);
    assert_int_equal(indices[1], 2);
    assert_int_equal(indices[2], 4);
    assert_true(left[0] == 1 && left[3] == -2);
    assert_true(left[1] == 0 && left[2] == 0 && left[4] == 0 && left[5] == 0);
}

static void a_threshold_takes_what_reaches_it_up_to_the_room(void **state)
{
    const float given[] = {1, -2, 3, -4, 0.5f, NAN, 2};
    float left[7] = {0};
    tc_sparse out = output(7);

    (void)state;
    assert_int_equal(tc_threshold_select(given, left, 7, 2, &out), TC_OK);
    assert_int_equal(out.k, 5);
    assert_int_equal(indices[0], 1);
    assert_int_equal(indices[4], 6);
    assert_true(left[0] == 1 && left[4] == 0.5f && left[1] == 0 && left[5] == 0);

    out = output(2);
    assert_int_equal(tc_threshold_select(given, NULL, 7, 2, &out), TC_OK);
    assert_int_equal(out.k, 2);
    assert_int_equal(indices[0], 3);
    assert_int_equal(indices[1], 5);

    out = output(7);
    assert_int_equal(tc_threshold_select(given, NULL, 7, INFINITY, &out), TC_OK);
    assert_int_equal(out.k, 1);
    assert_int_equal(tc_threshold_select(given, NULL, 7, 0, &out), TC_OK);
    assert_int_equal(out.k, 7);
}

static void small_steps_find_what_one_step_finds(void **state)
{
    struct tci_topk once, often;
    uint64_t random;

    (void)state;
    random = 2;
    for (size_t i = 0; i < COUNT_MAX; i++)
        values[i] = drawn(&random, 1000);
    tci_topk_init(&once, values, COUNT_MAX, 700);
    assert_true(tci_topk_step(&once, SIZE_MAX));
    tci_topk_init(&often, values, COUNT_MAX, 700);
    for (int steps = 0; !tci_topk_step(&often, 11); steps++)
        assert_true(steps < 3 * COUNT_MAX / 10);

    assert_int_equal(once.cut, often.cut);
    assert_int_equal(once.above, often.above);
}

static void mistakes_change_nothing(void **state)
{
    float left[3] = {1, 2, 3};
    tc_sparse out = output(2), other = output(3), none = output(3);

    (void)state;
    other.index_dtype = TC_DTYPE_I32;
    none.indices = NULL;
    assert_int_equal(tc_topk_select(values, left, 3, 1, NULL), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_topk_select(NULL, left, 3, 1, &out), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_topk_select(values, left, 3, 4, &out), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "k 4 is more than the 3 elements"));
    assert_int_equal(tc_topk_select(values, left, 3, 3, &out), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_topk_select(values, left, 3, 1, &other), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_topk_select(values, left, 3, 1, &none), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_threshold_select(values, left, 3, -1, &out), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_threshold_select(values, left, 3, NAN, &out), TC_ERR_INVALID_ARG);
    assert_string_equal(tc_last_error()->operation, "threshold_select");
    assert_true(left[0] == 1 && left[1] == 2 && left[2] == 3 && out.k == 99);

    assert_int_equal(tc_topk_select(NULL, NULL, 0, 0, &none), TC_OK);
    assert_int_equal(none.k, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_k_largest_are_taken_and_the_rest_stays),
        cmocka_unit_test(without_a_residual_the_values_are_as_they_were),
        cmocka_unit_test(nan_and_infinity_come_first_and_leave_nothing),
        cmocka_unit_test(a_threshold_takes_what_reaches_it_up_to_the_room),
        cmocka_unit_test(small_steps_find_what_one_step_finds),
        cmocka_unit_test(mistakes_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
