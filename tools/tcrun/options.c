/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "python.h"

/* A rank takes two processes and three descriptors of tcrun; more than this is a typing error. */
enum { RANKS_MAX = 4096, GRACE_SECONDS = 5, SECONDS_MAX = 1000000 };

/* Beats come each second; a host of which nothing is heard so long is taken for lost, and its ranks
 * end there at the same time. */
enum { BEAT_SECONDS = 3, CONNECT_SECONDS = 30 };

enum {
    KEY_ENV = 256,
    KEY_CWD,
    KEY_BIND,
    KEY_RENDEZVOUS,
    KEY_NO_PREFIX,
    KEY_TIMEOUT_KILL,
    KEY_KEEP_GOING,
    KEY_VERBOSE,
    KEY_KEY,
    KEY_ENCRYPT,
    KEY_HOSTS,
    KEY_HOSTFILE,
    KEY_REPEAT,
    KEY_CONNECTIONS,
    KEY_NCCL_PORT,
    KEY_PYTHON,
    KEY_PRINT_PYTHON,
    KEY_MPI_ARG,
    KEY_VERIFY,
    KEY_BACKEND,
    KEY_SSH,
    KEY_REMOTE,
    KEY_BEAT,
    KEY_CONNECT,
    KEY_INPUT,
    KEY_TIMELINE,
    KEY_PRINT,
    KEY_TROUBLE_EXIT
};

const char *argp_program_version = COMMAND_LINE_VERSION("tcrun");

static const struct argp_option argp_options[] = {
    {NULL, 0, NULL, 0, "Where:", 1},
    {"ranks", 'n', "N", 0, "Start N ranks (default: as many as the hosts have places for)", 0},
    {"hosts", KEY_HOSTS, "HOST[:N],...", 0, "Run the ranks on these hosts, N on each (default: 1)",
     0},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "Run the ranks on the hosts that FILE lists", 0},
    {"repeat-hosts", KEY_REPEAT, "N", 0,
     "Multiply the number of ranks on each host by N (default: 1)", 0},
    {"bind", KEY_BIND, "cores|none", 0,
     "Keep each rank of a host to an equal share of the cores that tcrun may use there (default: "
     "none)",
     0},
    {"cwd", KEY_CWD, "DIR", 0, "Run the ranks in DIR", 0},
    {"ssh", KEY_SSH, "COMMAND", 0,
     "Reach other hosts by COMMAND, which may include options (default: ssh)", 0},
    {"remote-tcrun", KEY_REMOTE, "PATH", 0,
     "Path of tcrun on other hosts (default: the same as here, or on their PATH)", 0},
    {NULL, 0, NULL, 0, "What the ranks are told:", 2},
    {"env", KEY_ENV, "NAME=VALUE", 0, "Set a variable in each rank's environment", 0},
    {"backend", KEY_BACKEND, "NAME", 0,
     "How the ranks are connected: any, ring, tcp, shm, rdma, gloo, jaccl, jaccl-ring or nccl "
     "(default: any)",
     0},
    {"rendezvous", KEY_RENDEZVOUS, "URL", 0,
     "Where the ranks meet, such as tcp://10.0.0.7:4100 (default: a "
     "free port on the host of rank 0)",
     0},
    {"key", KEY_KEY, "auto|FILE", 0,
     "Give the ranks a key: a new one for this job, or the first line of FILE", 0},
    {"encrypt", KEY_ENCRYPT, NULL, 0, "Encrypt what the ranks send to each other, by a key", 0},
    {"connections-per-ip", KEY_CONNECTIONS, "N", 0,
     "Connections between two ranks for each of their addresses (default: 1)", 0},
    {"starting-port", 'p', "PORT", 0,
     "First port for programs that use MLX or torch (default: 32323, or free ports where all "
     "ranks are on this host)",
     0},
    {"nccl-port", KEY_NCCL_PORT, "PORT", 0,
     "Where rank 0 of programs with MLX's nccl backend listens (default: the first port)", 0},
    {"python", KEY_PYTHON, "PATH", 0,
     "Run COMMAND, a script, by this (default: python3 for a file .py that can't be executed)", 0},
    {NULL, 0, NULL, 0, "Input and output:", 3},
    {"stdin", KEY_INPUT, "all|0|none", 0, "Which ranks read standard input (default: all)", 0},
    {"no-prefix", KEY_NO_PREFIX, NULL, 0, "Do not print the rank in front of each line", 0},
    {"timeline", KEY_TIMELINE, "FILE", 0,
     "Collect the traces of all ranks and write a timeline to FILE: a page if it ends in .html, "
     "else JSON",
     0},
    {"print-python", KEY_PRINT_PYTHON, NULL, 0, "Print which python runs scripts here, and exit",
     0},
    {"print-command", KEY_PRINT, NULL, 0, "Print what would be run, and run nothing", 0},
    {"verbose", KEY_VERBOSE, NULL, 0, "Report when and how ranks start and end", 0},
    {NULL, 0, NULL, 0, "How it ends:", 4},
    {"timeout-kill", KEY_TIMEOUT_KILL, "SECONDS", 0,
     "Time between SIGTERM and SIGKILL when ranks are stopped (default: 5, or 1 when a host is "
     "lost)",
     0},
    {"keep-going", KEY_KEEP_GOING, NULL, 0,
     "Let the others go on when a rank fails, as programs do that shrink their group; the job has "
     "succeeded if one of them does",
     0},
    {"heartbeat", KEY_BEAT, "SECONDS", 0,
     "Give up a host that has been silent for this long; 0: never (default: 3)", 0},
    {"connect-timeout", KEY_CONNECT, "SECONDS", 0,
     "Give up on a host that has not answered after this time (default: 30)", 0},
    {"mpi-arg", KEY_MPI_ARG, "ARG", OPTION_HIDDEN, NULL, 0},            /* of mlx.launch */
    {"no-verify-script", KEY_VERIFY, NULL, OPTION_HIDDEN, NULL, 0},     /* nothing is verified */
    {"trouble-exit", KEY_TROUBLE_EXIT, "CODE", OPTION_HIDDEN, NULL, 0}, /* of tcdoctor */
    {0},
};

