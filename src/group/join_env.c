/* join_env.c - the group that the environment describes, whichever launcher has set it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "join_env.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "context/environment.h"
#include "core/base.h"
#include "core/log.h"
#include "group/backend.h"
#include "launch/hostfile.h"
#include "meet/meet.h"
#include "net/addr.h"
#include "net/row.h"
#include "net/sock.h"

/* ---- What a launcher says ------------------------------------------------------------------ */

/* An URL that somebody has written is to be named by its variable. */
static tc_status_t check_url(const struct tci_launch *launch, struct tci_error *error)
{
    struct tci_error why = {.pub = {.status = TC_OK}};
    struct tci_url url;

    if (tci_row_is_meant(launch->url))
        return TC_OK;
    if (tci_meet_is_meant(launch->url))
        (void)tci_meet_check(launch->url, &why);
    else if (tci_url_parse(launch->url, &url, &why) == TC_OK && url.scheme == TCI_SCHEME_SINGLE)
        tci_error_set(&why, TC_ERR_INVALID_ARG, -1, 0, "dist_init_env",
                      "\"%.80s\" is one process, and these are %d", launch->url, launch->size);
    if (why.pub.status != TC_OK)
        tci_error_set(error, why.pub.status, -1, 0, "dist_init_env", "%s: %.300s",
                      strstr(launch->variables, "TCDIST_RENDEZVOUS") != NULL ||
                              strcmp(launch->name, "tcdist") == 0
                          ? "TCDIST_RENDEZVOUS"
                          : launch->name,
                      why.text);
    return error->pub.status;
}

/* Where this process has last joined by its environment: what its launcher had made there before it
 * began was for that group. */
static struct {
    pthread_mutex_t lock;
    char url[sizeof(((struct tci_launch *)NULL)->url)];
} past = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_past(const char *url)
{
    bool is_same;

    (void)pthread_mutex_lock(&past.lock);
    is_same = strcmp(past.url, url) == 0;
    (void)pthread_mutex_unlock(&past.lock);
    return is_same;
}

static void remember(const char *url)
{
    (void)pthread_mutex_lock(&past.lock);
    (void)snprintf(past.url, sizeof(past.url), "%s", url);
    (void)pthread_mutex_unlock(&past.lock);
}

static bool listens(int fd)
{
    int does = 0;
    socklen_t len = sizeof(does);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &does, &len) == 0 && does != 0;
}

/* Rank 0's socket.  It has gone with an earlier group, and its number may be another's by now: then
 * one is made at the same address. */
static tc_status_t take_socket(const struct tci_launch *launch, int *fd_out,
                               struct tci_error *error)
{
    struct tci_error unused = {.pub = {.status = TC_OK}};
    struct tci_addr bound = {.len = 0};
    struct tci_url url = {.port = 0};
    int fd = launch->listen_fd;

    *fd_out = fd;
    if (fd >= 0 && is_past(launch->url)) {
        tci_sock_local(fd, &bound);
        (void)tci_url_parse(launch->url, &url, &unused);
        if (!listens(fd) || bound.len == 0 || tci_addr_port(&bound) != url.port)
            *fd_out = -1;
        return TC_OK;
    }
    if (fd < 0 || listens(fd))
        return TC_OK;
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init_env",
                  "TCDIST_RENDEZVOUS_FD is \"%.80s\": that is no listening socket of this process: "
                  "let rank 0 inherit one, or unset it",
                  getenv("TCDIST_RENDEZVOUS_FD"));
    return TC_ERR_INVALID_ARG;
}

static void hash_job(const char *text, uint8_t job[TCI_GROUP_ID])
{
    memset(job, 0, TCI_GROUP_ID);
    if (text[0] != '\0' && sodium_init() >= 0)
        (void)crypto_generichash(job, TCI_GROUP_ID, (const unsigned char *)text, strlen(text), NULL,
                                 0);
}

