/* find_late.c - which ranks come late to collectives, and how late. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "find.h"

/* A rank that is the last so often, and for so much of the time, is told of however little it is
 * late each time. */
#define SHARE_MAX 0.05
enum { LASTS_MIN = 20 };

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static void note(struct found *found, size_t begin, size_t end, int64_t *times)
{
    const struct job *job = found->job;
    size_t last = begin, count = end - begin;
    struct lateness *lateness;
    int64_t late_ns;

    for (size_t i = begin; i < end; i++) {
        times[i - begin] = find_came(&job->calls[i]);
        found->lateness[job->calls[i].process].calls++;
        if (find_came(&job->calls[i]) > find_came(&job->calls[last]))
            last = i;
    }
    qsort(times, count, sizeof(*times), compare);
    /* The lower median of the others: two late ones of four do not hide each other. */
    late_ns = find_came(&job->calls[last]) - times[(count - 2) / 2];
    if (late_ns <= 0)
        return;
    lateness = &found->lateness[job->calls[last].process];
    lateness->lasts++;
    lateness->total_ns += late_ns;
    if (late_ns > lateness->most_ns) {
        lateness->most_ns = late_ns;
        lateness->most_call = last;
    }
}

static void tell(struct found *found, uint32_t process)
{
    const struct job *job = found->job;
    const struct lateness *late = &found->lateness[process];
    struct finding *finding = find_add(found, FIND_LATE, (int32_t)process, late->most_call);
    char name[JOB_TEXT], most[32], total[32];

    if (finding == NULL)
        return;
    finding->ns = late->most_ns;
    snprintf(finding->text, sizeof(finding->text),
             "rank %u is late: last in %u of %u collectives, by %s in all; most in %s, by %s",
             job->processes[process].rank, late->lasts, late->calls,
             job_time_text(late->total_ns, total),
             job_call_name(job, &job->calls[late->most_call], name),
             job_time_text(late->most_ns, most));
}

static bool is_late_by_habit(const struct found *found, const struct lateness *late)
{
    int64_t all_ns = found->job->seen_ns - found->job->first_ns;

    return late->lasts >= LASTS_MIN && late->lasts * 2 > late->calls &&
           late->total_ns >= found->limits.late_ns &&
           (double)late->total_ns > SHARE_MAX * (double)all_ns;
}

void find_late(struct found *found)
{
    const struct job *job = found->job;
    int64_t *times = malloc((job->call_count + 1) * sizeof(*times));

    if (times == NULL) {
        found->lacks_memory = true;
        return;
    }
    for (size_t begin = 0, end; begin < job->call_count; begin = end) {
        const struct call *call = &job->calls[begin];

        end = job_operation_end(job, begin);
        /* Where one is missing it is told of as such. */
        if (call->low < 0 && call->use != 0 && end - begin > 1 &&
            end - begin == job->groups[call->group].size)
            note(found, begin, end, times);
    }
    free(times);
    for (uint32_t p = 0; p < job->process_count; p++) {
        const struct lateness *late = &found->lateness[p];

        if (late->most_ns >= found->limits.late_ns || is_late_by_habit(found, late))
            tell(found, p);
    }
}
