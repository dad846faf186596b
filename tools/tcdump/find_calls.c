/* find_calls.c - calls that differ, and calls that were not made. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport.h"
#include "find.h"
#include "tcdist/status.h"

/* ---- Calls that differ ---------------------------------------------------------------------- */

static bool is_alike(const struct call *a, const struct call *b)
{
    return strcmp(a->name, b->name) == 0 &&
           (!a->has_word || !b->has_word || (a->word == b->word && a->count == b->count));
}

/* Sends and receives are named apart, and have the lengths of the two compared elsewhere. */
static bool is_pair_of_two(const struct call *call)
{
    return call->low >= 0;
}

static uint32_t count_alike(const struct job *job, size_t begin, size_t end, size_t like)
{
    uint32_t count = 0;

    for (size_t i = begin; i < end; i++)
        count += is_alike(&job->calls[i], &job->calls[like]);
    return count;
}

/* Made by the other rank under another number: the two have come in different orders. */
static const struct call *made_elsewhere(const struct job *job, const struct call *call,
                                         uint32_t process)
{
    if (call->space != TCI_SPACE_ORDERED)
        return NULL;
    for (size_t i = 0; i < job->call_count; i++) {
        const struct call *other = &job->calls[i];

        if (other->process == process && other->group == call->group &&
            other->space == call->space && other->tag != call->tag && is_alike(other, call) &&
            (other->tag > call->tag ? other->tag - call->tag : call->tag - other->tag) <= 16)
            return other;
    }
    return NULL;
}

static void tell_mismatch(struct found *found, size_t most, size_t odd)
{
    const struct job *job = found->job;
    const struct call *a = &job->calls[most], *b = &job->calls[odd], *swapped;
    struct finding *finding = find_add(found, FIND_MISMATCH, (int32_t)b->process, odd);
    char usual[JOB_TEXT], other[JOB_TEXT];
    int len;

    if (finding == NULL)
        return;
    len = snprintf(finding->text, sizeof(finding->text), "rank %u calls %s where rank %u calls %s",
                   job->processes[b->process].rank, job_call_text(job, b, other),
                   job->processes[a->process].rank, job_call_text(job, a, usual));
    swapped = made_elsewhere(job, b, a->process);
    if (swapped == NULL)
        swapped = made_elsewhere(job, a, b->process);
    if (swapped != NULL)
        snprintf(finding->text + len, sizeof(finding->text) - (size_t)len,
                 "; rank %u has made that as ordered call %llu: the two ranks make them in "
                 "different orders",
                 job->processes[swapped->process].rank, (unsigned long long)swapped->tag);
    else if (a->space == TCI_SPACE_ORDERED)
        snprintf(finding->text + len, sizeof(finding->text) - (size_t)len,
                 "; ordered calls have to come in the same order on every rank");
}

static void compare_calls(struct found *found, size_t begin, size_t end)
{
    size_t most = begin, least = begin;

    for (size_t i = begin; i < end; i++) {
        uint32_t count = count_alike(found->job, begin, end, i);

        if (count > count_alike(found->job, begin, end, most))
            most = i;
        if (count < count_alike(found->job, begin, end, least))
            least = i;
    }
    if (is_alike(&found->job->calls[most], &found->job->calls[least])) {
        /* As many of one kind as of another: any that is unlike the first. */
        for (least = begin; least < end; least++)
            if (!is_alike(&found->job->calls[most], &found->job->calls[least]))
                break;
    }
    if (least < end)
        tell_mismatch(found, most, least);
}

void find_mismatches(struct found *found)
{
    const struct job *job = found->job;

    for (size_t begin = 0, end; begin < job->call_count; begin = end) {
        bool differs = false;

        end = job_operation_end(job, begin);
        for (size_t i = begin + 1; i < end && job->calls[begin].use != 0; i++)
            differs = differs || !is_alike(&job->calls[begin], &job->calls[i]);
        if (differs && !is_pair_of_two(&job->calls[begin]))
            compare_calls(found, begin, end);
    }
}

/* ---- Calls that were not made --------------------------------------------------------------- */

bool find_is_waiting(const struct call *call)
{
    return call->state == CALL_RUNS || call->state == CALL_DRAINS ||
           call->status == TC_ERR_TIMEOUT || call->status == TC_ERR_PEER_LOST;
}

int64_t find_came(const struct call *call)
{
    return call->ran_ns != 0 ? call->ran_ns : call->begin_ns;
}

static bool has_made(const struct job *job, size_t begin, size_t end, uint32_t process)
{
    for (size_t i = begin; i < end; i++)
        if (job->calls[i].process == process)
            return true;
    return false;
}

static int64_t first_begin(const struct job *job, size_t begin, size_t end)
{
    int64_t first = job->calls[begin].begin_ns;

    for (size_t i = begin; i < end; i++)
        if (job->calls[i].begin_ns < first)
            first = job->calls[i].begin_ns;
    return first;
}

/* A rank that was ahead may have been through it before its rings begin: as old as they are before
 * the others came, so sure it is that it was not. */
bool find_lacks(const struct job *job, size_t begin, size_t end, uint32_t process)
{
    const struct process *self = &job->processes[process];
    int64_t first_ns = first_begin(job, begin, end);

    if (has_made(job, begin, end, process) || job_has_mark(job, &job->calls[begin], process))
        return false;
    return (!self->is_forgetful || self->first_ns < first_ns) && self->marked_ns < first_ns;
}

/* What a process had not done when its trace was read, it may do yet.  One of which nothing is
 * known is taken for one that does nothing any more. */
