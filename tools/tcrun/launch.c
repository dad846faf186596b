/* launch.c - starts one rank on this host, under its guard, with its pipes and environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guard.h"
#include "options.h"

/* Two ends of each connection, [0] for the launcher and [1] for the rank; all close-on-exec. */
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

static void set_environment(const struct launch *launch)
{
    char text[16];

    for (char *const *at = launch->env; *at != NULL; at++)
        putenv(*at);
    for (char *const *at = launch->more_env; at != NULL && *at != NULL; at++)
        putenv(*at);
    unsetenv(ENV_RENDEZVOUS_FD);
    if (launch->listener >= 0) {
        (void)snprintf(text, sizeof text, "%d", launch->listener);
        setenv(ENV_RENDEZVOUS_FD, text, 1);
    }
}

/* Puts the rank's ends in place; false: errno says why. */
static bool set_descriptors(const struct launch *launch, const struct ends *ends)
{
    int in = STDIN_FILENO;

    if (launch->input == LAUNCH_NO_INPUT)
        in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    else if (launch->input == LAUNCH_PIPE)
        in = ends->in[1];
    if (in < 0 || (in != STDIN_FILENO && dup2(in, STDIN_FILENO) < 0))
        return false;
    if (dup2(ends->out[1], STDOUT_FILENO) < 0 || dup2(ends->err[1], STDERR_FILENO) < 0)
        return false;
    return launch->listener < 0 || fcntl(launch->listener, F_SETFD, 0) == 0;
}

/* A rank that can't be bound is slower, and right. */
static void bind_to_share(const struct launch *launch)
{
    int error = processors_bind(launch->processors, launch->share);

    if (error != 0)
        dprintf(STDERR_FILENO, "tcrun: this rank is not bound to its processors: %s\n",
                strerror(error));
}

/* Runs in the process that becomes the rank; returns only when it can't. */
static void start_rank(void *arg)
{
    const struct start *start = arg;
    const struct launch *launch = start->launch;
    const struct inherited *inherited = launch->inherited;

    set_environment(launch);
    if (set_descriptors(launch, start->ends)) {
        if (launch->processors != NULL)
            bind_to_share(launch);
        setrlimit(RLIMIT_NOFILE, &inherited->files);
        sigaction(SIGPIPE, &inherited->sigpipe, NULL);
        sigaction(SIGCHLD, &inherited->sigchld, NULL);
        sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
        execvp(launch->command[0], launch->command);
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

int launch_pipe(int pair[2], bool is_input)
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
    if (launch_pipe(ends->out, false) != 0 || launch_pipe(ends->err, false) != 0)
        return -1;
    return has_input ? launch_pipe(ends->in, true) : 0;
}

int launch_rank(const struct launch *launch, struct launched *launched_out)
{
    struct ends ends = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct start start = {launch, &ends};
    pid_t guard;
    int error;

    if (open_ends(&ends, launch->input == LAUNCH_PIPE) != 0)
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

/* ---- For all who start ranks ----------------------------------------------------------------- */

void launch_fill_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    for (fd = 0; fd <= STDERR_FILENO; fd++)
        fcntl(fd, F_SETFD, 0);
}

/* Four descriptors a rank; the soft limit is often 1024, the hard one far above. */
void launch_raise_limit(unsigned ranks, struct inherited *inherited)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)ranks * 4 + 64;

    getrlimit(RLIMIT_NOFILE, &inherited->files);
    limit = inherited->files;
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

char *launch_file(const char *variable, const char *text, int *fd_out)
{
    int fd = memfd_create(variable, MFD_CLOEXEC);
    size_t len = strlen(text);
    char *setting = NULL;

    while (fd >= 0 && len > 0) {
        ssize_t n = write(fd, text, len);

        if (n <= 0)
            break;
        text += n;
        len -= (size_t)n;
    }
    if (fd < 0 || len > 0 ||
        asprintf(&setting, "%s=/proc/%d/fd/%d", variable, (int)getpid(), fd) < 0) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    *fd_out = fd;
    return setting;
}
