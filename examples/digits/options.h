/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIGITS_OPTIONS_H
#define DIGITS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/dtype.h"

/* How gradients travel. */
enum compress {
    COMPRESS_NONE,
    COMPRESS_NARROW, /* as `wire` */
    COMPRESS_TOPK    /* the largest `fraction` of each layer's */
};

struct options {
    const char *data;
    const char *timeline; /* NULL: none, as below */
    const char *trace;
    const char *weights;
    size_t epochs;
    size_t batch; /* of all ranks together */
    size_t hidden;
    uint64_t seed;
    float rate;
    enum compress compress;
    tc_dtype_t wire;
    double fraction;
    bool is_quiet;
};

/* Ends the program after --help and --version, and with 2 after a mistake. */
void options_parse(struct options *options, int argc, char **argv);

#endif
