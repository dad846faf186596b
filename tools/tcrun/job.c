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
    rank->has_ended = true;
    job->running--;
    if (message.value != 0)
        note_failure(first, rank, message);
    else if (job->options->is_verbose)
        output_say(&job->output, "rank %u (pid %d) ended", (unsigned)(rank - job->ranks),
                   (int)rank->pid);
}

/* The end of the guard's side.  A guard that was killed took its rank along: it is in the same
 * process group, and the rank dies with it. */
static void note_gone(struct job *job, struct rank *rank, struct failure *first)
{
    struct guard_message message = {.event = GUARD_ENDED, .when_ns = INT64_MAX};

    /* The rank's output can't outlive the group, and the unreaped guard holds its number. */
    kill(-rank->at.guard, SIGKILL);
    waitpid(rank->at.guard, &message.value, 0);
    if (!rank->has_ended)
        note_ended(job, rank, message, first);
    close(rank->at.sock);
    rank->at.sock = -1;
    job->guarded--;
    output_expect_end(&job->output, (unsigned)(rank - job->ranks));
}

static void read_guard(struct job *job, struct rank *rank, struct failure *first)
{
    struct guard_message message;
    ssize_t n;

    while ((n = recv(rank->at.sock, &message, sizeof message, MSG_DONTWAIT)) > 0) {
        if (message.event == GUARD_STARTED) {
            rank->pid = message.value;
            if (job->options->is_verbose)
                output_say(&job->output, "rank %u (pid %d) started", (unsigned)(rank - job->ranks),
                           (int)rank->pid);
        } else if (message.event == GUARD_ENDED) {
            note_ended(job, rank, message, first);
        } else {
            note_failure(first, rank, message);
        }
    }
    if (n == 0)
        note_gone(job, rank, first);
}

static void read_guards(struct job *job)
{
    struct failure first = {0};

    for (unsigned i = 0; i < job->started; i++) {
        if (job->ranks[i].at.sock >= 0)
            read_guard(job, &job->ranks[i], &first);
    }
    if (first.rank != NULL && !job->has_result)
        job_fail(job, &first);
}

/* A reader that has gone ends the job; of any other error the user hears. */
static void check_output(struct job *job)
{
    int error = output_error(&job->output);

    if (error == 0 || job->has_result)
        return;
    if (error != EPIPE)
        output_say(&job->output, "cannot write the output of the ranks: %s", strerror(error));
    job_conclude(job, error == EPIPE ? EXIT_SIGNAL + SIGPIPE : EXIT_TROUBLE);
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
    size_t n = 0;
    size_t input_count;

    input_count = input_poll(&job->input, fds);
    n += input_count;
    fds[n++] = (struct pollfd){.fd = job->signals, .events = POLLIN};
    for (unsigned i = 0; i < job->started; i++) {
        if (job->ranks[i].at.sock >= 0)
            fds[n++] = (struct pollfd){.fd = job->ranks[i].at.sock, .events = POLLIN};
    }
    n += output_poll(&job->output, fds + n);
    if (poll(fds, (nfds_t)n, timeout_of(job, has_moved, job_now_ms())) >= 0)
        input_turn(&job->input, fds, input_count);
}

static bool is_over(const struct job *job, int64_t now_ms)
{
    if (job->phase != JOB_DRAINING)
        return false;
    return output_is_done(&job->output) || now_ms >= job->deadline_ms || job->interrupts > 1;
}

static void loop(struct job *job)
{
    for (;;) {
        bool has_moved = output_turn(&job->output, job_now_ms());

        check_output(job);
        job_advance(job, job_now_ms());
        if (is_over(job, job_now_ms()))
            return;
        wait_for_events(job, has_moved);
        read_signals(job);
        read_guards(job);
    }
}

/* ---- Birth and death ----------------------------------------------------------------------- */

static void start_ranks(struct job *job)
{
    struct launch launch = {
        .options = job->options, .rendezvous = &job->rendezvous, .inherited = job->inherited};

    for (unsigned i = 0; i < job->options->ranks; i++) {
        struct rank *rank = &job->ranks[i];
        int error;

        launch.rank = i;
        error = launch_rank(&launch, &rank->at);
        if (error != 0) {
            struct guard_message message = {.event = GUARD_FORK_FAILED, .value = error};

            rank->at.sock = -1;
            job_fail(job, &(struct failure){rank, message});
            return;
        }
        job->started++;
        job->running++;
        job->guarded++;
        if (i == 0)
            input_init(&job->input, rank->at.in);
        output_attach(&job->output, i, OUTPUT_STDOUT, rank->at.out);
        output_attach(&job->output, i, OUTPUT_STDERR, rank->at.err);
    }

    /* Rank 0 has it; when rank 0 is gone nobody shall wait at a socket that no one answers. */
    rendezvous_close(&job->rendezvous);
}

/* Returns 0 or an errno. */
static int open_job(struct job *job, const sigset_t *signals)
{
    unsigned ranks = job->options->ranks;
    int error = rendezvous_open(&job->rendezvous, job->options->rendezvous);

    if (error != 0)
        return error;
    job->signals = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signals < 0)
        return errno;
    if (!output_init(&job->output, ranks, job->options->has_prefix))
        return ENOMEM;
    job->ranks = calloc(ranks, sizeof *job->ranks);
    job->fds = calloc(INPUT_POLL_MAX + 1 + (size_t)ranks + output_poll_max(&job->output),
                      sizeof *job->fds);
    return job->ranks == NULL || job->fds == NULL ? ENOMEM : 0;
}

static void close_job(struct job *job)
{
    output_fini(&job->output);
    input_fini(&job->input);
    rendezvous_close(&job->rendezvous);
    if (job->signals >= 0)
        close(job->signals);
    free(job->ranks);
    free(job->fds);
    free(job);
}

int job_run(const struct options *options, const struct inherited *inherited,
            const sigset_t *signals)
{
    struct job *job = calloc(1, sizeof *job);
    int error = ENOMEM;
    int exit_code = EXIT_TROUBLE;

    if (job != NULL) {
        job->options = options;
        job->inherited = inherited;
        job->signals = -1;
        job->deadline_ms = INT64_MAX;
        input_init(&job->input, -1);
        error = open_job(job, signals);
    }
    if (error == 0) {
        if (options->is_verbose)
            output_say(&job->output, "%u ranks meet at %s", options->ranks, job->rendezvous.url);
        start_ranks(job);
        loop(job);
        exit_code = job->exit_code;
    } else {
        dprintf(STDERR_FILENO, "tcrun: cannot begin: %s\n", strerror(error));
    }
    if (job != NULL)
        close_job(job);
    return exit_code;
}
