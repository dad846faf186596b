/* lap.c - what holds the loop for long is told of. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <time.h>

#include "core/base.h"
#include "core/log.h"
#include "loop/state.h"

/* Nothing of the library takes a thousandth of it; an overloaded machine that is alive, less. */
#define LONG_NS (200 * TCI_NS_PER_MS)
/* A program that holds the loop again and again hears of it so often. */
#define AGAIN_NS (1000 * TCI_NS_PER_MS)
/* How old the time that the thread ran may be when it is compared: a call of the system each. */
#define RAN_AGE_NS (LONG_NS / 4)

#ifdef CLOCK_MONOTONIC_COARSE
#define TICKS CLOCK_MONOTONIC_COARSE
#else
#define TICKS CLOCK_MONOTONIC
#endif

/* A few nanoseconds, and exact enough: the system's clock as of its last tick. */
static uint64_t coarse_ns(void)
{
    struct timespec now;

    clock_gettime(TICKS, &now);
    return (uint64_t)now.tv_sec * TCI_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* What this thread has had of a processor. */
static uint64_t ran_ns(void)
{
    struct timespec ran;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    return (uint64_t)ran.tv_sec * TCI_NS_PER_S + (uint64_t)ran.tv_nsec;
}

static void note_ran(struct tci_loop *loop)
{
    loop->ran_ns = ran_ns();
    loop->ran_at_ns = loop->lap_ns;
    loop->ran_by = pthread_self();
}

void tci_loop_lap_begin(struct tci_loop *loop)
{
    loop->lap_ns = coarse_ns();
    if (loop->lap_ns - loop->ran_at_ns >= RAN_AGE_NS ||
        !pthread_equal(loop->ran_by, pthread_self()))
        note_ran(loop);
    /* The one is behind by a tick of the system at most, the other by what was done since. */
    tci_trace_beat(tci_loop_trace(loop), TCI_PART_TURNING, tci_max(loop->lap_ns, loop->now_ns));
}

/* Who ran all the time has taken it; who did not has waited, or has been made to wait: a machine
 * that is overloaded is not the application's fault. */
static void tell(const struct tci_loop *loop, const char *what, unsigned count, uint64_t took)
{
    unsigned long long took_ms = took / TCI_NS_PER_MS;
    uint64_t ran = tci_min(ran_ns() - loop->ran_ns, took);

    if (ran >= took / 2)
        tci_log(TC_LOG_WARN,
                "the loop was held for %llu ms by %s (%u called), and all else waited: what takes "
                "long belongs on another thread",
                took_ms, what, count);
    else
        tci_log(TC_LOG_WARN,
                "the loop stood still for %llu ms in %s (%u called), and ran for %llu ms of that: "
                "what waits belongs on another thread; if nothing waits there, others had the "
                "processor",
                took_ms, what, count, (unsigned long long)(ran / TCI_NS_PER_MS));
}

unsigned tci_loop_lap(struct tci_loop *loop, const char *what, unsigned count)
{
    uint64_t now, took;

    if (count == 0)
        return 0;
    now = coarse_ns();
    took = now - loop->lap_ns;
    loop->lap_ns = now;
    if (took >= LONG_NS) {
        tci_trace_stall(tci_loop_trace(loop), what, now - took, now);
        if (loop->long_ns == 0 || now - loop->long_ns >= AGAIN_NS) {
            loop->long_ns = now;
            tell(loop, what, count, took);
        }
    }
    if (now - loop->ran_at_ns >= RAN_AGE_NS)
        note_ran(loop);
    return count;
}
