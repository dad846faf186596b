/* spin.c - whether a turn that did nothing is followed by another one at once, or by a sleep. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>

#include "core/base.h"
#include "loop/state.h"

/* Spinning for work that is on its way, when each rank has a core: three sleeps' worth of wake-ups
 * (62 us each).  When ranks share cores the others are let through instead, for less long. */
#define SPIN_NS   (200 * TCI_NS_PER_US)
#define SHARED_NS (50 * TCI_NS_PER_US)
/* Cores that are there may be busy with other programs, and then a peer may wait for the very core
 * that we spin on.  So after so long it is let through between two looks; a core that comes back
 * as late as HOG_NS is wanted by others, and who sleeps is woken sooner than that. */
#define POLITE_NS (5 * TCI_NS_PER_US)
#define HOG_NS    (100 * TCI_NS_PER_US)
/* A spin that was for nothing halves the next one, down to this, and one that was not doubles it.
 * After so many that were for nothing one is as long as ever, to find out. */
#define SPIN_MIN_NS (25 * TCI_NS_PER_US)
#define PROBE_EVERY 16

void tci_spin_init(struct tci_spin *spin)
{
    *spin = (struct tci_spin){.limit_ns = SPIN_NS};
}

void tci_spin_begin(struct tci_spin *spin)
{
    spin->progress_ns = 0;
    spin->yields = 0;
    spin->is_on = false;
}

void tci_spin_progress(struct tci_spin *spin)
{
    if (spin->is_on)
        spin->limit_ns = spin->is_probe ? SPIN_NS : tci_min(2 * spin->limit_ns, SPIN_NS);
    tci_spin_begin(spin);
}

static bool is_work_expected(struct tci_loop *loop)
{
    for (struct tci_source *source = loop->sources; source != NULL; source = source->next)
        if (source->expects(source))
            return true;
    return false;
}

static void was_for_nothing(struct tci_spin *spin)
{
    spin->is_on = false;
    spin->limit_ns = tci_max(spin->limit_ns / 2, SPIN_MIN_NS);
    spin->is_probe = ++spin->failures % PROBE_EVERY == 0;
}

/* Where each rank has a core. */
static bool goes_on_alone(struct tci_loop *loop, uint64_t spun_ns)
{
    struct tci_spin *spin = &loop->spin;
    uint64_t limit_ns = spin->is_probe ? SPIN_NS : spin->limit_ns, before_ns;

    if (spun_ns < POLITE_NS)
        return true;
    if (spun_ns < limit_ns) {
        before_ns = tci_loop_now(loop);
        sched_yield();
        loop->is_now_stale = true;
        if (tci_loop_now(loop) - before_ns < HOG_NS)
            return true;
    }
    if (spin->is_on)
        was_for_nothing(spin);
    return false;
}

static bool goes_on_shared(struct tci_loop *loop, uint64_t spun_ns)
{
    if (loop->spin_us < 0 && spun_ns >= SHARED_NS)
        return false;
    loop->spin.yields++;
    sched_yield();
    return true;
}

bool tci_spin_goes_on(struct tci_loop *loop)
{
    struct tci_spin *spin = &loop->spin;
    uint64_t now_ns, spun_ns;

    if (loop->spin_us == 0 || !is_work_expected(loop))
        return false;
    now_ns = tci_loop_now(loop);
    if (spin->progress_ns == 0) {
        spin->progress_ns = now_ns;
        spin->is_on = true;
    }
    spun_ns = now_ns - spin->progress_ns;
    if (loop->spin_us > 0 && spun_ns >= (uint64_t)loop->spin_us * TCI_NS_PER_US)
        return false;
    if (tci_loop_shares_cores(loop))
        return goes_on_shared(loop, spun_ns);
    return loop->spin_us > 0 || goes_on_alone(loop, spun_ns);
}
