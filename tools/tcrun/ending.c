/* ending.c - how a job ends: the first cause is told, the ranks are asked, then killed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "job.h"

/* A guard that was told to kill needs milliseconds; one that does not answer is stopped. */
enum { GUARD_ANSWER_MS = 2000 };

/* Ranks that lose one of them know it within milliseconds, and each has an error to tell. */
enum { LEAVING_MS = 1000 };

/* The grace after a host is lost, unless one was asked for: with the silence that tells of it, all
 * ranks are gone in less than 5 s. */
enum { LOST_GRACE_MS = 1000 };

int64_t job_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void job_conclude(struct job *job, int exit_code)
{
    if (job->has_result)
        return;
    job->has_result = true;
    job->exit_code = exit_code;
}

static void enter(struct job *job, enum phase phase, int64_t timeout_ms)
{
    job->phase = phase;
    job->deadline_ms = timeout_ms == INT64_MAX ? INT64_MAX : job_now_ms() + timeout_ms;
}

static void shorten_draining(struct job *job)
{
    if (job->deadline_ms == INT64_MAX)
        enter(job, JOB_DRAINING, job->options->grace_ms);
}

void job_interrupt(struct job *job, int sig)
{
    if (job->ending_signal == 0) {
        output_say(&job->output, "SIG%s: ending all ranks", sigabbrev_np(sig));
        job->ending_signal = sig;
    }
    job_conclude(job, EXIT_SIGNAL + sig);
    if (sig == SIGINT)
        job->interrupts++;
    if (job->phase == JOB_DRAINING)
        shorten_draining(job);
    else if (job->interrupts > 1)
        job_kill(job);
    else
        job_end(job, sig);
}

void job_end(struct job *job, int sig)
{
    bool is_first = job->phase == JOB_RUNNING || job->phase == JOB_LEAVING;

    if (job->phase > JOB_ENDING)
        return;
    for (unsigned i = 0; i < job->options->ranks; i++) {
        if (job->ranks[i].at.sock >= 0)
            send(job->ranks[i].at.sock, &sig, sizeof sig, MSG_NOSIGNAL | MSG_DONTWAIT);
    }

    /* A signal that comes but once may be missed: a shell forgets one that arrives while it starts
     * a command, and background commands of scripts ignore SIGINT.  So SIGTERM follows. */
    if (sig == SIGTERM && job->phase == JOB_PASSING)
        enter(job, JOB_ENDING, job->options->grace_ms - job->options->grace_ms / 2);
    else if (sig == SIGTERM && is_first)
        enter(job, JOB_ENDING,
              job->has_lost_host && !job->options->has_grace ? LOST_GRACE_MS
                                                             : job->options->grace_ms);
    else if (is_first)
        enter(job, JOB_PASSING, job->options->grace_ms / 2);
}

void job_kill(struct job *job)
{
    if (job->phase >= JOB_KILLING)
        return;
    for (unsigned i = 0; i < job->options->ranks; i++) {
        if (job->ranks[i].at.sock >= 0)
            shutdown(job->ranks[i].at.sock, SHUT_WR);
    }
    enter(job, JOB_KILLING, GUARD_ANSWER_MS);
}

static void force(struct job *job)
{
    for (unsigned i = 0; i < job->options->ranks; i++) {
        if (job->ranks[i].at.sock >= 0 && job->ranks[i].link == NULL)
            kill(-job->ranks[i].at.guard, SIGKILL);
    }
    for (unsigned i = 0; i < job->link_count; i++)
        link_kill(&job->links[i]);
    enter(job, JOB_FORCING, INT64_MAX);
}

void job_advance(struct job *job, int64_t now_ms)
{
    bool is_late = now_ms >= job->deadline_ms;

    if (job->phase < JOB_DRAINING && job->guarded == 0 && (job->is_begun || job->has_result)) {
        /* A person or a supervisor who ended us does not wait for a reader that has gone to sleep;
         * in all other cases nothing is lost. */
        enter(job, JOB_DRAINING, job->ending_signal != 0 ? job->options->grace_ms : INT64_MAX);
        return;
    }
    if ((job->phase <= JOB_LEAVING && job->running == 0 && (job->is_begun || job->has_result)) ||
        (job->phase == JOB_ENDING && is_late))
        job_kill(job);
    else if ((job->phase == JOB_LEAVING || job->phase == JOB_PASSING) && is_late)
        job_end(job, SIGTERM);
    else if (job->phase == JOB_KILLING && is_late)
        force(job);
}

