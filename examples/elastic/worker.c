/* worker.c - one rank of the training, which outlives others.
 *
 *   found or join --> state of rank 0 --> step, step, step … --> end
 *                          ^                   | somebody is lost
 *                          |                   v
 *                          |             the survivors shrink the group, agree on the step <--+
 *                          |                   |                                             |
 *                          |             all meet anew, with one more -- somebody is lost ---+
 *                          |                   |
 *                          +-------------------+
 *
 * A rank that is lost may take with it what only some of the others have received: of two
 * survivors, one may be one step ahead.  So each keeps the state before its last step, and all go
 * on from the lowest.
 *
 * Whoever forms the larger group keeps the one before until all have the state there: where that
 * does not come about, for a member or the joiner has ended, it goes back and tries again.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "matrix.h"
#include "tcdist/tcdist.h"

enum { TAG_GRADIENT = 1, TAG_STEP, TAG_STATE, TAG_URL, TAG_FORMED, TAG_KNOWN };

/* Time for a joiner to start and to come, at first; twice as long each time that it did not. */
enum { JOIN_MS = 2000, JOIN_MS_MAX = 32000, LOOK_MS = 20 };

struct worker {
    const struct options *options;
    const struct place *place;
    struct lesson lesson;
    tc_context *context;
    tc_dist_ctx *group;
    size_t step;
    bool knows;              /* it has the state */
    bool has_done;           /* a step, with the others */
    float *state, *before;   /* owned: room to receive it; as it was before the last step */
    struct members *history; /* owned: of each step that is done */
};

static bool say(const struct worker *worker, const char *doing, tc_status_t status)
{
    const tc_error *error = tc_last_error();

    fprintf(stderr, "elastic: worker %" PRIu32 ": %s: %s\n", worker->place->id, doing,
            error != NULL && error->status == status ? error->message : tc_status_string(status));
    return false;
}

static tc_status_t wait_for(tc_future *future)
{
    tc_status_t status = tc_future_wait(future, -1);

    tc_future_release(future);
    return status;
}

static bool is_first(const struct worker *worker)
{
    return tc_dist_rank(worker->group) == 0;
}

/* ---- Telling the supervisor ----------------------------------------------------------------- */

static void tell(const struct worker *worker, const struct report *report)
{
    char byte;

    if (write(worker->place->reports, report, sizeof *report) != (ssize_t)sizeof *report)
        exit(EXIT_FAILURE); /* nobody is there to train for */
    if (report->waits)
        (void)!read(worker->place->answers, &byte, 1);
}

static void tell_step(const struct worker *worker, size_t step, bool waits)
{
    struct report report = {
        .kind = REPORT_STEP, .step = step, .members = worker->history[step], .waits = waits};

    tell(worker, &report);
}

/* ---- Meeting -------------------------------------------------------------------------------- */

/* While it waits it looks whether the group that there is, if any, is whole. */
static tc_status_t form(struct worker *worker, const struct place *place, tc_dist_ctx **out)
{
    tc_dist_ctx *old = worker->group; /* *out, which the library writes, may be its place */
    tc_dist_options options;
    tc_future *future;
    char identity[32];

    (void)snprintf(identity, sizeof identity, "worker-%" PRIu32, worker->place->id);
    tc_dist_options_default(&options);
    options.world_size = place->size;
    options.rank = place->rank;
    options.rendezvous_url = place->url;
    options.listen_fd = place->listen_fd;
    options.identity = identity;
    options.timeout_ms = place->timeout_ms;
    future = tc_dist_init_async(worker->context, &options, out);
    while (old != NULL && tc_future_wait(future, LOOK_MS) == TC_PENDING)
        if (tc_dist_health(old, NULL) != TC_OK)
            (void)tc_future_cancel(future);
    return wait_for(future);
}

/* All have rank 0's state from here on: whoever has just joined knows nothing.  It ends well only
 * where all have come here. */
