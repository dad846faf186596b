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

#include "core/transport.h"
#include "find.h"

struct walk {
    struct found *found;
    size_t *by;       /* owned; edge by which each process was reached; SIZE_MAX: not yet */
    uint32_t *queue;  /* owned */
    uint8_t *reached; /* owned; FORTH, BACK and TOLD of each process */
};
enum { FORTH = 1, BACK = 2, TOLD = 4 };

/* Mark all that can be reached from a process, along the edges or against them. */
static void spread(struct walk *walk, uint32_t start, uint8_t mark)
{
    const struct found *found = walk->found;
    uint32_t head = 0, tail = 0;

    walk->queue[tail++] = start;
    walk->reached[start] |= mark;
    while (head < tail) {
        uint32_t at = walk->queue[head++];

        for (size_t e = 0; e < found->edge_count; e++) {
            const struct edge *edge = &found->edges[e];
            uint32_t from = mark == FORTH ? edge->from : edge->to;
            uint32_t to = mark == FORTH ? edge->to : edge->from;

            if (edge->is_short || from != at || (walk->reached[to] & mark) != 0)
                continue;
            walk->reached[to] |= mark;
            walk->queue[tail++] = to;
        }
    }
}

/* Whether a process waits for this one, and this one for it. */
static bool is_mutual(const struct walk *walk, uint32_t process)
{
    return (walk->reached[process] & (FORTH | BACK)) == (FORTH | BACK);
}

/* The shortest circle through a process, breadth first: its last edge, or SIZE_MAX. */
static size_t find_circle(struct walk *walk, uint32_t start)
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

            if (edge->is_short || edge->from != at)
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

static size_t print_edge(const struct job *job, const struct edge *edge, bool is_first, char *text,
                         size_t room)
{
    char name[JOB_TEXT];

    return (size_t)snprintf(text, room, "%srank %u waits in %s for rank %u", is_first ? "" : ", ",
                            job->processes[edge->from].rank,
                            job_call_name(job, &job->calls[edge->call], name),
                            job->processes[edge->to].rank);
}

/* Edges were followed from the last one back; they are told from the first on. */
static size_t print_circle(const struct walk *walk, uint32_t start, size_t last, char *text,
                           size_t room)
{
    const struct found *found = walk->found;
    uint32_t steps = 1;
    size_t len = 0;

    for (size_t e = last; found->edges[e].from != start; e = walk->by[found->edges[e].from])
        steps++;
    for (uint32_t step = 0; step < steps && len < room; step++) {
        size_t e = last;

        for (uint32_t back = steps - 1; back > step; back--)
            e = walk->by[found->edges[e].from];
        len += print_edge(found->job, &found->edges[e], step == 0, text + len, room - len);
    }
    return len;
}

/* Whether there was a time at which all of them waited: of calls that a deadline has ended, one may
 * have been over before the next was made. */
static bool is_at_once(const struct walk *walk, uint32_t start, size_t last)
{
    const struct found *found = walk->found;
    int64_t begin_ns = INT64_MIN, end_ns = INT64_MAX;
    size_t e = last;

    for (;;) {
        const struct call *call = &found->job->calls[found->edges[e].call];
        int64_t over_ns =
            call->state == CALL_ENDED ? call->end_ns : found->job->processes[call->process].seen_ns;

        if (call->begin_ns > begin_ns)
            begin_ns = call->begin_ns;
        if (over_ns < end_ns)
            end_ns = over_ns;
        if (found->edges[e].from == start)
            return begin_ns <= end_ns;
        e = walk->by[found->edges[e].from];
    }
}

/* Whether all others of the group wait in a tagged collective for the rank an edge leads to. */
static bool is_left_out(const struct job *job, const struct edge *edge)
{
    size_t begin = job_operation_begin(job, edge->call), end = job_operation_end(job, begin);
    const struct call *call = &job->calls[edge->call];
    const struct group *group = &job->groups[call->group];
    uint32_t others = 0, waiting = 0;

    for (uint32_t r = 0; r < group->size; r++)
        others += group->process_of[r] >= 0 && group->process_of[r] != (int32_t)edge->to;
    for (size_t i = begin; i < end; i++)
        waiting += find_is_waiting(&job->calls[i]);
    return call->space == TCI_SPACE_TAGGED && others > 1 && waiting == others;
}

