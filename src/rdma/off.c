/* off.c - stands for all of src/rdma in a build without it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/rdma.h"

#include <stdio.h>

static const char no_build[] =
    "this build has no RDMA: libibverbs was not there, or -DTCDIST_RDMA=OFF was given";

bool tci_rdma_is_built(void)
{
    return false;
}

const char *tci_rdma_list(const struct tci_rdma_options *options,
                          struct tci_rdma_port_info **ports_out, size_t *count_out)
{
    (void)options;
    *ports_out = NULL;
    *count_out = 0;
    return no_build;
}

bool tci_rdma_can(const struct tci_rdma_options *options, char *why_out, size_t why_room)
{
    (void)options;
    snprintf(why_out, why_room, "%s", no_build);
    return false;
}

struct tci_transport *tci_rdma_open(struct tci_loop *loop, tc_context *context,
                                    struct tci_transport *below,
                                    const struct tci_rdma_config *config)
{
    (void)loop;
    (void)context;
    (void)config;
    return below;
}

bool tci_rdma_is(const struct tci_transport *self)
{
    (void)self;
    return false;
}

struct tci_transport *tci_rdma_below(struct tci_transport *self)
{
    return self;
}

const char *tci_rdma_way(const struct tci_transport *self, uint32_t peer, const char **why_out)
{
    (void)peer;
    *why_out = "this build has no RDMA";
    return self->ops->name;
}
