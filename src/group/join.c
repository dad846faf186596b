/* join.c - forming a group: the rendezvous, the transport over it, the group upon that. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "algo/figures.h"
#include "context/config.h"
#include "context/key.h"
#include "context/layout.h"
#include "context/share.h"
#include "context/table.h"
#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"
#include "core/mux.h"
#include "group/backend.h"
#include "group/cables.h"
#include "group/gloo.h"
#include "group/group.h"
#include "group/names.h"
#include "group/near.h"
#include "group/reach.h"
#include "group/ring_group.h"
#include "loop/sched.h"
#include "net/shm.h"
#include "net/sock.h"
#include "net/tcp.h"

/* Beside the numbers of enum tci_tune, in what rank 0 tells: ranks have identities; those of one
 * host are linked over TCP, as rank 0 would be. */
enum { NAMED = 4, WIRED = 8 };
_Static_assert((int)TCI_TUNES <= (int)NAMED, "the bits above are free");

/* A group on its way. */
struct join {
    struct tci_task task;
    struct tci_list link; /* in context->joins */
    tc_context *context;
    tc_dist_options options;
    char *url;          /* owned */
    char *listen_url;   /* owned, or NULL */
    bool is_ring;       /* that is given descriptors to neighbours alone */
    struct tci_row row; /* of an URL with descriptors; empty otherwise, and once they are taken */
    uint64_t *labels;   /* owned: where the ranks are; NULL: to be found out */
    struct tci_keyring *keyring; /* shared; NULL: nobody has to prove anything */
    bool is_from_env;
    struct tci_meeting meeting;
    int connections;        /* of each link; 0: of the context */
    int carrier;            /* enum tci_carrier */
    struct tci_paths paths; /* owned, until the links have them */
    bool is_named;          /* rank 0 has an identity; agreed */
    char *identity;         /* owned, or NULL */
    tc_dist_ctx **out;      /* borrowed until the future has settled */
    tc_future *future;
    struct tci_jaccl jaccl; /* which RDMA devices lead where; no ranks in it: nothing is said */
    struct tci_boot *boot;  /* while it runs */
    struct tci_gloo gloo;
    struct tci_reached reach;
    tc_dist_ctx *group;     /* from there on until its ranks have agreed on all they must */
    struct tci_table table; /* rank 0's, where it has one */
    uint8_t tune;           /* enum tci_tune; agreed */
    uint64_t job[2];        /* the number of the group for traces; agreed */
    struct tci_error error; /* why it was given up then */
};

static void free_join(struct join *join)
{
    if (join == NULL)
        return;
    tci_row_close(&join->row);
    tci_free(join->url);
    tci_free(join->listen_url);
    tci_free(join->identity);
    tci_free(join->labels);
    tci_keyring_unref(join->keyring);
    tci_gloo_fini(&join->gloo);
    tci_paths_fini(&join->paths);
    tci_reach_fini(&join->reach);
    tci_jaccl_fini(&join->jaccl);
    tci_table_fini(&join->table);
    tci_free(join);
}

static void end_join(struct join *join, tc_status_t status, const struct tci_error *error)
{
    tc_future *future = join->future;

    tci_list_del(&join->link);
    tci_future_settle(future, status, error);
    free_join(join);
}

static void fail_join(struct join *join, tc_status_t status, const char *why)
{
    struct tci_error error = {0};

    tci_error_set(&error, status, -1, 0, "dist_init", "%s", why);
    end_join(join, status, &error);
}

/* The group is closed; its error is the join's. */
static void leave_group(struct join *join, tc_status_t status, const char *why)
{
    tci_group_close(join->group, NULL);
    fail_join(join, status, why);
}

/* There will be no group.  Where another rank is at fault, that goes to the others as the cause:
 * to them, too, and not the end of this one. */
static void end_group(struct join *join, const struct tci_error *cause)
{
    struct tci_comm *comm = &join->group->comm;
    struct tci_error loss = {0};

    if (cause->pub.rank >= 0 && cause->pub.rank < comm->size && cause->pub.rank != comm->rank) {
        tci_error_blame(&loss, tci_status_of_loss(cause->reason), cause->pub.rank, cause->reason,
                        NULL, "%s", cause->text);
        tci_comm_break(comm, &loss);
    }
    tci_group_close(join->group, NULL);
}

