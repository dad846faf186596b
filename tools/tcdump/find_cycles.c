/* find_cycles.c - ranks that wait for each other in a circle. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   rank 0 is in A, and rank 1 has not entered A
 *   rank 1 is in B, and rank 0 has not entered B       0 -A-> 1 -B-> 0
 *
 * Where each of them makes its other call after the one it is in, none goes on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "find.h"

/* The shortest way from a process back to itself, breadth first. */
struct walk {
    const struct found *found;
    size_t *by;      /* owned; edge by which each process was reached; SIZE_MAX: not yet */
    uint32_t *queue; /* owned */
};

/* The edge that closes the circle; SIZE_MAX: there is none.  Processes below `start` are left
 * out: their circles have been told. */
static size_t walk_from(struct walk *walk, uint32_t start)
{
    const struct found *found = walk->found;
    uint32_t head = 0, tail = 0;

    for (uint32_t p = 0; p < found->job->process_count; p++)
        walk->by[p] = SIZE_MAX;
    walk->queue[tail++] = start;
    while (head < tail) {
        uint32_t at = walk->queue[head++];

        for (size_t e = 0; e < found->edge_count; e++) {
            const struct edge *edge = &found->edges[e];

            if (edge->from != at || edge->to < start)
                continue;
            if (edge->to == start)
                return e;
            if (walk->by[edge->to] != SIZE_MAX)
                continue;
            walk->by[edge->to] = e;
            walk->queue[tail++] = edge->to;
        }
    }
    return SIZE_MAX;
}

static void tell_cycle(struct found *found, const struct walk *walk, uint32_t start, size_t last)
{
    const struct job *job = found->job;
    struct finding *finding = find_add(found, FIND_CYCLE, (int32_t)start, found->edges[last].call);
    size_t len = 0, steps = 0, e = last;

    if (finding == NULL)
        return;
    len = (size_t)snprintf(finding->text, sizeof(finding->text), "a circle: ");
    while (true) {
        struct edge *edge = &found->edges[e];
        const struct call *call = &job->calls[edge->call];
        char name[JOB_TEXT];

        edge->is_in_cycle = true;
        if (job->processes[call->process].seen_ns - call->begin_ns > finding->ns)
            finding->ns = job->processes[call->process].seen_ns - call->begin_ns;
        if (len < sizeof(finding->text))
            len += (size_t)snprintf(finding->text + len, sizeof(finding->text) - len,
                                    "%srank %u waits in %s for rank %u", steps++ == 0 ? "" : ", ",
                                    job->processes[edge->from].rank, job_call_name(job, call, name),
                                    job->processes[edge->to].rank);
        if (edge->from == start)
            break;
        e = walk->by[edge->from];
    }
    if (len < sizeof(finding->text))
        snprintf(finding->text + len, sizeof(finding->text) - len,
                 "; none of them has entered what the others wait in: make such calls in one "
                 "order on all ranks, or without waiting in between");
}

void find_cycles(struct found *found)
{
    uint32_t count = found->job->process_count;
    struct walk walk = {.found = found,
                        .by = malloc((count + 1) * sizeof(*walk.by)),
                        .queue = malloc((count + 1) * sizeof(*walk.queue))};

    found->lacks_memory = found->lacks_memory || walk.by == NULL || walk.queue == NULL;
    for (uint32_t p = 0; p < count && !found->lacks_memory && found->edge_count > 1; p++) {
        size_t last = walk_from(&walk, p);

        if (last != SIZE_MAX)
            tell_cycle(found, &walk, p, last);
    }
    free(walk.by);
    free(walk.queue);
}
