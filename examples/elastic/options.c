/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "arguments.h"
#include "tcdist/version.h"

enum { STEPS_MAX = 100000, ROWS_MAX = 4096, HIDDEN_MAX = 4096 };

enum { KEY_DATA = 256, KEY_HIDDEN, KEY_ROWS, KEY_QUIET, KEY_DISTURB };

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *argp_program_version = "elastic (tcdist) " TEXT(TC_VERSION_MAJOR) "." TEXT(
    TC_VERSION_MINOR) "." TEXT(TC_VERSION_PATCH);

static const struct argp_option argp_options[] = {
    {"data", KEY_DATA, "FILE", 0, "Read the digits from FILE (examples/digits/digits.csv.gz)", 0},
    {"ranks", 'n', "N", 0, "Workers (4)", 0},
    {"steps", 't', "N", 0, "Steps of training (400)", 0},
    {"kill-every", 'k', "N", 0, "Kill a worker every N steps; another one joins (50; 0: never)", 0},
    {"disturb", KEY_DISTURB, NULL, 0, "Kill others, or who joins, while one joins", 0},
    {"seed", 's', "S", 0, "Seed of the split, the weights, the samples and the victims (1)", 0},
    {"rows", KEY_ROWS, "N", 0, "Samples of a worker in a step (32)", 0},
    {"hidden", KEY_HIDDEN, "N", 0, "Width of the hidden layers (64)", 0},
    {"quiet", KEY_QUIET, NULL, 0, "Print errors only", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case KEY_DATA:
        options->data = arg;
        return 0;
    case 'n':
        options->ranks = argument_count(arg, RANKS_MAX, "ranks", state);
        if (options->ranks < 2)
            argp_error(state, "%zu ranks: of fewer than two, nobody is left", options->ranks);
        return 0;
    case 't':
        options->steps = argument_count(arg, STEPS_MAX, "steps", state);
        return 0;
    case 'k':
        options->kill_every = arg[0] == '0' && arg[1] == '\0'
                                  ? 0
                                  : argument_count(arg, STEPS_MAX, "steps between kills", state);
        return 0;
    case 's':
        options->seed = argument_seed(arg, state);
        return 0;
    case KEY_ROWS:
        options->rows = argument_count(arg, ROWS_MAX, "rows", state);
        return 0;
    case KEY_HIDDEN:
        options->hidden = argument_count(arg, HIDDEN_MAX, "hidden units", state);
        return 0;
    case KEY_DISTURB:
        options->disturbs = true;
        return 0;
    case KEY_QUIET:
        options->is_quiet = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is no option", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse,
        .doc = "Trains a small net on handwritten digits while workers are killed and others "
               "join, then proves that the weights are those of a plain simulation."};

    *options = (struct options){.data = "examples/digits/digits.csv.gz",
                                .ranks = 4,
                                .steps = 400,
                                .kill_every = 50,
                                .rows = 32,
                                .hidden = 64,
                                .seed = 1};
    argp_err_exit_status = EXIT_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, options);
}
