/* options.h - what the command line says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_OPTIONS_H
#define TCRUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "hosts.h"
#include "key.h"
#include "world.h"

enum { CONNECTIONS_MAX = 8, STARTING_PORT = 32323 }; /* of tcdist; as mlx.launch */

/* Which processors the ranks of a host may use. */
enum bind_mode { BIND_NONE, BIND_CORES };

/* Which ranks read tcrun's standard input. */
enum input_mode { INPUT_ALL, INPUT_FIRST, INPUT_NONE };

struct options {
    unsigned ranks; /* 0: as many as the hosts take */
    struct hosts hosts;
    struct world world; /* which rank is where */
    unsigned repeat;
    enum bind_mode bind;
    unsigned connections;   /* for each address of a rank */
    unsigned starting_port; /* the first of those that programs other than tcdist's listen at */
    const char *backend;    /* NULL: any */
    unsigned nccl_port;     /* where rank 0 of MLX's nccl backend listens; 0: starting_port */
    const char *python;     /* what runs the command, which is a script; NULL: see python.h */
    const char *library_backend; /* the same as tcdist calls it; NULL: nothing is said */
    const char *ssh;             /* the command, in words */
    const char
        *remote_tcrun;   /* where tcrun is on other hosts; NULL: where it is here, or on PATH */
    unsigned beat_ms;    /* silence that means that a host is lost; 0: none does */
    unsigned connect_ms; /* for ssh to reach a host */
    enum input_mode input;
    const char *timeline; /* NULL: none */
    bool prints_command;
    char **env; /* owned; borrowed strings NAME=VALUE, env_count of them */
    size_t env_count;
    const char *cwd;        /* NULL: as it is */
    const char *rendezvous; /* NULL: tcrun makes one */
    unsigned grace_ms;      /* from the first signal to SIGKILL */
    bool has_grace;         /* it was asked for */
    bool keeps_going;       /* when a rank fails */
    bool has_prefix;
    bool is_verbose;
    char key[KEY_ROOM]; /* that ranks prove themselves by; "": what the environment has */
    bool encrypts;
    int trouble_exit; /* instead of EXIT_TROUBLE, for a program whose ranks mean something by it */
    char **command;   /* NULL at its end, as for exec */
    char **script;    /* owned: the command where python runs it; NULL: nothing does */
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
#define ENV_RENDEZVOUS_UP "TCDIST_RENDEZVOUS_UP"

/* Set where an option asks for it, over --env and what is inherited. */
#define ENV_KEY         "TCDIST_KEY"
#define ENV_ENCRYPTION  "TCDIST_ENCRYPTION"
#define ENV_CONNECTIONS "TCDIST_CONNECTIONS"
#define ENV_BACKEND     "TCDIST_BACKEND"
#define ENV_ADVERTISE   "TCDIST_ADVERTISE"

/* Ends the program after --help, --version and mistakes. */
void options_parse(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

/* ---- options_hosts.c ------------------------------------------------------------------------- */

/* Finds out where the ranks run and what they are told, once everything is parsed; NULL, or what is
 * wrong, in `why`. */
const char *options_settle(struct options *options, char why[HOSTS_WHY_ROOM]);

bool options_is_jaccl(const struct options *options);
/* Where torch's rank 0 listens: behind those of starting_port. */
unsigned options_master_port(const struct options *options);

#endif
