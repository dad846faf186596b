/* bench_tcdist.c - times the operations of tcdist in the harness of the peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "tcdist/tcdist.h"

/* Variants are words joined by '-': "manual" (the rank itself turns the loop) or "thread", and
 * "fast" for the algorithm's own order of additions instead of the canonical one, and "buffer" for
 * memory of tc_buffer_alloc(), which ranks of one host can share. */

struct bench {
    struct harness *harness;               /* borrowed */
    tc_context *context;                   /* owned */
    tc_dist_ctx *group;                    /* owned */
    tc_buffer *buffers[2];                 /* owned, or NULL: the harness's memory is used */
    tc_future *futures[HARNESS_SLOTS_ALL]; /* owned: what is in flight */
};

static void stop_if(tc_status_t status, const tc_error *error)
{
    if (status == TC_OK)
        return;
    fprintf(stderr, "bench_tcdist: %s: %s\n", tc_status_string(status),
            error == NULL ? "no reason given" : error->message);
    exit(3);
}

static void finish(tc_future *future)
{
    stop_if(tc_future_wait(future, -1), tc_future_error(future));
    tc_future_release(future);
}

static tc_future *start_op(const struct bench *bench, const struct harness_call *call, uint64_t tag,
                           const tc_options *options)
{
    static const tc_dtype_t dtypes[HARNESS_DTYPES] = {
        [HARNESS_F32] = TC_DTYPE_F32, [HARNESS_BF16] = TC_DTYPE_BF16, [HARNESS_F16] = TC_DTYPE_F16};
    tc_dtype_t dtype = dtypes[call->dtype];
    tc_dist_ctx *group = bench->group;

    switch (call->op) {
    case HARNESS_REDUCE_SCATTER:
        return tc_reduce_scatter_async(group, tag, call->send, call->recv, call->block, dtype,
                                       TC_REDUCE_SUM, options);
    case HARNESS_ALL_GATHER:
        return tc_allgather_async(group, tag, call->send, call->recv, call->block, dtype, options);
    case HARNESS_BROADCAST:
        return tc_broadcast_async(group, tag, call->recv, call->count, dtype, 0, options);
    case HARNESS_ALL_TO_ALL:
        return tc_alltoall_async(group, tag, call->send, call->recv, call->block, dtype, options);
    case HARNESS_BARRIER:
        return tc_barrier_async(group, tag, options);
    default:
        return tc_allreduce_async(group, tag, call->send, call->recv, call->count, dtype,
                                  TC_REDUCE_SUM, options);
    }
}

static void run(void *arg, const struct harness_call *call)
{
    finish(start_op(arg, call, TC_TAG_ORDERED, NULL));
}

/* Under a tag of the slot's own: ranks may start them in any order. */
static void start(void *arg, const struct harness_call *call)
{
    struct bench *bench = arg;
    tc_options options;

    tc_options_default(&options);
    options.priority = call->is_urgent ? 100 : 0;
    bench->futures[call->slot] = start_op(bench, call, (uint64_t)call->slot + 1, &options);
}

static bool is_done(void *arg, int slot)
{
    const struct bench *bench = arg;

    return tc_future_test(bench->futures[slot]) != TC_PENDING;
}

static void wait_slot(void *arg, int slot)
{
    struct bench *bench = arg;

    finish(bench->futures[slot]);
    bench->futures[slot] = NULL;
}

static void settle(void *arg)
{
    const struct bench *bench = arg;

    finish(tc_barrier_async(bench->group, TC_TAG_ORDERED, NULL));
}

static void progress(void *arg)
{
    const struct bench *bench = arg;

    (void)tc_poll(bench->context, 0);
}

/* The ranks inherit it, so that nobody else can take the port. */
static int open_listener(char *url, size_t url_size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    /* As tcrun has it, for those that come before rank 0 does. */
    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 16) != 0 || getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        perror("bench_tcdist: a socket for the rendezvous");
        exit(3);
    }
    (void)snprintf(url, url_size, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

static void form_group(struct bench *bench, const char *url, int listen_fd)
{
    tc_dist_options options;

    tc_dist_options_default(&options);
    options.world_size = bench->harness->ranks;
    options.rank = bench->harness->rank;
    options.rendezvous_url = url;
    if (options.rank == 0)
        options.listen_fd = listen_fd;
    else
        close(listen_fd);
    finish(tc_dist_init_async(bench->context, &options, &bench->group));
}

static void use_buffers(struct bench *bench)
{
    size_t len = bench->harness->memory_len;

    for (int i = 0; i < 2; i++) {
        stop_if(tc_buffer_alloc(bench->context, len, &bench->buffers[i]), tc_last_error());
        stop_if(tc_buffer_map(bench->buffers[i], &bench->harness->memory[i]), tc_last_error());
        memset(bench->harness->memory[i], 0, len);
    }
}

static int run_rank(struct harness *harness, const char *url, int listen_fd)
{
    struct bench bench = {.harness = harness};
    bool is_manual = strstr(harness->variant, "thread") == NULL;
    tc_config config;
    int exit_code;

    harness->library_arg = &bench;
    harness->call = run;
    harness->start = start;
    harness->is_done = is_done;
    harness->wait = wait_slot;
    harness->has_priority = true;
    harness->settle = settle;
    harness->progress = is_manual ? progress : NULL;
    harness->has_threads = !is_manual;
    harness_open(harness);
    tc_config_default(&config);
    config.loop_mode = is_manual ? TC_LOOP_MANUAL : TC_LOOP_THREAD;
    if (strstr(harness->variant, "fast") != NULL)
        config.numerics = TC_NUMERICS_FAST;
    stop_if(tc_init_config(&config, &bench.context), tc_last_error());
    if (strstr(harness->variant, "buffer") != NULL)
        use_buffers(&bench);
    form_group(&bench, url, listen_fd);
    exit_code = harness_run(harness);
    stop_if(tc_dist_finalize(bench.group), tc_last_error());
    for (int i = 0; i < 2; i++)
        stop_if(tc_buffer_free(bench.context, bench.buffers[i]), tc_last_error());
    stop_if(tc_shutdown(bench.context), tc_last_error());
    return exit_code;
}

int main(int argc, char **argv)
{
    struct harness harness = {.library = "tcdist", .variant = "manual"};
    char url[64];
    int exit_code;
    int listen_fd;

    harness_parse(&harness, argc, argv);
    listen_fd = open_listener(url, sizeof url);
    if (harness_fork(&harness, &exit_code))
        exit_code = run_rank(&harness, url, listen_fd);
    return exit_code;
}
