/* ring_local.c - a ring on one host: threads of a process, and processes over socket pairs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorcore/distributed.h"
#include "tensorcore/tensorcore.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ranks.h"

enum { RANKS = 4, COUNT = 1024, OPS = 4 };

static const tc_reduce_op_t ops[OPS] = {TC_REDUCE_SUM, TC_REDUCE_AVG, TC_REDUCE_MAX, TC_REDUCE_MIN};

/* What every rank has found, where all ranks and the parent see it. */
struct results {
    float x[RANKS][OPS][COUNT];
};

struct job {
    pthread_t thread;
    int rank;
    const char *url;
    struct results *results;
    int failed;
};

static float value(int rank, int i)
{
    return (float)(i % 61) / 3.0f - (float)(rank * 17 % 5) * 1.1f;
}

/* Returns what does not hold; runs in a thread or in a process of its own. */
static int live(const struct job *job)
{
    tc_context *context = NULL;
    tc_dist_ctx *dist = NULL;
    tc_buffer *held = NULL;
    void *data = NULL;
    int wrong = 0;

    if (tc_init(&context) != TC_OK ||
        tc_dist_init(context, TC_DIST_RING, RANKS, job->rank, job->url, &dist) != TC_OK ||
        tc_buffer_alloc(context, COUNT * sizeof(float), &held) != TC_OK ||
        tc_buffer_map(held, &data) != TC_OK) {
        fprintf(stderr, "rank %d: %s\n", job->rank, tc_last_error()->message);
        return 1;
    }
    for (int k = 0; k < OPS; k++) {
        float *x = data;

        for (int i = 0; i < COUNT; i++)
            x[i] = value(job->rank, i);
        wrong += tc_allreduce(dist, held, COUNT, TC_DTYPE_F32, ops[k]) != TC_OK;
        memcpy(job->results->x[job->rank][k], x, COUNT * sizeof(float));
    }
    wrong += tc_barrier(dist) != TC_OK;
    if (wrong != 0)
        fprintf(stderr, "rank %d: %s\n", job->rank, tc_last_error()->message);
    wrong += tc_buffer_free(context, held) != TC_OK;
    wrong += tc_dist_finalize(dist) != TC_OK;
    wrong += tc_shutdown(context) != TC_OK;
    return wrong;
}

/* All ranks have the same bits; the largest and the smallest are exact, the sums nearly so. */
static int compare(const struct results *results)
{
    int wrong = 0;

    for (int r = 1; r < RANKS; r++)
        wrong += memcmp(results->x[r], results->x[0], sizeof results->x[0]) != 0;
    for (int i = 0; i < COUNT; i++) {
        double sum = 0;
        float most = value(0, i), least = most;

        for (int r = 0; r < RANKS; r++) {
            sum += (double)value(r, i);
            most = value(r, i) > most ? value(r, i) : most;
            least = value(r, i) < least ? value(r, i) : least;
        }
        wrong +=
            (double)results->x[0][0][i] - sum > 1e-4 || sum - (double)results->x[0][0][i] > 1e-4;
        wrong += (double)results->x[0][1][i] - sum / 4 > 1e-4 ||
                 sum / 4 - (double)results->x[0][1][i] > 1e-4;
        wrong += results->x[0][2][i] != most || results->x[0][3][i] != least;
    }
    if (wrong != 0)
        fprintf(stderr, "%d results are wrong\n", wrong);
    return wrong;
}

/* ---- Threads -------------------------------------------------------------------------------- */

static void *live_in_thread(void *arg)
{
    struct job *job = arg;

    job->failed = live(job);
    return NULL;
}

static int run_threads(struct results *results)
{
    char url[URL_BYTES];
    struct job jobs[RANKS];
    int holder = reserve_url(AF_INET, "tcp", url), failed = 0;

    memset(results, 0, sizeof *results);
    for (int r = 0; r < RANKS; r++) {
        jobs[r] = (struct job){.rank = r, .url = url, .results = results};
        pthread_create(&jobs[r].thread, NULL, live_in_thread, &jobs[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(jobs[r].thread, NULL);
        failed += jobs[r].failed;
    }
    close(holder);
    return failed + compare(results);
}

/* ---- Processes ------------------------------------------------------------------------------ */

static char urls[RANKS][URL_BYTES];

/* Pair r links rank r, to its right, with rank r + 1, to its left. */
static int link_ring(int fds[2 * RANKS])
{
    for (int r = 0; r < RANKS; r++) {
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
            return -1;
        fds[2 * r + 1] = pair[0];
        fds[2 * ((r + 1) % RANKS)] = pair[1];
    }
    for (int r = 0; r < RANKS; r++)
        snprintf(urls[r], URL_BYTES, "fd://%d,%d", fds[2 * r], fds[2 * r + 1]);
    return 2 * RANKS;
}

/* A pair for every two ranks; rank r has row r. */
static int link_all(int fds[RANKS * RANKS])
{
    for (int r = 0; r < RANKS; r++)
        for (int other = 0; other < r; other++) {
            int pair[2];

            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                return -1;
            fds[RANKS * r + other] = pair[0];
            fds[RANKS * other + r] = pair[1];
        }
    for (int r = 0; r < RANKS; r++) {
        int len = snprintf(urls[r], URL_BYTES, "fd://");

        for (int other = 0; other < RANKS; other++) {
            const char *comma = other > 0 ? "," : "";

            if (other == r)
                len += snprintf(urls[r] + len, URL_BYTES - (size_t)len, "%s-", comma);
            else
                len += snprintf(urls[r] + len, URL_BYTES - (size_t)len, "%s%d", comma,
                                fds[RANKS * r + other]);
        }
    }
    return RANKS * RANKS;
}

static int run_processes(struct results *results, bool is_ring)
{
    int fds[RANKS * RANKS] = {0};
    int count = is_ring ? link_ring(fds) : link_all(fds);
    pid_t children[RANKS];
    int failed = count < 0;

    memset(results, 0, sizeof *results);
    for (int r = 0; r < RANKS; r++) {
        children[r] = fork();
        if (children[r] == 0) {
            struct job job = {.rank = r, .url = urls[r], .results = results};

            alarm(PATIENCE_S);
            /* The others' ends: while one is open anywhere, its peer sees no end. */
            for (int k = 0; k < count; k++)
                if (fds[k] > 0 && k / (count / RANKS) != r)
                    close(fds[k]);
            _exit(live(&job) == 0 ? 0 : 1);
        }
    }
    for (int k = 0; k < count; k++)
        if (fds[k] > 0)
            close(fds[k]);
    for (int r = 0; r < RANKS; r++) {
        int status = 0;

        failed += children[r] < 0 || waitpid(children[r], &status, 0) < 0 || !WIFEXITED(status) ||
                  WEXITSTATUS(status) != 0;
    }
    return failed + compare(results);
}

int main(void)
{
    struct results *results =
        mmap(NULL, 2 * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = run_processes(&results[0], false);

    /* The bits do not depend on what carries them. */
    failed += run_threads(&results[1]);
    failed += memcmp(&results[0], &results[1], sizeof *results) != 0;
    failed += run_processes(&results[1], true);
    failed += memcmp(&results[0], &results[1], sizeof *results) != 0;
    setenv("TCDIST_NUMERICS", "fast", 1);
    return failed + run_processes(&results[0], true);
}