static tc_status_t take_state(struct worker *worker, tc_dist_ctx *group)
{
    uint64_t step = worker->step;
    tc_status_t status;

    lesson_save(&worker->lesson, worker->state);
    status = wait_for(tc_broadcast_async(group, TAG_STEP, &step, 1, TC_DTYPE_U64, 0, NULL));
    if (status == TC_OK)
        status = wait_for(tc_broadcast_async(group, TAG_STATE, worker->state,
                                             lesson_state_count(&worker->lesson), TC_DTYPE_F32, 0,
                                             NULL));
    if (status == TC_OK)
        status = wait_for(tc_barrier_async(group, TAG_KNOWN, NULL));
    if (status != TC_OK)
        return status;
    lesson_load(&worker->lesson, worker->state);
    worker->step = (size_t)step;
    worker->knows = true;
    return TC_OK;
}

static int listen_anywhere(char *url, size_t url_bytes)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0 ||
        listen(fd, RANKS_MAX) != 0 || getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
        return -1;
    (void)snprintf(url, url_bytes, "tcp://127.0.0.1:%d", ntohs(addr.sin_port));
    return fd;
}

/* The first finds a place, and tells the others and the supervisor. */
static tc_status_t find_place(struct worker *worker, struct place *place)
{
    if (is_first(worker)) {
        struct report report = {.kind = REPORT_ROOM,
                                .members.count = (uint32_t)place->size,
                                .timeout_ms = place->timeout_ms};

        place->listen_fd = listen_anywhere(place->url, sizeof place->url);
        memcpy(report.url, place->url, sizeof report.url);
        if (place->listen_fd >= 0)
            tell(worker, &report);
    }
    return wait_for(tc_broadcast_async(worker->group, TAG_URL, place->url, sizeof place->url,
                                       TC_DTYPE_U8, 0, NULL));
}

/* Meet anew with one more: TC_OK, TC_ERR_PEER_LOST where a member has ended, TC_ERR_TIMEOUT where
 * only the joiner did not come about.  The group is the one before unless it is TC_OK. */
static tc_status_t grow(struct worker *worker, int timeout_ms)
{
    struct place place = {.rank = tc_dist_rank(worker->group),
                          .size = tc_dist_world_size(worker->group) + 1,
                          .timeout_ms = timeout_ms,
                          .listen_fd = -1};
    tc_dist_ctx *grown = NULL;
    tc_status_t status = find_place(worker, &place), formed;
    uint32_t is_formed, are_formed = 0;

    if (status != TC_OK)
        return status;
    formed = form(worker, &place, &grown);
    is_formed = formed == TC_OK;
    status = wait_for(tc_allreduce_async(worker->group, TAG_FORMED, &is_formed, &are_formed, 1,
                                         TC_DTYPE_U32, TC_REDUCE_MIN, NULL));
    if (status == TC_OK && are_formed != 0) {
        is_formed = take_state(worker, grown) == TC_OK;
        status = wait_for(tc_allreduce_async(worker->group, TAG_KNOWN, &is_formed, &are_formed, 1,
                                             TC_DTYPE_U32, TC_REDUCE_MIN, NULL));
    }
    if (status == TC_OK && are_formed == 0)
        status = TC_ERR_TIMEOUT;
    if (status != TC_OK) {
        (void)tc_dist_close(grown);
        return status;
    }
    (void)tc_dist_finalize(worker->group);
    worker->group = grown;
    return TC_OK;
}

/* ---- Training ------------------------------------------------------------------------------- */

/* Somebody is lost: the others go on without. */
static bool find_survivors(struct worker *worker)
{
    uint64_t lowest = worker->step;
    tc_status_t status;

    do {
        tc_dist_ctx *shrunk = NULL;
        uint64_t mine = worker->knows ? worker->step : UINT64_MAX;

        status = tc_dist_shrink(worker->group, &shrunk);
        if (status != TC_OK)
            return say(worker, "find the survivors", status);
        (void)tc_dist_close(worker->group);
        worker->group = shrunk;
        /* Where the others have gone back to the group before, they have left this one alone. */
        if (!worker->place->is_founder && !worker->has_done && tc_dist_world_size(shrunk) == 1)
            exit(EXIT_NOT_JOINED);
        status = wait_for(tc_allreduce_async(shrunk, TAG_STEP, &mine, &lowest, 1, TC_DTYPE_U64,
                                             TC_REDUCE_MIN, NULL));
    } while (status == TC_ERR_PEER_LOST);
    if (status != TC_OK)
        return say(worker, "agree on the step", status);
    if (lowest < worker->step) {
        lesson_load(&worker->lesson, worker->before);
        worker->step = (size_t)lowest;
    }
    /* Who was the first before may have ended before it could say so. */
    if (is_first(worker) && worker->step > 0)
        tell_step(worker, worker->step - 1, false);
    return true;
}

