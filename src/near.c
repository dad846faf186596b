/* near.c - which ranks share memory, and whether they may: the environment decides. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "near.h"

#include <stdlib.h>
#include <string.h>

#include "cables.h"
#include "net/shm.h"
#include "net/tcp.h"
#include "rdma/rdma.h"

enum { IS_ON = 1, MAY_READ = 1 };

/* 0 or 1; -1: another word. */
static int read_switch(const char *name, int standard)
{
    const char *text = getenv(name);

    if (text == NULL)
        return standard;
    if (strcmp(text, "0") == 0 || strcmp(text, "1") == 0)
        return text[0] - '0';
    return -1;
}

tc_status_t tci_near_check(struct tci_error *error)
{
    static const char *const names[] = {"TCDIST_SHM", "TCDIST_SHM_CMA"};

    for (int i = 0; i < 2; i++)
        if (read_switch(names[i], 0) < 0) {
            tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init",
                          "%s is \"%.40s\", but must be 0 or 1", names[i], getenv(names[i]));
            return TC_ERR_INVALID_ARG;
        }
    return TC_OK;
}

bool tci_near_may_share(const tc_context *context)
{
    return tci_shm_is_built() && read_switch("TCDIST_SHM", IS_ON) == 1 &&
           context->config.encryption <= 0;
}

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
                                    .is_on = tci_near_may_share(context) && !result->is_apart,
                                    .may_read = read_switch("TCDIST_SHM_CMA", MAY_READ) == 1};

    if (tci_rdma_is(way) || (config.is_on && result->local_ranks > 1))
        tci_tcp_be_quiet(tcp);
    return tci_shm_open(tci_loop_of(context->exec), context, way, &config);
}
