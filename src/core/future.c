/* future.c - the life of a future: made, watched, settled, released. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/future_body.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/futex.h"

struct tci_future_hook tci_hooks_closed;

static const struct tci_bell no_bell = TCI_NO_BELL;

/* Where not even a future is to be had, or no context to take it from. */
#define STATIC_FUTURE(name, cause, says)                                                           \
    static tc_future name = {                                                                      \
        .state = TCI_FUTURE_SETTLED,                                                               \
        .hooks = TCI_HOOKS_CLOSED,                                                                 \
        .error = {                                                                                 \
            .pub = {.status = (cause), .rank = -1, .operation = "", .message = name.error.text},   \
            .text = says}}
STATIC_FUTURE(no_memory, TC_ERR_ALLOC, "no memory for a future");
STATIC_FUTURE(foreign, TC_ERR_NOT_INITIALIZED,
              "made in another process, which this one is a child of: call tc_init here, and form "
              "groups of its own");
STATIC_FUTURE(no_context, TC_ERR_INVALID_ARG, "the group, or the context, is NULL");

bool tci_future_is_foreign(const tc_future *future)
{
    return future->context != NULL && tci_context_is_foreign(future->context);
}

/* ---- Making --------------------------------------------------------------------------------- */

static void run_cancel(struct tci_task *task)
{
    tc_future *future = tci_container_of(task, tc_future, cancel_task);

    if (!tci_future_is_settled(future))
        future->cancel(future->cancel_arg);
    tc_future_release(future);
}

static tc_future *make(tc_context *context, unsigned owners, void (*cancel)(void *arg), void *arg)
{
    tc_future *future = tci_pool_get(&context->futures);

    if (future == NULL)
        return NULL;
    tci_context_ref(context);
    future->context = context;
    atomic_init(&future->refs, owners);
    atomic_init(&future->state, TCI_FUTURE_PENDING);
    atomic_init(&future->waiters, 0);
    atomic_init(&future->bell, no_bell);
    atomic_init(&future->hooks, NULL);
    future->cancel = cancel;
    future->cancel_arg = arg;
    future->cancel_task = (struct tci_task){.fn = run_cancel};
    atomic_init(&future->cancel_is_posted, false);
    atomic_init(&future->first_is_used, false);
    future->is_promise = false;
    future->error.pub = (tc_error){.status = TC_OK, .rank = -1};
    return future;
}

tc_future *tci_future_make(tc_context *context, void (*cancel)(void *arg), void *arg)
{
    return make(context, 1, cancel, arg);
}

tc_future *tci_future_new(tc_context *context, void (*cancel)(void *arg), void *arg)
{
    return make(context, 2, cancel, arg);
}

tc_future *tci_future_failed(tc_context *context, const struct tci_error *error)
{
    tc_future *future;

    TC_ASSERT(error->pub.status != TC_OK && error->pub.status != TC_PENDING);
    if (context == NULL)
        return &no_context;
    if (tci_context_is_foreign(context)) {
        (void)tci_context_refuse(context, error->pub.operation);
        return &foreign;
    }
    future = tci_future_new(context, NULL, NULL);
    if (future == NULL)
        return context->no_memory != NULL ? tc_future_ref(context->no_memory) : &no_memory;
    tci_future_settle(future, error->pub.status, error);
    return future;
}

tc_future *tci_future_fail(tc_context *context, tc_status_t status, const char *operation,
                           const char *fmt, ...)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    char text[sizeof(error.text)];
    va_list args;

    va_start(args, fmt);
    if (vsnprintf(text, sizeof(text), fmt, args) < 0)
        text[0] = '\0';
    va_end(args);
    tci_error_set(&error, status, -1, 0, operation, "%s", text);
    return tci_future_failed(context, &error);
}

/* ---- Owners --------------------------------------------------------------------------------- */

tc_future *tc_future_ref(tc_future *future)
{
    if (future == NULL || future->context == NULL || tci_context_is_foreign(future->context))
        return future;
    /* relaxed: whoever adds an owner is one. */
    atomic_fetch_add_explicit(&future->refs, 1, memory_order_relaxed);
    return future;
}

