/* main.c - tcrun starts a program as a group of ranks, on this host and on others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent.h"
#include "collect.h"
#include "describe.h"
#include "job.h"
#include "options.h"

/* "--agent=3000" alone: tcrun itself asks for it, on another host. */
static bool is_agent(int argc, char **argv, unsigned *beat_ms_out)
{
    static const char option[] = "--agent=";
    char *end;

    if (argc != 2 || strncmp(argv[1], option, sizeof option - 1) != 0)
        return false;
    *beat_ms_out = (unsigned)strtoul(argv[1] + sizeof option - 1, &end, 10);
    return end > argv[1] + sizeof option - 1 && *end == '\0';
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
    unsigned beat_ms;
    int exit_code;

    launch_fill_descriptors();
    if (is_agent(argc, argv, &beat_ms))
        return agent_run(beat_ms);
    options_parse(&options, argc, argv);
    if (options.cwd != NULL && chdir(options.cwd) != 0) {
        dprintf(STDERR_FILENO, "tcrun: cannot change to '%s': %s\n", options.cwd, strerror(errno));
        options_fini(&options);
        return options.trouble_exit;
    }
    if (options.prints_command) {
        exit_code = describe(&options) ? 0 : options.trouble_exit;
        options_fini(&options);
        return exit_code;
    }
    if (options.timeline != NULL && !collect_can_write(options.timeline)) {
        dprintf(STDERR_FILENO, "tcrun: cannot write the timeline to '%s': %s\n", options.timeline,
                strerror(errno));
        options_fini(&options);
        return options.trouble_exit;
    }
    launch_raise_limit(options.ranks, &inherited);
    take_signals(&inherited, &signals);

    exit_code = job_run(&options, &inherited, &signals);
    options_fini(&options);
    return exit_code;
}
