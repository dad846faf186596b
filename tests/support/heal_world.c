/* heal_world.c - rank 0 is met through a proxy, and the table of addresses leads to it as well. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/heal_world.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "core/base.h"
#include "core/comm.h"
#include "core/mux.h"
#include "net/shm.h"
#include "net/tcp_link.h"
#include "rdma/rdma.h"
#include "support/sample.h"

static struct tci_tcp *tcp_of(tc_dist_ctx *group)
{
    return tci_tcp_of(
        tci_rdma_below(tci_shm_below(tci_mux_of(tci_comm_of(group)->transport)->below)));
}

struct reading {
    struct tci_transport *transport;
    struct tci_transport_stats stats;
};

static void read_stats(void *arg)
{
    struct reading *reading = arg;

    reading->transport->ops->stats(reading->transport, &reading->stats);
}

struct tci_transport_stats heal_world_stats(const struct heal_world *heal, int rank)
{
    struct tci_tcp *tcp = tcp_of(heal->world.group[rank]);
    struct reading reading = {.transport = &tcp->base};

    tci_loop_call(tcp->loop, read_stats, &reading);
    return reading.stats;
}

/* ---- What a transport tells ---- */

static struct heal_ear *ear_of(struct tci_transport_sink *sink)
{
    return tci_container_of(sink, struct heal_ear, sink);
}

static bool admit(struct tci_transport_sink *self, uint32_t peer, const struct tci_key *key,
                  const struct tci_call *call)
{
    struct tci_transport_sink *below = ear_of(self)->below;

    return below->admit(below, peer, key, call);
}

static void notice(struct tci_transport_sink *self, uint32_t peer, const struct tci_notice *notice)
{
    struct tci_transport_sink *below = ear_of(self)->below;

    below->notice(below, peer, notice);
}

static void lost(struct tci_transport_sink *self, uint32_t peer, tc_reason_t reason,
                 const char *how)
{
    struct heal_ear *ear = ear_of(self);

    print_message("a loss: rank %u %s\n", peer, how);
    atomic_fetch_add(&ear->lost, 1);
    ear->below->lost(ear->below, peer, reason, how);
}

static void left(struct tci_transport_sink *self)
{
    struct heal_ear *ear = ear_of(self);

    atomic_fetch_add(&ear->left, 1);
    ear->below->left(ear->below);
}

static void gone(struct tci_transport_sink *self, uint32_t peer)
{
    struct tci_transport_sink *below = ear_of(self)->below;

    if (below->gone != NULL)
        below->gone(below, peer);
}

struct listening {
    struct tci_tcp *tcp;
    struct heal_ear *ear;
};

static void listen_to(void *arg)
{
    struct listening *listening = arg;

    listening->ear->below = listening->tcp->base.sink;
    listening->tcp->base.sink = &listening->ear->sink;
}

void heal_world_listen(const struct heal_world *heal, int rank, struct heal_ear *ear)
{
    struct listening listening = {tcp_of(heal->world.group[rank]), ear};

    ear->sink = (struct tci_transport_sink){
        .admit = admit, .notice = notice, .lost = lost, .left = left, .gone = gone};
    atomic_init(&ear->lost, 0);
    atomic_init(&ear->left, 0);
    tci_loop_call(listening.tcp->loop, listen_to, &listening);
}

/* ---- A world ---- */

/* No rank has dialed another one yet but rank 0. */
static void lead_through(struct heal_world *heal)
{
    struct tci_tcp *first = tcp_of(heal->world.group[0]);

    for (int to = 1; to < heal->world.size; to++) {
        struct sockaddr_in target;
        uint16_t port;

        memcpy(&target, &first->addrs[to].sa, sizeof(target));
        port = cut_proxy_add(heal->proxy, &target);
        for (int from = 0; from < heal->world.size; from++)
            tci_addr_set_port(&tcp_of(heal->world.group[from])->addrs[to], port);
    }
}

/* By the loop: further connections are made only now, through the proxy. */
struct widening {
    struct tci_tcp *tcp;
    uint32_t connections;
};

static void widen(void *arg)
{
    struct widening *widening = arg;
    struct tci_tcp *tcp = widening->tcp;

    tcp->connections = widening->connections;
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->links[i] != NULL && tcp->links[i]->state == TCI_LINK_UP)
            tci_sides_start(tcp->links[i]);
}

