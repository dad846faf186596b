/* test_heal_last.c - a connection that breaks while its ranks say goodbye is no loss of either. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, serial */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/heal_world.h"
#include "support/sample.h"

enum { LAST_BYTES = 700 }; /* more than two ranks say while they finalize */

/* After so many bytes more; false: that was more than they had to say. */
static bool finalize_cut_after(uint64_t bytes, int mode)
{
    tc_config config = heal_world_config(mode, 1);
    struct heal_world heal;
    tc_future *futures[2];
    bool is_cut;

    heal_world_open(&heal, 2, &config, test_seed() + bytes);
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
    is_cut = cut_proxy_cuts(heal.proxy) > 0;
    heal_world_close(&heal);
    return is_cut;
}

static void a_break_at_any_byte_of_the_end_is_no_loss(void **state)
{
    static const unsigned steps[] = {173, 59, 4};
    unsigned step = steps[test_effort()], cuts = 0, tries = 0;

    (void)state;
    for (uint64_t bytes = 1 + test_seed() % step; bytes < LAST_BYTES; bytes += step, tries++)
        cuts += finalize_cut_after(bytes, bytes % 2 == 0 ? TC_LOOP_THREAD : TC_LOOP_MANUAL);
    print_message("%u of %u ends were cut\n", cuts, tries);
    assert_true(cuts > 0 && cuts < tries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_break_at_any_byte_of_the_end_is_no_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
