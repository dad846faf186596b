/* crowd.c - joins the group of the environment, says how long that took, and leaves. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tcdist/tcdist.h"

static double now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        closedir(folder);
    return count - 3; /* ".", "..", and the folder itself */
}

static double processor_ms(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

/* Somebody else's server: whoever comes is sent away. */
static int hold(int port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(fd, 16) != 0)
        return 1;
    puts("listening");
    fflush(stdout);
    for (;;)
        close(accept(fd, NULL, NULL));
}

static int fail(const char *what)
{
    fprintf(stderr, "crowd: %s: %s\n", what, tc_last_error()->message);
    return 1;
}

int main(int argc, char **argv)
{
    enum { JOINED, CPU, OPEN, FIGURES };
    double most[FIGURES], all[FIGURES], begun = now_ms();
    tc_context *context = NULL;
    tc_dist_ctx *group = NULL;
    tc_future *max, *sum;

    if (argc == 3 && strcmp(argv[1], "--hold") == 0)
        return hold(atoi(argv[2]));
    if (tc_init(&context) != TC_OK || tc_dist_init_env(context, &group) != TC_OK)
        return fail("join");
    most[JOINED] = now_ms() - begun;
    most[CPU] = processor_ms();
    most[OPEN] = descriptors();
    memcpy(all, most, sizeof(all));
    max = tc_allreduce_async(group, 1, most, most, FIGURES, TC_DTYPE_F64, TC_REDUCE_MAX, NULL);
    sum = tc_allreduce_async(group, 2, all, all, FIGURES, TC_DTYPE_F64, TC_REDUCE_SUM, NULL);
    if (tc_future_wait(max, -1) != TC_OK || tc_future_wait(sum, -1) != TC_OK)
        return fail("compare");
    tc_future_release(max);
    tc_future_release(sum);
    if (tc_dist_rank(group) == 0)
        printf("%d ranks: joined within %.0f ms, %.1f ms of processor time a rank (%.1f the most), "
               "%.1f descriptors (%.0f the most)\n",
               tc_dist_world_size(group), most[JOINED], all[CPU] / tc_dist_world_size(group),
               most[CPU], all[OPEN] / tc_dist_world_size(group), most[OPEN]);
    if (tc_dist_finalize(group) != TC_OK)
        return fail("leave");
    tc_shutdown(context);
    return 0;
}
