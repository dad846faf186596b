/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENSOR_PARALLEL_OPTIONS_H
#define TENSOR_PARALLEL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "network.h"

struct options {
    const char *data;
    size_t epochs;
    size_t batch;
    size_t hidden;  /* what the first layer puts out */
    size_t outputs; /* what the second layer puts out: the classes, and spare ones */
    uint64_t seed;
    float rate;
    bool is_wanted[WAY_COUNT]; /* ways to split; the unsplit network always runs */
    bool is_quiet;
};

/* Ends the program after --help and --version, and with 2 after a mistake. */
void options_parse(struct options *options, int argc, char **argv);

#endif
