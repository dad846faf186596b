/* find_states.c - processes that are gone, loops that do not turn, what has failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Ranks of one finding that are listed, and operations that have failed: of hundreds by one cause,
 * these few say it; the rest is counted. */
enum { RANKS_MAX = 8, FAILED_MAX = 8 };

/* "s 0, 1, 3 and 12 more" of count ranks, added one by one; " 3" of one. */
struct ranks {
    char text[JOB_TEXT];
    size_t len, count;
};

static void add_rank(struct ranks *ranks, uint32_t rank)
{
    if (ranks->count < RANKS_MAX && ranks->len < sizeof(ranks->text))
        ranks->len += (size_t)snprintf(ranks->text + ranks->len, sizeof(ranks->text) - ranks->len,
                                       "%s%u", ranks->count == 0 ? " " : ", ", rank);
    ranks->count++;
}

static const char *print_ranks(const struct ranks *ranks, char text[JOB_TEXT + 32])
{
    char more[32] = "";

    if (ranks->count > RANKS_MAX)
        snprintf(more, sizeof(more), " and %zu more", ranks->count - RANKS_MAX);
    snprintf(text, JOB_TEXT + 32, "%s%s%s", ranks->count > 1 ? "s" : "", ranks->text, more);
    return text;
}

/* A group as one of its ranks has found it. */
struct broken {
    uint32_t process;
    struct tci_trace_seen_group group;
};

static int compare_causes(const struct broken *a, const struct broken *b)
{
    if (a->group.number != b->group.number)
        return a->group.number < b->group.number ? -1 : 1;
    if (a->group.status != b->group.status)
        return a->group.status < b->group.status ? -1 : 1;
    return strcmp(a->group.reason, b->group.reason);
}

static int compare_broken(const void *left, const void *right)
{
    const struct broken *a = left, *b = right;
    int order = compare_causes(a, b);

    return order != 0 ? order : (a->process > b->process) - (a->process < b->process);
}

/* All groups that are broken, in the order of their causes; NULL: there is none, or no memory. */
static struct broken *list_broken(struct found *found, size_t *count_out)
{
    const struct job *job = found->job;
    struct broken *list = NULL, *more, one;
    size_t count = 0;

    for (one.process = 0; one.process < job->process_count; one.process++) {
        const struct tci_trace_view *view = &job->processes[one.process].file->view;

        for (uint32_t i = 0; i < view->tables[TCI_TRACE_GROUPS].count; i++) {
            if (!tci_trace_view_group(view, i, &one.group) || !is_failure(one.group.status))
                continue;
            more = realloc(list, (count + 1) * sizeof(*list));
            if (more == NULL) {
                found->lacks_memory = true;
                break;
            }
            list = more;
            list[count++] = one;
        }
    }
    if (count > 0)
        qsort(list, count, sizeof(*list), compare_broken);
    *count_out = count;
    return list;
}

static void find_broken(struct found *found)
{
    size_t count = 0;
    struct broken *list = list_broken(found, &count);
    char text[JOB_TEXT + 32];

    for (size_t begin = 0, end; begin < count; begin = end) {
        struct ranks ranks = {.len = 0};
        struct finding *finding;

        for (end = begin; end < count && compare_causes(&list[begin], &list[end]) == 0; end++)
            add_rank(&ranks, found->job->processes[list[end].process].rank);
        finding = find_add(found, FIND_FAILED, (int32_t)list[begin].process, SIZE_MAX);
        if (finding == NULL)
            break;
        snprintf(finding->text, sizeof(finding->text), "the group of rank%s is broken (%s): %s",
                 print_ranks(&ranks, text), tc_status_string((tc_status_t)list[begin].group.status),
                 list[begin].group.reason);
    }
    free(list);
}

static void tell_failed(struct found *found, size_t begin, size_t end)
{
    const struct job *job = found->job;
    struct finding *finding;
    char name[JOB_TEXT], text[JOB_TEXT + 32], blame[64] = "";
    const struct call *first = NULL;
    struct ranks ranks = {.len = 0};

    for (size_t i = begin; i < end; i++) {
        const struct call *call = &job->calls[i];

        if (!is_failure(call->status))
            continue;
        first = first == NULL ? call : first;
        add_rank(&ranks, job->processes[call->process].rank);
    }
    finding = first == NULL ? NULL : find_add(found, FIND_FAILED, first->culprit, begin);
    if (finding == NULL)
        return;
    if (first->culprit >= 0)
        snprintf(blame, sizeof(blame), "; rank %u is blamed", job->processes[first->culprit].rank);
    snprintf(finding->text, sizeof(finding->text), "%s failed on rank%s (%s)%s",
             job_call_name(job, first, name), print_ranks(&ranks, text),
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
    }
    find_broken(found);
    find_failed(found);
}
