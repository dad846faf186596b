/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "tcdist/version.h"

enum { EPOCHS_MAX = 10000, BATCH_MAX = 65536, HIDDEN_MAX = 4096 };

enum {
    KEY_DATA = 256,
    KEY_TIMELINE,
    KEY_TRACE,
    KEY_WEIGHTS,
    KEY_HIDDEN,
    KEY_RATE,
    KEY_COMPRESS,
    KEY_QUIET
};

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *argp_program_version =
    "digits (tcdist) " TEXT(TC_VERSION_MAJOR) "." TEXT(TC_VERSION_MINOR) "." TEXT(TC_VERSION_PATCH);

static const struct options defaults = {
    .data = "examples/digits/digits.csv.gz",
    .epochs = 20,
    .batch = 192,
    .hidden = 256,
    .seed = 1,
    .rate = 0.1F,
};

static const struct argp_option argp_options[] = {
    {"data", KEY_DATA, "FILE", 0, "Read the digits from FILE (examples/digits/digits.csv.gz)", 0},
    {"epochs", 'e', "N", 0, "Go through the training data N times (20)", 0},
    {"seed", 's', "S", 0, "Seed of the split, the weights and the order (1)", 0},
    {"batch", 'b', "N", 0, "Samples of a step, all ranks together (192)", 0},
    {"hidden", KEY_HIDDEN, "N", 0, "Width of the hidden layers (256)", 0},
    {"learning-rate", KEY_RATE, "X", 0, "Size of a step (0.1)", 0},
    {"compress", KEY_COMPRESS, "HOW", 0,
     "Send gradients as bf16, f16, f8e4m3 or f8e5m2, or of each layer's the largest part, "
     "topk:0.01 for a hundredth; what is left is added to the next ones (none)",
     0},
    {"timeline", KEY_TIMELINE, "FILE", 0, "Draw the last steps of all ranks as an HTML page", 1},
    {"trace", KEY_TRACE, "FILE", 0, "Write the same as JSON for trace viewers", 1},
    {"weights", KEY_WEIGHTS, "FILE", 0, "Write the final weights as 32-bit floats", 1},
    {"quiet", KEY_QUIET, NULL, 0, "Print errors only", 1},
    {0},
};

static void parse_compress(const char *arg, struct options *options, struct argp_state *state)
{
    static const tc_dtype_t types[] = {TC_DTYPE_BF16, TC_DTYPE_F16, TC_DTYPE_F8E4M3,
                                       TC_DTYPE_F8E5M2};
    char *end = NULL;

    options->compress = COMPRESS_NONE;
    if (strcmp(arg, "none") == 0)
        return;
    if (strncmp(arg, "topk:", 5) == 0) {
        options->compress = COMPRESS_TOPK;
        options->fraction = strtod(arg + 5, &end);
        if (end == arg + 5 || *end != '\0' || !(options->fraction > 0 && options->fraction <= 1))
            argp_error(state, "'%s' is no part above 0 and up to 1", arg + 5);
        return;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(arg, tc_dtype_name(types[i])) != 0)
            continue;
        options->compress = COMPRESS_NARROW;
        options->wire = types[i];
        return;
    }
    argp_error(state, "'%s' is no way to compress: none, bf16, f16, f8e4m3, f8e5m2 or topk:PART",
               arg);
}

static error_t parse_number(int key, const char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'e':
        options->epochs = argument_count(arg, EPOCHS_MAX, "number of epochs", state);
        return 0;
    case 'b':
        options->batch = argument_count(arg, BATCH_MAX, "size of a batch", state);
        return 0;
    case KEY_HIDDEN:
        options->hidden = argument_count(arg, HIDDEN_MAX, "width", state);
        return 0;
    case 's':
        options->seed = argument_seed(arg, state);
        return 0;
    case KEY_RATE:
        options->rate = argument_rate(arg, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
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
    case KEY_COMPRESS:
        parse_compress(arg, options, state);
        return 0;
    case KEY_TIMELINE:
        options->timeline = arg;
        return 0;
    case KEY_TRACE:
        options->trace = arg;
        return 0;
    case KEY_WEIGHTS:
        options->weights = arg;
        return 0;
    case KEY_QUIET:
        options->is_quiet = true;
        return 0;
    default:
        return parse_number(key, arg, state);
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse_option,
        .doc = "Train a multi-layer perceptron on handwritten digits, on all ranks together.\v"
               "Started by tcrun, the ranks share the work; started alone, there is one.  The "
               "exit code is 0 when the weights are the same on all ranks, 1 after a failure and "
               "2 after a mistake in the options.",
    };

    *options = defaults;
    argp_err_exit_status = EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, options) != 0)
        exit(EXIT_USAGE);
}