static void destroy(tc_future *future)
{
    tc_context *context = future->context;
    struct tci_bell bell = atomic_load_explicit(&future->bell, memory_order_relaxed);

    if (future->is_promise)
        tci_promise_forget(future);
    else
        TC_ASSERT(tci_future_is_settled(future));
    tci_bell_close(&bell);
    tci_pool_put(&context->futures, future);
    tci_context_unref(context);
}

void tc_future_release(tc_future *future)
{
    unsigned before;

    if (future == NULL || future->context == NULL || tci_context_is_foreign(future->context))
        return;
    /* acquire: what other owners did comes before the destruction.  The last one is alone with it:
     * only an owner adds another. */
    before = atomic_load_explicit(&future->refs, memory_order_acquire);
    if (before != 1)
        before = atomic_fetch_sub_explicit(&future->refs, 1, memory_order_acq_rel);
    TC_ASSERT(before > 0);
    if (before == 1)
        destroy(future);
}

/* ---- Settling ------------------------------------------------------------------------------- */

static void post_user(tc_future *future, struct tci_future_hook *hook)
{
    struct tci_exec *exec = future->context->exec;

    exec->ops->post_user(exec, &hook->task);
}

/* Close the stack and run what was in it, oldest first. */
static void run_hooks(tc_future *future)
{
    /* acq_rel: acquire pairs with the release of tci_future_hook, the hooks' fields are visible;
     * release pairs with its acquire, for those who find the stack closed. */
    struct tci_future_hook *newest =
        atomic_exchange_explicit(&future->hooks, TCI_HOOKS_CLOSED, memory_order_acq_rel);
    struct tci_future_hook *oldest = NULL;

    TC_ASSERT(newest != TCI_HOOKS_CLOSED);
    while (newest != NULL) {
        struct tci_future_hook *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct tci_future_hook *next = oldest->next;

        post_user(future, oldest);
        oldest = next;
    }
}

static bool may_settle_here(tc_future *future)
{
    struct tci_exec *exec = future->context->exec;

    /* Two owners, the caller and the operation: nobody else has seen it. */
    return exec == NULL || exec->ops->is_here(exec) ||
           atomic_load_explicit(&future->refs, memory_order_relaxed) == 2;
}

void tci_future_settle(tc_future *future, tc_status_t status, const struct tci_error *error)
{
    struct tci_bell bell;

    TC_ASSERT(status != TC_PENDING);
    TC_ASSERT(!tci_future_is_settled(future));
    TC_ASSERT(may_settle_here(future));
    if (status != TC_OK) {
        if (error != NULL)
            tci_error_copy(&future->error, error);
        tci_error_set(&future->error, status, -1, 0, NULL, "%s", tc_status_string(status));
        future->error.pub.status = status;
    }
    /* seq_cst: its release half publishes the error to the acquire in tci_future_is_settled.  The
     * total order pairs with tci_future_block, which counts itself and then looks at state, and
     * with tc_future_fd, which stores the descriptor and then looks at state: either they see the
     * future settled, or we see them. */
    atomic_store_explicit(&future->state, TCI_FUTURE_SETTLED, memory_order_seq_cst);
    if (atomic_load_explicit(&future->waiters, memory_order_seq_cst) != 0)
        tci_futex_wake(&future->state);
    bell = atomic_load_explicit(&future->bell, memory_order_seq_cst);
    if (bell.fd >= 0)
        tci_bell_ring(&bell);
    run_hooks(future);
    tc_future_release(future);
}

tc_context *tci_future_context(const tc_future *future)
{
    return future->context;
}

bool tci_future_is_settled(const tc_future *future)
{
    /* acquire: pairs with the store in tci_future_settle, the error is visible. */
    return atomic_load_explicit(&future->state, memory_order_acquire) == TCI_FUTURE_SETTLED;
}