/* A whole number from 1 to max; "what" is one. */
static unsigned parse_number(const char *arg, long max, const char *what, struct argp_state *state)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(arg, &end, 10);
    if (errno != 0 || end == arg || *end != '\0' || value < 1 || value > max)
        argp_error(state, "'%s' is not a %s from 1 to %ld", arg, what, max);
    return (unsigned)value;
}

static unsigned parse_seconds(const char *arg, struct argp_state *state)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(arg, &end);
    if (errno != 0 || end == arg || *end != '\0' || !(value >= 0 && value <= SECONDS_MAX))
        argp_error(state, "'%s' is not a number of seconds", arg);
    return (unsigned)(value * 1000);
}

static void add_env(struct options *options, char *arg, struct argp_state *state)
{
    static const char *const own[] = {ENV_RANK,         ENV_WORLD_SIZE, ENV_LOCAL_RANK,
                                      ENV_LOCAL_SIZE,   ENV_RENDEZVOUS, ENV_RENDEZVOUS_FD,
                                      ENV_RENDEZVOUS_UP};

    if (!hosts_is_setting(arg))
        argp_error(state, "'%s' is not NAME=VALUE", arg);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        size_t len = strlen(own[i]);

        if (strncmp(arg, own[i], len) == 0 && arg[len] == '=')
            argp_error(state, "%s is set by tcrun itself", own[i]);
    }
    options->env[options->env_count++] = arg;
}

static void parse_key(struct options *options, const char *arg, struct argp_state *state)
{
    bool is_made = strcmp(arg, "auto") == 0;
    const char *why = is_made ? key_make(options->key) : key_read(arg, options->key);

    if (why != NULL)
        argp_error(state, is_made ? "no key can be made ('%s'): %s" : "no key from '%s': %s", arg,
                   why);
}

static void parse_input(struct options *options, const char *arg, struct argp_state *state)
{
    if (strcmp(arg, "all") == 0)
        options->input = INPUT_ALL;
    else if (strcmp(arg, "0") == 0)
        options->input = INPUT_FIRST;
    else if (strcmp(arg, "none") == 0)
        options->input = INPUT_NONE;
    else
        argp_error(state, "'%s' is not one of all, 0 and none", arg);
}

static void parse_bind(struct options *options, const char *arg, struct argp_state *state)
{
    if (strcmp(arg, "cores") != 0 && strcmp(arg, "none") != 0)
        argp_error(state, "'%s' is not one of cores and none, which --bind knows", arg);
    options->bind = strcmp(arg, "cores") == 0 ? BIND_CORES : BIND_NONE;
}

