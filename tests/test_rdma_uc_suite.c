/* test_rdma_uc_suite.c - what every transport must do, over queue pairs of kind UC. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "support/rdma_net.h"

int main(void)
{
    static const struct net_subject subjects[] = {{"rdma, UC", rdma_net_open_uc},
                                                  {"sealed rdma, UC", rdma_net_open_sealed_uc}};
    int failed = sodium_init() < 0;

    tci_verbs_put(&fake_verbs);
    fake_setup_usual();
    for (size_t k = 0; k < TCI_LEN(subjects); k++)
        failed += transport_suite_run(&subjects[k], rdma_net_teardown);
    return failed;
}
