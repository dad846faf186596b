/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELASTIC_OPTIONS_H
#define ELASTIC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANKS_MAX = 16 };

struct options {
    const char *data;
    size_t ranks;
    size_t steps;
    size_t kill_every; /* steps; 0: nobody is killed */
    size_t rows;       /* samples a worker and step */
    size_t hidden;
    uint64_t seed;
    bool disturbs; /* kills somebody while another one joins, now and then */
    bool is_quiet;
};

/* Ends the program after --help and --version, and with 2 after a mistake. */
void options_parse(struct options *options, int argc, char **argv);

#endif
