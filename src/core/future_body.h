/* future_body.h - what a future consists of; for the files that make futures move. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_FUTURE_BODY_H
#define TCI_FUTURE_BODY_H

#include <stdatomic.h>

#include "core/bell.h"
#include "core/context.h"
#include "core/future.h"

enum { TCI_FUTURE_PENDING = 0, TCI_FUTURE_SETTLED = 1 };

/* Where the stack of continuations ends once the future is settled. */
#define TCI_HOOKS_CLOSED (&tci_hooks_closed)
extern struct tci_future_hook tci_hooks_closed;

struct tc_future {
    tc_context *context; /* shared; NULL: a static future, whose references are not counted */
    atomic_uint refs;
    atomic_uint state;             /* futex word */
    atomic_uint waiters;           /* asleep on state, or about to be */
    _Atomic(struct tci_bell) bell; /* none until somebody asks; not of a static future */
    /* Newest first; TCI_HOOKS_CLOSED when settled. */
    _Atomic(struct tci_future_hook *) hooks;

    void (*cancel)(void *arg); /* NULL: can't be cancelled */
    void *cancel_arg;
    struct tci_task cancel_task;
    atomic_bool cancel_is_posted;

    struct tci_future_hook first; /* so that one continuation needs no memory */
    atomic_bool first_is_used;

    /* Of promises. */
    bool is_promise;
    atomic_int promised; /* the first outcome given; TC_PENDING: none yet */
    struct tci_task settle_task;
    struct tc_future *promise_prev, *promise_next; /* in context->promises, under its lock */

    /* Written before state becomes SETTLED, constant afterwards. */
    struct tci_error error; /* status TC_OK: all went well */
};

/* What tci_future_new does, with one owner: the caller. */
tc_future *tci_future_make(tc_context *context, void (*cancel)(void *arg), void *arg);

/* Take a promise that goes away out of its context's list. */
void tci_promise_forget(tc_future *promise);

#endif
