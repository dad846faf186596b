/* test_alloc.c - memory: counts of what is alive, and failures on demand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/alloc.h"

static void what_is_allocated_is_alive_until_freed(void **state)
{
    uint64_t live = tci_alloc_live(), total = tci_alloc_total();
    void *a, *b, *c;
    char *text;
    (void)state;

    a = tci_alloc(0);
    b = tci_alloc_raw(100);
    c = tci_alloc_huge(TCI_HUGE_BYTES);
    text = tci_strdup("text");

    assert_int_equal(tci_alloc_live(), live + 4);
    assert_string_equal(text, "text");
    tci_free(a);
    tci_free(b);
    tci_free_huge(c, TCI_HUGE_BYTES);
    tci_free(text);
    tci_free(NULL);
    tci_free_huge(NULL, TCI_HUGE_BYTES);
    assert_int_equal(tci_alloc_live(), live);
    assert_int_equal(tci_alloc_total(), total + 4);
}

static void growing_keeps_the_contents_and_the_count(void **state)
{
    uint64_t live = tci_alloc_live();
    int *numbers;
    (void)state;

    numbers = tci_realloc_array(NULL, 2, sizeof(int));
    assert_non_null(numbers);
    numbers[0] = 7;
    numbers[1] = 8;
    numbers = tci_realloc_array(numbers, 2000, sizeof(int));

    assert_non_null(numbers);
    assert_int_equal(numbers[0] * 10 + numbers[1], 78);
    assert_int_equal(tci_alloc_live(), live + 1);
    tci_free(numbers);
    assert_int_equal(tci_alloc_live(), live);
}

static void memory_is_zeroed_or_aligned_as_promised(void **state)
{
    static const char zeros[96];
    void *raw, *array;
    char *huge;
    (void)state;

    array = tci_alloc_array(12, 8);
    raw = tci_alloc_raw(1);
    huge = tci_alloc_huge(2 * TCI_HUGE_BYTES);

    assert_memory_equal(array, zeros, sizeof(zeros));
    assert_int_equal((uintptr_t)raw % 64, 0);
    assert_int_equal((uintptr_t)huge % TCI_HUGE_BYTES, 0);
    memset(huge - 64, 1, 64);
    huge[2 * TCI_HUGE_BYTES - 1] = 1;
    tci_free(array);
    tci_free(raw);
    tci_free_huge(huge, 2 * TCI_HUGE_BYTES);
}

static void sizes_that_overflow_give_null(void **state)
{
    void *kept = tci_alloc(8);
    (void)state;

    assert_null(tci_alloc_array(SIZE_MAX / 2, 3));
    assert_null(tci_alloc_raw(SIZE_MAX));
    assert_null(tci_realloc_array(kept, SIZE_MAX / 2, 3));
    assert_null(tci_alloc_huge(SIZE_MAX - TCI_HUGE_BYTES + 1));
    tci_free(kept);
}

static void the_nth_allocation_fails_once(void **state)
{
    void *a, *b, *c;
    (void)state;

    tci_alloc_fail_at(2, 0);
    a = tci_alloc(1);
    b = tci_alloc_raw(1);
    c = tci_alloc(1);

    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    tci_free(a);
    tci_free(c);
}

static void all_after_the_nth_fail_until_told_otherwise(void **state)
{
    void *a, *b;
    (void)state;

    tci_alloc_fail_at(2, 1);
    a = tci_alloc(1);

    assert_non_null(a);
    assert_null(tci_alloc(1));
    assert_null(tci_alloc_huge(TCI_HUGE_BYTES));
    assert_null(tci_realloc_array(a, 2, 8));
    assert_null(tci_strdup("text"));
    tci_alloc_fail_at(0, 0);
    b = tci_alloc(1);
    assert_non_null(b);
    tci_free(a);
    tci_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_allocated_is_alive_until_freed),
        cmocka_unit_test(growing_keeps_the_contents_and_the_count),
        cmocka_unit_test(memory_is_zeroed_or_aligned_as_promised),
        cmocka_unit_test(sizes_that_overflow_give_null),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(all_after_the_nth_fail_until_told_otherwise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
