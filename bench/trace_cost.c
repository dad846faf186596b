/* trace_cost.c - what the trace, which is always on, costs an operation. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks in this process all-reduce over loopback, with threads of their own and turned by this
 * one.  Runs with and without the trace follow each other in pairs, so that what the machine does
 * meanwhile meets both; a line has the ratio of the two medians.  Operations come eight at a time.
 * Lines of the thread's loop say what an application waits; those of the manual loop what the
 * processor does for both ranks, with nothing to wait for: the most that the trace can weigh.
 * A folder as the argument keeps the trace in files there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/context.h"
#include "loopback.h"
#include "tcdist/tcdist.h"

enum { RANKS = 2, PAIRS = 101, TAGS = 8 };

#define TARGET 0.01

struct world {
    tc_context *contexts[RANKS];
    tc_dist_ctx *groups[RANKS];
    float *data[RANKS][TAGS];
    int mode;
};

static void give_up(const char *doing)
{
    const tc_error *error = tc_last_error();

    fprintf(stderr, "trace_cost: %s: %s\n", doing, error == NULL ? "failed" : error->message);
    exit(2);
}

/* Until it is settled; in manual mode both loops are this thread's. */
static void await(struct world *world, tc_future *future)
{
    while (world->mode == TC_LOOP_MANUAL && tc_future_test(future) == TC_PENDING)
        for (int r = 0; r < RANKS; r++)
            (void)tc_poll(world->contexts[r], 0);
    if (tc_future_wait(future, -1) != TC_OK)
        give_up("an operation");
    tc_future_release(future);
}

static void form(struct world *world, int mode, const char *dir, size_t bytes)
{
    tc_future *futures[RANKS];
    tc_dist_options options;
    tc_config config;
    char url[64];
    int fd = listen_on_loopback(RANKS, url, sizeof(url));

    if (fd < 0)
        give_up("listening on loopback");
    tc_config_default(&config);
    config.loop_mode = world->mode = mode;
    config.trace_dir = dir;
    for (int r = 0; r < RANKS; r++) {
        if (tc_init_config(&config, &world->contexts[r]) != TC_OK)
            give_up("a context");
        tc_dist_options_default(&options);
        options.world_size = RANKS;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(world->contexts[r], &options, &world->groups[r]);
        for (int t = 0; t < TAGS; t++)
            world->data[r][t] = calloc(1, bytes);
    }
    for (int r = 0; r < RANKS; r++)
        await(world, futures[r]);
}

static void part(struct world *world)
{
    tc_future *futures[RANKS];

    for (int r = 0; r < RANKS; r++)
        futures[r] = tc_dist_finalize_async(world->groups[r]);
    for (int r = 0; r < RANKS; r++)
        await(world, futures[r]);
    for (int r = 0; r < RANKS; r++) {
        tc_shutdown(world->contexts[r]);
        for (int t = 0; t < TAGS; t++)
            free(world->data[r][t]);
    }
}

/* With a thread a rank what counts is time; without, the time of the processor: what else runs on
 * the machine leaves that alone. */
static double clock_ns(int mode)
{
    struct timespec now;

    clock_gettime(mode == TC_LOOP_MANUAL ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Nanoseconds of some rounds of all-reduces, several in flight. */
static double run(struct world *world, size_t bytes, int rounds, bool is_paused)
{
    tc_future *futures[RANKS][TAGS];
    double begin;

    for (int r = 0; r < RANKS; r++)
        atomic_store(&world->contexts[r]->trace->is_paused, is_paused);
    begin = clock_ns(world->mode);
    for (int i = 0; i < rounds; i++) {
        for (int t = 0; t < TAGS; t++)
            for (int r = 0; r < RANKS; r++)
                futures[r][t] = tc_allreduce_async(world->groups[r], (uint64_t)t, world->data[r][t],
                                                   world->data[r][t], bytes / sizeof(float),
                                                   TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        for (int t = 0; t < TAGS; t++)
            for (int r = 0; r < RANKS; r++)
                await(world, futures[r][t]);
    }
    return clock_ns(world->mode) - begin;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(double *values)
{
    qsort(values, PAIRS, sizeof(values[0]), compare);
    return values[PAIRS / 2];
}

/* What an operation takes with the trace more than without. */
static void measure(int mode, const char *dir, size_t bytes, int rounds)
{
    static double with[PAIRS], without[PAIRS];
    struct world world;
    double each = (double)rounds * TAGS, base, cost;

    form(&world, mode, dir, bytes);
    (void)run(&world, bytes, rounds, false);
    for (int p = 0; p < PAIRS; p++) {
        /* Either one goes first in turn. */
        double first = run(&world, bytes, rounds, p % 2 == 0);
        double second = run(&world, bytes, rounds, p % 2 != 0);

        without[p] = p % 2 == 0 ? first : second;
        with[p] = p % 2 == 0 ? second : first;
    }
    part(&world);
    base = median(without);
    cost = median(with) / base - 1;
    printf("%-7s %10zu %14.2f %14.0f %9.2f %%  %s\n", mode == TC_LOOP_THREAD ? "thread" : "manual",
           bytes, base / 1e3 / each, cost * base / each, 100 * cost,
           mode == TC_LOOP_MANUAL ? ""
           : cost <= TARGET       ? "met"
                                  : "missed");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct {
        size_t bytes;
        int rounds;
    } sizes[] = {{8, 50}, {4096, 50}, {65536, 10}, {1 << 20, 2}};
    static const int modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL};
    const char *dir = argc > 1 ? argv[1] : NULL;

    printf("%-7s %10s %14s %14s %11s  %s\n", "loop", "bytes", "us without", "ns more", "cost",
           "target: 1 %");
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            measure(modes[m], dir, sizes[s].bytes, sizes[s].rounds);
    return 0;
}
