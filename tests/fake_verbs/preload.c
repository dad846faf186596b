/* preload.c - a test program's ranks have fake RDMA devices, if TCDIST_TEST_VERBS is fake. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_verbs/fake.h"

static pid_t process;

__attribute__((constructor)) static void put_fake(void)
{
    const char *text = getenv("TCDIST_TEST_VERBS");

    if (text == NULL || strcmp(text, "fake") != 0)
        return;
    process = getpid();
    tci_verbs_put(&fake_verbs);
    fake_setup_usual();
}

/* The program has ended well by itself; this looks at what it has left. */
__attribute__((destructor)) static void check_fake(void)
{
    struct fake_counts counts = fake_counts();

    if (process != getpid())
        return;
    if (counts.sends > 0 && counts.contexts + counts.pds + counts.regions + counts.channels == 0 &&
        counts.cqs + counts.qps == 0 && counts.mistakes + counts.overruns == 0 &&
        counts.waits_for_receive == 0)
        return;
    fprintf(stderr,
            "fake verbs: %llu sends (none is wrong), left: %u devices, %u regions, %u queue pairs; "
            "%llu mistakes, %llu overruns, %llu waits for a receive\n",
            (unsigned long long)counts.sends, counts.contexts, counts.regions, counts.qps,
            (unsigned long long)counts.mistakes, (unsigned long long)counts.overruns,
            (unsigned long long)counts.waits_for_receive);
    _exit(1);
}
