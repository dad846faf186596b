/* launch.c - starts one rank on this host, under its guard, with its pipes and environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guard.h"

/* Two ends of each connection, [0] for tcrun and [1] for the rank; all close-on-exec. */
struct ends {
    int sock[2];
    int out[2];
    int err[2];
    int in[2];
};

struct start {
    const struct launch *launch;
    const struct ends *ends;
};

static void set_number(const char *name, unsigned value)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

static void set_environment(const struct launch *launch)
{
    const struct options *options = launch->options;

    for (size_t i = 0; i < options->env_count; i++)
        putenv(options->env[i]);

    /* All ranks are on this host, so local and global places are the same. */
    set_number(ENV_RANK, launch->rank);
    set_number(ENV_WORLD_SIZE, options->ranks);
    set_number(ENV_LOCAL_RANK, launch->rank);
    set_number(ENV_LOCAL_SIZE, options->ranks);
    setenv(ENV_RENDEZVOUS, launch->rendezvous->url, 1);
    if (options->key[0] != '\0')
        setenv(ENV_KEY, options->key, 1);
    if (options->encrypts)
        setenv(ENV_ENCRYPTION, "on", 1);
    unsetenv(ENV_RENDEZVOUS_FD);
    if (launch->rank == 0 && launch->rendezvous->fd >= 0)
        set_number(ENV_RENDEZVOUS_FD, (unsigned)launch->rendezvous->fd);
}

/* Puts the rank's ends in place; false: errno says why. */
static bool set_descriptors(const struct launch *launch, const struct ends *ends)
{
    int in = ends->in[1];

    if (launch->rank > 0)
        in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    else if (in < 0)
        in = STDIN_FILENO;
    if (in < 0 || (in != STDIN_FILENO && dup2(in, STDIN_FILENO) < 0))
        return false;
    if (dup2(ends->out[1], STDOUT_FILENO) < 0 || dup2(ends->err[1], STDERR_FILENO) < 0)
        return false;
    if (launch->rank == 0 && launch->rendezvous->fd >= 0)
        return fcntl(launch->rendezvous->fd, F_SETFD, 0) == 0;
    return true;
}

/* Runs in the process that becomes the rank; returns only when it can't. */
static void start_rank(void *arg)
{
    const struct start *start = arg;
    const struct launch *launch = start->launch;
    const struct inherited *inherited = launch->inherited;

    set_environment(launch);
    if (set_descriptors(launch, start->ends)) {
        setrlimit(RLIMIT_NOFILE, &inherited->files);
        sigaction(SIGPIPE, &inherited->sigpipe, NULL);
        sigaction(SIGCHLD, &inherited->sigchld, NULL);
        sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
        execvp(launch->options->command[0], launch->options->command);
    }
    guard_report(start->ends->sock[1], GUARD_EXEC_FAILED, errno);
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
        pair[i] = -1;
    }
}

static void close_ends(struct ends *ends)
{
    close_pair(ends->sock);
    close_pair(ends->out);
    close_pair(ends->err);
    close_pair(ends->in);
}

/* A pipe whose end of tcrun, pair[0], does not block. */
static int open_pipe(int pair[2], bool is_input)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return -1;
    pair[0] = fds[is_input ? 1 : 0];
    pair[1] = fds[is_input ? 0 : 1];
    return fcntl(pair[0], F_SETFL, O_NONBLOCK);
}

static int open_ends(struct ends *ends, bool has_input)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends->sock) != 0)
        return -1;
    if (open_pipe(ends->out, false) != 0 || open_pipe(ends->err, false) != 0)
        return -1;
    return has_input ? open_pipe(ends->in, true) : 0;
}

int launch_rank(const struct launch *launch, struct launched *launched_out)
{
    struct ends ends = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct start start = {launch, &ends};
    bool has_input = launch->rank == 0 && launch->inherited->has_terminal;
    pid_t guard;
    int error;

    if (open_ends(&ends, has_input) != 0)
        goto fail;
    guard = fork();
    if (guard < 0)
        goto fail;
    if (guard == 0)
        guard_run(ends.sock[1], start_rank, &start);

    /* Here and in the guard: whoever comes first, the group is there when it is needed. */
    setpgid(guard, guard);
    *launched_out = (struct launched){guard, ends.sock[0], ends.out[0], ends.err[0], ends.in[0]};
    close(ends.sock[1]);
    close(ends.out[1]);
    close(ends.err[1]);
    if (ends.in[1] >= 0)
        close(ends.in[1]);
    return 0;

fail:
    error = errno;
    close_ends(&ends);
    return error;
}
