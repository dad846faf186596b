/* dist.c - the public calls about groups: init, sub-groups, health. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tcdist/dist.h"

#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "group/auth.h"
#include "group/group.h"
#include "group/join_env.h"
#include "group/names.h"

void tc_dist_options_default(tc_dist_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->abi_version = TC_DIST_OPTIONS_ABI_VERSION;
    options->backend = TC_DIST_ANY;
    options->world_size = 1;
    options->listen_fd = -1;
}

tc_future *tc_dist_init_async(tc_context *context, const tc_dist_options *options,
                              tc_dist_ctx **out)
{
    tc_dist_options by_side;

    if (context != NULL && options != NULL && out != NULL &&
        tci_join_is_env(options->rendezvous_url))
        return tci_join_env(context, options, out);
    if (options != NULL && options->abi_version == TC_DIST_OPTIONS_ABI_VERSION &&
        options->side_allgather != NULL && options->rendezvous_url == NULL) {
        by_side = *options;
        by_side.rendezvous_url = "side://";
        options = &by_side;
    }
    return tci_join(context, options, &(struct tci_join_how){.keyring = NULL}, out);
}

static tc_status_t wait_and_release(tc_future *future)
{
    tc_status_t status = tc_future_wait(future, -1);

    tc_future_release(future);
    return status;
}

/* Waiting inside the loop would stop what is waited for. */
static bool is_outside(tc_context *context, const char *name)
{
    if (!context->exec->ops->is_here(context->exec))
        return true;
    tci_fail(TC_ERR_INVALID_ARG, name, "%s: not from a continuation, which it would wait for",
             name);
    return false;
}

static void fill(tc_dist_options *options, tc_dist_backend_t backend, int world_size, int rank,
                 const char *rendezvous_url)
{
    tc_dist_options_default(options);
    options->backend = (int)backend;
    options->world_size = world_size;
    options->rank = rank;
    options->rendezvous_url = rendezvous_url;
}

tc_status_t tc_dist_init(tc_context *context, tc_dist_backend_t backend, int world_size, int rank,
                         const char *rendezvous_url, tc_dist_ctx **out)
{
    tc_dist_options options;

    fill(&options, backend, world_size, rank, rendezvous_url);
    if (context != NULL && !is_outside(context, "dist_init"))
        return TC_ERR_INVALID_ARG;
    return wait_and_release(tc_dist_init_async(context, &options, out));
}

tc_status_t tc_dist_init_authenticated(tc_context *context, tc_dist_backend_t backend,
                                       int world_size, int rank, const char *rendezvous_url,
                                       const char *const *rank_identities,
                                       size_t rank_identity_count,
                                       const tc_transport_auth_config *auth, tc_dist_ctx **out)
{
    static const char name[] = "dist_init_authenticated";
    const struct tci_auth_request request = {.name = name,
                                             .identities = rank_identities,
                                             .identity_count = rank_identity_count,
                                             .size = world_size,
                                             .rank = rank,
                                             .config = auth};
    struct tci_join_how how = {.keyring = NULL};
    struct tci_error error = {0};
    tc_dist_options options;
    tc_future *joined;

    fill(&options, backend, world_size, rank, rendezvous_url);
    if (tci_join_check(context, &options, out, &error) != TC_OK ||
        tci_auth_keyring(&request, &context->config, &how.keyring, &error) != TC_OK)
        return tci_error_publish(&error);
    if (!is_outside(context, name)) {
        tci_keyring_unref(how.keyring);
        return TC_ERR_INVALID_ARG;
    }
    joined = tci_join(context, &options, &how, out);
    tci_keyring_unref(how.keyring);
    return wait_and_release(joined);
}

/* ---- sub-groups --------------------------------------------------------------------------- */

tc_future *tc_dist_split_async(tc_dist_ctx *group, int color, int key, tc_dist_ctx **out)
{
    return tci_split(group, color, key, out);
}

tc_status_t tc_dist_split(tc_dist_ctx *group, int color, int key, tc_dist_ctx **out)
{
    if (group != NULL && !is_outside(group->comm.context, "dist_split"))
        return TC_ERR_INVALID_ARG;
    return wait_and_release(tci_split(group, color, key, out));
}

tc_future *tc_dist_shrink_async(tc_dist_ctx *group, tc_dist_ctx **out)
{
    return tci_shrink(group, out);
}

tc_status_t tc_dist_shrink(tc_dist_ctx *group, tc_dist_ctx **out)
{
    if (group != NULL && !is_outside(group->comm.context, "dist_shrink"))
        return TC_ERR_INVALID_ARG;
    return wait_and_release(tci_shrink(group, out));
}

/* ---- questions ---------------------------------------------------------------------------- */

/* One question, answered by the loop; whoever asks does not wait for ever, when user code holds the
 * loop. */