static bool may_come_yet(const struct process *process)
{
    const struct trace_file *file = process->file;

    return file->view.ended_ns == 0 && (file->is_alive || file->view.copied_ns != 0);
}

/* A wait that goes on, for a process that goes on: for how long when that was looked at.  Traces
 * are read one after the other, and the call may be younger than that: negative. */
static int64_t waited_for(const struct job *job, const struct call *call, uint32_t process)
{
    if (call->state == CALL_ENDED || !may_come_yet(&job->processes[process]))
        return INT64_MAX;
    return job->processes[process].seen_ns - find_came(call);
}

static void add_edge(struct found *found, uint32_t from, uint32_t to, size_t call)
{
    int64_t waited_ns = waited_for(found->job, &found->job->calls[call], to);
    struct edge *edges;

    if (waited_ns < 0)
        return;
    edges = realloc(found->edges, (found->edge_count + 1) * sizeof(*edges));
    if (edges == NULL) {
        found->lacks_memory = true;
        return;
    }
    found->edges = edges;
    edges[found->edge_count++] =
        (struct edge){from, to, call, false, waited_ns < found->limits.wait_ns};
}

static void add_edges_to(struct found *found, size_t begin, size_t end, int32_t process)
{
    if (process < 0 || !find_lacks(found->job, begin, end, (uint32_t)process))
        return;
    for (size_t i = begin; i < end; i++)
        if (find_is_waiting(&found->job->calls[i]))
            add_edge(found, found->job->calls[i].process, (uint32_t)process, i);
}

void find_edges(struct found *found)
{
    const struct job *job = found->job;

    for (size_t begin = 0, end; begin < job->call_count; begin = end) {
        const struct call *call = &job->calls[begin];
        const struct group *group = &job->groups[call->group];
        bool is_waited_in = false;

        end = job_operation_end(job, begin);
        for (size_t i = begin; i < end; i++)
            is_waited_in = is_waited_in || find_is_waiting(&job->calls[i]);
        if (!is_waited_in)
            continue;
        if (call->low >= 0) {
            add_edges_to(found, begin, end, job_process_of(job, call->group, call->low));
            if (call->high != call->low)
                add_edges_to(found, begin, end, job_process_of(job, call->group, call->high));
            continue;
        }
        for (uint32_t r = 0; r < group->size; r++)
            add_edges_to(found, begin, end, group->process_of[r]);
    }
}

/* Ranks that wait in the operation of a call for one that is not in it: "ranks 0, 1". */
static void list_waiters(const struct found *found, const struct edge *edge, char *text,
                         size_t room)
{
    const struct job *job = found->job;
    size_t begin = job_operation_begin(job, edge->call), end = job_operation_end(job, begin);
    size_t len = 0, count = 0;

    text[0] = '\0';
    for (size_t i = begin; i < end && len < room; i++)
        if (find_is_waiting(&job->calls[i])) {
            if (count < 8)
                len += (size_t)snprintf(text + len, room - len, "%s%u", count == 0 ? "" : ", ",
                                        job->processes[job->calls[i].process].rank);
            count++;
        }
    if (count > 8 && len < room)
        snprintf(text + len, room - len, " and %zu more", count - 8);
}

static void tell_missing(struct found *found, const struct edge *edge, size_t more)
{
    const struct job *job = found->job;
    const struct call *call = &job->calls[edge->call];
    struct finding *finding = find_add(found, FIND_MISSING, (int32_t)edge->to, edge->call);
    const struct process *waiter = &job->processes[call->process];
    char name[JOB_TEXT], waiters[JOB_TEXT], last[2 * JOB_TEXT], since[32], rest[64] = "";
    bool is_many;

    if (finding == NULL)
        return;
    finding->ns = (call->state == CALL_ENDED ? call->end_ns : waiter->seen_ns) - call->begin_ns;
    list_waiters(found, edge, waiters, sizeof(waiters));
    is_many = strchr(waiters, ',') != NULL;
    if (more > 0)
        snprintf(rest, sizeof(rest), ", nor %zu other%s waited for", more,
                 more == 1 ? " that is" : "s that are");
    snprintf(finding->text, sizeof(finding->text),
             "rank %u never entered %s%s: %s %s %s for it for %s; %s%s",
             job->processes[edge->to].rank, job_call_text(job, call, name), rest,
             is_many ? "ranks" : "rank", waiters,
             call->state == CALL_ENDED ? "waited"
             : is_many                 ? "wait"
                                       : "waits",
             job_time_text(finding->ns, since), find_last_words(job, edge->to, last),
             call->space == TCI_SPACE_ORDERED
                 ? "; ordered calls are counted, so that it may have left out an earlier one"
                 : "");
}

/* One finding a rank: the operation that waits for it longest, and how many more. */
void find_missing(struct found *found)
{
    const struct job *job = found->job;

    for (uint32_t p = 0; p < job->process_count; p++) {
        const struct edge *first = NULL;
        size_t operations = 0, last_begin = SIZE_MAX;

        for (size_t e = 0; e < found->edge_count; e++) {
            const struct edge *edge = &found->edges[e];
            size_t begin = job_operation_begin(job, edge->call);

            if (edge->to != p || edge->is_in_cycle || edge->is_short)
                continue;
            operations += begin != last_begin;
            last_begin = begin;
            if (first == NULL || job->calls[edge->call].begin_ns < job->calls[first->call].begin_ns)
                first = edge;
        }
        if (first != NULL)
            tell_missing(found, first, operations - 1);
    }
}
