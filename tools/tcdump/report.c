/* report.c - what was found, in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* In flight and late ranks that are listed; the rest is counted. */
enum { LISTED_MAX = 20 };

const char *report_kind(enum finding_kind kind)
{
    static const char *const names[FIND_KINDS] = {
        [FIND_GONE] = "gone",     [FIND_MISMATCH] = "mismatch", [FIND_CYCLE] = "cycle",
        [FIND_STALL] = "stalled", [FIND_MISSING] = "missing",   [FIND_LINK] = "slow-link",
        [FIND_LATE] = "late",     [FIND_FAILED] = "failed",
    };

    return names[kind];
}

const char *report_state(const struct trace_file *file)
{
    if (file->view.ended_ns != 0)
        return "ended";
    if (file->view.copied_ns != 0)
        return "a dump";
    if (file->is_alive)
        return "runs";
    return file->is_here ? "gone" : "not known";
}

static uint64_t in_flight(const struct tci_trace_view *view)
{
    uint64_t over = view->counters[TCI_COUNT_FINISHED] + view->counters[TCI_COUNT_FAILED];
    uint64_t begun = view->counters[TCI_COUNT_BEGUN];

    return begun > over ? begun - over : 0;
}

static void print_ranks(const struct job *job, FILE *file)
{
    fprintf(file, "%5s %8s  %-16s %-9s %10s %10s %9s %9s  %s\n", "rank", "pid", "host", "process",
            "last sign", "finished", "failed", "in flight", "clock");
    for (uint32_t p = 0; p < job->process_count; p++) {
        const struct process *process = &job->processes[p];
        const struct tci_trace_view *view = &process->file->view;
        char ago[32], doubt[32], clock[48];

        if (process->doubt_ns < 0)
            snprintf(clock, sizeof(clock), "by the time of day");
        else if (process->doubt_ns == 0)
            snprintf(clock, sizeof(clock), "the same");
        else
            snprintf(clock, sizeof(clock), "set right to %s",
                     job_time_text(process->doubt_ns, doubt));
        fprintf(file,
                "%5" PRIu32 " %8" PRIu64 "  %-16.16s %-9s %10s %10" PRIu64 " %9" PRIu64 " %9" PRIu64
                "  %s\n",
                process->rank, view->pid, view->host, report_state(process->file),
                job_time_text(job->seen_ns - process->seen_ns, ago),
                view->counters[TCI_COUNT_FINISHED], view->counters[TCI_COUNT_FAILED],
                in_flight(view), clock);
    }
}

/* ---- In flight ------------------------------------------------------------------------------ */

/* "ranks 0, 1, 2" of those that have made the calls begin … end and are in them. */
static void print_who(const struct job *job, size_t begin, size_t end, FILE *file)
{
    size_t count = 0;

    for (size_t i = begin; i < end; i++) {
        if (job->calls[i].state == CALL_ENDED)
            continue;
        if (count < LISTED_MAX)
            fprintf(file, "%s%" PRIu32, count == 0 ? "" : ", ",
                    job->processes[job->calls[i].process].rank);
        count++;
    }
    if (count > LISTED_MAX)
        fprintf(file, " and %zu more", count - LISTED_MAX);
}

/* Whom a call waits for by its open transfers; each once. */
static void print_waits(const struct job *job, const struct call *call, FILE *file)
{
    const struct tci_trace_seen_live *live = &call->live;
    uint32_t open = live->receives + live->sends;

    if (call->state == CALL_WAITS) {
        fprintf(file, "waits for the futures to start after");
        return;
    }
    if (call->state == CALL_DRAINS)
        fprintf(file, "has failed, and ends; ");
    for (uint32_t w = 0; w < live->waits_count; w++) {
        char rank[JOB_TEXT];
        bool is_told = false;

        for (uint32_t before = 0; before < w; before++)
            is_told = is_told || (live->waits[before] == live->waits[w] &&
                                  live->is_send[before] == live->is_send[w]);
        if (!is_told)
            fprintf(file, "%s%s %s", w == 0 ? "" : ", ", live->is_send[w] ? "to send to" : "for",
                    job_rank_text(job, call->group, live->waits[w], rank));
    }
    if (live->waits_count == 0)
        fprintf(file, "%s", open == 0 ? "at its own work" : "with transfers open");
    if (open > live->waits_count && live->waits_count > 0)
        fprintf(file, ", and %" PRIu32 " transfers more", open - live->waits_count);
}

