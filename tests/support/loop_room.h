/* loop_room.h - a loop of any kind for a test, and clocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_LOOP_ROOM_H
#define TEST_LOOP_ROOM_H

#include <stdint.h>

#include "loop/loop.h"
#include "tcdist/context.h"

/* A loop of that mode (tc_loop_mode_t), without a reactor; fails the test when there is none. */
struct tci_loop *loop_open(int mode, int spin_us);
/* A context of that mode. */
tc_context *context_open(int mode);

uint64_t clock_now_ns(void);
/* Processor time of the whole process. */
uint64_t clock_cpu_ns(void);
/* For tests of what happens while nothing happens. */
void clock_pass_ms(unsigned ms);

#endif
