/* test_shm_trial.c - the better of two ways is found by trial, and kept until it is not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/shm_trial.h"

enum { LAP = 65536, LEN = 4096 };

static struct tci_shm_trial trial;

/* Messages of which one that goes this way takes so long; how many went the second way. */
static unsigned send_some(unsigned count, uint64_t ns_0, uint64_t ns_1)
{
    unsigned second = 0;

    for (unsigned i = 0; i < count; i++) {
        struct tci_shm_try next = tci_shm_trial_take(&trial, LEN);

        second += next.way;
        if (next.is_told && tci_shm_trial_tell(&trial, next.way, LEN, next.way == 0 ? ns_0 : ns_1))
            tci_shm_trial_judge(&trial, NULL, NULL);
    }
    return second;
}

static void the_cheaper_way_is_taken(void **state)
{
    (void)state;
    for (uint8_t first = 0; first < 2; first++) {
        tci_shm_trial_init(&trial, first, LAP);
        (void)send_some(200, 400, 1000);
        assert_int_equal(trial.way, 0);
        (void)send_some(20000, 1000, 400); /* the system has moved one of them */
        assert_int_equal(trial.way, 1);
    }
}

static void what_is_no_better_is_tried_ever_more_rarely(void **state)
{
    unsigned tried, later;

    (void)state;
    tci_shm_trial_init(&trial, 0, LAP);
    tried = send_some(1000, 400, 390);
    later = send_some(10000, 400, 390);
    assert_int_equal(trial.way, 0);
    assert_true(tried > 0);
    assert_true(later < 2 * tried);
    assert_true(send_some(100000, 400, 1000) < 100000 / 100);
}

/* Once is chance, as when something else had the processor meanwhile. */
static void one_trial_alone_changes_nothing(void **state)
{
    (void)state;
    tci_shm_trial_init(&trial, 0, LAP);
    while (trial.wins == 0)
        (void)send_some(1, 1000, 400);
    (void)send_some(200, 400, 1000);
    assert_int_equal(trial.way, 0);
}

static void an_interrupted_message_counts_little(void **state)
{
    (void)state;
    tci_shm_trial_init(&trial, 0, LAP);
    for (int round = 0; round < 100; round++) { /* each time the better way is met with it */
        (void)send_some(30, 400, 1000);
        if (trial.phase != 0 && tci_shm_trial_take(&trial, LEN).way == 0 &&
            tci_shm_trial_tell(&trial, 0, LEN, 8000000))
            tci_shm_trial_judge(&trial, NULL, NULL);
    }
    assert_int_equal(trial.way, 0);
}

static void what_the_other_end_pays_counts(void **state)
{
    static const uint64_t ns[2] = {16000, 2000}, bytes[2] = {LAP, LAP};

    (void)state;
    tci_shm_trial_init(&trial, 0, LAP);
    for (int i = 0; i < 1000 && trial.way == 0; i++) {
        struct tci_shm_try next = tci_shm_trial_take(&trial, LEN);

        if (next.is_told && tci_shm_trial_tell(&trial, next.way, LEN, 400)) {
            assert_true(tci_shm_trial_is_due(&trial));
            tci_shm_trial_judge(&trial, ns, bytes);
        }
    }
    assert_int_equal(trial.way, 1);
}

/* Nonsense leads to one way or the other. */
static void a_peer_may_say_anything(void **state)
{
    static const uint64_t ns[2] = {UINT64_MAX, 1}, bytes[2] = {1, UINT64_MAX};

    (void)state;
    tci_shm_trial_init(&trial, 0, LAP);
    for (int i = 0; i < 10000; i++) {
        struct tci_shm_try next = tci_shm_trial_take(&trial, LEN);

        assert_true(next.way < 2);
        if (next.is_told && tci_shm_trial_tell(&trial, next.way, LEN, 400))
            tci_shm_trial_judge(&trial, i % 2 == 0 ? ns : bytes, i % 2 == 0 ? bytes : ns);
    }
}

static void what_is_never_told_ends_a_trial(void **state)
{
    unsigned second = 0;

    (void)state;
    tci_shm_trial_init(&trial, 0, LAP);
    for (int i = 0; i < 100000; i++) {
        struct tci_shm_try next = tci_shm_trial_take(&trial, LEN);

        second += next.way;
        if (next.is_told && next.way == 0) /* the other way tells nothing */
            (void)tci_shm_trial_tell(&trial, next.way, LEN, 400);
    }
    assert_int_equal(trial.way, 0);
    assert_true(second < 100000 / 4 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheaper_way_is_taken),
        cmocka_unit_test(what_is_no_better_is_tried_ever_more_rarely),
        cmocka_unit_test(one_trial_alone_changes_nothing),
        cmocka_unit_test(an_interrupted_message_counts_little),
        cmocka_unit_test(what_the_other_end_pays_counts),
        cmocka_unit_test(a_peer_may_say_anything),
        cmocka_unit_test(what_is_never_told_ends_a_trial),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
