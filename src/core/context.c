/* context.c - the part of a context that outlives its shutdown, as long as futures are held. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"

#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/error.h"
#include "core/future_body.h"

/* context->holds: one for the roof, in the lowest bit and turned round so that a context that is
 * all zero is held; two for each future. */
#define ENDED      1u
#define ONE_FUTURE 2u

#define FUTURES_KEPT 256u /* 600 bytes each; more than a training step has in flight */
#define OPS_KEPT     64u
#define SCRATCH_KEPT ((size_t)256 << 20) /* the blocks of a few operations on 64 MiB each */

static void free_context(tc_context *context)
{
    tci_pool_fini(&context->futures);
    tci_pool_fini(&context->ops);
    pthread_mutex_destroy(&context->promises_lock);
    tci_free(context);
}

tc_context *tci_context_new(size_t op_bytes)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    tc_context *context = tci_alloc(sizeof(*context));

    if (context == NULL)
        return NULL;
    tci_process_get(&context->process);
    if (tci_pool_init(&context->futures, sizeof(tc_future), FUTURES_KEPT) != 0)
        goto free_memory;
    if (tci_pool_init(&context->ops, op_bytes, OPS_KEPT) != 0)
        goto fini_futures;
    if (pthread_mutex_init(&context->promises_lock, NULL) != 0)
        goto fini_ops;
    tci_list_init(&context->comms);
    tci_scratch_init(&context->scratch, SCRATCH_KEPT);
    tci_error_set(&error, TC_ERR_ALLOC, -1, 0, NULL, "no memory for a future");
    context->no_memory = tci_future_failed(context, &error);
    if (context->no_memory->context == context)
        return context;
    pthread_mutex_destroy(&context->promises_lock);
fini_ops:
    tci_pool_fini(&context->ops);
fini_futures:
    tci_pool_fini(&context->futures);
free_memory:
    tci_free(context);
    return NULL;
}

void tci_context_end(tc_context *context)
{
    TC_ASSERT(context->exec == NULL);
    tci_scratch_fini(&context->scratch);
    tc_future_release(context->no_memory);
    /* acq_rel: what the owners of futures did comes before the end, and ours before theirs. */
    if (atomic_fetch_or_explicit(&context->holds, ENDED, memory_order_acq_rel) == 0)
        free_context(context);
}

void tci_context_ref(tc_context *context)
{
    /* relaxed: whoever takes hold of a context has it. */
    atomic_fetch_add_explicit(&context->holds, ONE_FUTURE, memory_order_relaxed);
}

void tci_context_unref(tc_context *context)
{
    /* acq_rel: as in tci_context_end. */
    unsigned before = atomic_fetch_sub_explicit(&context->holds, ONE_FUTURE, memory_order_acq_rel);

    TC_ASSERT(before >= ONE_FUTURE);
    if (before == (ENDED | ONE_FUTURE))
        free_context(context);
}

tc_status_t tci_context_refuse(const tc_context *context, const char *operation)
{
    return tci_fail(TC_ERR_NOT_INITIALIZED, operation,
                    "%s: made in process %d, and this is its child %d: call tc_init here, and form "
                    "groups of its own",
                    operation, (int)context->process.pid, (int)getpid());
}
