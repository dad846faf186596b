/* find_states.c - processes that are gone, loops that do not turn, what has failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "find.h"
#include "tcdist/status.h"

/* Whether a process was in a group to its end. */
static bool was_in_group(const struct tci_trace_view *view)
{
    struct tci_trace_seen_group group;

    for (uint32_t i = 0; i < view->tables[TCI_TRACE_GROUPS].count; i++)
        if (tci_trace_view_group(view, i, &group) && group.state != TCI_TRACE_GROUP_LEFT)
            return true;
    return false;
}

static void find_gone(struct found *found, uint32_t p)
{
    const struct process *process = &found->job->processes[p];
    const struct trace_file *file = process->file;
    struct finding *finding;
    char before[32], last[2 * JOB_TEXT];

    if (!file->is_here || file->is_alive || file->view.ended_ns != 0 || file->view.copied_ns != 0 ||
        !was_in_group(&file->view))
        return;
    finding = find_add(found, FIND_GONE, (int32_t)p, SIZE_MAX);
    if (finding == NULL)
        return;
    finding->ns = found->job->seen_ns - process->seen_ns;
    snprintf(finding->text, sizeof(finding->text),
             "rank %u (pid %" PRIu64 " on %s) is gone without having left its group: it was killed "
             "or has crashed; its last sign is %s before the last of all; %s",
             process->rank, file->view.pid, file->view.host, job_time_text(finding->ns, before),
             find_last_words(found->job, p, last));
}

static void find_stall(struct found *found, uint32_t p)
{
    const struct process *process = &found->job->processes[p];
    const struct trace_file *file = process->file;
    int64_t silent_ns = (int64_t)(file->seen_ns - file->view.loop_ns);
    struct finding *finding;
    const char *where = NULL;
    char text[32];

    if (file->view.loop_part == TCI_PART_USER)
        where = "a continuation of the application holds it";
    else if (file->view.loop_part == TCI_PART_TURNING)
        where = "it is stopped, or has no processor";
    else if (file->view.loop_part == TCI_PART_AWAY &&
             file->view.counters[TCI_COUNT_BEGUN] >
                 file->view.counters[TCI_COUNT_FINISHED] + file->view.counters[TCI_COUNT_FAILED])
        where = "the application does not turn it, and operations are in flight";
    if (where == NULL || silent_ns < found->limits.stalled_ns || file->view.ended_ns != 0 ||
        (!file->is_alive && file->view.copied_ns == 0))
        return;
    finding = find_add(found, FIND_STALL, (int32_t)p, SIZE_MAX);
    if (finding == NULL)
        return;
    finding->ns = silent_ns;
    snprintf(finding->text, sizeof(finding->text), "the loop of rank %u has not turned for %s: %s",
             process->rank, job_time_text(silent_ns, text), where);
}

/* The longest time for which something held the loop of a process. */
static void find_past_stall(struct found *found, uint32_t p)
{
    const struct process *process = &found->job->processes[p];
    const struct tci_trace_view *view = &process->file->view;
    struct tci_trace_seen event, longest = {.end_ns = 0};
    struct finding *finding;
    char name[TCI_TRACE_NAME_TEXT], text[32];

    for (uint64_t n = tci_trace_view_first(view); n < view->next; n++)
        if (tci_trace_view_event(view, n, &event) && event.kind == TCI_TRACE_STALL &&
            event.end_ns - event.begin_ns > longest.end_ns - longest.begin_ns)
            longest = event;
    if ((int64_t)(longest.end_ns - longest.begin_ns) < found->limits.stalled_ns)
        return;
    finding = find_add(found, FIND_STALL, (int32_t)p, SIZE_MAX);
    if (finding == NULL)
        return;
    finding->ns = (int64_t)(longest.end_ns - longest.begin_ns);
    snprintf(finding->text, sizeof(finding->text), "the loop of rank %u was held for %s by %s",
             process->rank, job_time_text(finding->ns, text),
             tci_trace_view_name(view, longest.name, name));
}

/* ---- Failures ------------------------------------------------------------------------------- */

/* What the application has brought about itself is nothing wrong. */
static bool is_failure(int32_t status)
{
    return status != TC_OK && status != TC_ERR_CANCELLED && status != TC_ERR_CLOSED;
}

static void find_broken(struct found *found, uint32_t p)
{
    const struct tci_trace_view *view = &found->job->processes[p].file->view;
    struct tci_trace_seen_group group;

    for (uint32_t i = 0; i < view->tables[TCI_TRACE_GROUPS].count; i++) {
        struct finding *finding;

        if (!tci_trace_view_group(view, i, &group) || !is_failure(group.status))
            continue;
        finding = find_add(found, FIND_FAILED, (int32_t)p, SIZE_MAX);
        if (finding == NULL)
            return;
        snprintf(finding->text, sizeof(finding->text), "the group of rank %u is broken (%s): %s",
                 found->job->processes[p].rank, tc_status_string((tc_status_t)group.status),
                 group.reason);
    }
}

/* Ranks of one operation that are listed, and operations: of hundreds that failed by one cause,
 * these few say it; the rest is counted. */
enum { RANKS_MAX = 8, FAILED_MAX = 8 };

static void tell_failed(struct found *found, size_t begin, size_t end)
{
    const struct job *job = found->job;
    struct finding *finding;
    char name[JOB_TEXT], ranks[JOB_TEXT] = "", more[32] = "", blame[64] = "";
    const struct call *first = NULL;
    size_t len = 0, count = 0;

    for (size_t i = begin; i < end; i++) {
        const struct call *call = &job->calls[i];

        if (!is_failure(call->status))
            continue;
        first = first == NULL ? call : first;
        if (len < sizeof(ranks) && count < RANKS_MAX)
            len += (size_t)snprintf(ranks + len, sizeof(ranks) - len, "%s%u",
                                    count == 0 ? "" : ", ", job->processes[call->process].rank);
        count++;
    }
    finding = first == NULL ? NULL : find_add(found, FIND_FAILED, first->culprit, begin);
    if (finding == NULL)
        return;
    if (count > RANKS_MAX)
        snprintf(more, sizeof(more), " and %zu more", count - RANKS_MAX);
    if (first->culprit >= 0)
        snprintf(blame, sizeof(blame), "; rank %u is blamed", job->processes[first->culprit].rank);
    snprintf(finding->text, sizeof(finding->text), "%s failed on rank%s %s%s (%s)%s",
             job_call_name(job, first, name), count > 1 ? "s" : "", ranks, more,
             tc_status_string((tc_status_t)first->status), blame);
}

static bool has_failed(const struct job *job, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (is_failure(job->calls[i].status))
            return true;
    return false;
}

static void find_failed(struct found *found)
{
    const struct job *job = found->job;
    size_t told = 0;

    for (size_t begin = 0, end; begin < job->call_count; begin = end) {
        end = job_operation_end(job, begin);
        if (!has_failed(job, begin, end))
            continue;
        if (told++ < FAILED_MAX)
            tell_failed(found, begin, end);
        else
            found->failed_more++;
    }
}

void find_states(struct found *found)
{
    for (uint32_t p = 0; p < found->job->process_count; p++) {
        find_gone(found, p);
        find_stall(found, p);
        find_past_stall(found, p);
        find_broken(found, p);
    }
    find_failed(found);
}
