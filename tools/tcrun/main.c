/* main.c - tcrun starts a program as a group of ranks on this host. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "job.h"
#include "options.h"

/* Without this a pipe of a rank could get the number 0, 1 or 2. */
static void fill_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    for (fd = 0; fd <= STDERR_FILENO; fd++)
        fcntl(fd, F_SETFD, 0);
}

/* Three descriptors a rank; the soft limit is often 1024, the hard one far above. */
static void raise_file_limit(const struct options *options, struct inherited *inherited)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)options->ranks * 3 + 64;

    getrlimit(RLIMIT_NOFILE, &inherited->files);
    limit = inherited->files;
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Takes the signals over that end tcrun.  One that the caller ignores (nohup, a background job of
 * a script) stays ignored. */
static void take_signals(struct inherited *inherited, sigset_t *signals)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction initial = {.sa_handler = SIG_DFL};

    sigaction(SIGPIPE, &ignore, &inherited->sigpipe);
    sigaction(SIGCHLD, &initial, &inherited->sigchld);
    sigemptyset(signals);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        struct sigaction action;

        sigaction(ending[i], NULL, &action);
        if (action.sa_handler != SIG_IGN)
            sigaddset(signals, ending[i]);
    }
    sigprocmask(SIG_BLOCK, signals, &inherited->mask);
}

int main(int argc, char **argv)
{
    struct options options;
    struct inherited inherited = {0};
    sigset_t signals;
    int exit_code;

    fill_standard_descriptors();
    options_parse(&options, argc, argv);
    if (options.cwd != NULL && chdir(options.cwd) != 0) {
        dprintf(STDERR_FILENO, "tcrun: cannot change to '%s': %s\n", options.cwd, strerror(errno));
        options_fini(&options);
        return EXIT_TROUBLE;
    }
    inherited.has_terminal = isatty(STDIN_FILENO);
    raise_file_limit(&options, &inherited);
    take_signals(&inherited, &signals);

    exit_code = job_run(&options, &inherited, &signals);
    options_fini(&options);
    return exit_code;
}
