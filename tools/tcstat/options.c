/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdlib.h>

#include "command_line.h"

enum { KEY_PROMETHEUS = 256, KEY_LISTEN, KEY_ALL };

#define INTERVAL_S 1.0

const char *argp_program_version = COMMAND_LINE_VERSION("tcstat");

static const struct argp_option argp_options[] = {
    {"watch", 'w', NULL, 0, "Keep looking until interrupted", 0},
    {"interval", 'i', "SECONDS", 0,
     "Time between two looks, over which rates are computed (default: 1)", 0},
    {"prometheus", KEY_PROMETHEUS, NULL, 0,
     "Print the counts once, in the text format of Prometheus", 0},
    {"listen", KEY_LISTEN, "PORT", 0,
     "Serve the same at http://127.0.0.1:PORT/metrics; 0: any free port", 0},
    {"all-jobs", KEY_ALL, NULL, 0, "Include earlier jobs in the same folder", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'w':
        options->is_watching = true;
        return 0;
    case 'i':
        options->interval_s = command_line_number(arg, 0.05, 86400, state);
        return 0;
    case KEY_PROMETHEUS:
        options->is_prometheus = true;
        return 0;
    case KEY_LISTEN:
        options->port = (int)command_line_number(arg, 0, 65535, state);
        return 0;
    case KEY_ALL:
        options->has_all_jobs = true;
        return 0;
    case ARGP_KEY_ARGS:
        options->paths = state->argv + state->next;
        options->path_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        if (options->path_count == 0)
            argp_error(state, "name the folder of TCDIST_TRACE_DIR, or files in it");
        if (options->is_watching + options->is_prometheus + (options->port >= 0) > 1)
            argp_error(state, "only one of --watch, --prometheus and --listen is possible");
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
        .args_doc = "FOLDER-OR-FILE...",
        .doc = "Show what the ranks of a job are doing, by their traces, without disturbing "
               "them.\vThe ranks run with TCDIST_TRACE_DIR set to the folder.  The exit code is 0, "
               "or 2 when the options are wrong or a trace can't be read.",
    };

    *options = (struct options){.interval_s = INTERVAL_S, .port = -1};
    argp_err_exit_status = EXIT_TROUBLE;
    if (argp_parse(&argp, argc, argv, 0, NULL, options) != 0)
        exit(EXIT_TROUBLE);
}