/* What was begun for the group has ended: false when the join has ended with it. */
static bool may_go_on(struct join *join, const struct tci_error *error)
{
    if (join->error.pub.status == TC_OK && error != NULL && error->pub.status != TC_OK) {
        tci_error_copy(&join->error, error);
        end_group(join, error);
    }
    if (join->error.pub.status == TC_OK)
        return true;
    end_join(join, join->error.pub.status, &join->error);
    return false;
}

/* The group is the caller's now. */
static void have_tuned(void *arg, tc_status_t status, const struct tci_error *error)
{
    struct join *join = arg;

    (void)status;
    if (!may_go_on(join, error))
        return;
    *join->out = join->group;
    end_join(join, TC_OK, NULL);
}

static void tune(struct join *join);

static void have_names(void *arg, const struct tci_error *error)
{
    struct join *join = arg;

    if (may_go_on(join, error))
        tune(join);
}

/* A rank that has none where rank 0 has says so to all. */
static void name(struct join *join)
{
    if (join->identity != NULL && !join->is_named)
        leave_group(join, TC_ERR_INVALID_ARG,
                    "this rank has an identity, and rank 0 has none: give all ranks one, or none");
    else if (!join->is_named)
        tune(join);
    else if (!tci_names_gather(join->group, join->identity, have_names, join))
        leave_group(join, TC_ERR_ALLOC, "no memory left for a group");
}

static void have_agreed(void *arg, enum tci_route route, const struct tci_error *error)
{
    struct join *join = arg;

    if (!may_go_on(join, error))
        return;
    join->group->route = route;
    name(join);
}

/* Groups on one host are not measured unasked: what is usual there is near enough, and they are
 * formed by the thousand.  Nor are those that may not link all pairs. */
static void tune(struct join *join)
{
    struct tci_comm *comm = &join->group->comm;
    bool is_spread = tci_hosts_most(comm->hosts) > 0;
    int every_ms = comm->context->config.tune_every_ms;

    if (join->is_ring)
        have_tuned(join, TC_OK, NULL); /* its links give no choice */
    else if (join->tune == TCI_TUNE_TABLE)
        tci_measure_start(comm, &join->table, true, have_tuned, join);
    else if (join->group->route == TCI_ROUTE_NONE &&
             (join->tune == TCI_TUNE_MEASURE || (join->tune == TCI_TUNE_AUTO && is_spread)))
        tci_measure_open(comm, join->tune == TCI_TUNE_MEASURE,
                         every_ms > 0 ? (uint64_t)every_ms : 0, have_tuned, join);
    else
        have_tuned(join, TC_OK, NULL);
}

/* What can be known without a measurement, from what all have been told. */
static void place(const struct tci_agreed *agreed, const struct tci_hosts *hosts, uint32_t size,
                  struct tci_figures *figures)
{
    uint32_t per_host = tci_hosts_most(hosts);

    tci_figures_default(figures);
    figures->eager_bytes = agreed->eager_bytes;
    figures->is_wired = (agreed->tune & WIRED) != 0;
    if (agreed->cores > 0)
        tci_figures_share(figures, per_host > 0 ? per_host : size, agreed->cores);
}

/* The two are one where no memory is shared. */
struct way {
    struct tci_transport *transport, *tcp;
};

static void stand(struct join *join, const struct way *way, const struct tci_agreed *agreed,
                  struct tci_hosts *hosts)
{
    struct tci_figures figures;
    struct tci_comm_config config = {.rank = join->options.rank,
                                     .shown_rank = join->options.rank,
                                     .size = join->options.world_size,
                                     .group = TCI_MUX_WORLD,
                                     .segment_bytes = agreed->segment_bytes,
                                     .numerics = agreed->numerics,
                                     .check = agreed->check,
                                     .algorithm = agreed->algorithm,
                                     .hosts = hosts,
                                     .figures = &figures,
                                     .job = {join->job[0], join->job[1]}};
    tc_dist_ctx *group = NULL;
    struct tci_transport *view;
    char times[128], ways[96];

