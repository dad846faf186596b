/* find_slow.c - which links take longer for a message than the others. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message takes the time from when both ends were ready to when the receive has ended.  Messages
 * of like length (a power of two) are compared across all pairs of ranks, so that a pair with long
 * messages is not taken for a slow one.
 *
 * A link that is slow is so for nearly every message, whereas a busy processor lets some through at
 * once: the quicker ones count, and there must be some to tell.  Those do not whose receiver came
 * after they were sent, since they were under way before.  A rank with which all are slow is told
 * of instead of its links.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "find.h"

enum { CLASSES = 65, LEAST_MESSAGES = 8, LEAST_AWAITED = 4 };

struct message {
    uint32_t from, to;
    uint32_t length_class;
    uint64_t bytes;
    int64_t ns;
    bool is_awaited; /* its receiver was ready when it was sent */
};

static uint32_t class_of(uint64_t bytes)
{
    return bytes == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(bytes);
}

static int compare_ns(const struct message *a, const struct message *b)
{
    return (a->ns > b->ns) - (a->ns < b->ns);
}

static int by_class(const void *left, const void *right)
{
    const struct message *a = left, *b = right;

    if (a->length_class != b->length_class)
        return a->length_class < b->length_class ? -1 : 1;
    return compare_ns(a, b);
}

static int by_path(const void *left, const void *right)
{
    const struct message *a = left, *b = right;

    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return compare_ns(a, b);
}

static size_t collect(const struct job *job, struct message *messages)
{
    size_t count = 0;

    for (size_t i = 0; i < job->transfer_count; i++) {
        const struct transfer *send = &job->transfers[i], *recv = send + 1;
        int64_t ready;

        if (!job_is_pair(job, i))
            continue;
        ready = send->begin_ns > recv->begin_ns ? send->begin_ns : recv->begin_ns;
        messages[count++] = (struct message){.from = send->process,
                                             .to = recv->process,
                                             .length_class = class_of(recv->bytes),
                                             .bytes = recv->bytes,
                                             .is_awaited = recv->begin_ns <= send->begin_ns,
                                             .ns = recv->end_ns > ready ? recv->end_ns - ready : 0};
    }
    return count;
}

/* What is usual for each length: a quarter of the messages take less.  A slow path is among them,
 * and may carry half of all. */
static void usual_times(struct message *messages, size_t count, int64_t usual[CLASSES])
{
    qsort(messages, count, sizeof(*messages), by_class);
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin;
        while (end < count && messages[end].length_class == messages[begin].length_class)
            end++;
        usual[messages[begin].length_class] = messages[begin + (end - begin) / 4].ns;
    }
}

