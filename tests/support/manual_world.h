/* manual_world.h - a world in manual mode, for tests that turn each rank by hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MANUAL_WORLD_H
#define TEST_MANUAL_WORLD_H

#include "support/subgroups.h"

extern struct world manual_world;

/* timeout_ms 0: the default. */
void manual_open(int size, int timeout_ms);
/* Nothing that the library had allocated since manual_open() is left. */
void manual_close(void);

/* Turn the loop of one rank, or of every rank in turn, so many times. */
void manual_turn(int rank, int times);
void manual_turn_all(int times);

/* Wait for a future: its status, the rank it blames (unless TC_OK) and a piece of its message (or
 * NULL) must be these; released. */
void manual_settles(tc_future *future, tc_status_t status, int rank, const char *says);
/* Turn until the group has heard of a loss; gives the rank that is lost. */
int manual_lost_rank(tc_dist_ctx *group);
/* Early messages that a rank holds now. */
uint64_t manual_held_bytes(int rank);

#endif
