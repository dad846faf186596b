/* job.c - the life of a group of ranks: one loop that starts, watches and ends them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect.h"

/* What was the first to fail is asked for so long, where ranks are on several hosts. */
enum { HEARSAY_MS = 400 };

/* ---- What happens -------------------------------------------------------------------------- */

static void read_signals(struct job *job)
{
    struct signalfd_siginfo info;

    while (read(job->signals, &info, sizeof info) == (ssize_t)sizeof info)
        job_interrupt(job, (int)info.ssi_signo);
}

static void note_failure(struct failure *first, struct rank *rank, struct guard_message message)
{
    if (first->rank == NULL || message.when_ns < first->message.when_ns)
        *first = (struct failure){rank, message};
}

static void note_ended(struct job *job, struct rank *rank, struct guard_message message,
                       struct failure *first)
{
    bool is_lost = message.event == GUARD_LOST, has_failed = message.value != 0 || is_lost;
    bool is_told = job->options->is_verbose || (has_failed && job->options->keeps_going);

    rank->has_ended = true;
    job->running--;
    if (is_told && !is_lost && rank->pid != 0)
        job_tell_ended(job, rank, message.value);
    if (has_failed)
        note_failure(first, rank, message);
    else
        job->has_success = true;
    if (is_lost && job->options->keeps_going)
        job_tell_lost(job, rank->link);
}

/* The end of the guard's side.  A guard that was killed took its rank along: it is in the same
 * process group, and the rank dies with it. */
static void note_gone(struct job *job, struct rank *rank, struct failure *first)
{
    struct guard_message message = {.event = GUARD_ENDED, .when_ns = INT64_MAX};

    if (rank->link != NULL) {
        message.event = job->is_begun ? GUARD_LOST : GUARD_ENDED;
    } else {
        /* The rank's output can't outlive the group, and the unreaped guard holds its number. */
        kill(-rank->at.guard, SIGKILL);
        waitpid(rank->at.guard, &message.value, 0);
        output_expect_end(&job->output, (unsigned)(rank - job->ranks));
    }
    if (!rank->has_ended)
        note_ended(job, rank, message, first);
    close(rank->at.sock);
    rank->at.sock = -1;
    job->guarded--;
}

static void note_started(struct job *job, struct rank *rank, struct guard_message message)
{
    rank->pid = message.value;
    if (!job->options->is_verbose)
        return;
    output_say(&job->output, "rank %u (pid %d%s%s) started", (unsigned)(rank - job->ranks),
               (int)rank->pid, rank->link != NULL ? " on " : "",
               rank->link != NULL ? job->options->world.machines[rank->link->machine].name : "");
}

static void read_guard(struct job *job, struct rank *rank, struct failure *first)
{
    struct guard_message message;
    ssize_t n;

    while ((n = recv(rank->at.sock, &message, sizeof message, MSG_DONTWAIT)) > 0) {
        if (message.event == GUARD_STARTED)
            note_started(job, rank, message);
        else if ((message.event == GUARD_ENDED || message.event == GUARD_LOST) && !rank->has_ended)
            note_ended(job, rank, message, first);
        else
            note_failure(first, rank, message);
    }
    if (n == 0)
        note_gone(job, rank, first);
}

/* Ranks that have begun may go on without one, if that was asked for. */
static bool goes_on(const struct job *job)
{
    unsigned event = job->first.message.event;

    return job->options->keeps_going && job->is_begun &&
           (event == GUARD_ENDED || event == GUARD_LOST) && (job->running > 0 || job->has_success);
}

/* Of ranks on several hosts the first to fail may be the last to be heard of. */
static void judge(struct job *job, int64_t now_ms)
{
    if (job->first.rank == NULL || job->has_result || goes_on(job))
        return;
    if (job->judge_ms == INT64_MAX)
        job->judge_ms = job->link_count > 0 ? now_ms + HEARSAY_MS : now_ms;
    if (now_ms >= job->judge_ms || job->running == 0)
        job_fail(job, &job->first);
}

static void read_guards(struct job *job)
{
    for (unsigned i = 0; i < job->options->ranks; i++) {
        if (job->ranks[i].at.sock >= 0)
            read_guard(job, &job->ranks[i], &job->first);
    }
    judge(job, job_now_ms());
}

/* A reader that has gone ends the job; of any other error the user hears. */
static void check_output(struct job *job)
{
    int error = output_error(&job->output);

    if (error == 0 || job->has_result)
        return;
    if (error != EPIPE)
        output_say(&job->output, "cannot write the output of the ranks: %s", strerror(error));
    job_conclude(job, error == EPIPE ? EXIT_SIGNAL + SIGPIPE : job->options->trouble_exit);
    job_end(job, SIGTERM);
}

static void check_input(struct job *job)
{
    if (job->input.error == 0 || job->has_result)
        return;
    output_say(&job->output, "cannot keep the input for ranks that have yet to read it: %s",
               strerror(job->input.error));
    job_conclude(job, job->options->trouble_exit);
    job_end(job, SIGTERM);
}

/* ---- The loop ------------------------------------------------------------------------------ */

