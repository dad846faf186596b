/* join.c - futures that follow several others: all of them, or the first. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/future_body.h"

/* Lives until the last child has settled, since each child holds a hook in it.  What changes is
 * changed on the loop. */
struct join {
    tc_future *out; /* until it is settled */
    size_t left, n;
    bool is_any;
    struct tci_error error;         /* of the first child that failed */
    struct tci_future_hook hooks[]; /* hooks[i].future: a reference, for cancelling too */
};

static void settle_out(struct join *join, tc_status_t status, const struct tci_error *error)
{
    tc_future *out = join->out;

    join->out = NULL;
    tci_future_settle(out, status, error);
}

static void see(struct join *join, const tc_future *child)
{
    tc_status_t status = child->error.pub.status;

    TC_ASSERT(join->left > 0);
    join->left--;
    if (join->out == NULL)
        return;
    if (join->is_any)
        settle_out(join, status, &child->error);
    else
        tci_error_copy(&join->error, &child->error);
}

static void end_if_done(struct join *join)
{
    if (join->left > 0)
        return;
    if (join->out != NULL)
        settle_out(join, join->error.pub.status, &join->error);
    for (size_t i = 0; i < join->n; i++)
        tc_future_release(join->hooks[i].future);
    tci_free(join);
}

static void child_settled(tc_future *child, void *arg)
{
    struct join *join = arg;

    see(join, child);
    end_if_done(join);
}

static void cancel_children(void *arg)
{
    struct join *join = arg;

    for (size_t i = 0; i < join->n; i++)
        tc_future_cancel(join->hooks[i].future);
}

static const char *fault_of(tc_context *context, tc_future *const *futures, size_t n)
{
    if (n > 0 && futures == NULL)
        return "the list of futures is NULL";
    for (size_t i = 0; i < n; i++) {
        if (futures[i] == NULL)
            return "a future in the list is NULL";
        if (futures[i]->context != NULL && futures[i]->context != context)
            return "a future in the list belongs to another context";
    }
    return NULL;
}

static struct join *new_join(tc_context *context, size_t n, bool is_any)
{
    struct join *join;
    size_t bytes;

    if (!tci_array_bytes(n, sizeof(struct tci_future_hook), &bytes) ||
        bytes > SIZE_MAX - sizeof(*join))
        return NULL;
    join = tci_alloc(sizeof(*join) + bytes);
    if (join == NULL)
        return NULL;
    join->out = tci_future_new(context, cancel_children, join);
    if (join->out == NULL) {
        tci_free(join);
        return NULL;
    }
    join->n = join->left = n;
    join->is_any = is_any;
    return join;
}

/* Hooks fire on the loop while others are still being added: `join` may be gone after the last. */
static tc_future *start(struct join *join, tc_future *const *futures)
{
    tc_future *out = join->out;
    size_t n = join->n, hooked = 0;

    for (size_t i = 0; i < n; i++) {
        join->hooks[i] = (struct tci_future_hook){
            .future = tc_future_ref(futures[i]), .fn = child_settled, .arg = join};
        /* A static future has no loop to tell us from; it is settled. */
        if (futures[i]->context == NULL)
            see(join, futures[i]);
        else
            hooked++;
    }
    if (hooked == 0)
        end_if_done(join);
    for (size_t i = 0; hooked > 0 && i < n; i++) {
        if (futures[i]->context == NULL)
            continue;
        hooked--;
        tci_future_hook(futures[i], &join->hooks[i]);
    }
    return out;
}

static tc_future *join_futures(tc_context *context, tc_future *const *futures, size_t n,
                               bool is_any)
{
    const char *operation = is_any ? "future_any" : "future_all";
    const char *fault = fault_of(context, futures, n);
    struct join *join;

    if (context == NULL)
        fault = "the context is NULL";
    if (is_any && n == 0)
        fault = "the list of futures is empty";
    if (context != NULL && tci_context_is_foreign(context))
        fault = "of another process";
    if (fault != NULL)
        return tci_future_fail(context, TC_ERR_INVALID_ARG, operation, "%s", fault);
    join = new_join(context, n, is_any);
    if (join == NULL)
        return tci_future_fail(context, TC_ERR_ALLOC, operation, "no memory to follow futures");
    return start(join, futures);
}

tc_future *tc_future_all(tc_context *context, tc_future *const *futures, size_t n)
{
    return join_futures(context, futures, n, false);
}

tc_future *tc_future_any(tc_context *context, tc_future *const *futures, size_t n)
{
    return join_futures(context, futures, n, true);
}
