/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdlib.h>
#include <string.h>

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
    {NULL, 0, NULL, 0, "To start a job by itself, with tcrun's options:", 1},
    {"ranks", 'n', "N", 0, "Examine N ranks", 0},
    {"hosts", KEY_HOSTS, "HOST[:N],...", 0, "Examine ranks on these hosts, N on each (default: 1)",
     0},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "Examine ranks on the hosts that FILE lists", 0},
    {"repeat-hosts", KEY_REPEAT, "N", 0,
     "Multiply the number of ranks on each host by N (default: 1)", 0},
    {"ssh", KEY_SSH, "COMMAND", 0,
     "Reach other hosts by COMMAND, which may include options (default: ssh)", 0},
    {"remote-tcrun", KEY_REMOTE, "PATH", 0, "Path of tcrun on other hosts", 0},
    {NULL, 0, NULL, 0, "What is tried:", 2},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0, "How long to wait for other ranks (default: 10)", 0},
    {"try", KEY_TRY, "SECONDS", 0, "How long to wait for an address to answer (default: 3)", 0},
    {"large", KEY_LARGE, "MIB", 0,
     "How much to send between each two ranks to measure a speed; 0: nothing (default: 8)", 0},
    {"quiet", 'q', NULL, 0, "Print what is wrong, and nothing else", 0},
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
        if (strcmp(arg, "p") == 0 && state->next < state->argc) /* -np N, as mpirun has it */
            arg = state->argv[state->next++];
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
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': hosts are named by --hosts", arg);
        return 0;
    case ARGP_KEY_END:
        if (options->tcrun_count > 0 && !options->is_launched)
            argp_error(state, "%s needs hosts or a number of ranks: --hosts, --hostfile or -n",
                       options->tcrun[0]);
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
