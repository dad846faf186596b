/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "facts.h"

enum {
    KEY_HOSTS = 256,
    KEY_HOSTFILE,
    KEY_SSH,
    KEY_REMOTE,
    KEY_OVER,
    KEY_BACKEND,
    KEY_OUTPUT,
    KEY_FORM,
    KEY_IGNORE,
    KEY_SETUP,
    KEY_NO_SETUP,
    KEY_DOT,
    KEY_VERBOSE,
    KEY_TRY,
    KEY_LARGE,
    KEY_ENV
};

enum { TRY_MS = 2000, LARGE_BYTES = 8 << 20 };

const char *argp_program_version = COMMAND_LINE_VERSION("tcconfig");

static const struct argp_option argp_options[] = {
    {NULL, 0, NULL, 0, "Which hosts:", 1},
    {"hosts", KEY_HOSTS, "HOST[:N],...", 0,
     "The hosts to look at, with N ranks on each (default: 1)", 0},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "Look at the hosts that FILE lists", 0},
    {"ssh", KEY_SSH, "COMMAND", 0,
     "Reach other hosts by COMMAND, which may include options (default: ssh)", 0},
    {"remote-tcconfig", KEY_REMOTE, "PATH", 0,
     "Path of tcconfig on other hosts (default: the same as here, or on their PATH)", 0},
    {"ignore-unreachable", KEY_IGNORE, NULL, 0, "Go on without hosts that can't be reached", 0},
    {NULL, 0, NULL, 0, "What is looked for:", 2},
    {"over", KEY_OVER, "KIND", 0,
     "Use links of one kind: any, ethernet or thunderbolt (default: any)", 0},
    {"backend", KEY_BACKEND, "NAME", 0,
     "How ranks are to be connected: any, ring, tcp, rdma, jaccl or jaccl-ring (default: the best "
     "that is possible)",
     0},
    {"try", KEY_TRY, "SECONDS", 0, "How long to wait for an address to answer (default: 2)", 0},
    {"large", KEY_LARGE, "MIB", 0,
     "How much to send to measure a speed; 0: measure none (default: 8)", 0},
    {NULL, 0, NULL, 0, "What is made of it:", 3},
    {"output-hostfile", KEY_OUTPUT, "FILE", 0, "Write the host file to FILE", 0},
    {"output", KEY_OUTPUT, "FILE", OPTION_ALIAS, NULL, 0},
    {"form", KEY_FORM, "FORM", 0,
     "Form of the host file: dictionary, list or plain (default: dictionary)", 0},
    {"env", KEY_ENV, "NAME=VALUE", 0, "Put a variable for the ranks into the host file", 0},
    {"dot", KEY_DOT, NULL, 0, "Print who reaches whom as a graph for GraphViz, and nothing else",
     0},
    {"auto-setup", KEY_SETUP, NULL, 0,
     "Give addresses to links that have none; needs root on the hosts", 0},
    {"no-auto-setup", KEY_NO_SETUP, NULL, 0, "Only print the commands for that (default)", 0},
    {"verbose", KEY_VERBOSE, NULL, 0, "Report each address that was tried", 0},
    {0},
};

static int choose(const char *arg, const char *const *names, struct argp_state *state)
{
    char all[128] = "";
    size_t len = 0;

    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(arg, names[i]) == 0)
            return i;
        if (len < sizeof all)
            len +=
                (size_t)snprintf(all + len, sizeof all - len, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    argp_error(state, "'%s' is not one of %s", arg, all);
    return 0;
}

static void parse_hosts(struct options *options, const char *arg, bool is_file,
                        struct argp_state *state)
{
    command_line_hosts(&options->hosts, arg, is_file, state);
    if (options->hosts.count > RANKS_MAX)
        argp_error(state, "more than %d hosts", RANKS_MAX);
}

static error_t parse_output_option(int key, char *arg, struct argp_state *state)
{
    static const char *const forms[] = {"list", "dictionary", "plain", NULL};
    struct options *options = state->input;

    switch (key) {
    case KEY_OUTPUT:
        options->output = arg;
        return 0;
    case KEY_FORM:
        options->form = (enum hosts_form)choose(arg, forms, state);
        return 0;
    case KEY_ENV:
        if (!hosts_is_setting(arg))
            argp_error(state, "'%s' is not NAME=VALUE", arg);
        options->env[options->env_count++] = arg;
        return 0;
    case KEY_DOT:
        options->draws = true;
        return 0;
    case KEY_SETUP:
    case KEY_NO_SETUP:
        options->sets_up = key == KEY_SETUP;
        return 0;
    case KEY_VERBOSE:
        options->is_verbose = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *const kinds[] = {"any", "ethernet", "thunderbolt", NULL};
    static const char *const backends[] = {"any",   "ring",       "tcp", "rdma",
                                           "jaccl", "jaccl-ring", NULL};
    struct options *options = state->input;

    switch (key) {
    case KEY_HOSTS:
    case KEY_HOSTFILE:
        parse_hosts(options, arg, key == KEY_HOSTFILE, state);
        return 0;
    case KEY_SSH:
        options->ssh = arg;
        return 0;
    case KEY_REMOTE:
        options->remote_tcconfig = arg;
        return 0;
    case KEY_IGNORE:
        options->ignores_unreachable = true;
        return 0;
    case KEY_OVER:
        options->over = (enum over)choose(arg, kinds, state);
        return 0;
    case KEY_BACKEND:
        options->backend = backends[choose(arg, backends, state)];
        return 0;
    case KEY_TRY:
        options->try_ms = (int)(command_line_number(arg, 0.1, 1000, state) * 1000);
        return 0;
    case KEY_LARGE:
        options->large_bytes = (size_t)(command_line_number(arg, 0, 65536, state) * 1048576);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': hosts are named by --hosts", arg);
        return 0;
    case ARGP_KEY_END:
        if (options->hosts.count == 0)
            argp_error(state, "name the hosts: --hosts or --hostfile");
        return 0;
    default:
        return parse_output_option(key, arg, state);
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse_option,
        .doc = "Find out over ssh what hosts have and who reaches whom, by which interface and how "
               "fast, and write a host file for tcrun and mlx.launch.\v"
               "The exit code is 0 when the hosts form a mesh or a ring, 1 when they do not or a "
               "host can't be reached, and 2 after other troubles.",
    };

    *options = (struct options){
        .ssh = "ssh", .form = HOSTS_DICTIONARY, .try_ms = TRY_MS, .large_bytes = LARGE_BYTES};
    argp_err_exit_status = EXIT_TROUBLE;
    options->env = calloc((size_t)argc + 1, sizeof *options->env);
    if (options->env == NULL || argp_parse(&argp, argc, argv, 0, NULL, options) != 0)
        exit(EXIT_TROUBLE);
}

void options_fini(struct options *options)
{
    hosts_fini(&options->hosts);
    free(options->env);
    options->env = NULL;
}
