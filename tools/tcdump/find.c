/* find.c - what is wrong in a job, in the order in which it is told. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "find.h"

#include <stdio.h>
#include <stdlib.h>

struct finding *find_add(struct found *found, enum finding_kind kind, int32_t process, size_t call)
{
    struct finding *more =
        realloc(found->findings, (found->finding_count + 1) * sizeof(*found->findings));

    if (more == NULL) {
        found->lacks_memory = true;
        return NULL;
    }
    found->findings = more;
    more += found->finding_count++;
    *more = (struct finding){.kind = kind, .process = process, .peer = -1, .call = call};
    return more;
}

const char *find_last_words(const struct job *job, uint32_t process, char text[JOB_TEXT * 2])
{
    const struct process *self = &job->processes[process];
    const struct call *last = NULL;
    char name[JOB_TEXT], ago[32];

    for (size_t i = 0; i < job->call_count; i++)
        if (job->calls[i].process == process &&
            (last == NULL || job->calls[i].entered_ns > last->entered_ns))
            last = &job->calls[i];
    if (last == NULL)
        snprintf(text, JOB_TEXT * 2, "it has not entered anything that its trace has kept");
    else
        snprintf(text, JOB_TEXT * 2, "it entered %s last%s, %s before%s",
                 job_call_name(job, last, name),
                 self->file->view.marks > 0 ? " of those that its trace has kept" : "",
                 job_time_text(self->seen_ns - last->entered_ns, ago),
                 last->state == CALL_ENDED ? ", and that is over" : ", and is still in it");
    return text;
}

/* Kinds in their order; of a kind what weighs most first. */
static int compare(const void *left, const void *right)
{
    const struct finding *a = left, *b = right;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return (a->process > b->process) - (a->process < b->process);
}

bool find_all(struct found *found, const struct job *job, const struct limits *limits)
{
    *found = (struct found){.job = job, .limits = *limits};
    found->lateness = calloc(job->process_count + 1, sizeof(*found->lateness));
    if (found->lateness == NULL)
        return false;
    find_states(found);
    find_mismatches(found);
    find_edges(found);
    find_cycles(found);
    find_missing(found);
    find_slow(found);
    find_late(found);
    if (found->finding_count > 0)
        qsort(found->findings, found->finding_count, sizeof(*found->findings), compare);
    return !found->lacks_memory;
}

void find_fini(struct found *found)
{
    free(found->findings);
    free(found->lateness);
    free(found->paths);
    free(found->edges);
    *found = (struct found){.job = NULL};
}
