/* heal_world.h - a world whose links all go through a proxy that cuts them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_HEAL_WORLD_H
#define TEST_HEAL_WORLD_H

#include <stdatomic.h>

#include "core/transport.h"
#include "support/coll_case.h"
#include "support/cut_proxy.h"
#include "support/world.h"

struct heal_world {
    struct world world;
    struct cut_proxy *proxy;
};

/* Form a group of `size` ranks through a proxy that leaves it alone at first. */
void heal_world_open(struct heal_world *heal, int size, const tc_config *config, uint64_t seed);
void heal_world_close(struct heal_world *heal);
/* Settings for it, with time enough for a slow machine. */
tc_config heal_world_config(int mode, size_t connections);
/* Wait until a case has ended well, and compare. */
void heal_world_finish(struct heal_world *heal, struct coll_run *run);
/* Every collective, small and large at once, all while connections break. */
void heal_world_every_collective(int mode, int size, size_t connections);
/* Connections that broke, as the ranks have noticed. */
uint64_t heal_world_breaks(const struct heal_world *heal);
/* What the transport of a rank tells from now on is counted beside being told, also what no group
 * is there any more to complain of. */
struct heal_ear {
    struct tci_transport_sink sink;
    struct tci_transport_sink *below; /* borrowed: the one that was there */
    atomic_uint lost;                 /* peers */
    atomic_uint left;                 /* 1: all have said goodbye, or are gone */
};
void heal_world_listen(const struct heal_world *heal, int rank, struct heal_ear *ear);
/* The transport's figures of a rank. */
struct tci_transport_stats heal_world_stats(const struct heal_world *heal, int rank);

#endif
