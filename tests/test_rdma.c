/* test_rdma.c - the transport over RDMA does what every transport must do, on a fake device. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libibverbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "support/rdma_net.h"

static int check_fake(void **state)
{
    (void)state;
    rdma_net_check_clean();
    return 0;
}

int main(void)
{
    static const struct net_subject subject = {"rdma", rdma_net_open};
    int failed;

    net_subject = &subject;
    tci_verbs_put(&fake_verbs);
    fake_setup_usual();
    failed = _cmocka_run_group_tests("messages", transport_suite, transport_suite_count, NULL,
                                     check_fake);
    failed +=
        _cmocka_run_group_tests("ends", transport_ends, transport_ends_count, NULL, check_fake);
    return failed;
}
