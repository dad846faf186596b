/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "data.h"
#include "tcdist/version.h"

enum { EPOCHS_MAX = 10000, BATCH_MAX = 65536, WIDTH_MAX = 4096 };

enum { KEY_DATA = 256, KEY_HIDDEN, KEY_OUTPUTS, KEY_RATE, KEY_SPLIT, KEY_QUIET };

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *argp_program_version = "tensor_parallel (tcdist) " TEXT(TC_VERSION_MAJOR) "." TEXT(
    TC_VERSION_MINOR) "." TEXT(TC_VERSION_PATCH);

static const struct options defaults = {
    .data = "examples/digits/digits.csv.gz",
    .epochs = 8,
    .batch = 96,
    .hidden = 256,
    .outputs = 16,
    .seed = 1,
    .rate = 0.1F,
    .is_wanted = {true, true, true},
};

static const struct argp_option argp_options[] = {
    {"data", KEY_DATA, "FILE", 0, "Read the digits from FILE (examples/digits/digits.csv.gz)", 0},
    {"split", KEY_SPLIT, "HOW", 0,
     "reduce: columns then rows, one all-reduce; gather: output rows, all-gathers only; both", 0},
    {"epochs", 'e', "N", 0, "Go through the training data N times (8)", 0},
    {"seed", 's', "S", 0, "Seed of the split, the weights and the order (1)", 0},
    {"batch", 'b', "N", 0, "Samples of a step (96)", 0},
    {"hidden", KEY_HIDDEN, "N", 0, "Output features of the first layer (256)", 0},
    {"outputs", KEY_OUTPUTS, "N", 0,
     "Output features of the second layer: the 10 classes, and spare ones that make the split even "
     "(16)",
     0},
    {"learning-rate", KEY_RATE, "X", 0, "Size of a step (0.1)", 0},
    {"quiet", KEY_QUIET, NULL, 0, "Print errors only", 1},
    {0},
};

static void parse_split(const char *arg, struct options *options, struct argp_state *state)
{
    bool is_both = strcmp(arg, "both") == 0;

    options->is_wanted[WAY_REDUCE] = is_both || strcmp(arg, "reduce") == 0;
    options->is_wanted[WAY_GATHER] = is_both || strcmp(arg, "gather") == 0;
    if (!options->is_wanted[WAY_REDUCE] && !options->is_wanted[WAY_GATHER])
        argp_error(state, "'%s' is no way to split: reduce, gather or both", arg);
}

static void parse_outputs(const char *arg, struct options *options, struct argp_state *state)
{
    options->outputs = argument_count(arg, WIDTH_MAX, "width", state);
    if (options->outputs < DIGIT_CLASSES)
        argp_error(state, "%zu outputs are less than the %d classes", options->outputs,
                   DIGIT_CLASSES);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        argument_hush_others(state);
        return 0;
    case KEY_DATA:
        options->data = arg;
        return 0;
    case KEY_SPLIT:
        parse_split(arg, options, state);
        return 0;
    case 'e':
        options->epochs = argument_count(arg, EPOCHS_MAX, "number of epochs", state);
        return 0;
    case 'b':
        options->batch = argument_count(arg, BATCH_MAX, "size of a batch", state);
        return 0;
    case 's':
        options->seed = argument_seed(arg, state);
        return 0;
    case KEY_HIDDEN:
        options->hidden = argument_count(arg, WIDTH_MAX, "width", state);
        return 0;
    case KEY_OUTPUTS:
        parse_outputs(arg, options, state);
        return 0;
    case KEY_RATE:
        options->rate = argument_rate(arg, state);
        return 0;
    case KEY_QUIET:
        options->is_quiet = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse_option,
        .doc = "Split a network of two layers over all ranks, in two ways, and compare it with the "
               "unsplit one.\v"
               "Every rank trains the unsplit network by itself first.  The exit code is 0 when "
               "the network split by output rows has its bits and the one split by columns and "
               "rows is off by no more than rounding allows; 1 after a failure, 2 after a mistake "
               "in the options, which an uneven split is.",
    };

    *options = defaults;
    argp_err_exit_status = EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, options) != 0)
        exit(EXIT_USAGE);
}