void heal_world_open(struct heal_world *heal, int size, const tc_config *config, uint64_t seed)
{
    struct world *world = &heal->world;
    struct sockaddr_in target = {0};
    socklen_t len = sizeof(target);
    tc_future *futures[WORLD_MAX];
    tc_dist_options options;
    tc_config narrow = *config;
    char door[64], direct[64];
    int fd = world_listen(direct, sizeof(direct));

    setenv("TCDIST_SHM", "0", 1); /* it is connections that are to break */
    memset(heal, 0, sizeof(*heal));
    narrow.connections = 1;
    heal->proxy = cut_proxy_new(seed);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&target, &len), 0);
    snprintf(door, sizeof(door), "tcp://127.0.0.1:%d", cut_proxy_add(heal->proxy, &target));
    world->size = size;
    world->mode = config->loop_mode < 0 ? TC_LOOP_THREAD : config->loop_mode;
    for (int r = 0; r < size; r++) {
        assert_int_equal(tc_init_config(&narrow, &world->context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = size;
        options.rank = r;
        options.rendezvous_url = r == 0 ? direct : door;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(world->context[r], &options, &world->group[r]);
    }
    for (int r = 0; r < size; r++) {
        if (world_wait(world, futures[r]) != TC_OK)
            fail_msg("group of rank %d: %s", r, tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
    lead_through(heal);
    for (int r = 0; r < size; r++) {
        struct widening widening = {tcp_of(world->group[r]), (uint32_t)config->connections};

        tci_loop_call(widening.tcp->loop, widen, &widening);
    }
}

void heal_world_close(struct heal_world *heal)
{
    cut_proxy_set(heal->proxy, 0, 0);
    world_close(&heal->world);
    cut_proxy_free(heal->proxy);
}

tc_config heal_world_config(int mode, size_t connections)
{
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = mode;
    config.timeout_ms = 60000;
    config.connections = connections;
    return config;
}

void heal_world_finish(struct heal_world *heal, struct coll_run *run)
{
    char text[160];

    for (int r = 0; r < heal->world.size; r++)
        if (world_wait(&heal->world, run->future[r]) != TC_OK)
            fail_msg("%s: rank %d: %s", coll_describe(run, text, sizeof(text)), r,
                     tc_future_error(run->future[r])->message);
    coll_check(run);
}

uint64_t heal_world_breaks(const struct heal_world *heal)
{
    uint64_t breaks = 0;

    for (int r = 0; r < heal->world.size; r++)
        breaks += heal_world_stats(heal, r).breaks;
    return breaks;
}

void heal_world_every_collective(int mode, int size, size_t connections)
{
    static const size_t counts[] = {1, 700, 30000, 130000};
    static struct coll_run runs[COLL_KINDS * TCI_LEN(counts)];
    tc_config config = heal_world_config(mode, connections);
    struct heal_world heal;
    int rounds = test_effort() == 2 ? 20 : test_effort() + 1;

    heal_world_open(&heal, size, &config, test_seed() + (uint64_t)mode);
    cut_proxy_set(heal.proxy, test_effort() == 0 ? 60000 : 300000, UINT32_MAX);
    for (int round = 0; round < rounds; round++) {
        unsigned n = 0;

        for (int kind = 0; kind < COLL_KINDS; kind++)
            for (unsigned c = 0; c < TCI_LEN(counts) - (test_effort() == 0); c++) {
                struct coll_case what = {.kind = (enum coll_kind)kind,
                                         .count = counts[c],
                                         .dtype = TC_DTYPE_I32,
                                         .op = TC_REDUCE_SUM,
                                         .root = (round + kind) % size,
                                         .in_place = coll_can_be_in_place((enum coll_kind)kind) &&
                                                     c % 2 == 1,
                                         .tag = n,
                                         .seed = (unsigned)round * 1000 + n};
                coll_prepare(&runs[n++], &what, size);
            }
        for (int r = 0; r < size; r++)
            for (unsigned i = 0; i < n; i++)
                coll_start(&runs[(i + (unsigned)r * 5) % n], heal.world.group[r], r);
        for (unsigned i = 0; i < n; i++)
            heal_world_finish(&heal, &runs[i]);
    }
    print_message("%d ranks: %u connections cut\n", size, cut_proxy_cuts(heal.proxy));
    assert_true(cut_proxy_cuts(heal.proxy) > 10);
    assert_true(heal_world_breaks(&heal) > 10);
    heal_world_close(&heal);
}
