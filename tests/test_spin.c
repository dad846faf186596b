/* test_spin.c - spins that were for nothing get shorter, and those that were not get longer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"
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

static bool is_expecting; /* the source's answer */

static bool expects_work(struct tci_source *source)
{
    (void)source;
    return is_expecting;
}

/* Nothing turns the loop but this test: the functions are called as tci_loop_run does. */
static struct tci_loop *open_loop_of(struct tci_source *source, int spin_us)
{
    struct tci_loop *loop = loop_open(TC_LOOP_MANUAL, spin_us);

    is_expecting = true;
    *source = (struct tci_source){.poll = poll_nothing, .arm = is_armed, .expects = expects_work};
    loop->sources = source;
    return loop;
}

static struct tci_loop *open_loop(struct tci_source *source)
{
    return open_loop_of(source, -1);
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
    uint64_t longest = loop->spin.work.limit_ns, shortest;

    (void)state;
    spin_for_nothing(loop);
    assert_int_equal(loop->spin.work.limit_ns, longest / 2);
    spin_for_nothing(loop);
    assert_int_equal(loop->spin.work.limit_ns, longest / 4);
    spin_for_something(loop);
    assert_int_equal(loop->spin.work.limit_ns, longest / 2);
    for (int k = 0; k < 5; k++)
        spin_for_something(loop);
    assert_int_equal(loop->spin.work.limit_ns, longest);

    for (int k = 0; k < 9; k++)
        spin_for_nothing(loop);
    shortest = loop->spin.work.limit_ns;
    spin_for_nothing(loop);
    assert_true(shortest > 0 && shortest < longest);
    assert_int_equal(loop->spin.work.limit_ns, shortest);
    close_loop(loop);
}

static void now_and_then_a_long_one_finds_out_that_cores_are_free_again(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    uint64_t longest = loop->spin.work.limit_ns;
    int failures = 0;

    (void)state;
    while (!loop->spin.work.is_probe && failures++ < 1000)
        spin_for_nothing(loop);
    assert_true(failures > 4 && failures < 1000);
    spin_for_something(loop);
    assert_int_equal(loop->spin.work.limit_ns, longest);
    close_loop(loop);
}

static void a_sleep_counts_once_and_what_comes_after_it_is_no_merit_of_the_spin(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    uint64_t longest = loop->spin.work.limit_ns;

    (void)state;
    spin_for_nothing(loop);
    loop->is_now_stale = true;
    assert_false(tci_spin_goes_on(loop)); /* woken for nothing */
    assert_int_equal(loop->spin.work.limit_ns, longest / 2);
    tci_spin_progress(&loop->spin);
    assert_int_equal(loop->spin.work.limit_ns, longest / 2);
    close_loop(loop);
}

/* ---- At times that the test sets ------------------------------------------------------------ */

/* It is `now_ns`, and something was last done so long ago; since then a spin goes on. */
static void set_time_of(struct tci_loop *loop, struct tci_patience *patience, uint64_t now_ns,
                        uint64_t spun_ns)
{
    loop->now_ns = now_ns;
    loop->is_now_stale = false;
    loop->spin.progress_ns = now_ns - spun_ns;
    loop->spin.now = patience;
}

static void set_time(struct tci_loop *loop, uint64_t now_ns, uint64_t spun_ns)
{
    set_time_of(loop, &loop->spin.work, now_ns, spun_ns);
}

static uint64_t now_of(struct tci_loop *loop)
{
    loop->is_now_stale = true;
    return tci_loop_now(loop);
}

static void a_core_that_comes_back_late_is_left_to_others(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    uint64_t longest = loop->spin.work.limit_ns;

    (void)state;
    /* a millisecond ago is when it was let go */
    set_time(loop, now_of(loop) - TCI_NS_PER_MS, 10 * TCI_NS_PER_US);
    assert_false(tci_spin_goes_on(loop));
    assert_int_equal(loop->spin.work.limit_ns, longest / 2);
    /* at first nobody is let through */
    set_time(loop, now_of(loop) - TCI_NS_PER_MS, 2 * TCI_NS_PER_US);
    assert_true(tci_spin_goes_on(loop));
    close_loop(loop);
}

static void a_long_one_is_as_long_as_the_longest(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    uint64_t longest = loop->spin.work.limit_ns;
    int tries = 0;

    (void)state;
    loop->spin.work.limit_ns = longest / 8;
    loop->spin.work.is_probe = true;
    do /* others may want the core */
        set_time(loop, now_of(loop), longest / 2);
    while (!tci_spin_goes_on(loop) && (loop->spin.work.is_probe = true) && ++tries < 100000);
    assert_true(tries < 100000);
    set_time(loop, now_of(loop), longest);
    assert_false(tci_spin_goes_on(loop));
    close_loop(loop);
}

static void ranks_that_share_cores_let_others_through_for_a_while(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    uint64_t now = now_of(loop);

    (void)state;
    tci_loop_set_local_ranks(loop, 100000);
    for (int k = 0; k < 100; k++) { /* a rank that is alone on its core has short turns */
        set_time(loop, now, 49 * TCI_NS_PER_US);
        assert_true(tci_spin_goes_on(loop));
    }
    set_time(loop, now, 50 * TCI_NS_PER_US);
    assert_false(tci_spin_goes_on(loop));
    close_loop(loop);
}

