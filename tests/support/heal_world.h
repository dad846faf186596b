/* heal_world.h - a world whose links all go through a proxy that cuts them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_HEAL_WORLD_H
#define TEST_HEAL_WORLD_H

#include "core/transport.h"
#include "support/cut_proxy.h"
#include "support/world.h"

struct heal_world {
    struct world world;
    struct cut_proxy *proxy;
};

/* Form a group of `size` ranks through a proxy that leaves it alone at first. */
void heal_world_open(struct heal_world *heal, int size, const tc_config *config, uint64_t seed);
void heal_world_close(struct heal_world *heal);
/* The transport's figures of a rank; while nothing runs. */
struct tci_transport_stats heal_world_stats(const struct heal_world *heal, int rank);

#endif
