/* manual_world.c - a world in manual mode, for tests that turn each rank by hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/manual_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/comm.h"

struct world manual_world;
static uint64_t live_before;

void manual_open(int size, int timeout_ms)
{
    tc_config config;

    live_before = tci_alloc_live();
    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    if (timeout_ms != 0)
        config.timeout_ms = timeout_ms;
    world_open(&manual_world, size, &config);
}

void manual_close(void)
{
    world_close(&manual_world);
    assert_int_equal(tci_alloc_live(), live_before);
}

void manual_turn(int rank, int times)
{
    for (int i = 0; i < times; i++)
        assert_int_equal(tc_poll(manual_world.context[rank], 0), TC_OK);
}

void manual_turn_all(int times)
{
    for (int i = 0; i < times; i++)
        for (int r = 0; r < manual_world.size; r++)
            if (manual_world.context[r] != NULL)
                manual_turn(r, 1);
}

void manual_settles(tc_future *future, tc_status_t status, int rank, const char *says)
{
    tc_status_t got = world_wait(&manual_world, future);
    const tc_error *error = tc_future_error(future);

    if (got != status || (status != TC_OK && error->rank != rank) ||
        (says != NULL && strstr(error->message, says) == NULL))
        fail_msg("expected %s of rank %d, got %s: rank %d, %s", tc_status_string(status), rank,
                 tc_status_string(got), error == NULL ? -9 : error->rank,
                 error == NULL ? "no error" : error->message);
    tc_future_release(future);
}

/* Until the group has heard of a loss; gives the rank that is lost. */
int manual_lost_rank(tc_dist_ctx *group)
{
    int lost;

    while (tc_dist_health(group, &lost) == TC_OK)
        manual_turn_all(1);
    assert_int_equal(tc_dist_health(group, NULL), TC_ERR_PEER_LOST);
    return lost;
}

uint64_t manual_held_bytes(int rank)
{
    struct tci_transport *transport = tci_comm_of(manual_world.group[rank])->transport;
    struct tci_transport_stats stats;

    transport->ops->stats(transport, &stats);
    return stats.eager_bytes;
}
