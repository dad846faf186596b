/* overlap.c - how much of the communication was hidden behind the compute. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

void overlap_init(struct overlap *overlap)
{
    *overlap = (struct overlap){0};
    pthread_mutex_init(&overlap->lock, NULL);
    pthread_cond_init(&overlap->idle, NULL);
}

void overlap_fini(struct overlap *overlap)
{
    pthread_cond_destroy(&overlap->idle);
    pthread_mutex_destroy(&overlap->lock);
}

/* Takes the lock, and sets the clocks by what was true since the last time. */
static void enter(struct overlap *overlap)
{
    uint64_t now_ns, passed_ns;

    pthread_mutex_lock(&overlap->lock);
    now_ns = tc_trace_now_ns();
    passed_ns = now_ns - overlap->at_ns;
    overlap->at_ns = now_ns;
    if (overlap->running > 0)
        overlap->busy_ns += passed_ns;
    if (overlap->is_blocked)
        overlap->blocked_ns += passed_ns;
    if (overlap->running > 0 && overlap->is_blocked)
        overlap->exposed_ns += passed_ns;
}

static void leave(struct overlap *overlap)
{
    pthread_mutex_unlock(&overlap->lock);
}

void overlap_start(struct overlap *overlap)
{
    enter(overlap);
    overlap->running++;
    leave(overlap);
}

/* A continuation: runs on the loop's thread when the collective has settled. */
static void end_one(tc_future *future, void *arg)
{
    struct overlap *overlap = arg;

    (void)future;
    enter(overlap);
    overlap->running--;
    if (overlap->running == 0)
        pthread_cond_signal(&overlap->idle);
    leave(overlap);
}

tc_future *overlap_watch(struct overlap *overlap, tc_future *future)
{
    if (tc_future_then(future, end_one, overlap) != TC_OK)
        end_one(future, overlap);
    return future;
}

void overlap_block(struct overlap *overlap, bool is_blocked)
{
    enter(overlap);
    overlap->is_blocked = is_blocked;
    leave(overlap);
}

void overlap_reset(struct overlap *overlap)
{
    enter(overlap);
    overlap->busy_ns = overlap->blocked_ns = overlap->exposed_ns = 0;
    leave(overlap);
}

void overlap_finish(struct overlap *overlap, tc_context *context, bool is_turned)
{
    pthread_mutex_lock(&overlap->lock);
    while (overlap->running > 0) {
        if (!is_turned) {
            pthread_cond_wait(&overlap->idle, &overlap->lock);
            continue;
        }
        pthread_mutex_unlock(&overlap->lock);
        (void)tc_poll(context, 1);
        pthread_mutex_lock(&overlap->lock);
    }
    pthread_mutex_unlock(&overlap->lock);
}