static void a_spin_of_a_length_that_was_set_has_it(void **state)
{
    for (unsigned ranks = 1; ranks <= 100000; ranks += 99999) {
        struct tci_source source;
        struct tci_loop *loop = open_loop_of(&source, 300);
        uint64_t now = now_of(loop);

        (void)state;
        tci_loop_set_local_ranks(loop, ranks);
        for (int k = 0; k < 100; k++) {
            set_time(loop, now, 299 * TCI_NS_PER_US);
            assert_true(tci_spin_goes_on(loop));
        }
        set_time(loop, now, 300 * TCI_NS_PER_US);
        assert_false(tci_spin_goes_on(loop));
        close_loop(loop);
    }
}

static void without_work_or_length_there_is_none(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);

    (void)state;
    set_time(loop, now_of(loop), 0);
    assert_true(tci_spin_goes_on(loop));
    is_expecting = false;
    assert_false(tci_spin_goes_on(loop));
    close_loop(loop);
    loop = open_loop_of(&source, 0);
    set_time(loop, now_of(loop), 0);
    assert_false(tci_spin_goes_on(loop));
    close_loop(loop);
}

static void who_has_called_is_expected_to_call_again(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    struct tci_patience *calls = &loop->spin.calls;
    uint64_t longest = calls->limit_ns;

    (void)state;
    is_expecting = false;
    loop->was_called = true;
    spin_for_something(loop);
    assert_true(loop->was_called);
    spin_for_nothing(loop);
    assert_false(loop->was_called);
    assert_int_equal(calls->limit_ns, longest / 2);
    assert_int_equal(loop->spin.work.limit_ns, longest); /* which is another matter */
    loop->is_now_stale = true;
    tci_spin_begin(&loop->spin);
    assert_false(tci_spin_goes_on(loop)); /* once */
    close_loop(loop);
}

static void a_message_that_does_not_come_leaves_a_call_expected(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);

    (void)state;
    loop->was_called = true;
    spin_for_nothing(loop);
    assert_true(loop->was_called);
    close_loop(loop);
}

static void who_sleeps_in_a_wait_has_the_core_at_once(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);
    struct tci_patience *calls = &loop->spin.calls;
    atomic_uint sleepers = 0;

    (void)state;
    is_expecting = false;
    tci_loop_set_sleepers(loop, &sleepers);
    loop->was_called = true;
    /* a millisecond ago is when it was let go, if it was */
    set_time_of(loop, calls, now_of(loop) - TCI_NS_PER_MS, 0);
    assert_true(tci_spin_goes_on(loop));
    sleepers = 1;
    set_time_of(loop, calls, now_of(loop) - TCI_NS_PER_MS, 0);
    assert_false(tci_spin_goes_on(loop));
    /* a message is another matter */
    is_expecting = true;
    set_time(loop, now_of(loop) - TCI_NS_PER_MS, 0);
    assert_true(tci_spin_goes_on(loop));
    close_loop(loop);
}

static void ranks_that_share_cores_expect_no_call(void **state)
{
    struct tci_source source;
    struct tci_loop *loop = open_loop(&source);

    (void)state;
    is_expecting = false;
    loop->was_called = true;
    tci_loop_set_local_ranks(loop, 100000);
    assert_false(tci_spin_goes_on(loop));
    close_loop(loop);
}

/* ---- With a thread of the loop's own -------------------------------------------------------- */

static void count_spins_for_calls(void *arg)
{
    struct tci_loop *loop = ((void **)arg)[0];

    *(unsigned *)((void **)arg)[1] = loop->spin.calls.failures;
}

static void a_call_of_another_thread_is_such_a_call(void **state)
{
    static const int modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL};

    (void)state;
    for (size_t m = 0; m < TCI_LEN(modes); m++) {
        struct tci_loop *loop = loop_open(modes[m], -1);
        unsigned before = 0, after = 0;
        void *arg[2] = {loop, &before};

        tci_loop_call(loop, count_spins_for_calls, arg);
        clock_pass_ms(20);
        arg[1] = &after;
        tci_loop_call(loop, count_spins_for_calls, arg);
        if (modes[m] == TC_LOOP_THREAD)
            assert_true(after > before);
        else
            assert_int_equal(after, 0);
        tci_loop_free(loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spin_for_nothing_halves_the_next_and_another_doubles_it),
        cmocka_unit_test(now_and_then_a_long_one_finds_out_that_cores_are_free_again),
        cmocka_unit_test(a_sleep_counts_once_and_what_comes_after_it_is_no_merit_of_the_spin),
        cmocka_unit_test(a_core_that_comes_back_late_is_left_to_others),
        cmocka_unit_test(a_long_one_is_as_long_as_the_longest),
        cmocka_unit_test(ranks_that_share_cores_let_others_through_for_a_while),
        cmocka_unit_test(a_spin_of_a_length_that_was_set_has_it),
        cmocka_unit_test(without_work_or_length_there_is_none),
        cmocka_unit_test(who_has_called_is_expected_to_call_again),
        cmocka_unit_test(a_message_that_does_not_come_leaves_a_call_expected),
        cmocka_unit_test(who_sleeps_in_a_wait_has_the_core_at_once),
        cmocka_unit_test(ranks_that_share_cores_expect_no_call),
        cmocka_unit_test(a_call_of_another_thread_is_such_a_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
