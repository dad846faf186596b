/* promise.c - futures that the application settles, from any thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/assert.h"
#include "core/base.h"
#include "core/future_body.h"

/* A promise has no operation behind it that would own a share of it.  Whoever has decided its
 * outcome takes a reference, and the settling gives that away; a promise that is dropped undecided
 * just goes. */

static void link_promise(tc_future *promise)
{
    tc_context *context = promise->context;

    pthread_mutex_lock(&context->promises_lock);
    promise->promise_prev = NULL;
    promise->promise_next = context->promises;
    if (context->promises != NULL)
        context->promises->promise_prev = promise;
    context->promises = promise;
    pthread_mutex_unlock(&context->promises_lock);
}

void tci_promise_forget(tc_future *promise)
{
    tc_context *context = promise->context;

    pthread_mutex_lock(&context->promises_lock);
    if (promise->promise_prev != NULL)
        promise->promise_prev->promise_next = promise->promise_next;
    else
        context->promises = promise->promise_next;
    if (promise->promise_next != NULL)
        promise->promise_next->promise_prev = promise->promise_prev;
    pthread_mutex_unlock(&context->promises_lock);
}

/* The first who decides wins; true for that one, who then owes the settling. */
static bool decide(tc_future *promise, tc_status_t status)
{
    int undecided = TC_PENDING;

    /* relaxed: what was done before is published by post_remote, or stays on the loop. */
    return atomic_compare_exchange_strong_explicit(&promise->promised, &undecided, (int)status,
                                                   memory_order_relaxed, memory_order_relaxed);
}

static void settle(tc_future *promise)
{
    tc_status_t status =
        (tc_status_t)atomic_load_explicit(&promise->promised, memory_order_relaxed);
    struct tci_error error = {.pub = {.status = TC_OK}};

    if (status == TC_ERR_CANCELLED)
        tci_error_set(&error, status, -1, 0, "promise", "the promise was cancelled");
    else if (status == TC_ERR_CLOSED)
        tci_error_set(&error, status, -1, 0, "promise", "the context was shut down first");
    else if (status != TC_OK)
        tci_error_set(&error, status, -1, 0, "promise", "the application settled it with %s",
                      tc_status_string(status));
    tci_future_settle(promise, status, &error);
}

static void run_settle(struct tci_task *task)
{
    settle(tci_container_of(task, tc_future, settle_task));
}

static void cancel(void *arg)
{
    tc_future *promise = arg;

    if (decide(promise, TC_ERR_CANCELLED))
        settle(tc_future_ref(promise));
}

tc_future *tc_promise_create(tc_context *context)
{
    tc_future *promise;

    if (context == NULL)
        return tci_future_fail(NULL, TC_ERR_INVALID_ARG, "promise", "the context is NULL");
    if (tci_context_is_foreign(context))
        return tci_future_fail(context, TC_ERR_NOT_INITIALIZED, "promise", "of another process");
    promise = tci_future_make(context, cancel, NULL);
    if (promise == NULL)
        return tci_future_fail(context, TC_ERR_ALLOC, "promise", "no memory for a promise");
    promise->cancel_arg = promise;
    promise->is_promise = true;
    atomic_init(&promise->promised, TC_PENDING);
    promise->settle_task = (struct tci_task){.fn = run_settle};
    link_promise(promise);
    return promise;
}

tc_status_t tc_promise_settle(tc_future *promise, tc_status_t status)
{
    struct tci_exec *exec;

    if (promise == NULL || !promise->is_promise)
        return tci_fail(TC_ERR_INVALID_ARG, "promise_settle", "the future is no promise");
    if (tci_future_is_foreign(promise))
        return tci_context_refuse(promise->context, "promise_settle");
    if ((int)status > 0)
        return tci_fail(TC_ERR_INVALID_ARG, "promise_settle", "%s is no outcome",
                        tc_status_string(status));
    if (!decide(promise, status))
        return tci_fail(TC_ERR_INVALID_ARG, "promise_settle", "the promise is settled already");
    tc_future_ref(promise);
    exec = promise->context->exec;
    exec->ops->post_remote(exec, &promise->settle_task);
    return TC_OK;
}

/* One more owner, unless the last has gone: then the promise is about to be forgotten. */
static bool ref_if_owned(tc_future *promise)
{
    unsigned refs = atomic_load_explicit(&promise->refs, memory_order_relaxed);

    while (refs != 0) {
        if (atomic_compare_exchange_weak_explicit(&promise->refs, &refs, refs + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    }
    return false;
}

/* A promise that nobody had decided, with a reference to it; NULL: there is none. */
static tc_future *decide_next(tc_context *context, tc_status_t status)
{
    tc_future *promise;

    pthread_mutex_lock(&context->promises_lock);
    promise = context->promises;
    while (promise != NULL && !(decide(promise, status) && ref_if_owned(promise)))
        promise = promise->promise_next;
    pthread_mutex_unlock(&context->promises_lock);
    return promise;
}

void tci_promise_close_all(tc_context *context)
{
    tc_future *promise;

    while ((promise = decide_next(context, TC_ERR_CLOSED)) != NULL)
        settle(promise);
}