    if (config.size > 1 && hosts == NULL) {
        way->transport->ops->close(way->transport);
        fail_join(join, TC_ERR_ALLOC, "no memory left for a group");
        return;
    }
    place(agreed, hosts, (uint32_t)config.size, &figures);
    view = tci_mux_open(join->context->exec, way->transport, (uint32_t)config.rank,
                        (uint32_t)config.size);
    if (view != NULL)
        group = tci_group_new(join->context, view, &config);
    if (group == NULL) {
        fail_join(join, TC_ERR_ALLOC, "no memory left for a group");
        return;
    }
    group->is_from_env = join->is_from_env;
    join->group = group;
    if (join->is_ring) {
        group->comm.is_ring = true;
        group->comm.advise = tci_ring_advise;
    }
    tci_cables_heed(&group->comm, &join->jaccl);
    tci_beat_start(&group->comm, TCI_BEAT_MS);
    join->tune = agreed->tune & (NAMED - 1);
    join->is_named = (agreed->tune & NAMED) != 0;
    tci_log(TC_LOG_INFO, "rank %d of %d stands in its group over %s", config.rank, config.size,
            config.size == 1 ? "nothing, alone" : tci_shm_print(way->transport, ways));
    tci_diagnose_print_times(join->context->config.timeout_ms, times, sizeof(times));
    tci_log(TC_LOG_INFO,
            "rank %d: %s; tells what it does every %d s, gives a silent host up after %d s",
            config.rank, times, TCI_BEAT_MS / 1000, TCI_SILENCE_MS / 1000);
    if (!join->gloo.applies)
        have_agreed(join, TCI_ROUTE_NONE, NULL);
    else if (tci_gloo_agree(group, way->tcp, &join->gloo, have_agreed, join) != TC_OK)
        leave_group(join, TC_ERR_ALLOC, "no memory left for a group");
}

static void have_met(void *arg, tc_status_t status, const struct tci_error *error,
                     struct tci_boot_result *result)
{
    struct join *join = arg;
    struct tci_error why = {0};
    struct tci_agreed agreed;
    struct way way;
    struct tci_hosts *hosts;

    join->boot = NULL;
    if (status == TC_OK)
        status = tci_backend_fits((enum tci_carrier)join->carrier, result, &why);
    if (status != TC_OK) {
        end_join(join, status, why.pub.status != TC_OK ? &why : error);
        tci_boot_result_fini(result);
        return;
    }
    agreed = result->agreed;
    result->connections = join->connections;
    result->paths = join->paths;
    join->paths = (struct tci_paths){.count = 0};
    result->is_apart = join->carrier == TCI_CARRY_TCP || join->carrier == TCI_CARRY_RDMA;
    result->is_plain = join->carrier == TCI_CARRY_TCP || join->carrier == TCI_CARRY_SHM;
    join->is_ring = result->is_ring;
    memcpy(join->job, result->group_id, sizeof(join->job));
    tci_loop_set_local_ranks(tci_loop_of(join->context->exec), result->local_ranks);
    way.tcp = tci_tcp_open(tci_loop_of(join->context->exec), join->context, result, &why);
    way.transport = way.tcp;
    if (way.tcp != NULL) {
        way.transport = tci_near_open(join->context, way.tcp, result,
                                      &(struct tci_near_wish){join->url, &join->jaccl});
        if (way.transport == NULL)
            tci_error_set(&why, TC_ERR_ALLOC, -1, 0, "dist_init", "no memory left for the links");
    }
    hosts = tci_hosts_new(result->labels, (uint32_t)result->size);
    tci_boot_result_fini(result);
    if (way.transport == NULL)
        end_join(join, why.pub.status, &why);
    else
        stand(join, &way, &agreed, hosts);
    tci_hosts_unref(hosts);
}

static void give_up(struct join *join, tc_status_t status, const char *why)
{
    if (join->group == NULL) {
        tci_boot_cancel(join->boot);
        fail_join(join, status, why);
        return;
    }
    /* Its ranks agree on something just now: that ends with the group. */
    if (join->error.pub.status != TC_OK)
        return;
    tci_error_set(&join->error, status, -1, 0, "dist_init", "%s", why);
    tci_list_del(&join->link);
    tci_group_close(join->group, NULL);
}

static void close_joins(tc_context *context)
{
    struct tci_list *first;

    while ((first = tci_list_first(&context->joins)) != NULL)
        give_up(tci_container_of(first, struct join, link), TC_ERR_CLOSED,
                "the context was shut down before the group stood");
}