/* ---- Telling ------------------------------------------------------------------------------- */

static void tell_no_exec(struct job *job, int error)
{
    output_say(&job->output, "cannot run '%s': %s", job->options->command[0], strerror(error));
    if (job->options->trouble_exit != EXIT_TROUBLE)
        job_conclude(job, job->options->trouble_exit);
    job_conclude(job, error == ENOENT ? EXIT_NOT_FOUND : EXIT_NO_EXEC);
}

static const char *hint_for(int error)
{
    if (error == EAGAIN)
        return " (too many processes, see ulimit -u)";
    if (error == EMFILE)
        return " (too many for one process, see ulimit -n)";
    return "";
}

static void tell_no_start(struct job *job, unsigned rank, int error)
{
    output_say(&job->output, "cannot start rank %u of %u: %s%s", rank, job->options->ranks,
               strerror(error), hint_for(error));
    job_conclude(job, job->options->trouble_exit);
}

void job_tell_ended(struct job *job, const struct rank *rank, int status)
{
    unsigned number = (unsigned)(rank - job->ranks);
    const char *name = WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;
    char who[HOST_NAME_ROOM + 64];

    (void)snprintf(who, sizeof who, "rank %u (pid %d%s%s)", number, (int)rank->pid,
                   rank->link != NULL ? " on " : "",
                   rank->link != NULL ? job->options->world.machines[rank->link->machine].name
                                      : "");
    if (WIFSIGNALED(status))
        output_say(&job->output, "%s was killed by signal %d%s%s%s%s", who, WTERMSIG(status),
                   name != NULL ? " (SIG" : "", name != NULL ? name : "", name != NULL ? ")" : "",
                   WCOREDUMP(status) ? ", core dumped" : "");
    else if (WEXITSTATUS(status) != 0)
        output_say(&job->output, "%s exited with code %d", who, WEXITSTATUS(status));
    else
        output_say(&job->output, "%s ended", who);
}

static void tell_failed(struct job *job, const struct rank *rank, int status)
{
    /* With --verbose or --keep-going each end has been told; which one was the first has not. */
    if (job->options->is_verbose || job->options->keeps_going)
        output_say(&job->output, "rank %u was the first to fail", (unsigned)(rank - job->ranks));
    else
        job_tell_ended(job, rank, status);
    job_conclude(job, WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status));
}

void job_tell_lost(struct job *job, struct link *link)
{
    const char *why =
        link->lost[0] != '\0' ? link->lost : "the process that speaks with it is gone";
    const char *name = job->options->world.machines[link->machine].name;

    if (link->is_told)
        return;
    link->is_told = true;
    if (!job->is_begun)
        output_say(&job->output, "%s: %s", name, why);
    else if (link->rank_count == 1)
        output_say(&job->output, "%s is lost, with rank %u: %s", name, link->ranks[0], why);
    else
        output_say(&job->output, "%s is lost, with its %u ranks, the first of them rank %u: %s",
                   name, link->rank_count, link->ranks[0], why);
}

static void fail_lost(struct job *job, struct link *link)
{
    job_tell_lost(job, link);
    job->has_lost_host = true;
    job_conclude(job, job->options->trouble_exit);
}

void job_fail(struct job *job, const struct failure *failure)
{
    unsigned rank = (unsigned)(failure->rank - job->ranks);
    int value = failure->message.value;

    if (failure->message.event == GUARD_EXEC_FAILED)
        tell_no_exec(job, value);
    else if (failure->message.event == GUARD_FORK_FAILED)
        tell_no_start(job, rank, value);
    else if (failure->message.event == GUARD_LOST)
        fail_lost(job, failure->rank->link);
    else
        tell_failed(job, failure->rank, value);
    if (failure->message.event == GUARD_ENDED && job->phase == JOB_RUNNING)
        enter(job, JOB_LEAVING,
              job->options->grace_ms < LEAVING_MS ? job->options->grace_ms : LEAVING_MS);
    else
        job_end(job, SIGTERM);
}
