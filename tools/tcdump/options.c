/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "report.h"

enum { KEY_CHROME = 256, KEY_HTML, KEY_JSON, KEY_LATE, KEY_WAIT, KEY_SLOW, KEY_ALL };

/* What a person notices, and more than a loaded machine makes by itself. */
#define LATE_NS    INT64_C(50000000)
#define SLOW_RATIO 4.0
#define SLOW_NS    INT64_C(1000000)
#define STALLED_NS INT64_C(1000000000)
/* Ranks that compute wait for each other for less, and nobody calls that a hang. */
#define WAIT_NS INT64_C(1000000000)

const char *argp_program_version = COMMAND_LINE_VERSION("tcdump");

static const struct argp_option argp_options[] = {
    {"chrome", KEY_CHROME, "FILE", 0, "Write a timeline for Chrome's viewer and Perfetto", 0},
    {"html", KEY_HTML, "FILE", 0, "Write a timeline as a self-contained HTML page", 0},
    {"json", KEY_JSON, "FILE", 0, "Write what was found as JSON; -: print it instead of the report",
     0},
    {"late", KEY_LATE, "MS", 0,
     "Report ranks that come at least this much later than the others (default: 50)", 0},
    {"wait", KEY_WAIT, "MS", 0,
     "Report ranks that run once others have waited for them for this long (default: 1000)", 0},
    {"slow", KEY_SLOW, "FACTOR", 0,
     "Report links that take at least FACTOR times as long as the others (default: 4)", 0},
    {"all-jobs", KEY_ALL, NULL, 0, "Include the traces of earlier jobs in the same folder", 0},
    {"quiet", 'q', NULL, 0, "Print no report", 0},
    {0},
};

static double parse_number(const char *arg, double least, struct argp_state *state)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(arg, &end);
    if (errno != 0 || end == arg || *end != '\0' || !(value >= least && value <= 1e9))
        argp_error(state, "'%s' is not a number from %g to 1e9", arg, least);
    return value;
}

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static void finish(struct options *options, struct argp_state *state)
{
    if (options->path_count == 0)
        argp_error(state, "name the traces to read: files, or folders with them");
    if (options->json_path != NULL && !report_has_json())
        argp_error(state, "--json is not there: tcdump was built without cJSON");
    if (is_stdout(options->chrome_path) + is_stdout(options->html_path) +
            is_stdout(options->json_path) >
        1)
        argp_error(state, "only one of --chrome, --html and --json can be standard output");
    if (is_stdout(options->chrome_path) || is_stdout(options->html_path) ||
        is_stdout(options->json_path))
        options->is_quiet = true;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case KEY_CHROME:
        options->chrome_path = arg;
        return 0;
    case KEY_HTML:
        options->html_path = arg;
        return 0;
    case KEY_JSON:
        options->json_path = arg;
        return 0;
    case KEY_LATE:
        options->limits.late_ns = (int64_t)(parse_number(arg, 0, state) * 1e6);
        return 0;
    case KEY_WAIT:
        options->limits.wait_ns = (int64_t)(parse_number(arg, 0, state) * 1e6);
        return 0;
    case KEY_SLOW:
        options->limits.slow_ratio = parse_number(arg, 1, state);
        return 0;
    case KEY_ALL:
        options->has_all_jobs = true;
        return 0;
    case 'q':
        options->is_quiet = true;
        return 0;
    case ARGP_KEY_ARGS:
        options->paths = state->argv + state->next;
        options->path_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        finish(options, state);
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
        .args_doc = "FILE-OR-FOLDER...",
        .doc =
            "Read the traces of the ranks of a job, running, ended or killed, and tell who waits "
            "for whom, who is late and what is wrong.\vThe traces are those of "
            "TCDIST_TRACE_DIR, TCDIST_DUMP_DIR and tc_trace_dump().  The exit code is 0 when "
            "nothing is wrong, 1 when something was found, and 2 when the options are wrong or "
            "a file can't be read or written.",
    };

    *options = (struct options){.limits = {.late_ns = LATE_NS,
                                           .slow_ratio = SLOW_RATIO,
                                           .slow_ns = SLOW_NS,
                                           .stalled_ns = STALLED_NS,
                                           .wait_ns = WAIT_NS}};
    argp_err_exit_status = EXIT_TROUBLE;
    if (argp_parse(&argp, argc, argv, 0, NULL, options) != 0)
        exit(EXIT_TROUBLE);
}
