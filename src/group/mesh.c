/* mesh.c - mesh groups: formed, asked, ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "group/auth.h"
#include "group/group.h"
#include "net/addr.h"

static const char *const algorithm_names[] = {
    [TCI_MESH_CENTRALIZED] = "centralized",
    [TCI_MESH_ALL_TO_ALL] = "all_to_all",
};

/* ---- Arguments ------------------------------------------------------------------------------ */

struct peers {
    const char *name; /* of the call */
    int size, rank;
    const char *const *urls;
};

static bool is_same_place(const struct tci_url *a, const struct tci_url *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static tc_status_t check_url(const struct peers *peers, int rank, struct tci_url *url)
{
    struct tci_error error = {0};

    if (peers->urls[rank] == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, peers->name, "%s: peer_urls[%d] is NULL", peers->name,
                        rank);
    if (tci_url_parse(peers->urls[rank], url, &error) != TC_OK)
        return tci_fail(error.pub.status, peers->name, "%s: peer_urls[%d]: %s", peers->name, rank,
                        error.text);
    if (url->scheme != TCI_SCHEME_TCP && peers->size > 1)
        return tci_fail(TC_ERR_INVALID_ARG, peers->name,
                        "%s: peer_urls[%d] is \"%.80s\": a peer listens at tcp://host:port",
                        peers->name, rank, peers->urls[rank]);
    return TC_OK;
}

static tc_status_t check_peers(const struct peers *peers)
{
    struct tci_url url, other;

    if (peers->urls == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, peers->name, "%s: peer_urls is NULL", peers->name);
    if (peers->size < 1 || peers->rank < 0 || peers->rank >= peers->size)
        return tci_fail(TC_ERR_INVALID_ARG, peers->name,
                        "%s: rank %d of %d peers: ranks are 0 … n_peers - 1", peers->name,
                        peers->rank, peers->size);
    if (check_url(peers, peers->rank, &url) != TC_OK)
        return tc_last_error()->status;
    for (int rank = 0; rank < peers->size; rank++) {
        if (check_url(peers, rank, &other) != TC_OK)
            return tc_last_error()->status;
        if (rank != peers->rank && is_same_place(&url, &other))
            return tci_fail(TC_ERR_INVALID_ARG, peers->name,
                            "%s: peers %d and %d are both at \"%.80s\": each listens alone",
                            peers->name, peers->rank, rank, peers->urls[rank]);
    }
    return TC_OK;
}

static tc_status_t read_algorithm(int size, enum tci_mesh_algorithm *out)
{
    static const char variable[] = "TC_MESH_ALLREDUCE_ALGORITHM";
    const char *text = getenv(variable);

    *out = size <= 2 ? TCI_MESH_CENTRALIZED : TCI_MESH_ALL_TO_ALL;
    if (text == NULL || *text == '\0' || strcmp(text, "auto") == 0)
        return TC_OK;
    for (size_t k = 0; k < TCI_LEN(algorithm_names); k++)
        if (strcmp(text, algorithm_names[k]) == 0) {
            *out = (enum tci_mesh_algorithm)k;
            return TC_OK;
        }
    return tci_fail(TC_ERR_INVALID_ARG, "mesh_group_init",
                    "%s is \"%.40s\", but must be centralized, all_to_all or auto", variable, text);
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

static tc_status_t join(tc_context *context, const struct peers *peers, struct tci_keyring *keyring,
                        tc_dist_ctx **out)
{
    const struct tci_join_how how = {.keyring = keyring};
    tc_dist_options options;
    tc_future *joined;
    tc_status_t status;

    tc_dist_options_default(&options);
    options.world_size = peers->size;
    options.rank = peers->rank;
    options.rendezvous_url = peers->size > 1 ? peers->urls[0] : NULL;
    options.listen_url = peers->size > 1 && peers->rank > 0 ? peers->urls[peers->rank] : NULL;
    joined = tci_join(context, &options, &how, out);
    status = tc_future_wait(joined, -1);
    tc_future_release(joined);
    return status;
}

/* What both forms need of their arguments. */
static tc_status_t check_call(tc_context *context, const struct peers *peers, const void *out)
{
    if (context == NULL || out == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, peers->name, "%s: context and out may not be NULL",
                        peers->name);
    if (tci_context_is_foreign(context))
        return tci_context_refuse(context, peers->name);
    if (context->exec->ops->is_here(context->exec))
        return tci_fail(TC_ERR_INVALID_ARG, peers->name,
                        "%s: not from a continuation, which it would wait for", peers->name);
    return check_peers(peers);
}

static tc_status_t form(tc_context *context, const struct peers *peers, struct tci_keyring *keyring,
                        tc_mesh_group_t **out)
{
    tc_mesh_group_t *mesh = tci_alloc(sizeof(*mesh));
    tc_status_t status;

    if (mesh == NULL)
        return tci_fail(TC_ERR_ALLOC, peers->name, "%s: no memory left", peers->name);
    status = read_algorithm(peers->size, &mesh->algorithm);
    if (status == TC_OK)
        status = join(context, peers, keyring, &mesh->group);
    if (status != TC_OK) {
        tci_free(mesh);
        return status;
    }
    pthread_mutex_init(&mesh->ordered, NULL);
    *out = mesh;
    return TC_OK;
}

tc_status_t tc_mesh_group_init(tc_context *context, int32_t n_peers, int32_t my_rank,
                               const char *const *peer_urls, tc_mesh_group_t **out)
{
    const struct peers peers = {"mesh_group_init", n_peers, my_rank, peer_urls};
    tc_status_t status = check_call(context, &peers, out);

    return status == TC_OK ? form(context, &peers, NULL, out) : status;
}

tc_status_t tc_mesh_group_init_authenticated(tc_context *context, int32_t n_peers, int32_t my_rank,
                                             const char *const *peer_urls,
                                             const char *const *peer_identities,
                                             const tc_transport_auth_config *auth,
                                             tc_mesh_group_t **out)
{
    const struct peers peers = {"mesh_group_init_authenticated", n_peers, my_rank, peer_urls};
    const struct tci_auth_request request = {.name = peers.name,
                                             .identities = peer_identities,
                                             .identity_count = (size_t)n_peers,
                                             .size = n_peers,
                                             .rank = my_rank,
                                             .config = auth};
    tc_status_t status = check_call(context, &peers, out);
    struct tci_error error = {0};
    struct tci_keyring *keyring;

    if (status != TC_OK)
        return status;
    if (tci_auth_keyring(&request, &context->config, &keyring, &error) != TC_OK)
        return tci_error_publish(&error);
    status = form(context, &peers, keyring, out);
    tci_keyring_unref(keyring);
    return status;
}

tc_status_t tc_mesh_group_shutdown(tc_mesh_group_t *mesh)
{
    struct tci_exec *exec;
    tc_status_t status;

    if (mesh == NULL)
        return TC_OK;
    if (tci_context_is_foreign(mesh->group->comm.context))
        return tci_context_refuse(mesh->group->comm.context, "mesh_group_shutdown");
    exec = mesh->group->comm.exec;
    if (exec->ops->is_here(exec))
        return tci_fail(TC_ERR_INVALID_ARG, "mesh_group_shutdown",
                        "mesh_group_shutdown: not from a continuation, which it would wait for");
    status = tc_dist_finalize(mesh->group);
    pthread_mutex_destroy(&mesh->ordered);
    tci_free(mesh);
    return status;
}

/* ---- Questions ------------------------------------------------------------------------------ */

size_t tc_mesh_retained_snapshot_count(const tc_mesh_group_t *mesh)
{
    return mesh == NULL || tci_context_is_foreign(mesh->group->comm.context)
               ? 0
               : tci_tags_reserved(&mesh->group->comm.tags);
}

struct total {
    struct tci_transport *transport;
    uint64_t bytes;
};

static void add_up(void *arg)
{
    struct total *total = arg;
    struct tci_transport_stats stats = {0};

    total->transport->ops->stats(total->transport, &stats);
    total->bytes = stats.bytes_sent + stats.bytes_received;
}

uint64_t tc_mesh_total_bytes(const tc_mesh_group_t *mesh)
{
    struct total total = {0};
    struct tci_exec *exec;

    if (mesh == NULL || tci_context_is_foreign(mesh->group->comm.context))
        return 0;
    exec = mesh->group->comm.exec;
    total.transport = mesh->group->comm.transport;
    if (total.transport == NULL)
        return 0;
    if (exec->ops->is_here(exec))
        add_up(&total);
    else
        tci_loop_call(tci_loop_of(exec), add_up, &total);
    return total.bytes;
}

const char *tc_mesh_allreduce_algorithm(const tc_mesh_group_t *mesh)
{
    return mesh == NULL ? "" : algorithm_names[mesh->algorithm];
}
