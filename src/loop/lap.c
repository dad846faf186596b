/* lap.c - what holds the loop for long is told of. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "core/log.h"
#include "loop/state.h"

/* Nothing of the library takes a thousandth of it; an overloaded machine that is alive, less. */
#define LONG_NS (200 * TCI_NS_PER_MS)
/* A program that holds the loop again and again hears of it so often. */
#define AGAIN_NS (1000 * TCI_NS_PER_MS)

/* A few nanoseconds, and exact enough: the system's clock as of its last tick. */
static uint64_t coarse_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tci_loop_lap_begin(struct tci_loop *loop)
{
    loop->lap_ns = coarse_ns();
    tci_trace_beat(tci_loop_trace(loop), TCI_PART_TURNING, loop->lap_ns);
}

unsigned tci_loop_lap(struct tci_loop *loop, const char *what, unsigned count)
{
    uint64_t now, took;

    if (count == 0)
        return 0;
    now = coarse_ns();
    took = now - loop->lap_ns;
    loop->lap_ns = now;
    if (took >= LONG_NS)
        tci_trace_stall(tci_loop_trace(loop), what, now - took, now);
    if (took < LONG_NS || (loop->long_ns != 0 && now - loop->long_ns < AGAIN_NS))
        return count;
    loop->long_ns = now;
    tci_log(TC_LOG_WARN,
            "the loop was held for %llu ms by %s (%u called), and all else waited: what takes long "
            "belongs on another thread",
            (unsigned long long)(took / TCI_NS_PER_MS), what, count);
    return count;
}
