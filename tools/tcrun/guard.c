/* guard.c - the process between tcrun and one rank: nothing that the rank starts outlives it. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   tcrun ---- socket ---- guard ---- rank ---- whatever it starts
 *                          `-- process group of this rank --'
 *
 * A rank alone could be tied to tcrun by PR_SET_PDEATHSIG; its children could not.  So the guard is
 * the "subreaper" of all descendants: whoever loses its parent becomes the guard's child, also one
 * that left the process group (setsid, timeout(1)).  Killing all children until there are none ends
 * every generation.  The rank in turn dies with the guard.  While tcrun has not reaped the guard,
 * the number of the process group is taken, so a signal can't reach strangers. */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GUARD_SOCK = 3 };

void guard_report(int sock, enum guard_event event, int value)
{
    struct timespec now;
    struct guard_message message = {.event = event, .value = value};

    clock_gettime(CLOCK_MONOTONIC, &now);
    message.when_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    send(sock, &message, sizeof message, MSG_NOSIGNAL);
}

/* Sends a signal to the children, or only to those outside our process group; false: the list of
 * children is not to be had. */
static bool signal_children(int sig, bool also_in_group)
{
    FILE *list = fopen("/proc/thread-self/children", "re");
    int pid;

    if (list == NULL)
        return false;
    while (fscanf(list, "%d", &pid) == 1) { /* NOLINT(cert-err34-c): written by the kernel */
        if (also_in_group || getpgid(pid) != getpgrp())
            kill(pid, sig);
    }
    (void)fclose(list);
    return true;
}

/* Reaps who has ended, waiting for one with `flags` 0; false when no child is left. */
static bool reap_children(pid_t rank, int flags)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, flags)) > 0) {
        if (pid == rank)
            guard_report(GUARD_SOCK, GUARD_ENDED, status);
        if (flags == 0)
            return true;
    }
    return pid == 0;
}

_Noreturn static void kill_everything(pid_t rank)
{
    bool is_one_left = true;

    while (is_one_left) {
        /* Without the list the group is all that can be reached, and it includes us. */
        if (!signal_children(SIGKILL, true))
            kill(0, SIGKILL);
        is_one_left = reap_children(rank, 0);
    }
    _exit(0);
}

/* A stopped process acts on a signal only when it is continued. */
static void pass_signal_on(int sig)
{
    kill(0, sig);
    signal_children(sig, false);
    kill(0, SIGCONT);
    signal_children(SIGCONT, false);
}

_Noreturn static void watch(pid_t rank, int signals)
{
    struct pollfd fds[] = {{.fd = GUARD_SOCK, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    int sig;

    while (reap_children(rank, WNOHANG)) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents != 0 && read(signals, &info, sizeof info) < 0 && errno != EAGAIN)
            break;
        if (fds[0].revents == 0)
            continue;
        if (recv(GUARD_SOCK, &sig, sizeof sig, 0) != (ssize_t)sizeof sig)
            break;
        pass_signal_on(sig);
    }
    kill_everything(rank);
}

/* Lets go of everything that others may wait for the end of.  Closing comes first, so that there
 * is room for what is opened, even at the limit of open files. */
static void keep_only(int sock)
{
    dup2(sock, GUARD_SOCK);
    closefrom(GUARD_SOCK + 1);
    for (int fd = 0; fd < GUARD_SOCK; fd++) {
        close(fd);
        open("/dev/null", O_RDWR | O_CLOEXEC);
    }
}

_Noreturn void guard_run(int sock, void (*start)(void *arg), void *arg)
{
    pid_t guard = getpid();
    sigset_t all;
    pid_t rank;

    /* Only SIGKILL ends a guard: it outlives what the group gets. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "tcguard");
    prctl(PR_SET_CHILD_SUBREAPER, 1);

    rank = fork();
    if (rank < 0) {
        guard_report(sock, GUARD_FORK_FAILED, errno);
        _exit(1);
    }
    if (rank == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == guard)
            start(arg);
        _exit(127);
    }
    guard_report(sock, GUARD_STARTED, rank);

    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    keep_only(sock);
    watch(rank, signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
}