/* ---- Looking and waiting -------------------------------------------------------------------- */

tc_status_t tc_future_test(tc_future *future)
{
    if (future == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "future_test", "the future is NULL");
    if (tci_future_is_foreign(future))
        return tci_context_refuse(future->context, "future_test");
    return tci_future_is_settled(future) ? future->error.pub.status : TC_PENDING;
}

const tc_error *tc_future_error(const tc_future *future)
{
    if (future != NULL && tci_future_is_foreign(future))
        return &foreign.error.pub;
    if (future == NULL || !tci_future_is_settled(future))
        return NULL;
    return future->error.pub.status == TC_OK ? NULL : &future->error.pub;
}

void tci_future_block(tc_future *future, uint64_t deadline_ns)
{
    tc_context *context = future->context; /* the future keeps it, whoever shuts it down */

    /* relaxed: a hint for the loop */
    atomic_fetch_add_explicit(&context->sleepers, 1, memory_order_relaxed);
    /* seq_cst: pairs with tci_future_settle. */
    atomic_fetch_add_explicit(&future->waiters, 1, memory_order_seq_cst);
    while (atomic_load_explicit(&future->state, memory_order_seq_cst) == TCI_FUTURE_PENDING) {
        if (!tci_futex_wait(&future->state, TCI_FUTURE_PENDING, deadline_ns))
            break;
    }
    atomic_fetch_sub_explicit(&future->waiters, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&context->sleepers, 1, memory_order_relaxed);
}

static uint64_t deadline_in(struct tci_exec *exec, int timeout_ms)
{
    uint64_t now, span = (uint64_t)timeout_ms * TCI_NS_PER_MS; /* fits: 2^31 * 2^20 */

    if (timeout_ms < 0)
        return TCI_NEVER;
    now = exec->ops->now_ns(exec);
    return span < TCI_NEVER - now ? now + span : TCI_NEVER;
}

/* The outcome, which is this thread's last error too when it is one. */
static tc_status_t outcome_of(tc_future *future)
{
    tc_status_t status = tc_future_test(future);

    if (status == TC_OK || status == TC_PENDING)
        return status;
    return tci_error_publish(&future->error);
}

/* Where a call may end what it has begun nobody might ever have to wait, and to turn the loop. */
static bool takes_owed_turn(const tc_future *future)
{
    tc_context *context = future->context;

    /* relaxed: a hint */
    if (context == NULL || !atomic_load_explicit(&context->owes_turn, memory_order_relaxed) ||
        context->exec == NULL || context->exec->ops->is_here(context->exec))
        return false;
    atomic_store_explicit(&context->owes_turn, false, memory_order_relaxed);
    return true;
}

tc_status_t tc_future_wait(tc_future *future, int timeout_ms)
{
    struct tci_exec *exec;

    if (future == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "future_wait", "the future is NULL");
    if (tci_future_is_foreign(future))
        return tci_context_refuse(future->context, "future_wait");
    if (timeout_ms == 0 || (tci_future_is_settled(future) && !takes_owed_turn(future)))
        return outcome_of(future);
    exec = future->context->exec;
    if (exec->ops->is_here(exec))
        return tci_fail(TC_ERR_INVALID_ARG, "future_wait",
                        "a continuation can't wait, the loop that it runs on has to settle the "
                        "future; chain with tc_future_then instead");
    exec->ops->wait(exec, future, deadline_in(exec, timeout_ms));
    return outcome_of(future);
}