/* They look for others until all places are taken; whoever has just joined does too. */
static bool fill_places(struct worker *worker)
{
    int timeout_ms = JOIN_MS;

    while ((size_t)tc_dist_world_size(worker->group) < worker->options->ranks) {
        tc_status_t status = grow(worker, timeout_ms);

        if (status == TC_ERR_TIMEOUT && timeout_ms < JOIN_MS_MAX)
            timeout_ms *= 2;
        if (status == TC_ERR_PEER_LOST && !find_survivors(worker))
            return false;
        if (status != TC_OK && status != TC_ERR_TIMEOUT && status != TC_ERR_PEER_LOST)
            return say(worker, "form a larger group", status);
    }
    return true;
}

static void note_members(struct worker *worker)
{
    struct members *members = &worker->history[worker->step];

    members->count = (uint32_t)tc_dist_world_size(worker->group);
    for (uint32_t r = 0; r < members->count; r++)
        (void)sscanf(tc_dist_identity(worker->group, (int)r), "worker-%" SCNu32, &members->ids[r]);
}

static tc_status_t take_step(struct worker *worker)
{
    struct lesson *lesson = &worker->lesson;
    uint32_t size = (uint32_t)tc_dist_world_size(worker->group);
    float *gradient = lesson_gradient(lesson, worker->place->id, worker->step, size);
    size_t every = worker->options->kill_every;
    tc_status_t status =
        wait_for(tc_allreduce_async(worker->group, TAG_GRADIENT, gradient, gradient,
                                    lesson->net.count, TC_DTYPE_F32, TC_REDUCE_SUM, NULL));

    if (status != TC_OK)
        return status;
    lesson_save(lesson, worker->before);
    lesson_update(lesson);
    note_members(worker);
    worker->has_done = true;
    worker->step++;
    if (is_first(worker))
        tell_step(worker, worker->step - 1, every > 0 && worker->step % every == 0);
    return TC_OK;
}

static bool train(struct worker *worker)
{
    while (worker->step < worker->options->steps) {
        tc_status_t status = take_step(worker);

        if (status == TC_ERR_PEER_LOST) {
            if (!find_survivors(worker) || !fill_places(worker))
                return false;
        } else if (status != TC_OK) {
            return say(worker, "add up gradients", status);
        }
    }
    return true;
}

static bool begin(struct worker *worker)
{
    const struct options *options = worker->options;
    tc_status_t status;

    if (!lesson_init(&worker->lesson, options))
        return false;
    worker->state = calloc(lesson_state_count(&worker->lesson), sizeof(float));
    worker->before = calloc(lesson_state_count(&worker->lesson), sizeof(float));
    worker->history = calloc(options->steps + 1, sizeof *worker->history);
    if (worker->state == NULL || worker->before == NULL || worker->history == NULL)
        return say(worker, "begin", TC_ERR_ALLOC);
    status = tc_init(&worker->context);
    if (status == TC_OK)
        status = form(worker, worker->place, &worker->group);
    if (status == TC_OK)
        status = take_state(worker, worker->group);
    if (status != TC_OK && !worker->place->is_founder)
        exit(EXIT_NOT_JOINED); /* the others have gone back, and look for another one */
    return status == TC_OK || say(worker, "join", status);
}

int worker_run(const struct options *options, const struct place *place)
{
    struct worker worker = {.options = options, .place = place};
    bool is_well = begin(&worker) && fill_places(&worker) && train(&worker);

    if (is_well) {
        struct report report = {.kind = REPORT_END,
                                .hash =
                                    matrix_hash(worker.lesson.net.params, worker.lesson.net.count)};

        tell(&worker, &report);
        /* Whoever is killed now has done its part. */
        tc_status_t status = tc_dist_finalize(worker.group);
        is_well = status == TC_OK || status == TC_ERR_PEER_LOST;
    } else {
        (void)tc_dist_close(worker.group);
    }
    (void)tc_shutdown(worker.context);
    lesson_fini(&worker.lesson);
    free(worker.state);
    free(worker.before);
    free(worker.history);
    return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
}
