/* test_spin.c - spins that were for nothing get shorter, and those that were not get longer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loop/state.h"
#include "support/loop_room.h"

static unsigned poll_nothing(struct tci_source *source, unsigned budget)
{
    (void)source;
    (void)budget;
    return 0;
}

static bool is_armed(struct tci_source *source)
{
    (void)source;
    return true;
}

static bool expects_work(struct tci_source *source)
{
    (void)source;
    return true;
}

/* Nothing turns the loop but this test: the functions are called as tci_loop_run does. */
static struct tci_loop *open_loop(struct tci_source *source)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, -1);

    *source = (struct tci_source){.poll = poll_nothing, .arm = is_armed, .expects = expects_work};
    loop->sources = source;
    return loop;
}

static void close_loop(struct tci_loop *loop)
{
    loop->sources = NULL;
    tci_loop_free(loop);
}

/* A wait in which nothing comes, until it is time to sleep. */
static void spin_for_nothing(struct tci_loop *loop)
{
    tci_spin_begin(&loop->spin);
    do
        loop->is_now_stale = true;
    while (tci_spin_goes_on(loop));
}

/* A wait in which something comes at the second look. */
static void spin_for_something(struct tci_loop *loop)
{
    tci_spin_begin(&loop->spin);
    loop->is_now_stale = true;
    assert_true(tci_spin_goes_on(loop));
    tci_spin_progress(&loop->spin);
}

static void a_spin_for_nothing_halves_the_next_and_another_doubles_it(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    uint64_t longest = loop->spin.limit_ns, shortest;

    (void)state;
    spin_for_nothing(loop);
    assert_int_equal(loop->spin.limit_ns, longest / 2);
    spin_for_nothing(loop);
    assert_int_equal(loop->spin.limit_ns, longest / 4);
    spin_for_something(loop);
    assert_int_equal(loop->spin.limit_ns, longest / 2);
    for (int k = 0; k < 5; k++)
        spin_for_something(loop);
    assert_int_equal(loop->spin.limit_ns, longest);

    for (int k = 0; k < 9; k++)
        spin_for_nothing(loop);
    shortest = loop->spin.limit_ns;
    spin_for_nothing(loop);
    assert_true(shortest > 0 && shortest < longest);
    assert_int_equal(loop->spin.limit_ns, shortest);
    close_loop(loop);
}

static void now_and_then_a_long_one_finds_out_that_cores_are_free_again(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    uint64_t longest = loop->spin.limit_ns;
    int failures = 0;

    (void)state;
    while (!loop->spin.is_probe && failures++ < 1000)
        spin_for_nothing(loop);
    assert_true(failures > 4 && failures < 1000);
    spin_for_something(loop);
    assert_int_equal(loop->spin.limit_ns, longest);
    close_loop(loop);
}

static void a_sleep_counts_once_and_what_comes_after_it_is_no_merit_of_the_spin(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    uint64_t longest = loop->spin.limit_ns;

    (void)state;
    spin_for_nothing(loop);
    loop->is_now_stale = true;
    assert_false(tci_spin_goes_on(loop)); /* woken for nothing */
    assert_int_equal(loop->spin.limit_ns, longest / 2);
    tci_spin_progress(&loop->spin);
    assert_int_equal(loop->spin.limit_ns, longest / 2);
    close_loop(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spin_for_nothing_halves_the_next_and_another_doubles_it),
        cmocka_unit_test(now_and_then_a_long_one_finds_out_that_cores_are_free_again),
        cmocka_unit_test(a_sleep_counts_once_and_what_comes_after_it_is_no_merit_of_the_spin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
