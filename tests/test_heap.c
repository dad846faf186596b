/* test_heap.c - the heap of timers against a sorted list. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/heap.h"

#define TIMERS 200u

static uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static uint64_t earliest(const struct tci_timer *timers)
{
    uint64_t first = TCI_NEVER;

    for (size_t i = 0; i < TIMERS; i++) {
        if (timers[i].heap_at != 0 && timers[i].deadline_ns < first)
            first = timers[i].deadline_ns;
    }
    return first;
}

static void the_first_is_the_earliest_after_every_step(void **state)
{
    static struct tci_timer timers[TIMERS];
    uint64_t seed = 88172645463325252u;
    struct tci_heap heap = {0};
    (void)state;

    for (int step = 0; step < 20000; step++) {
        struct tci_timer *timer = &timers[random_next(&seed) % TIMERS];

        if (random_next(&seed) % 3 == 0)
            tci_heap_clear(&heap, timer);
        else
            assert_int_equal(tci_heap_set(&heap, timer, random_next(&seed) % 1000), 0);

        if (heap.count == 0)
            assert_null(tci_heap_first(&heap));
        else
            assert_int_equal(tci_heap_first(&heap)->deadline_ns, earliest(timers));
    }
    tci_heap_fini(&heap);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void timers_come_out_sorted(void **state)
{
    static struct tci_timer timers[TIMERS];
    uint64_t seed = 1234567, sorted[TIMERS];
    struct tci_heap heap = {0};
    (void)state;

    for (size_t i = 0; i < TIMERS; i++) {
        sorted[i] = random_next(&seed);
        assert_int_equal(tci_heap_set(&heap, &timers[i], sorted[i]), 0);
    }
    qsort(sorted, TIMERS, sizeof(sorted[0]), compare);

    for (size_t i = 0; i < TIMERS; i++) {
        struct tci_timer *first = tci_heap_first(&heap);

        assert_true(first->deadline_ns == sorted[i]);
        tci_heap_clear(&heap, first);
        assert_int_equal(first->heap_at, 0);
    }
    assert_null(tci_heap_first(&heap));
    tci_heap_fini(&heap);
}

static void clearing_an_unarmed_timer_is_harmless(void **state)
{
    struct tci_timer timer = {0};
    struct tci_heap heap = {0};
    (void)state;

    tci_heap_clear(&heap, &timer);

    assert_null(tci_heap_first(&heap));
    tci_heap_fini(&heap);
}

static void without_memory_a_timer_stays_as_it_was(void **state)
{
    struct tci_timer timer = {.deadline_ns = 5};
    struct tci_heap heap = {0};
    (void)state;

    tci_alloc_fail_at(1, 0);

    assert_int_equal(tci_heap_set(&heap, &timer, 9), -1);
    assert_int_equal(timer.deadline_ns, 5);
    assert_int_equal(timer.heap_at, 0);
    assert_int_equal(tci_heap_set(&heap, &timer, 9), 0);
    tci_alloc_fail_at(1, 1);
    assert_int_equal(tci_heap_set(&heap, &timer, 10), 0);
    tci_alloc_fail_at(0, 0);
    tci_heap_fini(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_the_earliest_after_every_step),
        cmocka_unit_test(timers_come_out_sorted),
        cmocka_unit_test(clearing_an_unarmed_timer_is_harmless),
        cmocka_unit_test(without_memory_a_timer_stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
