/* cables.c - a matrix of RDMA devices: read from the options, opened, and heeded by plans. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cables.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/log.h"
#include "group/ring_group.h"

/* ---- From the options ---- */

tc_status_t tci_cables_read(const tc_dist_options *options, struct tci_jaccl *jaccl_out,
                            struct tci_error *error)
{
    struct tci_jaccl_asked asked = {.name = options->rdma_devices,
                                    .rank = options->rank,
                                    .prefers_ring = options->rdma_ring > 0};
    tc_status_t status;

    *jaccl_out = (struct tci_jaccl){.size = 0};
    if (options->rdma_devices == NULL || options->world_size == 1)
        return TC_OK;
    if (asked.name[0] == '[') {
        asked.name = "(given as text)";
        status = tci_jaccl_parse(options->rdma_devices, strlen(options->rdma_devices), &asked,
                                 jaccl_out, error);
    } else {
        status = tci_jaccl_load(&asked, jaccl_out, error);
    }
    if (status == TC_OK && jaccl_out->size != (uint32_t)options->world_size) {
        tci_error_set(error, status = TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "the device file %.120s has rows for %u ranks, and the group has %d",
                      asked.name, jaccl_out->size, options->world_size);
        tci_jaccl_fini(jaccl_out);
    }
    return status;
}

/* ---- Devices ---- */

/* Which cable to a peer a device is; -1: none. */
static int8_t cable_to(const struct tci_jaccl *jaccl, uint32_t peer, const char *device)
{
    const struct tci_cables *cables = &jaccl->cables[peer];

    for (int i = 0; i < cables->count; i++)
        if (strcmp(cables->device[i], device) == 0)
            return (int8_t)i;
    return -1;
}

static bool was_named_before(const struct tci_jaccl *jaccl, uint32_t peer, int cable)
{
    const char *device = jaccl->cables[peer].device[cable];

    for (uint32_t before = 0; before < peer; before++)
        if (cable_to(jaccl, before, device) >= 0)
            return true;
    return cable_to(jaccl, peer, device) != cable;
}

/* Without memory for the list of its peers a device is left out, as one that is not there. */
static struct tci_transport *open_one(struct tci_loop *loop, tc_context *context,
                                      struct tci_transport *below, struct tci_rdma_config config,
                                      const struct tci_jaccl *jaccl)
{
    int8_t *cables = tci_alloc_array(jaccl->size, sizeof(*cables));
    struct tci_transport *way;

    if (cables == NULL) {
        tci_log(TC_LOG_WARN, "rank %u: device %s is not used: no memory left", config.rank,
                config.options.device);
        return below;
    }
    for (uint32_t peer = 0; peer < jaccl->size; peer++)
        cables[peer] = cable_to(jaccl, peer, config.options.device);
    config.cable_to = cables;
    way = tci_rdma_open(loop, context, below, &config);
    tci_free(cables);
    return way;
}

struct tci_transport *tci_cables_open(struct tci_loop *loop, tc_context *context,
                                      struct tci_transport *below,
                                      const struct tci_rdma_config *config,
                                      const struct tci_jaccl *jaccl)
{
    struct tci_rdma_config each = *config;
    struct tci_transport *way = below;

    each.options.mode = TCI_RDMA_ON; /* whoever names a device means it */
    for (uint32_t peer = 0; peer < jaccl->size; peer++)
        for (int i = 0; i < jaccl->cables[peer].count; i++) {
            if (was_named_before(jaccl, peer, i))
                continue;
            snprintf(each.options.device, sizeof(each.options.device), "%s",
                     jaccl->cables[peer].device[i]);
            each.sibling = way != below ? way : NULL;
            way = open_one(loop, context, way, each, jaccl);
        }
    return way;
}

/* ---- Plans ---- */

static const char *advise(struct tci_comm *comm, const struct tci_advice *advice,
                          struct tci_error *error)
{
    (void)comm;
    (void)error;
    if (advice->named != NULL)
        return advice->named;
    return tci_ring_plan(tci_coll_base((enum tci_coll)advice->call->coll), advice->numerics);
}

void tci_cables_heed(struct tci_comm *comm, const struct tci_jaccl *jaccl)
{
    if (jaccl->is_ring && jaccl->size > 3)
        comm->advise = advise;
}
