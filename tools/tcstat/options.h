/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCSTAT_OPTIONS_H
#define TCSTAT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_TROUBLE = 2 };

struct options {
    char **paths; /* borrowed from argv */
    size_t path_count;
    double interval_s; /* between two looks */
    int port;          /* -1: not asked for; 0: any */
    bool is_watching, is_prometheus, has_all_jobs;
};

/* Ends the program where they are wrong. */
void options_parse(struct options *options, int argc, char **argv);

#endif
