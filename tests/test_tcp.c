/* test_tcp.c - the transport over TCP does what every transport must do. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: single */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/base.h"
#include "net/crypt.h"
#include "net/sock.h"
#include "net/tcp.h"
#include "support/tcp_net.h"
#include "transport_suite.h"

/* Small, large, early and late, between ranks that have to dial first; then everything ends.
 * Returns how many messages were received. */
static unsigned run_with_failure(uint64_t n)
{
    static const size_t lens[3] = {10, 3000, 300000};
    static struct net_message sends[3][3], recvs[3][3];
    struct net net;
    unsigned received = 0;

    net_open(&net, 3, 4096);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t k = 0; k < 3; k++) {
            net_prepare(&sends[a][k], true, (a + 1) % 3, a, lens[k]);
            net_prepare(&recvs[a][k], false, (a + 2) % 3, (a + 2) % 3, lens[k]);
            sends[a][k].xfer.key.step = recvs[a][k].xfer.key.step = k;
        }
    tci_alloc_fail_at(n, 0);
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t a = 0; a < 3; a++) {
            net_post(&net, &sends[a][k], a);
            if (k != 1)
                net_turn(&net);
            net_post(&net, &recvs[a][k], a);
        }
    for (int i = 0; i < 60; i++)
        net_turn(&net);
    tci_alloc_fail_at(0, 0);
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t tag = 0; tag < 3; tag++)
            net_abort(&net, a, &(struct tci_key){.tag = tag, .use = 1});
    for (uint32_t a = 0; a < 3; a++)
        for (uint32_t k = 0; k < 3; k++) {
            net_wait(&net, &sends[a][k].xfer);
            net_wait(&net, &recvs[a][k].xfer);
            if (recvs[a][k].xfer.status == TC_OK) {
                assert_true(net_is_intact(&recvs[a][k]));
                received++;
            }
            net_free(&sends[a][k]);
            net_free(&recvs[a][k]);
        }
    net_close(&net);
    return received;
}

static void every_allocation_may_fail(void **state)
{
    enum { MORE_THAN_THERE_ARE = 100 };
    uint64_t live = tci_alloc_live();
    unsigned disturbed = 0;

    (void)state;
    for (uint64_t n = 1; n < MORE_THAN_THERE_ARE; n++)
        disturbed += run_with_failure(n) < 9;
    assert_true(disturbed > 5 && disturbed < MORE_THAN_THERE_ARE / 2);
    assert_int_equal(tci_alloc_live(), live);
}

int main(void)
{
    static const struct net_subject subjects[] = {{"tcp", tcp_net_open},
                                                  {"sealed tcp", tcp_net_open_sealed}};
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    int failed = 0;

    for (size_t k = 0; k < TCI_LEN(subjects); k++) {
        failed += transport_suite_run(&subjects[k], NULL);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
