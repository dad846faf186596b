/* trace_cost.c - what the trace, which is always on, costs an operation. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks in this process all-reduce over loopback, with threads of their own and turned by this
 * one.  Runs with and without the trace follow each other in pairs, so that what the machine does
 * meanwhile meets both; a line has the median of what they differ by.  Operations come eight at a
 * time, in floods: their beginnings, which are kept whole, are over before anything is measured.
 * Lines of the thread's loop say what an application waits; those of the manual loop what the
 * processor does for both ranks, with nothing to wait for: the most that the trace can weigh.
 * A folder as the argument keeps the trace in files there.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/context.h"
#include "loopback.h"
#include "tcdist/tcdist.h"

enum { RANKS = 2, PAIRS_MAX = 1001, TAGS = 8, WARM_UP = 8 };

#define TARGET 0.01

struct plan {
    int mode;
    size_t bytes;
    int rounds;
    size_t pairs;
};

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

/* All-reduces, several in flight. */
static void go_round(struct world *world, size_t bytes)
{
    tc_future *futures[RANKS][TAGS];

    for (int t = 0; t < TAGS; t++)
        for (int r = 0; r < RANKS; r++)
            futures[r][t] = tc_allreduce_async(world->groups[r], (uint64_t)t, world->data[r][t],
                                               world->data[r][t], bytes / sizeof(float),
                                               TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    for (int t = 0; t < TAGS; t++)
        for (int r = 0; r < RANKS; r++)
            await(world, futures[r][t]);
}

/* Nanoseconds of some rounds.  Before them goes one that is not measured: in it the trace finds out
 * that it is not paused any more, and keeps all. */
static double run(struct world *world, size_t bytes, int rounds, bool is_paused)
{
    double begin;

    for (int r = 0; r < RANKS; r++)
        atomic_store(&world->contexts[r]->trace->is_paused, is_paused);
    go_round(world, bytes);
    begin = clock_ns(world->mode);
    for (int i = 0; i < rounds; i++)
        go_round(world, bytes);
    return clock_ns(world->mode) - begin;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The one at a share of the way from the least to the most. */
static double quantile(double *values, size_t count, double share)
{
    qsort(values, count, sizeof(values[0]), compare);
    return values[(size_t)(share * (double)(count - 1) + 0.5)];
}

/* What an operation takes with the trace more than without, as a share: the median of the pairs,
 * and how far off it may be: two standard errors, by ranks. */
struct cost {
    double base_ns, share, doubt;
};

static struct cost cost_of(double *without, double *ratios, size_t count, double operations)
{
    struct cost cost = {.base_ns = quantile(without, count, 0.5) / operations};
    double reach = 1 / sqrt((double)count);
    double low = quantile(ratios, count, 0.5 - reach), high = quantile(ratios, count, 0.5 + reach);

    cost.share = quantile(ratios, count, 0.5);
    cost.doubt = (high - low) / 2;
    return cost;
}

static const char *verdict(const struct cost *cost)
{
    if (cost->share + cost->doubt <= TARGET)
        return "met";
    if (cost->share - cost->doubt > TARGET)
        return "missed";
    return cost->share <= TARGET ? "met, as far as it can be told" : "missed, or noise";
}

/* The two follow each other at once, in either order: what the machine does meets both. */
static struct cost measure(const struct plan *plan, const char *dir)
{
    static double without[PAIRS_MAX], ratios[PAIRS_MAX];
    struct world world;

    form(&world, plan->mode, dir, plan->bytes);
    for (int r = 0; r < WARM_UP; r++)
        (void)run(&world, plan->bytes, plan->rounds, false);
    for (size_t p = 0; p < plan->pairs; p++) {
        double first = run(&world, plan->bytes, plan->rounds, p % 2 == 0);
        double second = run(&world, plan->bytes, plan->rounds, p % 2 != 0);

        without[p] = p % 2 == 0 ? first : second;
        ratios[p] = (p % 2 == 0 ? second : first) / without[p] - 1;
    }
    part(&world);
    return cost_of(without, ratios, plan->pairs, plan->rounds * TAGS);
}

int main(int argc, char **argv)
{
    /* Runs take a millisecond and more: what the trace does now and then is in them. */
    static const struct plan plans[] = {
        {TC_LOOP_THREAD, 8, 100, 501},    {TC_LOOP_THREAD, 4096, 100, 501},
        {TC_LOOP_THREAD, 65536, 20, 501}, {TC_LOOP_THREAD, 1 << 20, 4, 301},
        {TC_LOOP_MANUAL, 8, 250, 501},    {TC_LOOP_MANUAL, 4096, 100, 501},
        {TC_LOOP_MANUAL, 65536, 20, 501}, {TC_LOOP_MANUAL, 1 << 20, 2, 201},
    };
    const char *dir = argc > 1 ? argv[1] : NULL;

    printf("%-7s %10s %14s %10s %9s %9s  %s\n", "loop", "bytes", "us without", "ns more", "cost",
           "+-", "target: 1 %");
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        struct cost cost = measure(&plans[i], dir);

        printf("%-7s %10zu %14.2f %10.0f %7.2f %% %7.2f %%  %s\n",
               plans[i].mode == TC_LOOP_THREAD ? "thread" : "manual", plans[i].bytes,
               cost.base_ns / 1e3, cost.share * cost.base_ns, 100 * cost.share, 100 * cost.doubt,
               verdict(&cost));
        fflush(stdout);
    }
    return 0;
}
