/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_OPTIONS_H
#define TCPERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "operation.h"
#include "tcdist/dtype.h"

/* Exit codes, beside 0. */
enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_TROUBLE = 3 };

/* Type and operator numbers are below this. */
enum { NUMBERS_MAX = 32 };

/* A list of types, operators or operations, in the order in which they are measured. */
struct chosen {
    int numbers[NUMBERS_MAX];
    int count;
};

struct options {
    struct chosen operations; /* of `operations` in operation.h */
    struct chosen types;      /* tc_dtype_t */
    struct chosen reduces;    /* tc_reduce_op_t */
    size_t bytes_min;
    size_t bytes_max;
    size_t factor;
    bool is_in_place;     /* measure in place */
    bool is_out_of_place; /* measure out of place; both by default */
    int tags;             /* collectives in flight at once */
    int warmup;           /* batches that are not timed */
    int iterations;       /* 0: as many as the budget allows */
    double budget_s;      /* for one line */
    bool is_synced;       /* ranks are aligned before each batch, not only before several */
    int checks;           /* batches whose every element is compared; 0: none */
    int spoiled_rank;     /* flips a bit of its results before the check; -1: nobody */
    int root;
    int loop_mode;         /* tc_loop_mode_t */
    int spin_us;           /* -1: not set */
    int numerics;          /* tc_numerics_t */
    const char *algorithm; /* borrowed from argv, as those below; NULL: chosen by the library */
    const char *csv_path;  /* NULL: none; "-": standard output, instead of the table */
    const char *json_path;
    const char *tune_path; /* not NULL: measure every algorithm, and write which is the fastest */
};

/* Ends the process when the command line is wrong, or asks for help. */
void options_parse(struct options *options, int argc, char **argv);

/* The word for a tc_numerics_t. */
const char *options_numerics_name(int numerics);

#endif
