/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDOCTOR_OPTIONS_H
#define TCDOCTOR_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_FOUND = 1, EXIT_TROUBLE = 2 };

struct options {
    bool is_launched; /* hosts, or a number of ranks, are given: tcrun is to start the ranks */
    char **tcrun;     /* owned; borrowed options for tcrun, tcrun_count of them */
    size_t tcrun_count;
    int timeout_ms;     /* to wait for other ranks */
    int try_ms;         /* for one address to answer */
    size_t large_bytes; /* 0: no large message is sent */
    bool is_quiet;      /* verdicts alone */
};

/* Ends the program after --help, --version and mistakes. */
void options_parse(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

#endif