/* What a launcher says, as a group is formed: options (whose strings are the launch's) and how. */
static tc_status_t use_launch(const struct tci_launch *launch, tc_dist_options *options,
                              struct tci_join_how *how, struct tci_error *error)
{
    int backend = TC_DIST_ANY;
    enum tci_carrier carrier = TCI_CARRY_ANY;

    if (tci_backend_read(launch->backend, &backend, &carrier, error) != TC_OK)
        return error->pub.status;
    options->backend = backend;
    options->rank = launch->rank;
    options->world_size = launch->size;
    if (launch->size == 1)
        return TC_OK;
    if (check_url(launch, error) != TC_OK ||
        take_socket(launch, &options->listen_fd, error) != TC_OK)
        return error->pub.status;
    options->rendezvous_url = launch->url;
    if (launch->listen_url[0] != '\0')
        options->listen_url = launch->listen_url;
    if (launch->advertise[0] != '\0' && launch->rank == 0)
        options->advertise = launch->advertise;
    options->rdma_devices = launch->devices;
    options->rdma_ring = launch->prefers_ring;
    how->carrier = (int)carrier;
    how->connections = launch->connections;
    how->start_timeout_ms = launch->start_timeout_ms;
    how->meeting.ports = launch->ports;
    how->meeting.is_loose = launch->is_loose;
    how->meeting.is_local = launch->is_local;
    how->meeting.is_up = launch->is_up && !is_past(launch->url);
    hash_job(launch->job, how->meeting.job);
    return TC_OK;
}

/* The second address of each rank is for the second connection of its links, and so on.  A name may
 * stand for anything: then all connections go to the first. */
static tc_status_t read_paths(const struct tci_launch *launch, struct tci_paths *paths,
                              struct tci_error *error)
{
    uint32_t more = tci_min((size_t)launch->connections - 1, TCI_PATHS_MAX);
    struct tci_hostfile file;
    bool is_literal = true;

    if (tci_hostfile_load(getenv("MLX_HOSTFILE"), &file, error) != TC_OK)
        return error->pub.status;
    if (file.size != (size_t)launch->size || file.ranks[0].count < more + 1)
        more = 0; /* it has changed since */
    if (!tci_paths_init(paths, (uint32_t)launch->size, more))
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init_env", "no memory for addresses");
    for (size_t i = 0; i < (size_t)launch->size * more && paths->addrs != NULL; i++) {
        struct tci_url url;
        char text[TCI_ADDR_TEXT + 300];

        (void)snprintf(text, sizeof(text), "tcp://%s",
                       tci_hostfile_at(&file, i / more, 1 + i % more));
        if (tci_url_parse(text, &url, error) == TC_OK)
            is_literal = tci_addr_from_text(url.host, url.port, &paths->addrs[i]) && is_literal;
    }
    tci_hostfile_fini(&file);
    if (error->pub.status == TC_OK && is_literal)
        return TC_OK;
    tci_paths_fini(paths);
    return error->pub.status;
}

static void say(const struct tci_launch *launch)
{
    bool has_others = launch->others[0] != '\0';

    /* MLX's own word for it. */
    if (strcmp(launch->name, "mlx") == 0 && getenv("MLX_RING_VERBOSE") != NULL)
        tc_log_set_level(TC_LOG_INFO);
    if (launch->variables[0] == '\0')
        tci_log(TC_LOG_INFO, "no launcher has set variables: a group of this process alone");
    else
        tci_log(TC_LOG_INFO, "rank %d of %d, as %s says (%s); the ranks meet at %s%s%s",
                launch->rank, launch->size, launch->name, launch->variables,
                launch->url[0] != '\0' ? launch->url : "no place",
                has_others ? "; there are variables of others too, not used: " : "",
                launch->others);
    tci_environment_tell_idle();
}

/* ---- The calls ----------------------------------------------------------------------------- */

bool tci_join_is_env(const char *url)
{
    return url != NULL && strcmp(url, "env://") == 0;
}

