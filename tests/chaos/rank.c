/* rank.c - one rank of a group under fire: what it does, and what it says became of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "chaos/rank.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "chaos/lab.h"
#include "core/alloc.h"
#include "tcdist/tcdist.h"

/* A future is waited for in slices; whatever a slice takes longer is a delay of this machine's. */
enum { SLICE_MS = 20, HUNG_MS = 20000, CALLS = 4, COUNT_MAX = 200000, FDS_MAX = 256 };

struct state {
    const struct chaos_rank *rank;
    tc_context *context;
    tc_dist_ctx *group;
    float *data; /* CALLS times COUNT_MAX */
    tc_status_t first;
};

static double now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ---- Reports and orders ---------------------------------------------------------------------- */

static void say(const struct chaos_rank *rank, const struct chaos_report *report)
{
    if (write(rank->out, report, sizeof(*report)) != (ssize_t)sizeof(*report))
        _exit(3);
}

static void say_only(const struct chaos_rank *rank, enum chaos_said said)
{
    say(rank, &(struct chaos_report){.said = said});
}

/* The next order; `else_order` where none comes within a time. */
static int order(const struct chaos_rank *rank, int wait_ms, int else_order)
{
    struct pollfd polled = {.fd = rank->in, .events = POLLIN};
    unsigned char byte;

    if (poll(&polled, 1, wait_ms) <= 0)
        return else_order;
    return read(rank->in, &byte, 1) == 1 ? byte : ORDER_END;
}

/* ---- Harm ----------------------------------------------------------------------------------- */

static void harm(int signal)
{
    struct stat info;

    if (signal == CHAOS_EXIT)
        _exit(0);
    if (signal == CHAOS_MEMORY)
        tci_alloc_fail_at(1, 1);
    for (int fd = 3; signal == CHAOS_CLOSE && fd < FDS_MAX; fd++)
        if (fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode))
            close(fd);
}

/* ---- Futures -------------------------------------------------------------------------------- */

/* Waits, and says how it ended. */
static tc_status_t finish(struct state *state, const char *what, tc_future *future, double begin,
                          int timeout_ms)
{
    struct chaos_report report = {.said = SAID_SETTLED, .culprit = -1};
    double held_up = 0, now = now_ms();
    const tc_error *error;

    while (tc_future_wait(future, SLICE_MS) == TC_PENDING) {
        double before = now;

        now = now_ms();
        held_up += now - before > SLICE_MS ? now - before - SLICE_MS : 0;
        if (now - begin > timeout_ms + HUNG_MS + held_up) {
            report.said = SAID_HUNG;
            break;
        }
    }
    error = tc_future_error(future);
    report.status = tc_future_test(future);
    report.late_ms = now_ms() - begin - timeout_ms - held_up;
    (void)snprintf(report.what, sizeof(report.what), "%s", what);
    if (error != NULL) {
        report.culprit = error->rank;
        report.reason = tc_error_reason(error);
        (void)snprintf(report.text, sizeof(report.text), "%s", error->message);
    }
    if (report.status != TC_OK || report.said == SAID_HUNG)
        say(state->rank, &report);
    if (report.said == SAID_HUNG)
        _exit(4);
    if (state->first == TC_OK)
        state->first = (tc_status_t)report.status;
    tc_future_release(future);
    return (tc_status_t)report.status;
}

/* ---- What a rank does ------------------------------------------------------------------------ */

static bool form(struct state *state)
{
    const struct chaos_rank *rank = state->rank;
    tc_dist_options options;
    double begin = now_ms();
    tc_future *formed;

    tc_dist_options_default(&options);
    options.world_size = rank->size;
    options.rank = rank->rank;
    options.rendezvous_url = rank->url;
    options.timeout_ms = rank->timeout_ms;
    formed = tc_dist_init_async(state->context, &options, &state->group);
    return finish(state, "form", formed, begin, rank->timeout_ms) == TC_OK;
}

/* Several operations at once; whether rank 0 has been told to end goes along.  False: enough. */
static bool work_once(struct state *state, uint64_t *is_ending)
{
    static const size_t counts[CALLS] = {0, 100, 20000, COUNT_MAX};
    uint64_t end = state->rank->rank == 0 && order(state->rank, 0, 0) == ORDER_END, any = 0;
    tc_future *futures[CALLS];
    bool is_well = true;
    double begin = now_ms();

    futures[0] =
        tc_allreduce_async(state->group, 0, &end, &any, 1, TC_DTYPE_U64, TC_REDUCE_MAX, NULL);
    for (size_t c = 1; c < CALLS; c++) {
        float *data = state->data + c * COUNT_MAX;

        futures[c] = tc_allreduce_async(state->group, c, data, data, counts[c], TC_DTYPE_F32,
                                        TC_REDUCE_MAX, NULL);
    }
    for (size_t c = 0; c < CALLS; c++)
        is_well = finish(state, "allreduce", futures[c], begin, state->rank->timeout_ms) == TC_OK &&
                  is_well;
    *is_ending = any;
    return is_well && any == 0;
}

static void work(struct state *state)
{
    uint64_t is_ending = 0;

    while (work_once(state, &is_ending))
        ;
}

/* Nothing goes on while the fault strikes; later everyone comes together again. */
static void rest(struct state *state)
{
    double begin;

    (void)order(state->rank, -1, 0);
    for (uint64_t tag = 1; tag < 4; tag++) {
        begin = now_ms();
        if (finish(state, "barrier", tc_barrier_async(state->group, tag, NULL), begin,
                   state->rank->timeout_ms) != TC_OK)
            return;
    }
}

/* All but the others' last: rank `size - 1` comes a little later, so that closing takes a while. */
static void leave(struct state *state, bool is_late)
{
    struct timespec nap = {.tv_nsec = (state->rank->rank % 3) * 20000000};
    double begin;

    if (is_late)
        (void)nanosleep(&nap, NULL);
    begin = now_ms();
    (void)finish(state, "finalize", tc_dist_finalize_async(state->group), begin,
                 state->rank->timeout_ms);
}

void chaos_rank_run(const struct chaos_rank *rank)
{
    struct state state = {.rank = rank, .first = TC_OK};
    struct sigaction action = {.sa_handler = harm};
    bool is_closing = rank->moment == MOMENT_CLOSING;
    tc_config config;

    (void)sigaction(CHAOS_EXIT, &action, NULL);
    (void)sigaction(CHAOS_CLOSE, &action, NULL);
    (void)sigaction(CHAOS_MEMORY, &action, NULL);
    if (!lab_host_enter())
        _exit(2);
    say_only(rank, SAID_ENTERED);
    if (order(rank, -1, 0) != ORDER_GO)
        _exit(0);
    state.data = calloc((size_t)CALLS * COUNT_MAX, sizeof(*state.data));
    tc_config_default(&config);
    config.timeout_ms = rank->timeout_ms;
    config.log_level = "error";
    if (state.data == NULL || tc_init_config(&config, &state.context) != TC_OK)
        _exit(2);
    if (rank->moment == MOMENT_FORMING)
        say_only(rank, SAID_READY);
    if (form(&state)) {
        if (rank->moment != MOMENT_FORMING)
            say_only(rank, SAID_READY);
        if (rank->moment == MOMENT_BUSY || rank->moment == MOMENT_FORMING)
            work(&state);
        else if (rank->moment == MOMENT_IDLE)
            rest(&state);
        leave(&state, is_closing);
    }
    say_only(rank, SAID_DONE);
    _exit(0);
}
