/* net_hosts.h - hosts of a network of the test's own, and ranks on them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_NET_HOSTS_H
#define TEST_NET_HOSTS_H

#include <stdbool.h>

/*
 *   this process                     host n: a process with a network and an /etc/hosts of its own
 *     bridge lan0 == 10.77.0.0/24 === eth0 10.77.0.<n + 1>, fd77::<n + 1>, fe80::<n + 1>
 *     bridge lan1 == 10.78.0.0/24 === eth1 10.78.0.<n + 1>, fd78::<n + 1>
 *
 * Nothing of it has a name in the file system: it is gone with the processes, however they end.
 */
enum { NET_HOSTS = 3, NET_RANKS = 4, NET_PORT = 29500 };

struct net_host {
    const char *ip;       /* further commands for ip(8), a line each; NULL: none */
    const char *nft;      /* for nft(8) */
    const char *names;    /* its /etc/hosts; NULL: nothing but localhost */
    bool has_name_server; /* at an address where nobody is; else there is none to ask */
    bool has_no_ipv6;
    bool has_busy_port;    /* somebody listens at NET_PORT already */
    const char *busy_says; /* likewise, and says this to each that comes; NULL: nobody does */
};

struct net_rank {
    int host;
    const char *env; /* "NAME=value NAME=value"; NULL: none */
};

struct net_case {
    const char *url;
    int timeout_ms;
    bool is_from_env; /* ranks have the variables of tcrun, and form the group of them */
    bool
        loses_root; /* once all have met, rank 0 ends without a word; the others make a new group */
    bool is_late;   /* only then do all exchange with all, and not before as well */
    struct net_host hosts[NET_HOSTS];
    int ranks;
    struct net_rank rank[NET_RANKS];
};

/* What became of a rank: "" where it stood in a group in which all ranks have exchanged with all,
 * also where it ended as it was to, else its error. */
struct net_outcome {
    char says[NET_RANKS][512];
    char log[NET_RANKS][4096]; /* what the library had to say, from level info on */
};

/* Once, before all: NULL, or why this cannot be had here. */
const char *net_hosts_open(void);
/* Runs a case; false: the hosts could not be made, with why in the outcome of rank 0. */
bool net_hosts_run(const struct net_case *net, struct net_outcome *outcome);

#endif
