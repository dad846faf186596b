/* future.h - what every asynchronous call returns: settled once, from the loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_FUTURE_H
#define TCDIST_FUTURE_H

#include <stddef.h>

#include "tcdist/status.h"

TC_BEGIN_DECLS

/* The runtime: tcdist/context.h. */
typedef struct tc_context tc_context;

/* An outcome to come; shared, with as many owners as refs. */
typedef struct tc_future tc_future;

/* Wait until the future is settled, at most timeout_ms milliseconds (-1: no limit; 0: as test).
 *
 * Gives TC_OK, the error it failed with, or TC_PENDING when the time is up.  With TC_LOOP_MANUAL
 * and TC_LOOP_HOST the waiter turns the loop.  Waiting inside a continuation is refused with
 * TC_ERR_INVALID_ARG, since it would stop the loop that has to settle the future.  Any thread. */
TC_API tc_status_t tc_future_wait(tc_future *future, int timeout_ms);

/* TC_PENDING, TC_OK or the error; never blocks, turns no loop.  After another answer than
 * TC_PENDING all memory of the operation belongs to the caller again.  Any thread. */
TC_API tc_status_t tc_future_test(tc_future *future);

/* Why it failed; NULL unless it has.  Lives as long as the future.  Any thread. */
TC_API const tc_error *tc_future_error(const tc_future *future);

/* Run fn(future, arg) on the loop, once, when the future is settled; soon, if it is already.
 *
 * Never called from within this call.  Several are run in the order they were added.  The future
 * is kept alive until fn has returned.  fn may start operations and release futures; it may not
 * wait.  One continuation of a future at a time needs no memory.  TC_OK; otherwise fn will not be
 * called: TC_ERR_ALLOC when there is no memory for a further one, TC_ERR_CLOSED after tc_shutdown,
 * TC_ERR_INVALID_ARG for NULL and for a future that was made without a context.  Any thread. */
TC_API tc_status_t tc_future_then(tc_future *future, void (*fn)(tc_future *future, void *arg),
                                  void *arg);

/* A future that settles when all n have; TC_OK, or the error of the first that failed.
 *
 * None: TC_OK at once.  The list is copied, its futures are kept alive as long as needed.
 * Cancelling it cancels all of them.  Any thread. */
TC_API tc_future *tc_future_all(tc_context *context, tc_future *const *futures, size_t n);

/* A future that settles as the first of n does, with its outcome.
 *
 * None: failed with TC_ERR_INVALID_ARG.  The rest go on.  Cancelling it cancels all of them.
 * Any thread. */
TC_API tc_future *tc_future_any(tc_context *context, tc_future *const *futures, size_t n);

/* A descriptor (close-on-exec) that is readable from the moment the future is settled.
 *
 * Owned by the future: do not read or close it.  -1 when none is to be had, tc_last_error() says
 * why.  Any thread. */
TC_API int tc_future_fd(tc_future *future);

/* Ask the operation to stop; the future settles soon, with TC_ERR_CANCELLED unless it was done.
 *
 * A collective ends on every rank: the others' futures fail and name this rank.  Harmless on a
 * settled future, and when called again.  Any thread. */
TC_API void tc_future_cancel(tc_future *future);

/* One more owner; gives the future back.  Any thread. */
TC_API tc_future *tc_future_ref(tc_future *future);

/* One owner fewer; NULL is fine.  An operation still running goes on.  Any thread. */
TC_API void tc_future_release(tc_future *future);

/* A future that the application settles, from any thread: for work that a collective shall wait
 * for (`after`).  Cancelling it settles it with TC_ERR_CANCELLED.  Any thread. */
TC_API tc_future *tc_promise_create(tc_context *context);

/* Settle a promise with TC_OK or an error.  The first one counts; later ones give
 * TC_ERR_INVALID_ARG, as does TC_PENDING or a future that is no promise.  Any thread. */
TC_API tc_status_t tc_promise_settle(tc_future *promise, tc_status_t status);

TC_END_DECLS

#endif
