/* loop.h - the event loop: tasks, sources, timers and descriptors, in one turn after another. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LOOP_H
#define TCI_LOOP_H

#include <stdatomic.h>

#include "core/error.h"
#include "core/exec.h"
#include "tcdist/context.h"

struct tci_trace;
struct tci_loop; /* begins with a struct tci_exec */

/* A loop for resolved settings (loop_mode, reactor, spin_us); starts its thread with
 * TC_LOOP_THREAD.  NULL on failure, with the cause in error. */
struct tci_loop *tci_loop_new(const tc_config *config, struct tci_error *error);
/* Stop and join the thread, run nothing more, free.  Everything else is gone by now. */
void tci_loop_free(struct tci_loop *loop);

struct tci_exec *tci_loop_exec(struct tci_loop *loop);
struct tci_loop *tci_loop_of(struct tci_exec *exec);

/* Run fn(arg) on the loop and wait until it has returned; turns the loop where that is the
 * caller's business.  Not from inside the loop. */
void tci_loop_call(struct tci_loop *loop, void (*fn)(void *arg), void *arg);

/* Wait until is_true(arg), asked on the loop after each turn that did something.  Not from
 * inside the loop. */
void tci_loop_await(struct tci_loop *loop, bool (*is_true)(void *arg), void *arg);

/* Whether no task is left; for the function given to tci_loop_await.  Loop thread. */
bool tci_loop_is_drained(struct tci_loop *loop);

/* One turn for tc_poll and tc_dispatch; see there. */
tc_status_t tci_loop_turn(struct tci_loop *loop, int timeout_ms);
int tci_loop_fd(struct tci_loop *loop);
int tci_loop_timeout_ms(struct tci_loop *loop);

/* CLOCK_MONOTONIC in nanoseconds.  Any thread. */
uint64_t tci_loop_clock(void);

/* How many ranks of this host share its cores, which decides how waits spin: known once a group
 * stands.  Any thread. */
void tci_loop_set_local_ranks(struct tci_loop *loop, unsigned ranks);

/* Where the loop leaves signs of life from now on; borrowed until the loop is freed.  Any
 * thread. */
void tci_loop_set_trace(struct tci_loop *loop, struct tci_trace *trace);

/* Where threads that sleep until a future is settled are counted; lives as long as the loop.  Any
 * thread. */
void tci_loop_set_sleepers(struct tci_loop *loop, atomic_uint *sleepers);

/* The ranks of this host are found to have so many cores together: they may be bound to different
 * ones.  Fewer than are known already change nothing.  Loop thread. */
void tci_loop_see_cores(struct tci_loop *loop, unsigned cores);

/* Cores that this process may run on, or that its host's ranks have together.  Any thread. */
unsigned tci_loop_cores(const struct tci_loop *loop);

/* Whether there are more ranks of this host than cores.  Any thread. */
bool tci_loop_shares_cores(const struct tci_loop *loop);
/* Whether they have a second one each, for the threads that call. */
bool tci_loop_has_spare_cores(const struct tci_loop *loop);

/* A descriptor that is watched, level-triggered.  Embedded in its user's object.  Loop thread. */
struct tci_watch {
    int fd;
    uint32_t interest; /* TC_READABLE | TC_WRITABLE, or 0 */
    void (*fn)(struct tci_watch *self, uint32_t ready);
    /* the loop's own */
    struct tci_watch *prev, *next;
    void *handle;
    struct tci_loop *loop;
};
/* -1 with errno when the reactor refuses. */
int tci_watch_add(struct tci_loop *loop, struct tci_watch *watch, int fd, uint32_t interest);
int tci_watch_change(struct tci_watch *watch, uint32_t interest);
void tci_watch_del(struct tci_watch *watch); /* harmless when not added; fd stays open */

#endif
