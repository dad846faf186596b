/* options.c - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tcdist/version.h"

/* A rank takes two processes and three descriptors of tcrun; more than this is a typing error. */
enum { RANKS_MAX = 4096, GRACE_SECONDS = 5, GRACE_SECONDS_MAX = 1000000 };

enum {
    KEY_ENV = 256,
    KEY_CWD,
    KEY_RENDEZVOUS,
    KEY_NO_PREFIX,
    KEY_TIMEOUT_KILL,
    KEY_VERBOSE,
    KEY_KEY,
    KEY_ENCRYPT
};

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *argp_program_version =
    "tcrun (tcdist) " TEXT(TC_VERSION_MAJOR) "." TEXT(TC_VERSION_MINOR) "." TEXT(TC_VERSION_PATCH);

static const struct argp_option argp_options[] = {
    {"ranks", 'n', "N", 0, "Start N ranks", 0},
    {"env", KEY_ENV, "NAME=VALUE", 0, "Set a variable in each rank's environment", 0},
    {"cwd", KEY_CWD, "DIR", 0, "Run the ranks in DIR", 0},
    {"rendezvous", KEY_RENDEZVOUS, "URL", 0, "Let the ranks meet at URL", 0},
    {"key", KEY_KEY, "auto|FILE", 0,
     "Give the ranks a key that is made for this job, or the first line of FILE", 0},
    {"encrypt", KEY_ENCRYPT, NULL, 0, "Let the ranks encrypt what they send", 0},
    {"no-prefix", KEY_NO_PREFIX, NULL, 0, "Do not put the rank before each line", 0},
    {"timeout-kill", KEY_TIMEOUT_KILL, "SECONDS", 0,
     "Time between SIGTERM and SIGKILL when ranks are ended (5)", 0},
    {"verbose", KEY_VERBOSE, NULL, 0, "Say when ranks start and end", 0},
    {0},
};

static void parse_ranks(struct options *options, const char *arg, struct argp_state *state)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(arg, &end, 10);
    if (errno != 0 || end == arg || *end != '\0' || value < 1 || value > RANKS_MAX)
        argp_error(state, "'%s' is no number of ranks from 1 to %d", arg, RANKS_MAX);
    options->ranks = (unsigned)value;
}

static void parse_grace(struct options *options, const char *arg, struct argp_state *state)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(arg, &end);
    if (errno != 0 || end == arg || *end != '\0' || !(value >= 0 && value <= GRACE_SECONDS_MAX))
        argp_error(state, "'%s' is no number of seconds", arg);
    options->grace_ms = (unsigned)(value * 1000);
}

static void add_env(struct options *options, char *arg, struct argp_state *state)
{
    static const char *const own[] = {ENV_RANK,       ENV_WORLD_SIZE, ENV_LOCAL_RANK,
                                      ENV_LOCAL_SIZE, ENV_RENDEZVOUS, ENV_RENDEZVOUS_FD};
    const char *equals = strchr(arg, '=');

    if (equals == NULL || equals == arg)
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

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'n':
        parse_ranks(options, arg, state);
        return 0;
    case KEY_ENV:
        add_env(options, arg, state);
        return 0;
    case KEY_CWD:
        options->cwd = arg;
        return 0;
    case KEY_RENDEZVOUS:
        if (strstr(arg, "://") == NULL)
            argp_error(state, "'%s' is no URL such as tcp://10.0.0.7:4100", arg);
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
        parse_grace(options, arg, state);
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
        if (options->ranks == 0)
            argp_error(state, "the number of ranks is missing: -n N");
        if (options->command == NULL)
            argp_error(state, "the command to run is missing");
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
        .args_doc = "[--] COMMAND [ARGUMENT...]",
        .doc =
            "Start COMMAND as a group of ranks on this host, forward their output and end all of "
            "them when one fails.\vThe exit code is that of the first rank that failed, 128 plus "
            "the number of the signal that ended it, 126 or 127 when COMMAND can't be run, 2 "
            "after a mistake in the options and 0 when all ranks succeeded.",
    };

    *options = (struct options){.has_prefix = true, .grace_ms = GRACE_SECONDS * 1000};
    argp_err_exit_status = EXIT_USAGE;
    options->env = calloc((size_t)argc + 1, sizeof *options->env);
    if (options->env == NULL || argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, options) != 0)
        exit(EXIT_TROUBLE);
}

void options_fini(struct options *options)
{
    free(options->env);
    options->env = NULL;
    explicit_bzero(options->key, sizeof options->key);
}