static int compare_ratios(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double ratio_of(const struct message *message, const int64_t *usual)
{
    /* A microsecond more or less is no difference. */
    return (double)(message->ns + 1000) / (double)(usual[message->length_class] + 1000);
}

/* A quarter of those that were awaited take less. */
static void find_quick(struct path *path, const struct message *messages, const int64_t *usual,
                       double *ratios)
{
    int64_t quick_ns = INT64_MAX;
    uint32_t count = 0, seen = 0;

    for (uint32_t i = 0; i < path->messages; i++)
        if (messages[i].is_awaited)
            ratios[count++] = ratio_of(&messages[i], usual);
    for (uint32_t i = 0; i < path->messages && quick_ns == INT64_MAX; i++)
        if (messages[i].is_awaited && seen++ == count / 4)
            quick_ns = messages[i].ns;
    path->awaited = count;
    if (count == 0)
        return;
    qsort(ratios, count, sizeof(*ratios), compare_ratios);
    path->quick_ns = quick_ns;
    path->quick_ratio = ratios[count / 4];
}

/* Messages of one path, sorted by their time. */
static void add_path(struct found *found, const struct message *messages, size_t count,
                     const int64_t *usual)
{
    double *ratios = malloc(count * sizeof(*ratios));
    struct path *paths = realloc(found->paths, (found->path_count + 1) * sizeof(*found->paths));
    struct path path = {.from = messages[0].from,
                        .to = messages[0].to,
                        .messages = (uint32_t)count,
                        .median_ns = messages[count / 2].ns};

    if (paths != NULL)
        found->paths = paths;
    if (ratios == NULL || paths == NULL) {
        found->lacks_memory = true;
        free(ratios);
        return;
    }
    find_quick(&path, messages, usual, ratios);
    for (size_t i = 0; i < count; i++) {
        path.bytes += messages[i].bytes;
        ratios[i] = ratio_of(&messages[i], usual);
    }
    qsort(ratios, count, sizeof(*ratios), compare_ratios);
    path.ratio = ratios[count / 2];
    free(ratios);
    paths[found->path_count++] = path;
}

static void tell(struct found *found, const struct path *path)
{
    const struct job *job = found->job;
    const struct process *from = &job->processes[path->from], *to = &job->processes[path->to];
    struct finding *finding = find_add(found, FIND_LINK, (int32_t)path->from, SIZE_MAX);
    char text[32], here[128] = "";

    if (finding == NULL)
        return;
    finding->peer = (int32_t)path->to;
    finding->ns = path->median_ns;
    if (strcmp(from->file->view.boot_id, to->file->view.boot_id) == 0)
        snprintf(here, sizeof(here), "; both are on %s, whose processors may be busy",
                 to->file->view.host);
    snprintf(finding->text, sizeof(finding->text),
             "the link from rank %u to rank %u is slow: a message takes %s, %.0f times what is "
             "usual for its length (%u messages)%s",
             from->rank, to->rank, job_time_text(path->median_ns, text), path->ratio,
             path->messages, here);
}

static bool can_be_judged(const struct path *path)
{
    return path->messages >= LEAST_MESSAGES && path->awaited >= LEAST_AWAITED;
}

/* The links with each of several others are slow, and none that can be judged is not. */
static bool is_slow_with_all(const struct found *found, uint32_t process)
{
    uint32_t from = 0, to = 0;

    for (size_t i = 0; i < found->path_count; i++) {
        const struct path *path = &found->paths[i];

        if ((path->from != process && path->to != process) || !can_be_judged(path))
            continue;
        if (!path->is_slow)
            return false;
        from += path->from == process;
        to += path->to == process;
    }
    return from > 1 || to > 1;
}

static void tell_rank(struct found *found, uint32_t process)
{
    const struct process *self = &found->job->processes[process];
    struct finding *finding = find_add(found, FIND_LINK, (int32_t)process, SIZE_MAX);
    char text[32];

    if (finding == NULL)
        return;
    for (size_t i = 0; i < found->path_count; i++) {
        const struct path *path = &found->paths[i];

        if (path->is_slow && (path->from == process || path->to == process) &&
            path->median_ns > finding->ns)
            finding->ns = path->median_ns;
    }
    snprintf(finding->text, sizeof(finding->text),
             "all links of rank %u are slow, a message takes up to %s: its host %s is busy, or has "
             "a slow network",
             self->rank, job_time_text(finding->ns, text), self->file->view.host);
}

/* The typical ratio of the other paths: where all are slow, none is. */
static double other_ratio(const struct found *found, size_t but, double *ratios)
{
    size_t count = 0;

    for (size_t i = 0; i < found->path_count; i++)
        if (i != but)
            ratios[count++] = found->paths[i].ratio;
    if (count == 0)
        return 1e300; /* the only path there is */
    qsort(ratios, count, sizeof(*ratios), compare_ratios);
    return ratios[(count - 1) / 2];
}

static void find_slow_paths(struct found *found)
{
    double *ratios = malloc((found->path_count + 1) * sizeof(*ratios));

    if (ratios == NULL) {
        found->lacks_memory = true;
        return;
    }
    for (size_t i = 0; i < found->path_count; i++) {
        struct path *path = &found->paths[i];
        double usual = other_ratio(found, i, ratios);

        path->is_slow = can_be_judged(path) &&
                        path->quick_ratio >= found->limits.slow_ratio * usual &&
                        path->quick_ns >= found->limits.slow_ns;
    }
    free(ratios);
    for (uint32_t p = 0; p < found->job->process_count; p++)
        if (is_slow_with_all(found, p))
            tell_rank(found, p);
    for (size_t i = 0; i < found->path_count; i++)
        if (found->paths[i].is_slow && !is_slow_with_all(found, found->paths[i].from) &&
            !is_slow_with_all(found, found->paths[i].to))
            tell(found, &found->paths[i]);
}

void find_slow(struct found *found)
{
    const struct job *job = found->job;
    struct message *messages = malloc((job->transfer_count + 1) * sizeof(*messages));
    size_t count = messages == NULL ? 0 : collect(job, messages);
    int64_t usual[CLASSES] = {0};

    found->lacks_memory = found->lacks_memory || messages == NULL;
    if (count > 0) {
        usual_times(messages, count, usual);
        qsort(messages, count, sizeof(*messages), by_path);
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin;
        while (end < count && messages[end].from == messages[begin].from &&
               messages[end].to == messages[begin].to)
            end++;
        add_path(found, messages + begin, end - begin, usual);
    }
    free(messages);
    find_slow_paths(found);
}
