/* net_checks.h - cases of net_hosts.h run as tests: what becomes of ranks, and what they say. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_NET_CHECKS_H
#define TEST_NET_CHECKS_H

#include "support/net_hosts.h"

/* A group that has to stand is given time, for slow machines; one that cannot, little. */
enum { STANDS_MS = 30000, FAILS_MS = 2000 };

#define URL        "tcp://10.77.0.1:29500"
#define URL_NAMED  "tcp://meet:29500"
#define CABLE_DROP "table inet t { chain in { type filter hook input priority 0; "
#define CABLE_END  " }; }\n"

extern struct net_outcome net_outcome; /* of the last case */

/* Run a case; fails the test where its hosts cannot be made, or where a rank does not stand. */
void net_run(const struct net_case *net);
void net_stands(const struct net_case *net);
/* A rank failed, and its sentence has these words; the log of a rank has them. */
void net_says(int rank, const char *words);
void net_logged(int rank, const char *words);

#endif
