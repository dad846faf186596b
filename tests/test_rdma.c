/* test_rdma.c - what every transport must do, over RDMA: a fake device, or one of the machine. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single, needs libibverbs */

/* With TCDIST_TEST_VERBS=real it is one of the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "support/rdma_net.h"

int main(void)
{
    static const struct net_subject subjects[] = {{"rdma", rdma_net_open},
                                                  {"sealed rdma", rdma_net_open_sealed}};
    const char *kind = getenv("TCDIST_TEST_VERBS");
    int failed = sodium_init() < 0;

    if (kind == NULL || strcmp(kind, "real") != 0) {
        tci_verbs_put(&fake_verbs);
        fake_setup_usual();
    }
    for (size_t k = 0; k < TCI_LEN(subjects); k++)
        failed += transport_suite_run(&subjects[k], rdma_net_teardown);
    return failed;
}
