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

#include "core/comm.h"
#include "core/mux.h"
#include "net/shm.h"
#include "net/tcp_link.h"

static struct tci_tcp *tcp_of(tc_dist_ctx *group)
{
    return tci_tcp_of(tci_shm_below(tci_mux_of(tci_comm_of(group)->transport)->below));
}

struct tci_transport_stats heal_world_stats(const struct heal_world *heal, int rank)
{
    struct tci_transport *transport = &tcp_of(heal->world.group[rank])->base;
    struct tci_transport_stats stats;

    transport->ops->stats(transport, &stats);
    return stats;
}

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

void heal_world_open(struct heal_world *heal, int size, const tc_config *config, uint64_t seed)
{
    struct world *world = &heal->world;
    struct sockaddr_in target = {0};
    socklen_t len = sizeof(target);
    tc_future *futures[WORLD_MAX];
    tc_dist_options options;
    char door[64], direct[64];
    int fd = world_listen(direct, sizeof(direct));

    setenv("TCDIST_SHM", "0", 1); /* it is connections that are to break */
    memset(heal, 0, sizeof(*heal));
    heal->proxy = cut_proxy_new(seed);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&target, &len), 0);
    snprintf(door, sizeof(door), "tcp://127.0.0.1:%d", cut_proxy_add(heal->proxy, &target));
    world->size = size;
    world->mode = config->loop_mode < 0 ? TC_LOOP_THREAD : config->loop_mode;
    for (int r = 0; r < size; r++) {
        assert_int_equal(tc_init_config(config, &world->context[r]), TC_OK);
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
}

void heal_world_close(struct heal_world *heal)
{
    cut_proxy_set(heal->proxy, 0, 0);
    world_close(&heal->world);
    cut_proxy_free(heal->proxy);
}