/* A group of one has a transport without links: it may send to itself. */
static void stand_alone(struct join *join, const struct tci_agreed *agreed)
{
    struct tci_boot_result result = {.size = 1, .listener = -1, .agreed = *agreed};
    struct tci_error why = {0};
    struct tci_transport *transport;

    /* Nobody else is in it: the time and the process are number enough. */
    join->job[0] = tci_trace_now();
    join->job[1] = (uint64_t)getpid();
    memcpy(result.group_id, join->job, sizeof(join->job));
    transport = tci_tcp_open(tci_loop_of(join->context->exec), join->context, &result, &why);

    if (transport == NULL)
        end_join(join, why.pub.status, &why);
    else
        stand(join, &(struct way){transport, transport}, agreed, NULL);
}

/* One is also what is said where it is not known. */
static uint16_t own_cores(unsigned cores)
{
    return cores > 1 ? (uint16_t)tci_min(cores, UINT16_MAX) : 0;
}

static bool is_wired(const struct join *join)
{
    return join->carrier == TCI_CARRY_TCP ||
           (join->carrier == TCI_CARRY_ANY && !tci_share_is_on(join->context));
}

static void begin(struct tci_task *task)
{
    struct join *join = tci_container_of(task, struct join, task);
    const tc_config *config = &join->context->config;
    struct tci_exec *exec = join->context->exec;
    int timeout_ms = join->options.timeout_ms;
    struct tci_error error = {0};
    struct tci_boot_config boot = {
        .rank = join->options.rank,
        .size = join->options.world_size,
        .url = join->url,
        .listen_fd = join->options.listen_fd,
        .listen_url = join->listen_url,
        .row = join->row.fds != NULL ? &join->row : NULL,
        .advertise = join->gloo.advertise != NULL ? join->gloo.advertise : join->reach.advertise,
        .interfaces = join->reach.interfaces,
        .labels = join->labels,
        .meeting = join->meeting,
        .keyring = join->keyring,
        .deadline_ns = TCI_NEVER};

    boot.mine = (struct tci_agreed){.segment_bytes = config->segment_bytes,
                                    .eager_bytes = config->eager_bytes,
                                    .numerics = (uint8_t)config->numerics,
                                    .check = (uint8_t)config->check,
                                    .tune = (uint8_t)((unsigned)tci_config_tune(config) |
                                                      (join->identity != NULL ? NAMED : 0) |
                                                      (is_wired(join) ? WIRED : 0)),
                                    .cores = own_cores(tci_loop_cores(tci_loop_of(exec)))};
    boot.cpus = tci_sched_cpus();
    if (config->algorithm != NULL)
        snprintf(boot.mine.algorithm, sizeof(boot.mine.algorithm), "%s", config->algorithm);
    if (join->options.world_size == 1) {
        stand_alone(join, &boot.mine);
        return;
    }
    if (tci_paths_listen(&join->paths, (uint32_t)join->options.rank, &error) != TC_OK) {
        end_join(join, error.pub.status, &error);
        return;
    }
    join->context->close_joins = close_joins;
    boot.is_patient = timeout_ms != 0 || config->start_timeout_ms != 0;
    if (timeout_ms == 0)
        timeout_ms = config->start_timeout_ms;
    if (timeout_ms == 0)
        timeout_ms = config->timeout_ms;
    if (timeout_ms > 0)
        boot.deadline_ns = exec->ops->now_ns(exec) + (uint64_t)timeout_ms * TCI_NS_PER_MS;
    join->boot = tci_boot_start(tci_loop_of(exec), &boot, have_met, join);
    if (join->boot == NULL)
        fail_join(join, TC_ERR_ALLOC, "no memory left for the rendezvous");
    else
        tci_list_add(&join->context->joins, &join->link);
}

static void cancel(void *arg)
{
    struct join *join = arg;

    if (join->boot == NULL && join->group == NULL)
        return; /* not begun: it ends by its deadline */
    give_up(join, TC_ERR_CANCELLED, "dist_init was cancelled");
}

/* ---- the call ----------------------------------------------------------------------------- */

/* The key of the call, or of the context. */
static tc_status_t take_keyring(struct join *join, const struct tci_join_how *how,
                                struct tci_error *error)
{
    tc_status_t status = TC_OK;

