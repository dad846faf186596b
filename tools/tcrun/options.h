/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_OPTIONS_H
#define TCRUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "key.h"

struct options {
    unsigned ranks;
    char **env; /* owned; borrowed strings NAME=VALUE, env_count of them */
    size_t env_count;
    const char *cwd;        /* NULL: as it is */
    const char *rendezvous; /* NULL: tcrun makes one */
    unsigned grace_ms;      /* from the first signal to SIGKILL */
    bool has_prefix;
    bool is_verbose;
    char key[KEY_ROOM]; /* that ranks prove themselves by; "": what the environment has */
    bool encrypts;
    char **command; /* NULL at its end, as for exec */
};

/* Exit codes of tcrun itself; other codes are those of a rank. */
enum {
    EXIT_TROUBLE = 1, /* tcrun could not do its work */
    EXIT_USAGE = 2,
    EXIT_NO_EXEC = 126, /* the command can't be executed */
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128 /* plus the number of a signal */
};

/* The environment that tells a rank its place; --env may not set these. */
#define ENV_RANK          "TCDIST_RANK"
#define ENV_WORLD_SIZE    "TCDIST_WORLD_SIZE"
#define ENV_LOCAL_RANK    "TCDIST_LOCAL_RANK"
#define ENV_LOCAL_SIZE    "TCDIST_LOCAL_SIZE"
#define ENV_RENDEZVOUS    "TCDIST_RENDEZVOUS"
#define ENV_RENDEZVOUS_FD "TCDIST_RENDEZVOUS_FD"

/* Set where --key and --encrypt are given, over --env and what is inherited. */
#define ENV_KEY        "TCDIST_KEY"
#define ENV_ENCRYPTION "TCDIST_ENCRYPTION"

/* Ends the program after --help, --version and mistakes. */
void options_parse(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

#endif
