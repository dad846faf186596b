/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDUMP_OPTIONS_H
#define TCDUMP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "find.h"

enum { EXIT_FOUND = 1, EXIT_TROUBLE = 2 };

struct options {
    char **paths; /* borrowed from argv */
    size_t path_count;
    const char *chrome_path, *html_path, *json_path; /* NULL: not wanted; "-": standard output */
    struct limits limits;
    bool has_all_jobs;
    bool is_quiet; /* no report in words */
};

/* Ends the program where they are wrong. */
void options_parse(struct options *options, int argc, char **argv);

#endif
