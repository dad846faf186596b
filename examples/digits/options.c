/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcdist/version.h"

enum { EXIT_USAGE = 2, EPOCHS_MAX = 10000, BATCH_MAX = 65536, HIDDEN_MAX = 4096, RATE_MAX = 100 };

enum { KEY_DATA = 256, KEY_TIMELINE, KEY_TRACE, KEY_WEIGHTS, KEY_HIDDEN, KEY_RATE, KEY_QUIET };

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
    {"timeline", KEY_TIMELINE, "FILE", 0, "Draw the last steps of all ranks as an HTML page", 1},
    {"trace", KEY_TRACE, "FILE", 0, "Write the same as JSON for trace viewers", 1},
    {"weights", KEY_WEIGHTS, "FILE", 0, "Write the final weights as 32-bit floats", 1},
    {"quiet", KEY_QUIET, NULL, 0, "Print errors only", 1},
    {0},
};

static size_t parse_count(const char *arg, size_t max, const char *what, struct argp_state *state)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(arg, &end, 10);
    if (errno != 0 || *end != '\0' || strspn(arg, "0123456789") == 0 || value < 1 || value > max)
        argp_error(state, "'%s' is no %s from 1 to %zu", arg, what, max);
    return value;
}

static uint64_t parse_seed(const char *arg, struct argp_state *state)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(arg, &end, 10);
    if (errno != 0 || *end != '\0' || strspn(arg, "0123456789") == 0)
        argp_error(state, "'%s' is no seed from 0 to 2^64 - 1", arg);
    return value;
}

static float parse_rate(const char *arg, struct argp_state *state)
{
    char *end;
    double value = strtod(arg, &end);

    if (end == arg || *end != '\0' || !(value > 0 && value <= RATE_MAX))
        argp_error(state, "'%s' is no learning rate above 0 and up to %d", arg, RATE_MAX);
    return (float)value;
}

static error_t parse_number(int key, const char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'e':
        options->epochs = parse_count(arg, EPOCHS_MAX, "number of epochs", state);
        return 0;
    case 'b':
        options->batch = parse_count(arg, BATCH_MAX, "size of a batch", state);
        return 0;
    case KEY_HIDDEN:
        options->hidden = parse_count(arg, HIDDEN_MAX, "width", state);
        return 0;
    case 's':
        options->seed = parse_seed(arg, state);
        return 0;
    case KEY_RATE:
        options->rate = parse_rate(arg, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Under a launcher one rank's help is enough. */
static void hush_others(struct argp_state *state)
{
    const char *rank = getenv("TCDIST_RANK");
    FILE *nowhere = rank != NULL && strcmp(rank, "0") != 0 ? fopen("/dev/null", "we") : NULL;

    if (nowhere != NULL)
        state->out_stream = nowhere;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        hush_others(state);
        return 0;
    case KEY_DATA:
        options->data = arg;
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
