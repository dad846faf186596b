/* off.c - stands for all of src/rdma in a build without it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/rdma.h"

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
    return "this build has no RDMA: libibverbs was not there, or -DTCDIST_RDMA=OFF was given";
}