tc_future *tci_join_env(tc_context *context, const tc_dist_options *options, tc_dist_ctx **out)
{
    struct tci_join_how how = {.is_from_env = false};
    struct tci_error error = {.pub = {.status = TC_OK}};
    tc_dist_options mine = *options;
    struct tci_launch launch;

    if (tci_launch_read(&launch, &error) != TC_OK)
        return tci_future_failed(context, &error);
    if (launch.rank != options->rank || launch.size != options->world_size) {
        tci_error_set(
            &error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
            "dist_init: env:// for rank %d of %d, but the environment (%s) says rank %d of "
            "%d",
            options->rank, options->world_size, launch.name, launch.rank, launch.size);
        return tci_future_failed(context, &error);
    }
    if (use_launch(&launch, &mine, &how, &error) != TC_OK)
        return tci_future_failed(context, &error);
    if (launch.size == 1)
        mine.rendezvous_url = NULL;
    mine.backend = options->backend;
    say(&launch);
    remember(launch.url);
    return tci_join(context, &mine, &how, out);
}

struct find_env {
    tc_context *context;
    tc_dist_ctx *found;
};

static void find_env_group(void *arg)
{
    struct find_env *find = arg;
    struct tci_list *link;

    for (link = find->context->groups.next; link != &find->context->groups; link = link->next) {
        tc_dist_ctx *group = tci_container_of(link, tc_dist_ctx, link);
        struct tci_error broken;

        tci_comm_error(&group->comm, &broken);
        if (group->is_from_env && group->state == TCI_GROUP_STANDS && broken.pub.status == TC_OK) {
            group->owners++;
            find->found = group;
        }
    }
}

tc_status_t tc_dist_init_env(tc_context *context, tc_dist_ctx **out)
{
    struct find_env find = {.context = context};
    struct tci_paths paths = {.count = 0};
    struct tci_join_how how = {.is_from_env = true};
    struct tci_error error = {.pub = {.status = TC_OK}};
    struct tci_launch launch;
    tc_dist_options options;
    tc_future *joined;
    tc_status_t status;

    if (context == NULL || out == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "dist_init_env",
                        "dist_init_env: context and out may not be NULL");
    if (tci_context_is_foreign(context))
        return tci_context_refuse(context, "dist_init_env");
    if (context->exec->ops->is_here(context->exec))
        return tci_fail(TC_ERR_INVALID_ARG, "dist_init_env",
                        "dist_init_env: not from a continuation, which it would wait for");
    tci_loop_call(tci_loop_of(context->exec), find_env_group, &find);
    if (find.found != NULL) {
        *out = find.found;
        return TC_OK;
    }
    tc_dist_options_default(&options);
    if (tci_launch_read(&launch, &error) != TC_OK ||
        use_launch(&launch, &options, &how, &error) != TC_OK)
        return tci_error_publish(&error);
    say(&launch);
    if (launch.connections > 1) {
        how.paths = &paths;
        if (read_paths(&launch, &paths, &error) != TC_OK)
            return tci_error_publish(&error);
    }
    remember(launch.url);
    joined = tci_join(context, &options, &how, out);
    tci_paths_fini(&paths);
    status = tc_future_wait(joined, -1);
    tc_future_release(joined);
    return status;
}

tc_status_t tc_dist_env_read(tc_dist_env *out)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    struct tci_launch launch;

    if (out == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "dist_env_read", "dist_env_read: out may not be NULL");
    if (tci_launch_read(&launch, &error) != TC_OK)
        return tci_error_publish(&error);
    tci_launch_leave();
    *out = (tc_dist_env){.rank = launch.rank,
                         .world_size = launch.size,
                         .local_rank = launch.local_rank,
                         .local_size = launch.local_size};
    (void)snprintf(out->launcher, sizeof(out->launcher), "%s", launch.name);
    (void)snprintf(out->variables, sizeof(out->variables), "%s", launch.variables);
    (void)snprintf(out->others, sizeof(out->others), "%s", launch.others);
    (void)snprintf(out->rendezvous, sizeof(out->rendezvous), "%s", launch.url);
    (void)snprintf(out->backend, sizeof(out->backend), "%s",
                   launch.backend[0] != '\0' ? launch.backend : "any");
    return TC_OK;
}