static int timeout_of(const struct job *job, bool has_moved, int64_t now_ms)
{
    int64_t due = job->deadline_ms;
    int64_t other = output_due_ms(&job->output);

    if (has_moved)
        return 0;
    if (other < due)
        due = other;
    if (!job->has_result && job->judge_ms < due)
        due = job->judge_ms;
    other = input_due_ms(&job->input, now_ms);
    if (other < due)
        due = other;
    if (due == INT64_MAX)
        return -1;
    if (due <= now_ms)
        return 0;
    return due - now_ms > 60000 ? 60000 : (int)(due - now_ms);
}

static void wait_for_events(struct job *job, bool has_moved)
{
    struct pollfd *fds = job->fds;
    size_t n = input_poll(&job->input, fds);

    fds[n++] = (struct pollfd){.fd = job->signals, .events = POLLIN};
    for (unsigned i = 0; i < job->link_count; i++)
        fds[n++] = (struct pollfd){.fd = job->links[i].control, .events = POLLIN};
    for (unsigned i = 0; i < job->options->ranks; i++) {
        if (job->ranks[i].at.sock >= 0)
            fds[n++] = (struct pollfd){.fd = job->ranks[i].at.sock, .events = POLLIN};
    }
    n += output_poll(&job->output, fds + n);
    if (poll(fds, (nfds_t)n, timeout_of(job, has_moved, job_now_ms())) >= 0)
        input_turn(&job->input, fds);
}

/* Relays that have traces to bring. */
static bool is_collecting(const struct job *job)
{
    for (unsigned i = 0; job->traces != NULL && i < job->link_count; i++)
        if (job->links[i].control >= 0)
            return true;
    return false;
}

static bool is_over(const struct job *job, int64_t now_ms)
{
    if (job->phase != JOB_DRAINING)
        return false;
    return (output_is_done(&job->output) && !is_collecting(job)) || now_ms >= job->deadline_ms ||
           job->interrupts > 1;
}

static void loop(struct job *job)
{
    job_begin(job);
    for (;;) {
        bool has_moved = output_turn(&job->output, job_now_ms());

        check_output(job);
        job_advance(job, job_now_ms());
        if (is_over(job, job_now_ms()))
            return;
        wait_for_events(job, has_moved);
        read_signals(job);
        job_hear_links(job);
        read_guards(job);
        check_input(job);
        job_begin(job);
    }
}

/* ---- Birth and death ----------------------------------------------------------------------- */

/* Returns 0 or an errno. */
static int open_job(struct job *job, const sigset_t *signals)
{
    unsigned ranks = job->options->ranks;
    int error;

    job->signals = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signals < 0)
        return errno;
    if (!output_init(&job->output, ranks, job->options->has_prefix))
        return ENOMEM;
    error = input_init(&job->input, ranks);
    if (error != 0)
        return error;
    if (job->options->timeline != NULL && (job->traces = collect_open()) == NULL)
        return errno;
    job->ranks = calloc(ranks, sizeof *job->ranks);
    job->fds = calloc(input_poll_max(&job->input) + 1 + job->options->world.machine_count +
                          (size_t)ranks + output_poll_max(&job->output),
                      sizeof *job->fds);
    if (job->ranks == NULL || job->fds == NULL)
        return ENOMEM;
    for (unsigned i = 0; i < ranks; i++)
        job->ranks[i].at = (struct launched){.sock = -1, .out = -1, .err = -1, .in = -1};
    return job_open_links(job);
}

static void close_job(struct job *job)
{
    output_fini(&job->output);
    input_fini(&job->input);
    rendezvous_close(&job->rendezvous);
    for (unsigned i = 0; i < job->link_count; i++)
        link_close(&job->links[i]);
    if (job->signals >= 0)
        close(job->signals);
    if (job->traces != NULL)
        collect_remove(job->traces);
    for (size_t i = 0; job->files[i] != NULL; i++)
        free(job->files[i]);
    processors_fini(&job->processors);
    free(job->traces);
    free(job->links);
    free(job->ranks);
    free(job->fds);
    free(job);
}

/* The timeline is made of what has been collected, also of a job that failed.  What it cannot be
 * made of stays, and the job has ended as it has. */
static void write_timeline(struct job *job)
{
    char why[160];
    const char *wrong;

    for (unsigned i = 0; i < job->link_count; i++)
        link_close(&job->links[i]);
    wrong = collect_write(job->traces, job->options->timeline, why, sizeof why);
    if (wrong == NULL)
        return;
    dprintf(STDERR_FILENO, "tcrun: no timeline in '%s': %s\n", job->options->timeline, wrong);
    if (collect_is_empty(job->traces))
        return;
    dprintf(STDERR_FILENO, "tcrun: the traces are kept in %s, for tcdump\n", job->traces);
    free(job->traces);
    job->traces = NULL;
}

int job_run(const struct options *options, const struct inherited *inherited,
            const sigset_t *signals)
{
    struct job *job = calloc(1, sizeof *job);
    int error = ENOMEM;
    int exit_code = options->trouble_exit;

    if (job != NULL) {
        job->options = options;
        job->inherited = inherited;
        job->signals = -1;
        job->deadline_ms = job->judge_ms = INT64_MAX;
        job->rendezvous = (struct rendezvous){.fd = -1, .url = options->rendezvous};
        error = open_job(job, signals);
    }
    if (error == 0) {
        loop(job);
        if (job->traces != NULL)
            write_timeline(job);
        exit_code = job->exit_code;
    } else {
        dprintf(STDERR_FILENO, "tcrun: cannot begin: %s\n", strerror(error));
    }
    if (job != NULL)
        close_job(job);
    return exit_code;
}
