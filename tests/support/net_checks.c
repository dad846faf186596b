/* net_checks.c - cases of net_hosts.h run as tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/net_checks.h"

struct net_outcome net_outcome;

void net_run(const struct net_case *net)
{
    if (!net_hosts_run(net, &net_outcome))
        fail_msg("%s", net_outcome.says[0]);
    for (int r = 0; getenv("TCDIST_TEST_VERBOSE") != NULL && r < net->ranks; r++)
        print_message("%s    rank %d: %s\n", net_outcome.log[r], r, net_outcome.says[r]);
}

void net_stands(const struct net_case *net)
{
    net_run(net);
    for (int r = 0; r < net->ranks; r++)
        if (net_outcome.says[r][0] != '\0')
            fail_msg("rank %d: %s", r, net_outcome.says[r]);
}

void net_says(int rank, const char *words)
{
    if (strstr(net_outcome.says[rank], words) == NULL)
        fail_msg("rank %d: \"%s\" has not \"%s\"", rank, net_outcome.says[rank], words);
}

void net_logged(int rank, const char *words)
{
    if (strstr(net_outcome.log[rank], words) == NULL)
        fail_msg("rank %d: \"%s\" is not in the log: %s", rank, words, net_outcome.log[rank]);
}
