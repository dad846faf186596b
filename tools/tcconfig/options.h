/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCCONFIG_OPTIONS_H
#define TCCONFIG_OPTIONS_H

#include "hosts.h"

enum { EXIT_FOUND = 1, EXIT_TROUBLE = 2, CONNECT_S = 15, EXCHANGE_MS = 120000 };

/* Which links count. */
enum over { OVER_ANY, OVER_ETHERNET, OVER_THUNDERBOLT };

struct options {
    struct hosts hosts;
    const char *ssh;
    const char *remote_tcconfig; /* NULL: where this one is, or on the path */
    enum over over;
    const char *backend; /* NULL: the best that there is */
    const char *output;  /* NULL: standard output */
    enum hosts_form form;
    bool ignores_unreachable;
    bool sets_up; /* carries the commands out that addresses need */
    bool draws;   /* the topology for GraphViz, and nothing else */
    bool is_verbose;
    int try_ms;
    size_t large_bytes;
    char **env; /* owned; borrowed strings NAME=VALUE for the host file, env_count of them */
    size_t env_count;
};

/* Ends the program after --help, --version and mistakes. */
void options_parse(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

#endif
