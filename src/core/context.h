/* context.h - what every part of one context shares. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_CONTEXT_H
#define TCI_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/exec.h"
#include "core/list.h"
#include "core/meter.h"
#include "core/pool.h"
#include "core/process.h"
#include "core/trace.h"
#include "tcdist/context.h"

/* Made and ended by the roof (tcdist.c); core reads it. */
struct tc_context {
    struct tci_exec *exec;              /* owned by the roof */
    struct tci_process process;         /* that it was made in */
    struct tci_trace *trace;            /* owned */
    tc_config config;                   /* every field resolved: none is "not set" any more */
    atomic_bool owes_turn;              /* the next wait turns the loop whatever it waits for */
    struct tci_pool futures;            /* of tc_future */
    struct tci_pool ops;                /* of struct tci_op */
    struct tci_scratch scratch;         /* loop thread */
    struct tci_meter *meters;           /* of the transports that are open; loop thread */
    struct tci_transport_stats metered; /* by those that were closed */
    unsigned dumps;                     /* left on failures so far; loop thread */
    uint64_t dumped_ns;                 /* the last one of these */

    /* Groups that stand; tc_shutdown has them closed and waits until none is left.  Loop thread. */
    struct tci_list groups;
    struct tci_list comms; /* of these, and of those that are being left */
    struct tci_list joins; /* groups that are being formed; likewise */
    void (*close_joins)(struct tc_context *context);
    void (*close_groups)(struct tc_context *context); /* the roof's; NULL: there never was one */

    atomic_uint sleepers;        /* threads that sleep until a future is settled */
    atomic_uint holds;           /* of futures, and of the roof; the last frees the context */
    struct tc_future *no_memory; /* a reference: what is given where no future is to be had */
    pthread_mutex_t promises_lock;
    struct tc_future *promises; /* all that exist; linked by promise_next */
};

/* A context with its pools, exec and trace NULL; NULL without memory.  op_bytes: the size of an
 * object of `ops`.  Any thread. */
tc_context *tci_context_new(size_t op_bytes);

/* The roof's last step, when all futures are settled, the loop and the trace are gone and `exec`
 * is NULL: frees the context, or leaves that to the last future that the application holds. */
void tci_context_end(tc_context *context);

/* Whether this process is a child of the one that made it, by fork(2): it has a copy of the memory,
 * which other threads may have been changing just then, shares the descriptors, and has no thread
 * that turns the loop.  Nothing of the context may be touched. */
static inline bool tci_context_is_foreign(const tc_context *context)
{
    return !tci_process_is_this(&context->process);
}
/* The next wait turns the loop, even where there is nothing to wait for: something else is. */
static inline void tci_context_owe_turn(tc_context *context)
{
    /* relaxed: a hint */
    atomic_store_explicit(&context->owes_turn, true, memory_order_relaxed);
}
/* What a call about it gives there; this thread's last error. */
tc_status_t tci_context_refuse(const tc_context *context, const char *operation);

/* What every future has of its context.  Any thread. */
void tci_context_ref(tc_context *context);
void tci_context_unref(tc_context *context);

/* Settle every promise that nobody has decided with TC_ERR_CLOSED.  A decided one has its task
 * on the way: turn the loop once more before it ends.  Loop thread. */
void tci_promise_close_all(tc_context *context);

#endif