static void print_operation(const struct found *found, size_t begin, size_t end, FILE *file)
{
    const struct job *job = found->job;
    char name[JOB_TEXT], age[32];
    size_t listed = 0;

    fprintf(file, "  %s: in it rank ", job_call_text(job, &job->calls[begin], name));
    print_who(job, begin, end, file);
    fprintf(file, "\n");
    for (size_t i = begin; i < end && listed < LISTED_MAX; i++) {
        const struct call *call = &job->calls[i];
        const struct process *process = &job->processes[call->process];

        if (call->state == CALL_ENDED)
            continue;
        listed++;
        fprintf(file, "    rank %" PRIu32 " for %s: ", process->rank,
                job_time_text(process->seen_ns - call->begin_ns, age));
        print_waits(job, call, file);
        for (size_t e = 0; e < found->edge_count; e++)
            if (found->edges[e].call == i)
                fprintf(file, "; rank %" PRIu32 " has not entered it",
                        job->processes[found->edges[e].to].rank);
        fprintf(file, "\n");
    }
}

static bool is_open(const struct job *job, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (job->calls[i].state != CALL_ENDED)
            return true;
    return false;
}

static void print_in_flight(const struct found *found, FILE *file)
{
    const struct job *job = found->job;
    size_t told = 0;

    for (size_t begin = 0, end; begin < job->call_count; begin = end) {
        end = job_operation_end(job, begin);
        if (!is_open(job, begin, end))
            continue;
        if (told == 0)
            fprintf(file, "\nin flight\n");
        if (told++ < LISTED_MAX)
            print_operation(found, begin, end, file);
    }
    if (told > LISTED_MAX)
        fprintf(file, "  and %zu operations more\n", told - LISTED_MAX);
}

/* ---- Late ranks and slow links -------------------------------------------------------------- */

static void print_lateness(const struct found *found, FILE *file)
{
    const struct job *job = found->job;
    bool has_told = false;

    for (uint32_t p = 0; p < job->process_count; p++) {
        const struct lateness *late = &found->lateness[p];
        char total[32], most[32], name[JOB_TEXT];

        if (late->lasts == 0)
            continue;
        if (!has_told)
            fprintf(file, "\nlast to come to collectives\n%5s %16s %12s %12s  %s\n", "rank",
                    "times", "late in all", "at most", "in");
        has_told = true;
        fprintf(file, "%5" PRIu32 " %6" PRIu32 " of %6" PRIu32 " %12s %12s  %s\n",
                job->processes[p].rank, late->lasts, late->calls,
                job_time_text(late->total_ns, total), job_time_text(late->most_ns, most),
                job_call_name(job, &job->calls[late->most_call], name));
    }
}

static void print_paths(const struct found *found, FILE *file)
{
    const struct job *job = found->job;
    size_t listed = found->path_count < LISTED_MAX ? found->path_count : 0;

    if (listed > 0)
        fprintf(file, "\nmessages once both ends were ready\n%5s %5s %10s %14s %12s %9s\n", "from",
                "to", "messages", "bytes", "median", "to usual");
    for (size_t i = 0; i < listed; i++) {
        const struct path *path = &found->paths[i];
        char median[32];

        fprintf(file, "%5" PRIu32 " %5" PRIu32 " %10" PRIu32 " %14" PRIu64 " %12s %9.1f\n",
                job->processes[path->from].rank, job->processes[path->to].rank, path->messages,
                path->bytes, job_time_text(path->median_ns, median), path->ratio);
    }
}

static uint32_t forgetful(const struct job *job)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < job->process_count; p++)
        count += job->processes[p].is_forgetful;
    return count;
}

static uint64_t left_out(const struct job *job)
{
    uint64_t count = 0;

    for (uint32_t p = 0; p < job->process_count; p++)
        count += job->processes[p].file->view.counters[TCI_COUNT_LEFT_OUT];
    return count;
}

void report_print(const struct found *found, FILE *file)
{
    const struct job *job = found->job;
    char seen[32];

    fprintf(file, "%" PRIu32 " trace%s, %s from the first event to the last sign\n",
            job->process_count, job->process_count == 1 ? "" : "s",
            job_time_text(job->seen_ns - job->first_ns, seen));
    if (forgetful(job) > 0)
        fprintf(file,
                "%" PRIu32 " of them have let go of their oldest events: TCDIST_TRACE_EVENTS keeps "
                "more\n",
                forgetful(job));
    if (left_out(job) > 0)
        fprintf(file,
                "%" PRIu64 " short operations of floods left no events: TCDIST_TRACE_ALL=1 keeps "
                "them\n",
                left_out(job));
    if (found->not_compared > 0)
        fprintf(file,
                "%zu collective%s could not be compared between ranks: past 65536 different tags "
                "the uses of a new one are not counted\n",
                found->not_compared, found->not_compared == 1 ? "" : "s");
    print_ranks(job, file);
    print_in_flight(found, file);
    print_lateness(found, file);
    print_paths(found, file);
    if (found->finding_count == 0) {
        fprintf(file, "\nnothing is wrong%s\n", forgetful(job) > 0 ? " in what was kept" : "");
        return;
    }
    fprintf(file, "\nfound\n");
    for (size_t i = 0; i < found->finding_count; i++)
        fprintf(file, "  %-9s  %s\n", report_kind(found->findings[i].kind),
                found->findings[i].text);
}
