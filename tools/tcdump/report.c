/* report.c - what was found, in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Links that are listed, if there are no more. */
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

/* ---- Long lines ------------------------------------------------------------------------------ */

enum { COLUMNS = 100 };

void report_wrapped(const char *text, int indent, FILE *file)
{
    int column = 0;

    while (*text != '\0') {
        int gap = (int)strspn(text, " "), len = (int)strcspn(text + gap, " "), blanks = gap;

        if (column > 0 && column + gap + len > COLUMNS) {
            fprintf(file, "\n");
            column = 0;
            blanks = indent;
        }
        fprintf(file, "%*s%.*s", blanks, "", len, text + gap);
        column += blanks + len;
        text += gap + len;
    }
    fprintf(file, "\n");
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

static void print_finding(const struct finding *finding, FILE *file)
{
    char text[sizeof(finding->text) + 32];

    snprintf(text, sizeof(text), "  %-9s  %s", report_kind(finding->kind), finding->text);
    report_wrapped(text, 13, file);
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
                "%zu collective%s could not be compared between ranks: past 65536 scattered "
                "tags the uses of some are not counted\n",
                found->not_compared, found->not_compared == 1 ? "" : "s");
    print_ranks(job, file);
    report_flight(found, file);
    print_lateness(found, file);
    print_paths(found, file);
    if (found->finding_count == 0) {
        fprintf(file, "\nnothing is wrong%s\n", forgetful(job) > 0 ? " in what was kept" : "");
        return;
    }
    fprintf(file, "\nfound\n");
    for (size_t i = 0; i < found->finding_count; i++)
        print_finding(&found->findings[i], file);
    if (found->failed_more > 0)
        fprintf(file, "  %-9s  and %zu operation%s more\n", report_kind(FIND_FAILED),
                found->failed_more, found->failed_more == 1 ? "" : "s");
}