int tc_future_fd(tc_future *future)
{
    struct tci_bell bell, none = TCI_NO_BELL;

    if (future == NULL || future->context == NULL) {
        tci_fail(TC_ERR_INVALID_ARG, "future_fd", "a future without a context has no descriptor");
        return -1;
    }
    if (tci_future_is_foreign(future)) {
        (void)tci_context_refuse(future->context, "future_fd");
        return -1;
    }
    bell = atomic_load_explicit(&future->bell, memory_order_relaxed);
    if (bell.fd >= 0)
        return bell.fd;
    if (tci_bell_open(&bell) != 0) {
        tci_fail(TC_ERR_TRANSPORT, "future_fd", "make a descriptor: %s", strerror(errno));
        return -1;
    }
    /* seq_cst: pairs with tci_future_settle. */
    if (!atomic_compare_exchange_strong_explicit(&future->bell, &none, bell, memory_order_seq_cst,
                                                 memory_order_relaxed)) {
        tci_bell_close(&bell);
        return none.fd;
    }
    if (atomic_load_explicit(&future->state, memory_order_seq_cst) == TCI_FUTURE_SETTLED)
        tci_bell_ring(&bell);
    return bell.fd;
}

/* ---- Continuations -------------------------------------------------------------------------- */

static void run_hook(struct tci_task *task)
{
    struct tci_future_hook *hook = tci_container_of(task, struct tci_future_hook, task);
    void (*fn)(tc_future *, void *) = hook->fn;
    tc_future *future = hook->future;
    void *arg = hook->arg;
    bool owned = hook->owned;

    if (owned && hook != &future->first)
        tci_free(hook);
    else if (owned)
        /* release: pairs with the acquire in tc_future_then, the hook is free to be filled. */
        atomic_store_explicit(&future->first_is_used, false, memory_order_release);
    fn(future, arg);
    if (owned)
        tc_future_release(future);
}

/* A hook that came late enters the loop by the inbox, so that late ones keep their order. */
static void run_late_hook(struct tci_task *task)
{
    struct tci_future_hook *hook = tci_container_of(task, struct tci_future_hook, task);

    hook->task.fn = run_hook;
    post_user(hook->future, hook);
}

void tci_future_hook(tc_future *future, struct tci_future_hook *hook)
{
    struct tci_exec *exec = future->context->exec;
    struct tci_future_hook *head = atomic_load_explicit(&future->hooks, memory_order_acquire);

    hook->future = future;
    hook->task = (struct tci_task){.fn = run_hook};
    while (head != TCI_HOOKS_CLOSED) {
        hook->next = head;
        /* release, acquire: pair with the exchange in run_hooks. */
        if (atomic_compare_exchange_weak_explicit(&future->hooks, &head, hook, memory_order_release,
                                                  memory_order_acquire))
            return;
    }
    hook->task.fn = run_late_hook;
    exec->ops->post_remote(exec, &hook->task);
    tci_context_owe_turn(future->context);
}

tc_status_t tc_future_then(tc_future *future, void (*fn)(tc_future *future, void *arg), void *arg)
{
    struct tci_future_hook *hook;

    if (future == NULL || fn == NULL || future->context == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "future_then",
                        "a continuation needs a function and a future with a context");
    if (tci_future_is_foreign(future))
        return tci_context_refuse(future->context, "future_then");
    if (future->context->exec == NULL)
        return tci_fail(TC_ERR_CLOSED, "future_then", "the context has been shut down");
    /* acquire: pairs with the release in run_hook. */
    if (!atomic_exchange_explicit(&future->first_is_used, true, memory_order_acquire))
        hook = &future->first;
    else
        hook = tci_alloc(sizeof(*hook));
    if (hook == NULL)
        return tci_fail(TC_ERR_ALLOC, "future_then", "no memory for a continuation");
    hook->fn = fn;
    hook->arg = arg;
    hook->owned = true;
    tc_future_ref(future);
    tci_future_hook(future, hook);
    return TC_OK;
}

/* ---- Cancelling ----------------------------------------------------------------------------- */

void tc_future_cancel(tc_future *future)
{
    struct tci_exec *exec;

    if (future == NULL || future->cancel == NULL || tci_future_is_foreign(future) ||
        tci_future_is_settled(future))
        return;
    /* relaxed: the task is published by post_remote. */
    if (atomic_exchange_explicit(&future->cancel_is_posted, true, memory_order_relaxed))
        return;
    exec = future->context->exec;
    tc_future_ref(future);
    exec->ops->post_remote(exec, &future->cancel_task);
}
