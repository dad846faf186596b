/* context.c - the runtime of an application: begun, turned and ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"

#include "context/config.h"
#include "context/trace_file.h"
#include "core/op.h"
#include "loop/loop.h"

/* ---- Beginning ------------------------------------------------------------------------------ */

static tc_status_t make(const tc_config *config, struct tci_error *error, tc_context **out)
{
    tc_context *context = tci_context_new(tci_op_bytes());
    struct tci_loop *loop;
    tc_status_t status;

    if (context == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "init", "no memory for a context");
        return TC_ERR_ALLOC;
    }
    tci_list_init(&context->groups);
    tci_list_init(&context->joins);
    status = tci_config_resolve(config, &context->config, error);
    if (status != TC_OK)
        goto end_context;
    context->trace = tci_trace_open(context, error);
    if (context->trace == NULL)
        goto free_config;
    loop = tci_loop_new(&context->config, error);
    if (loop == NULL)
        goto free_trace;
    tci_loop_set_trace(loop, context->trace);
    tci_loop_set_sleepers(loop, &context->sleepers);
    context->exec = tci_loop_exec(loop);
    *out = context;
    return TC_OK;

free_trace:
    tci_trace_free(context->trace);
    context->trace = NULL;
free_config:
    status = error->pub.status;
end_context:
    tci_config_fini(&context->config);
    tci_context_end(context);
    return status;
}

tc_status_t tc_init_config(const tc_config *config, tc_context **out)
{
    struct tci_error error = {.pub = {.status = TC_OK}};

    if (out == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "init", "there is no place for the context");
    if (make(config, &error, out) != TC_OK)
        return tci_error_publish(&error);
    return TC_OK;
}

tc_status_t tc_init(tc_context **out)
{
    return tc_init_config(NULL, out);
}

/* ---- Ending --------------------------------------------------------------------------------- */

static void close_groups(void *arg)
{
    tc_context *context = arg;

    if (context->close_joins != NULL)
        context->close_joins(context);
    if (context->close_groups != NULL)
        context->close_groups(context);
}

static bool are_groups_gone(void *arg)
{
    tc_context *context = arg;

    return tci_list_is_empty(&context->groups);
}

static void close_promises(void *arg)
{
    tci_promise_close_all(arg);
}

static bool is_drained(void *arg)
{
    return tci_loop_is_drained(arg);
}

tc_status_t tc_shutdown(tc_context *context)
{
    struct tci_loop *loop;

    if (context == NULL)
        return TC_OK;
    if (tci_context_is_foreign(context))
        return tci_context_refuse(context, "shutdown");
    loop = tci_loop_of(context->exec);
    if (context->exec->ops->is_here(context->exec))
        return tci_fail(TC_ERR_INVALID_ARG, "shutdown",
                        "called inside a continuation, on the loop that has to end");
    tci_loop_call(loop, close_groups, context);
    tci_loop_await(loop, are_groups_gone, context);
    tci_loop_call(loop, close_promises, context);
    tci_loop_await(loop, is_drained, loop);
    atomic_store_explicit(&context->owes_turn, false, memory_order_relaxed);
    tci_loop_free(loop);
    context->exec = NULL;
    tci_trace_free(context->trace);
    context->trace = NULL;
    tci_config_fini(&context->config);
    tci_context_end(context);
    return TC_OK;
}

/* ---- Turning -------------------------------------------------------------------------------- */

tc_status_t tc_poll(tc_context *context, int timeout_ms)
{
    if (context == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "poll", "the context is NULL");
    if (tci_context_is_foreign(context))
        return tci_context_refuse(context, "poll");
    return tci_loop_turn(tci_loop_of(context->exec), timeout_ms);
}

tc_status_t tc_dispatch(tc_context *context)
{
    return tc_poll(context, 0);
}

int tc_fd(tc_context *context)
{
    if (context != NULL && !tci_context_is_foreign(context))
        return tci_loop_fd(tci_loop_of(context->exec));
    if (context != NULL)
        (void)tci_context_refuse(context, "fd");
    return -1;
}

int tc_timeout_ms(tc_context *context)
{
    if (context == NULL || tci_context_is_foreign(context))
        return -1;
    return tci_loop_timeout_ms(tci_loop_of(context->exec));
}
