/* latency.c - what one small all-reduce takes, call by call, as ib_send_lat times its messages. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   latency COUNT
 *
 * One rank of a group that the environment describes.  Calls follow each other without a barrier,
 * as the messages of ib_send_lat do.  Rank 0 prints medians: of the whole call, and of its first
 * part, which posts; and the longest call; exit status 0, or 1 after having said why.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tcdist/tcdist.h"

enum { WARMUP = 100, COUNT_MAX = 1000000 };

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static long longest(const double *values, long count)
{
    long at = 0;

    for (long i = 1; i < count; i++)
        at = values[i] > values[at] ? i : at;
    return at;
}

static double median(double *values, long count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return values[count / 2];
}

static tc_status_t time_one(tc_dist_ctx *group, double *whole_us, double *post_us)
{
    float in[2] = {1, 2}, out[2];
    double begin = now_us(), posted;
    tc_future *future = tc_allreduce_async(group, 1, in, out, 2, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    tc_status_t status;

    posted = now_us();
    status = tc_future_wait(future, -1);
    *whole_us = now_us() - begin;
    *post_us = posted - begin;
    tc_future_release(future);
    if (status == TC_OK && (out[0] != 2 || out[1] != 4)) {
        fprintf(stderr, "latency: a wrong sum: %g, %g\n", (double)out[0], (double)out[1]);
        return TC_ERR_INTERNAL;
    }
    return status;
}

static tc_status_t time_all(tc_dist_ctx *group, long count, double *whole_us, double *post_us)
{
    tc_status_t status = TC_OK;

    for (long i = -WARMUP; i < count && status == TC_OK; i++) {
        long at = i < 0 ? 0 : i;

        status = time_one(group, &whole_us[at], &post_us[at]);
    }
    return status;
}

static void say(double *whole_us, double *post_us, long count)
{
    long at = longest(whole_us, count);
    double longest_us = whole_us[at];

    printf("all-reduce %.2f us, of which the call that posts %.2f us; the longest is number %ld, "
           "with %.2f us\n",
           median(whole_us, count), median(post_us, count), at, longest_us);
}

int main(int argc, char **argv)
{
    long count = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    double *whole_us, *post_us;
    tc_context *context = NULL;
    tc_dist_ctx *group = NULL;
    tc_config config;
    tc_status_t status;

    if (count < 1 || count > COUNT_MAX) {
        fprintf(stderr, "usage: latency COUNT\n");
        return 2;
    }
    whole_us = calloc((size_t)count, sizeof(*whole_us));
    post_us = calloc((size_t)count, sizeof(*post_us));
    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    status = whole_us != NULL && post_us != NULL ? tc_init_config(&config, &context) : TC_ERR_ALLOC;
    if (status == TC_OK)
        status = tc_dist_init_env(context, &group);
    if (status == TC_OK)
        status = time_all(group, count, whole_us, post_us);
    if (status != TC_OK)
        fprintf(stderr, "latency: %s: %s\n", tc_status_string(status),
                tc_last_error() != NULL ? tc_last_error()->message : "no reason given");
    else if (tc_dist_rank(group) == 0)
        say(whole_us, post_us, count);
    if (group != NULL)
        (void)(status == TC_OK ? tc_dist_finalize(group) : tc_dist_close(group));
    if (context != NULL)
        (void)tc_shutdown(context);
    free(whole_us);
    free(post_us);
    return status == TC_OK ? 0 : 1;
}
