/* near.c - what lies between ranks that are near each other: shared memory, RDMA. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "near.h"

#include <string.h>

#include "context/share.h"
#include "group/cables.h"
#include "net/shm.h"
#include "net/tcp.h"
#include "rdma/rdma.h"

static struct tci_transport *open_rdma(tc_context *context, struct tci_transport *tcp,
                                       const struct tci_boot_result *result,
                                       const struct tci_near_wish *wish)
{
    struct tci_loop *loop = tci_loop_of(context->exec);
    struct tci_rdma_config config = {.rank = (uint32_t)result->rank,
                                     .size = (uint32_t)result->size,
                                     .eager_bytes = (size_t)result->agreed.eager_bytes,
                                     .encrypts = context->config.encryption > 0};

    if (!tci_rdma_options_parse(context->config.rdma, &config.options))
        return tcp; /* never: it was parsed when the context was made */
    if (result->is_plain)
        return tcp;
    if (strncmp(wish->url, "rdma://", 7) == 0 && config.options.mode == TCI_RDMA_AUTO)
        config.options.mode = TCI_RDMA_ON;
    if (wish->jaccl->size > 0 && config.options.mode != TCI_RDMA_OFF)
        return tci_cables_open(loop, context, tcp, &config, wish->jaccl);
    return tci_rdma_open(loop, context, tcp, &config);
}

struct tci_transport *tci_near_open(tc_context *context, struct tci_transport *tcp,
                                    const struct tci_boot_result *result,
                                    const struct tci_near_wish *wish)
{
    struct tci_transport *way = open_rdma(context, tcp, result, wish);
    struct tci_shm_config config = {.rank = (uint32_t)result->rank,
                                    .size = (uint32_t)result->size,
                                    .hosts = result->hosts,
                                    .eager_bytes = (size_t)result->agreed.eager_bytes,
                                    .is_on = tci_share_is_on(context) && !result->is_apart,
                                    .may_read = tci_share_may_read()};

    if (tci_rdma_is(way) || (config.is_on && result->local_ranks > 1))
        tci_tcp_be_quiet(tcp);
    return tci_shm_open(tci_loop_of(context->exec), context, way, &config);
}
