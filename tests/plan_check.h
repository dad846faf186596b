/* plan_check.h - the proof of a plan: all ranks' steps, run on contributions instead of numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include <stddef.h>

#include "core/plan.h"

/* What is proved of a case, for every interleaving and every timing:
 *
 *   1 match    each send has its one receive, which names it as its peer and is as long; each
 *              receive has its one send; no step touches a block or a slot that is not there
 *   2 end      all steps end, even where a send only ends when its receive is open (rendezvous)
 *              and no more than `window` steps are open
 *   3 result   every output holds what the collective defines, each contribution once
 *   4 memory   two steps of a rank that touch the same memory, one of them writing, never overlap.
 *              A step may touch it at any time between its opening and its end; a send is ended
 *              for its memory as soon as its receive has ended.  What a RECV that `answers`
 *              brings may overwrite what is sent to the same rank: that opens its send only after
 *              it has got this one's
 *   5 order    the reduction is the promised one: folds in rank order where the plan says
 *              canonical, else one expression that is the same on every rank; `last` marks the
 *              RECV_REDUCE that completes a block, and no other; one fold of all contributions
 *              where the plan says whole
 *
 * Why one run is enough.  No step chooses at run time, so an execution is a marked graph: if one
 * run ends, all do, and with (4) all give the same.  A run within a small window is also one within
 * any larger, so 2 for the smallest window is 2 for all.  Memory is judged by what must have ended
 * before a step opens: its waits, its fence, what lies TCI_WINDOW back, and, along messages, what
 * these waited for.  A smaller window only adds to that, so 4 at TCI_WINDOW is 4 for all.  A
 * message tells the receiver about its sender, never the sender about its receiver, so 4 also holds
 * where a small message is sent before its receive is open (eager). */
struct plan_case {
    const struct tci_plan *plan;

    uint32_t size, root, radix, cuts;
    const struct tci_hosts *hosts; /* NULL: one */
    bool in_place;
    uint32_t window; /* for 2; PLAN_WINDOW_MIN … TCI_WINDOW */

    /* Follow what is known along messages too.  Else only what the rank's own waits give counts,
     * which proves the more when it passes, for less: n instead of n * n words. */
    bool along_messages;
};

/* The smallest window that plans must end with. */
enum { PLAN_WINDOW_MIN = 2 };

/* True if all of it holds, else `why` says what does not.  For TCI_COLL_P2P, `root` runs the plan
 * and the rank after it the other half. */
bool plan_check(const struct plan_case *subject, char *why, size_t why_max);

#endif
