/* future.h - inside of futures: made by an operation, settled once on the loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_FUTURE_H
#define TCI_FUTURE_H

#include <stdbool.h>

#include "core/error.h"
#include "core/exec.h"
#include "tcdist/future.h"

/* A future that is not settled, with two owners: the caller and the operation; NULL without
 * memory.  cancel(arg), if not NULL, is called on the loop when someone cancels before the
 * settling.  Any thread. */
tc_future *tci_future_new(tc_context *context, void (*cancel)(void *arg), void *arg);

/* Give the outcome and the operation's share of ownership away.  error may be NULL for TC_OK;
 * it is copied.  Wakes waiters, makes the descriptor readable, schedules the continuations.
 * Exactly once a future.  Loop thread; for futures that fail at the call: any thread, before
 * anyone else has seen the future. */
void tci_future_settle(tc_future *future, tc_status_t status, const struct tci_error *error);

/* A future that has failed already; never NULL.  Without memory it is one that the context has in
 * reserve, TC_ERR_ALLOC; in a child of the context's process a static one, TC_ERR_NOT_INITIALIZED;
 * without a context a static one, TC_ERR_INVALID_ARG, that counts no owners,
 * has no descriptor and refuses continuations.  Any thread. */
tc_future *tci_future_failed(tc_context *context, const struct tci_error *error);
/* The same from a formatted cause without rank. */
__attribute__((format(printf, 4, 5))) tc_future *tci_future_fail(tc_context *context,
                                                                 tc_status_t status,
                                                                 const char *operation,
                                                                 const char *fmt, ...);

/* Whether it was made in a process that this one is a child of: its memory is not to be touched.
 * The future to give instead of one of a context like that is tci_future_failed(). */
bool tci_future_is_foreign(const tc_future *future);

/* Whose loop settles it; NULL for the static futures. */
tc_context *tci_future_context(const tc_future *future);

bool tci_future_is_settled(const tc_future *future); /* any thread; acquire */

/* A continuation of the library's own, run like user code; storage is lent until fn is called, and
 * fn may free it.  The caller fills fn and arg, clears owned, and holds a reference to the future
 * until then. */
struct tci_future_hook {
    struct tci_future_hook *next;
    struct tci_task task;
    tc_future *future;
    void (*fn)(tc_future *future, void *arg);
    void *arg;
    bool owned; /* by tc_future_then: has a reference, is given back before fn is called */
};
/* Call hook->fn on the loop once the future is settled; never from within.  Any thread.  Not for
 * futures without a context. */
void tci_future_hook(tc_future *future, struct tci_future_hook *hook);

/* Sleep (futex) until the future is settled or the time has come; for waiters that do not turn
 * the loop.  Any thread. */
void tci_future_block(tc_future *future, uint64_t deadline_ns);

#endif
