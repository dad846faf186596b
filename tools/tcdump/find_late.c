/* find_late.c - which ranks come late to collectives, and how late. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that sleeps once is late in all calls that it makes after that and the others have made
 * before.  Its delays in them overlap, and are one: their union counts, and the first of them is
 * named.
 */
#include <stdio.h>
#include <stdlib.h>

#include "find.h"

/* A rank that is the last so often, and for so much of the time, is told of however little it is
 * late each time. */
#define SHARE_MAX 0.05
enum { LASTS_MIN = 20 };

/* A rank was the last in a collective: from when the others were there to when it came. */
struct delay {
    uint32_t process;
    int64_t from_ns, to_ns;
    size_t call;
};

struct delays {
    struct delay *at; /* owned; room for one a call */
    size_t count;
    int64_t *times; /* owned; of the calls of one collective */
};

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int compare_delays(const void *left, const void *right)
{
    const struct delay *a = left, *b = right;

    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return compare_times(&a->from_ns, &b->from_ns);
}

/* ---- Delays ---------------------------------------------------------------------------------- */

static void note(struct found *found, size_t begin, size_t end, struct delays *delays)
{
    const struct job *job = found->job;
    size_t last = begin, count = end - begin;
    struct delay delay;

    for (size_t i = begin; i < end; i++) {
        delays->times[i - begin] = find_came(&job->calls[i]);
        found->lateness[job->calls[i].process].calls++;
        if (find_came(&job->calls[i]) > find_came(&job->calls[last]))
            last = i;
    }
    qsort(delays->times, count, sizeof(*delays->times), compare_times);
    /* The lower median of the others: two late ones of four do not hide each other. */
    delay = (struct delay){.process = job->calls[last].process,
                           .from_ns = delays->times[(count - 2) / 2],
                           .to_ns = find_came(&job->calls[last]),
                           .call = last};
    if (delay.to_ns > delay.from_ns)
        delays->at[delays->count++] = delay;
}

/* Delays of one rank that overlap, which last to to_ns. */
static void add_up(struct lateness *lateness, const struct delay *at, size_t count, int64_t to_ns)
{
    const struct delay *first = NULL;
    int64_t most_ns = 0;
    uint32_t late = 0;

    for (size_t i = 0; i < count; i++)
        if (at[i].to_ns - at[i].from_ns > most_ns)
            most_ns = at[i].to_ns - at[i].from_ns;
    /* Those that are of its kind: it may have been a little late before. */
    for (size_t i = 0; i < count; i++) {
        if (at[i].to_ns - at[i].from_ns < most_ns / 2)
            continue;
        late++;
        if (first == NULL || at[i].to_ns < first->to_ns)
            first = &at[i];
    }
    lateness->lasts += (uint32_t)count;
    lateness->total_ns += to_ns - at[0].from_ns;
    if (first != NULL && most_ns > lateness->most_ns) {
        lateness->most_ns = most_ns;
        lateness->most_call = first->call;
        lateness->most_calls = late;
    }
}

static void merge(struct found *found, struct delays *delays)
{
    const struct delay *at = delays->at;

    if (delays->count > 0)
        qsort(delays->at, delays->count, sizeof(*delays->at), compare_delays);
    for (size_t begin = 0, end; begin < delays->count; begin = end) {
        int64_t to_ns = at[begin].to_ns;

        for (end = begin + 1; end < delays->count && at[end].process == at[begin].process &&
                              at[end].from_ns <= to_ns;
             end++)
            if (at[end].to_ns > to_ns)
                to_ns = at[end].to_ns;
        add_up(&found->lateness[at[begin].process], at + begin, end - begin, to_ns);
    }
}

/* ---- Telling --------------------------------------------------------------------------------- */

static void tell(struct found *found, uint32_t process)
{
    const struct job *job = found->job;
    const struct lateness *late = &found->lateness[process];
    struct finding *finding = find_add(found, FIND_LATE, (int32_t)process, late->most_call);
    char name[JOB_TEXT], most[32], total[32];
    bool is_many = late->most_calls > 1;

    if (finding == NULL)
        return;
    finding->ns = late->most_ns;
    snprintf(finding->text, sizeof(finding->text),
             "rank %u is late: last in %u of %u collectives, by %s in all; most %s %s%s, by %s",
             job->processes[process].rank, late->lasts, late->calls,
             job_time_text(late->total_ns, total), is_many ? "from" : "in",
             job_call_name(job, &job->calls[late->most_call], name), is_many ? " on" : "",
             job_time_text(late->most_ns, most));
}

static bool is_late_by_habit(const struct found *found, const struct lateness *late)
{
    int64_t all_ns = found->job->seen_ns - found->job->first_ns;

    return late->lasts >= LASTS_MIN && late->lasts * 2 > late->calls &&
           late->total_ns >= found->limits.late_ns &&
           (double)late->total_ns > SHARE_MAX * (double)all_ns;
}

/* ---- What can be compared -------------------------------------------------------------------- */

/* Whether there was a time at which all were in it. */
static bool is_at_once(const struct job *job, size_t begin, size_t end)
{
    int64_t begin_ns = INT64_MIN, end_ns = INT64_MAX;

    for (size_t i = begin; i < end; i++) {
        const struct call *call = &job->calls[i];

        if (call->begin_ns > begin_ns)
            begin_ns = call->begin_ns;
        if (call->state == CALL_ENDED && call->end_ns < end_ns)
            end_ns = call->end_ns;
    }
    return begin_ns <= end_ns;
}

/* Note a collective, or how many there are of a tag whose uses are not counted: these stand side by
 * side.  If each rank has kept one, and all were in it at once, it is one and the same. */
static void look_at(struct found *found, size_t begin, size_t end, struct delays *delays)
{
    const struct job *job = found->job;
    const struct call *calls = job->calls;
    uint32_t size = job->groups[calls[begin].group].size, ranks = 0, most = 0, of_rank = 0;

    for (size_t i = begin; i < end; i++) {
        bool is_first = i == begin || calls[i].process != calls[i - 1].process;

        ranks += is_first;
        of_rank = is_first ? 1 : of_rank + 1;
        if (of_rank > most)
            most = of_rank;
    }
    /* Where one is missing it is told of as such. */
    if (calls[begin].low >= 0 || size < 2 || ranks != size)
        return;
    if (most == 1 && (calls[begin].use != 0 || is_at_once(job, begin, end)))
        note(found, begin, end, delays);
    else if (calls[begin].use == 0)
        found->not_compared += most;
}

void find_late(struct found *found)
{
    const struct job *job = found->job;
    struct delays delays = {.at = malloc((job->call_count + 1) * sizeof(*delays.at)),
                            .times = malloc((job->call_count + 1) * sizeof(*delays.times))};

    found->lacks_memory = found->lacks_memory || delays.at == NULL || delays.times == NULL;
    for (size_t begin = 0, end; begin < job->call_count && !found->lacks_memory; begin = end) {
        end = job_operation_end(job, begin);
        look_at(found, begin, end, &delays);
    }
    merge(found, &delays);
    free(delays.at);
    free(delays.times);
    for (uint32_t p = 0; p < job->process_count; p++) {
        const struct lateness *late = &found->lateness[p];

        if (late->most_ns >= found->limits.late_ns || is_late_by_habit(found, late))
            tell(found, p);
    }
}
