/* test_heal_last.c - a connection that breaks while its ranks say goodbye is no loss of either. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "net/frame.h"
#include "support/heal_world.h"
#include "support/sample.h"

enum { LAST_BYTES = 700 }; /* more than two ranks say while they finalize */

struct end {
    bool is_cut;      /* false: they had less to say than was to go through */
    bool is_in_order; /* no rank has gone before both had both goodbyes, or for their being late */
};

static struct end finalize_cut_after(uint64_t bytes, int mode, uint64_t seed)
{
    tc_config config = heal_world_config(mode, 1);
    struct heal_ear ears[2];
    struct heal_world heal;
    tc_future *futures[2];
    struct end end;

    heal_world_open(&heal, 2, &config, seed);
    for (int r = 0; r < 2; r++)
        heal_world_listen(&heal, r, &ears[r]);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_barrier_async(heal.world.group[r], 1, NULL);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(world_wait(&heal.world, futures[r]), TC_OK);
        tc_future_release(futures[r]);
    }
    cut_proxy_cut_after(heal.proxy, 0, bytes);
    for (int r = 0; r < 2; r++) {
        futures[r] = tc_dist_finalize_async(heal.world.group[r]);
        heal.world.group[r] = NULL;
    }
    for (int r = 0; r < 2; r++) {
        if (world_wait(&heal.world, futures[r]) != TC_OK)
            fail_msg("cut after %u bytes: rank %d: %s", (unsigned)bytes, r,
                     tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
    end.is_cut = cut_proxy_cuts(heal.proxy) > 0;
    heal_world_close(&heal);
    for (int r = 0; r < 2; r++)
        if (atomic_load(&ears[r].lost) != 0)
            fail_msg("cut after %u bytes: rank %d has lost the other", (unsigned)bytes, r);
    end.is_in_order = atomic_load(&ears[0].left) == 1 && atomic_load(&ears[1].left) == 1;
    return end;
}

static void a_break_at_any_byte_of_the_end_is_no_loss(void **state)
{
    static const unsigned steps[] = {173, 59, 4};
    unsigned step = steps[test_effort()], cuts = 0, tries = 0;

    (void)state;
    for (uint64_t bytes = 1 + test_seed() % step; bytes < LAST_BYTES; bytes += step, tries++)
        cuts += finalize_cut_after(bytes, bytes % 2 == 0 ? TC_LOOP_THREAD : TC_LOOP_MANUAL,
                                   test_seed() + bytes)
                    .is_cut;
    print_message("%u of %u ends were cut\n", cuts, tries);
    assert_true(cuts > 0 && cuts < tries);
}

/* Each has sent the other its part of the barrier; one goodbye goes through, and of the other one
 * byte.  Who has got one must not go before the other has. */
static void a_break_between_the_two_goodbyes_is_no_loss(void **state)
{
    uint64_t tries = test_effort() == 2 ? 200 : 24;

    (void)state;
    for (uint64_t k = 0; k < tries; k++)
        assert_true(
            finalize_cut_after(3 * TCI_HEAD_BYTES + 1, TC_LOOP_MANUAL, test_seed() * tries + k)
                .is_cut);
}

/* Otherwise a rank stays until its patience is at an end, which one try may come to on a machine
 * that stands still. */
static void who_has_said_and_heard_goodbye_goes_at_once(void **state)
{
    struct end end = {.is_in_order = false};

    (void)state;
    for (int k = 0; k < 5 && !end.is_in_order; k++)
        end = finalize_cut_after(LAST_BYTES, TC_LOOP_MANUAL, test_seed());
    assert_true(end.is_in_order);
    assert_false(end.is_cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_break_at_any_byte_of_the_end_is_no_loss),
        cmocka_unit_test(a_break_between_the_two_goodbyes_is_no_loss),
        cmocka_unit_test(who_has_said_and_heard_goodbye_goes_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