/* Options about hosts. */
static error_t parse_host_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case KEY_HOSTS:
    case KEY_HOSTFILE:
        command_line_hosts(&options->hosts, arg, key == KEY_HOSTFILE, state);
        return 0;
    case KEY_REPEAT:
        options->repeat = parse_number(arg, RANKS_MAX, "number of ranks", state);
        return 0;
    case KEY_BIND:
        parse_bind(options, arg, state);
        return 0;
    case KEY_CONNECTIONS:
        options->connections = parse_number(arg, CONNECTIONS_MAX, "number of connections", state);
        return 0;
    case 'p':
        options->starting_port = parse_number(arg, 65535, "port", state);
        return 0;
    case KEY_NCCL_PORT:
        options->nccl_port = parse_number(arg, 65535, "port", state);
        return 0;
    case KEY_BACKEND:
        options->backend = arg;
        return 0;
    case KEY_SSH:
        options->ssh = arg;
        return 0;
    case KEY_REMOTE:
        options->remote_tcrun = arg;
        return 0;
    case KEY_BEAT:
        options->beat_ms = parse_seconds(arg, state);
        return 0;
    case KEY_CONNECT:
        options->connect_ms = parse_seconds(arg, state);
        return 0;
    case KEY_MPI_ARG:
        argp_error(state, "--mpi-arg is for mpirun, which starts no rank here");
        return 0;
    case KEY_VERIFY:
        return 0;
    case KEY_TROUBLE_EXIT:
        options->trouble_exit = (int)parse_number(arg, 125, "exit code", state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void finish(struct options *options, struct argp_state *state)
{
    char why[HOSTS_WHY_ROOM];
    const char *wrong;

    if (options->ranks == 0 && options->hosts.count == 0)
        argp_error(state, "the number of ranks is missing: -n N, or name hosts");
    if (options->command == NULL)
        argp_error(state, "the command to run is missing");
    if (!python_take(options))
        argp_failure(state, EXIT_TROUBLE, 0, "no memory left");
    wrong = options_settle(options, why);
    if (wrong != NULL)
        argp_error(state, "%s", wrong);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'n':
        if (strcmp(arg, "p") == 0 && state->next < state->argc) /* -np N, as mpirun has it */
            arg = state->argv[state->next++];
        options->ranks = parse_number(arg, RANKS_MAX, "number of ranks", state);
        return 0;
    case KEY_INPUT:
        parse_input(options, arg, state);
        return 0;
    case KEY_TIMELINE:
        options->timeline = arg;
        return 0;
    case KEY_PRINT:
        options->prints_command = true;
        return 0;
    case KEY_PYTHON:
        options->python = arg;
        return 0;
    case KEY_PRINT_PYTHON:
        exit(python_print(options) ? EXIT_SUCCESS : EXIT_NOT_FOUND);
    case KEY_ENV:
        add_env(options, arg, state);
        return 0;
    case KEY_CWD:
        options->cwd = arg;
        return 0;
    case KEY_RENDEZVOUS:
        if (strstr(arg, "://") == NULL)
            argp_error(state, "'%s' is not a URL such as tcp://10.0.0.7:4100", arg);
        options->rendezvous = arg;
        return 0;
    case KEY_KEY:
        parse_key(options, arg, state);
        return 0;
    case KEY_ENCRYPT:
        options->encrypts = true;
        return 0;
    case KEY_NO_PREFIX:
        options->has_prefix = false;
        return 0;
    case KEY_TIMEOUT_KILL:
        options->grace_ms = parse_seconds(arg, state);
        options->has_grace = true;
        return 0;
    case KEY_KEEP_GOING:
        options->keeps_going = true;
        return 0;
    case KEY_VERBOSE:
        options->is_verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        /* The command takes all that follows it, options too. */
        options->command = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        finish(options, state);
        return 0;
    default:
        return parse_host_option(key, arg, state);
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse_option,
        .args_doc = "[--] COMMAND [ARGUMENT...]",
        .doc =
            "Start COMMAND as a group of ranks on this host or on others, forward their output and "
            "end all of them when one fails.\v"
            "The exit code is that of the first rank that failed, 128 plus "
            "the number of the signal that ended it, 126 or 127 when COMMAND can't be run, 2 "
            "after a mistake in the options and 0 when all ranks succeeded.",
    };

    *options = (struct options){.has_prefix = true,
                                .repeat = 1,
                                .connections = 1,
                                .ssh = "ssh",
                                .trouble_exit = EXIT_TROUBLE,
                                .beat_ms = BEAT_SECONDS * 1000,
                                .connect_ms = CONNECT_SECONDS * 1000,
                                .grace_ms = GRACE_SECONDS * 1000};
    argp_err_exit_status = EXIT_USAGE;
    options->env = calloc((size_t)argc + 1, sizeof *options->env);
    if (options->env == NULL || argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, options) != 0)
        exit(EXIT_TROUBLE);
}

void options_fini(struct options *options)
{
    world_fini(&options->world);
    hosts_fini(&options->hosts);
    free(options->env);
    free(options->script);
    options->env = options->script = NULL;
    explicit_bzero(options->key, sizeof options->key);
}