struct checkup {
    struct tci_task task;
    struct tci_timer timer;
    struct tci_comm *comm; /* counted there as an operation, so that it stays */
    tc_future *checked;
    uint64_t end_ns; /* of the wait for links that may come back */
};

enum { CHECKUP_MS = 500, MENDING_MS = 300, AGAIN_MS = 2 };

/* What is known of the group, and what shows when its links are looked at now. */
static void look(struct tci_comm *comm, struct tci_error *error)
{
    if (comm->transport != NULL)
        tci_transport_look(comm->transport);
    tci_comm_error(comm, error);
    if (error->pub.status == TC_OK && tci_comm_bears_loss(comm)) {
        const struct tci_notice *charge = &comm->verdict.notice;

        tc_reason_t reason = (tc_reason_t)charge->reason;

        tci_error_blame(error, tci_status_of_loss(reason), charge->culprit, reason, NULL, "%s",
                        charge->text);
    }
}

/* Whether a link has just ended, and it shows in a moment whether its peer lives. */
static bool is_mending(const struct tci_comm *comm)
{
    for (uint32_t r = 0; r < (uint32_t)comm->size; r++)
        if (r != (uint32_t)comm->rank && tci_transport_bond(comm->transport, r) == TCI_BOND_MENDING)
            return true;
    return false;
}

static void check_again(struct tci_timer *timer)
{
    struct checkup *checkup = tci_container_of(timer, struct checkup, timer);
    struct tci_comm *comm = checkup->comm;
    struct tci_exec *exec = comm->exec;
    tc_future *checked = checkup->checked;
    uint64_t now = exec->ops->now_ns(exec);
    struct tci_error error = {0};

    look(comm, &error);
    if (error.pub.status == TC_OK && now < checkup->end_ns && is_mending(comm) &&
        exec->ops->timer_set(exec, timer, now + AGAIN_MS * TCI_NS_PER_MS) == 0)
        return;
    tci_free(checkup);
    tci_future_settle(checked, error.pub.status, error.pub.status == TC_OK ? NULL : &error);
    tci_comm_release(comm);
}

static void check_up(struct tci_task *task)
{
    struct checkup *checkup = tci_container_of(task, struct checkup, task);
    struct tci_exec *exec = checkup->comm->exec;

    checkup->timer.fn = check_again;
    checkup->end_ns = exec->ops->now_ns(exec) + MENDING_MS * TCI_NS_PER_MS;
    check_again(&checkup->timer);
}

/* Without memory, or a turn of the loop in time, what is known must do. */
static void ask_loop(struct tci_comm *comm, struct tci_error *error)
{
    tc_future *checked = tci_future_new(comm->context, NULL, NULL);
    struct checkup *checkup = checked == NULL ? NULL : tci_alloc(sizeof(*checkup));
    const tc_error *found;

    if (checkup == NULL) {
        if (checked != NULL)
            tci_future_settle(checked, TC_OK, NULL);
        tc_future_release(checked);
        return;
    }
    *checkup = (struct checkup){.task = {.fn = check_up}, .comm = comm, .checked = checked};
    atomic_fetch_add_explicit(&comm->ops_live, 1, memory_order_relaxed);
    comm->exec->ops->post_remote(comm->exec, &checkup->task);
    (void)tc_future_wait(checked, CHECKUP_MS);
    found = tc_future_error(checked);
    if (found != NULL)
        tci_error_blame(error, found->status, found->rank, tc_error_reason(found), NULL, "%s",
                        found->message);
    tc_future_release(checked);
}

tc_status_t tc_dist_health(tc_dist_ctx *group, int *lost_rank)
{
    struct tci_error error;

    if (lost_rank != NULL)
        *lost_rank = -1;
    if (group == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "dist_health", "dist_health: the group is NULL");
    if (tci_context_is_foreign(group->comm.context))
        return tci_context_refuse(group->comm.context, "dist_health");
    tci_comm_error(&group->comm, &error);
    if (error.pub.status == TC_OK && group->comm.exec->ops->is_here(group->comm.exec))
        look(&group->comm, &error);
    else if (error.pub.status == TC_OK && group->comm.transport != NULL)
        ask_loop(&group->comm, &error);
    if (error.pub.status == TC_OK)
        tci_comm_late(&group->comm, &error);
    if (error.pub.status == TC_OK)
        return TC_OK;
    if (lost_rank != NULL)
        *lost_rank = error.pub.rank;
    return tci_error_publish(&error);
}

int tc_dist_world_size(const tc_dist_ctx *group)
{
    return group == NULL ? 0 : group->comm.size;
}

int tc_dist_rank(const tc_dist_ctx *group)
{
    return group == NULL ? -1 : group->comm.rank;
}

const char *tc_dist_identity(const tc_dist_ctx *group, int rank)
{
    if (group == NULL || rank < 0 || rank >= group->comm.size)
        return NULL;
    return group->names == NULL ? "" : group->names->text[rank];
}