/* A call that one rank has left out looks like calls in two orders, once it waits in its next. */
static const struct edge *find_left_out(const struct walk *walk)
{
    const struct found *found = walk->found;

    for (size_t e = 0; e < found->edge_count; e++) {
        const struct edge *edge = &found->edges[e];

        if (is_mutual(walk, edge->from) && is_mutual(walk, edge->to) &&
            is_left_out(found->job, edge))
            return edge;
    }
    return NULL;
}

static void tell_left_out(const struct walk *walk, uint32_t members, struct finding *finding)
{
    const struct job *job = walk->found->job;
    const struct edge *edge = find_left_out(walk);
    size_t len = strlen(finding->text);
    char name[JOB_TEXT];

    if (edge != NULL) {
        finding->process = (int32_t)edge->to;
        finding->call = edge->call;
        snprintf(finding->text + len, sizeof(finding->text) - len, "; or rank %u has left out %s",
                 job->processes[edge->to].rank, job_call_name(job, &job->calls[edge->call], name));
    } else if (members == 2 && job->calls[finding->call].space == TCI_SPACE_TAGGED) {
        snprintf(finding->text + len, sizeof(finding->text) - len,
                 "; or one of them has left out the call that the other one waits in");
    }
}

static void tell_circle(const struct walk *walk, uint32_t start, size_t last, uint32_t members)
{
    struct found *found = walk->found;
    const struct job *job = found->job;
    const struct call *call = &job->calls[found->edges[last].call];
    struct finding *finding = find_add(found, FIND_CYCLE, (int32_t)start, found->edges[last].call);
    char more[64] = "";
    size_t len;

    if (finding == NULL)
        return;
    finding->ns = job->processes[call->process].seen_ns - call->begin_ns;
    if (members > 2)
        snprintf(more, sizeof(more), " (%u ranks wait for each other in all)", members);
    len = print_circle(walk, start, last, finding->text, sizeof(finding->text));
    if (len < sizeof(finding->text))
        snprintf(finding->text + len, sizeof(finding->text) - len,
                 "%s: make such calls in one order on all ranks, or wait for none before all are "
                 "made",
                 more);
    tell_left_out(walk, members, finding);
}

/* All that wait for each other, by whatever ways, are told of once. */
static void find_mutual(struct walk *walk, uint32_t start)
{
    struct found *found = walk->found;
    uint32_t members = 0;
    size_t last;

    for (uint32_t p = 0; p < found->job->process_count; p++)
        walk->reached[p] &= TOLD;
    spread(walk, start, FORTH);
    spread(walk, start, BACK);
    for (uint32_t p = 0; p < found->job->process_count; p++) {
        members += is_mutual(walk, p);
        if (is_mutual(walk, p))
            walk->reached[p] |= TOLD;
    }
    last = members > 1 ? find_circle(walk, start) : SIZE_MAX;
    if (last == SIZE_MAX || !is_at_once(walk, start, last))
        return;
    for (size_t e = 0; e < found->edge_count; e++)
        if (is_mutual(walk, found->edges[e].from) && is_mutual(walk, found->edges[e].to))
            found->edges[e].is_in_cycle = true;
    tell_circle(walk, start, last, members);
}

void find_cycles(struct found *found)
{
    uint32_t count = found->job->process_count;
    struct walk walk = {.found = found,
                        .by = malloc((count + 1) * sizeof(*walk.by)),
                        .queue = malloc((count + 1) * sizeof(*walk.queue)),
                        .reached = calloc(count + 1, sizeof(*walk.reached))};

    found->lacks_memory =
        found->lacks_memory || walk.by == NULL || walk.queue == NULL || walk.reached == NULL;
    for (uint32_t p = 0; p < count && !found->lacks_memory && found->edge_count > 1; p++)
        if ((walk.reached[p] & TOLD) == 0)
            find_mutual(&walk, p);
    free(walk.by);
    free(walk.queue);
    free(walk.reached);
}
