/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdlib.h>

#include "command_line.h"

enum {
    KEY_HOSTS = 256,
    KEY_HOSTFILE,
    KEY_SSH,
    KEY_REMOTE,
    KEY_REPEAT,
    KEY_TIMEOUT,
    KEY_TRY,
    KEY_LARGE
};

enum { TIMEOUT_MS = 10000, TRY_MS = 3000, LARGE_BYTES = 8 << 20 };

const char *argp_program_version = COMMAND_LINE_VERSION("tcdoctor");

static const struct argp_option argp_options[] = {
    {NULL, 0, NULL, 0, "By itself, with tcrun's options:", 1},
    {"ranks", 'n', "N", 0, "Examine N ranks", 0},
    {"hosts", KEY_HOSTS, "HOST[:N],...", 0, "Examine ranks on these hosts", 0},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "Examine ranks on the hosts of FILE", 0},
    {"repeat-hosts", KEY_REPEAT, "N", 0, "So many times the ranks on each host", 0},
    {"ssh", KEY_SSH, "COMMAND", 0, "Reach other hosts by COMMAND", 0},
    {"remote-tcrun", KEY_REMOTE, "PATH", 0, "Where tcrun is on other hosts", 0},
    {NULL, 0, NULL, 0, "What is tried:", 2},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "Wait so long for other ranks (10)", 0},
    {"try", KEY_TRY, "SECONDS", 0, "Wait so long for an address to answer (3)", 0},
    {"large", KEY_LARGE, "MIB", 0, "Send so much between each two; 0: nothing (8)", 0},
    {"quiet", 'q', NULL, 0, "Say what is wrong, and nothing else", 0},
    {0},
};

static void pass_on(struct options *options, const char *name, char *arg)
{
    options->tcrun[options->tcrun_count++] = (char *)name;
    options->tcrun[options->tcrun_count++] = arg;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *const names[] = {"--hosts", "--hostfile", "--ssh", "--remote-tcrun",
                                        "--repeat-hosts"};
    struct options *options = state->input;

    switch (key) {
    case 'n':
        pass_on(options, "--ranks", arg);
        options->is_launched = true;
        return 0;
    case KEY_HOSTS:
    case KEY_HOSTFILE:
        options->is_launched = true;
        pass_on(options, names[key - KEY_HOSTS], arg);
        return 0;
    case KEY_SSH:
    case KEY_REMOTE:
    case KEY_REPEAT:
        pass_on(options, names[key - KEY_HOSTS], arg);
        return 0;
    case KEY_TIMEOUT:
        options->timeout_ms = (int)(command_line_number(arg, 0.1, 1e5, state) * 1000);
        return 0;
    case KEY_TRY:
        options->try_ms = (int)(command_line_number(arg, 0.1, 1e5, state) * 1000);
        return 0;
    case KEY_LARGE:
        options->large_bytes = (size_t)(command_line_number(arg, 0, 65536, state) * 1048576);
        return 0;
    case 'q':
        options->is_quiet = true;
        return 0;
    case ARGP_KEY_END:
        if (options->tcrun_count > 0 && !options->is_launched)
            argp_error(state, "these options need hosts, or a number of ranks");
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
        .doc = "Examine a job: who is there, who reaches whom and how fast, and whether a "
               "collective has its known result.\v"
               "Started by any launcher it examines that job; with -n, --hosts or --hostfile it "
               "lets tcrun start one.  The exit code is 0 when all is well, 1 when something was "
               "found, and 2 when it could not be examined.",
    };

    *options =
        (struct options){.timeout_ms = TIMEOUT_MS, .try_ms = TRY_MS, .large_bytes = LARGE_BYTES};
    argp_err_exit_status = EXIT_TROUBLE;
    options->tcrun = calloc(2 * (size_t)argc + 2, sizeof *options->tcrun);
    if (options->tcrun == NULL || argp_parse(&argp, argc, argv, 0, NULL, options) != 0)
        exit(EXIT_TROUBLE);
}

void options_fini(struct options *options)
{
    free(options->tcrun);
    options->tcrun = NULL;
}