    join->keyring = tci_keyring_ref(how->keyring);
    if (join->keyring == NULL && join->options.world_size > 1)
        status = tci_key_ring(&join->context->config, &join->keyring, error);
    else if (join->keyring == NULL && tci_key_is_missing(&join->context->config))
        tci_log(TC_LOG_WARN, "encryption is on, and there is no key: this group of one needs none, "
                             "but larger ones do: set TCDIST_KEY, the same on every rank");
    return status;
}

/* A copy of what the caller gave; NULL on failure, with the cause in error. */
static struct join *join_new(tc_context *context, const tc_dist_options *options,
                             const struct tci_join_how *how, struct tci_error *error)
{
    struct join *join = tci_alloc(sizeof(*join));

    if (join == NULL)
        goto no_memory;
    tci_list_init(&join->link);
    join->task.fn = begin;
    join->context = context;
    join->options = *options;
    join->url = tci_strdup(options->rendezvous_url != NULL ? options->rendezvous_url : "");
    if (options->listen_url != NULL)
        join->listen_url = tci_strdup(options->listen_url);
    if (options->identity != NULL)
        join->identity = tci_strdup(options->identity);
    if (tci_layout_labels(context->config.hosts, (uint32_t)options->world_size, &join->labels,
                          error) != TC_OK ||
        tci_gloo_read(options, &join->gloo, error) != TC_OK ||
        tci_reach_read(options, &join->reach, error) != TC_OK ||
        tci_cables_read(options, &join->jaccl, error) != TC_OK ||
        take_keyring(join, how, error) != TC_OK)
        goto free_join;
    if (tci_row_is_meant(options->rendezvous_url) &&
        tci_row_parse(options->rendezvous_url, options->world_size, options->rank, &join->row,
                      error) != TC_OK)
        goto free_join;
    if (options->rank == 0 && tci_config_tune(&context->config) == TCI_TUNE_TABLE &&
        tci_table_load(context->config.tune, &join->table, error) != TC_OK)
        goto free_join;
    if (join->url != NULL && (join->listen_url != NULL) == (options->listen_url != NULL) &&
        (join->identity != NULL) == (options->identity != NULL))
        return join;
no_memory:
    tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init", "dist_init: no memory left");
free_join:
    if (join != NULL)
        tci_row_forget(&join->row); /* closed by name: without memory there may be no list */
    free_join(join);
    return NULL;
}

/* Descriptors are taken over by every call whose arguments are right. */
static tc_future *refuse(tc_context *context, const tc_dist_options *options,
                         const struct tci_error *error)
{
    if (error->pub.status == TC_ERR_ALLOC || error->pub.status == TC_ERR_UNSUPPORTED)
        tci_row_discard(options->rendezvous_url);
    return tci_future_failed(context, error);
}

tc_future *tci_join(tc_context *context, const tc_dist_options *options,
                    const struct tci_join_how *how, tc_dist_ctx **out)
{
    struct tci_error error = {0};
    struct join *join;
    tc_future *future;

    if (tci_join_check(context, options, out, &error) != TC_OK)
        return refuse(context, options, &error);
    if (tci_context_is_foreign(context))
        return tci_future_fail(context, TC_ERR_NOT_INITIALIZED, "dist_init", "of another process");
    join = join_new(context, options, how, &error);
    if (join == NULL)
        return refuse(context, options, &error);
    join->future = tci_future_new(context, cancel, join);
    if (join->future == NULL) {
        tci_error_set(&error, TC_ERR_ALLOC, -1, 0, "dist_init", "dist_init: no memory left");
        tci_row_forget(&join->row);
        free_join(join);
        return refuse(context, options, &error);
    }
    join->is_from_env = how->is_from_env;
    join->meeting = how->meeting;
    join->meeting.side = (struct tci_side){options->side_allgather, options->side_arg};
    join->connections = how->connections;
    if (join->options.timeout_ms == 0 && context->config.start_timeout_ms == 0)
        join->options.timeout_ms = how->start_timeout_ms;
    join->carrier = how->carrier;
    if (how->paths != NULL) {
        join->paths = *how->paths;
        *how->paths = (struct tci_paths){.count = 0};
    }
    join->out = out;
    future = join->future; /* once posted, the join may be over */
    context->exec->ops->post_remote(context->exec, &join->task);
    return future;
}
