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
    *spin = (struct tci_spin){.work.limit_ns = SPIN_NS, .calls.limit_ns = SPIN_NS};
}

void tci_spin_begin(struct tci_spin *spin)
{
    spin->progress_ns = 0;
    spin->yields = 0;
    spin->now = NULL;
}

void tci_spin_progress(struct tci_spin *spin)
{
    struct tci_patience *now = spin->now;

    if (now != NULL)
        now->limit_ns = now->is_probe ? SPIN_NS : tci_min(2 * now->limit_ns, SPIN_NS);
    tci_spin_begin(spin);
}

static bool is_work_expected(struct tci_loop *loop)
{
    for (struct tci_source *source = loop->sources; source != NULL; source = source->next)
        if (source->expects(source))
            return true;
    return false;
}

/* A thread that has called may call again soon, and to wake us for that takes it 10 us and more on
 * a virtual machine: time in which it would compute. */
static bool is_call_expected(const struct tci_loop *loop)
{
    return loop->was_called && !tci_loop_shares_cores(loop);
}

/* What a spin would be for; NULL: nothing. */
static struct tci_patience *find_reason(struct tci_loop *loop)
{
    if (is_work_expected(loop))
        return &loop->spin.work;
    return is_call_expected(loop) ? &loop->spin.calls : NULL;
}

static void was_for_nothing(struct tci_spin *spin)
{
    struct tci_patience *now = spin->now;

    spin->now = NULL;
    now->limit_ns = tci_max(now->limit_ns / 2, SPIN_MIN_NS);
    now->is_probe = ++now->failures % PROBE_EVERY == 0;
}

/* Who is to call again may be asleep in a wait, or on the way out of it, and need this core. */
static bool is_core_wanted(const struct tci_loop *loop, const struct tci_patience *patience)
{
    atomic_uint *sleepers;

    if (patience != &loop->spin.calls)
        return false;
    sleepers = atomic_load_explicit(&loop->sleepers, memory_order_acquire);
    /* relaxed: a hint */
    return sleepers != NULL && atomic_load_explicit(sleepers, memory_order_relaxed) != 0;
}

/* Where each rank has a core. */
static bool goes_on_alone(struct tci_loop *loop, const struct tci_patience *patience,
                          uint64_t spun_ns)
{
    struct tci_spin *spin = &loop->spin;
    uint64_t limit_ns = patience->is_probe ? SPIN_NS : patience->limit_ns, before_ns;

    if (spun_ns < POLITE_NS && !is_core_wanted(loop, patience))
        return true;
    if (spun_ns < limit_ns) {
        before_ns = tci_loop_now(loop);
        sched_yield();
        loop->is_now_stale = true;
        if (tci_loop_now(loop) - before_ns < HOG_NS)
            return true;
    }
    if (spin->now != NULL)
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

static bool goes_on_for(struct tci_loop *loop, struct tci_patience *patience)
{
    struct tci_spin *spin = &loop->spin;
    uint64_t now_ns = tci_loop_now(loop), spun_ns;

    if (spin->progress_ns == 0) {
        spin->progress_ns = now_ns;
        spin->now = patience;
    }
    spun_ns = now_ns - spin->progress_ns;
    if (loop->spin_us > 0 && spun_ns >= (uint64_t)loop->spin_us * TCI_NS_PER_US)
        return false;
    if (tci_loop_shares_cores(loop))
        return goes_on_shared(loop, spun_ns);
    return loop->spin_us > 0 || goes_on_alone(loop, patience, spun_ns);
}

bool tci_spin_goes_on(struct tci_loop *loop)
{
    struct tci_patience *patience = loop->spin_us == 0 ? NULL : find_reason(loop);

    if (patience == NULL)
        return false;
    if (goes_on_for(loop, patience))
        return true;
    if (patience == &loop->spin.calls)
        loop->was_called = false; /* idle from now on */
    return false;
}

/* Once: who is let through may keep the core for long, and then a deadline may have passed. */
bool tci_spin_lets_through(struct tci_loop *loop)
{
    if (loop->spin_us == 0 || loop->spin.yields > 0 || !is_work_expected(loop))
        return false;
    loop->spin.yields++;
    sched_yield();
    loop->is_now_stale = true;
    return true;
}
