/* chrome.c - the timeline as JSON that Perfetto, speedscope and Chrome's viewer read. */
/* SPDX-License-Identifier: Apache-2.0 */
/* Source: "Trace Event Format", the document of the Catapult project. */
#include <inttypes.h>

#include "report.h"

struct writer {
    FILE *file;
    const struct job *job;
    bool has_events;
    uint64_t id; /* of the next pair of events that belong together */
};

/* Microseconds since the first event. */
static double micros(const struct writer *writer, int64_t ns)
{
    return (double)(ns - writer->job->first_ns) / 1e3;
}

static void begin_event(struct writer *writer, const char *name, const char *phase)
{
    /* Names are printable ASCII: two of them need an escape. */
    fputs(writer->has_events ? ",\n{\"name\":\"" : "\n{\"name\":\"", writer->file);
    writer->has_events = true;
    for (; *name != '\0'; name++)
        fprintf(writer->file, *name == '"' || *name == '\\' ? "\\%c" : "%c", *name);
    fprintf(writer->file, "\",\"ph\":\"%s\"", phase);
}

static void end_event(struct writer *writer, uint32_t process, uint32_t thread)
{
    fprintf(writer->file, ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 "}",
            writer->job->processes[process].rank, thread);
}

/* Calls and transfers overlap: a begin and an end with a number in common. */
static void write_pair(struct writer *writer, const char *name, const char *category,
                       const int64_t times[2])
{
    begin_event(writer, name, "b");
    fprintf(writer->file, ",\"cat\":\"%s\",\"id\":%" PRIu64 ",\"ts\":%.3f", category, writer->id,
            micros(writer, times[0]));
}

static void write_pair_end(struct writer *writer, const char *name, const char *category,
                           const int64_t times[2])
{
    begin_event(writer, name, "e");
    fprintf(writer->file, ",\"cat\":\"%s\",\"id\":%" PRIu64 ",\"ts\":%.3f", category, writer->id++,
            micros(writer, times[1]));
}

static void write_call(struct writer *writer, const struct call *call)
{
    const struct job *job = writer->job;
    bool is_over = call->state == CALL_ENDED;
    int64_t end = is_over ? call->end_ns : job->processes[call->process].seen_ns;
    const int64_t times[2] = {call->begin_ns, end > call->begin_ns ? end : call->begin_ns};
    char name[JOB_TEXT], text[JOB_TEXT];

    job_call_name(job, call, name);
    write_pair(writer, name, "operation", times);
    /* The tag is a string: the readers' numbers have 53 bits. */
    fprintf(writer->file,
            ",\"args\":{\"call\":\"%s\",\"tag\":\"%" PRIu64
            "\",\"algorithm\":\"%s\",\"bytes\":%" PRIu64 ",\"state\":\"%s\"}",
            job_call_text(job, call, text), call->tag, call->algorithm, call->bytes,
            !is_over            ? "in flight"
            : call->status != 0 ? "failed"
                                : "finished");
    end_event(writer, call->process, call->thread);
    write_pair_end(writer, name, "operation", times);
    end_event(writer, call->process, call->thread);
}

static void write_transfer(struct writer *writer, const struct transfer *transfer)
{
    const int64_t times[2] = {transfer->begin_ns, transfer->end_ns};
    char name[64], peer[JOB_TEXT];

    snprintf(name, sizeof(name), "%s %.40s", transfer->is_send ? "to" : "from",
             job_rank_text(writer->job, transfer->group,
                           transfer->is_send ? transfer->to : transfer->from, peer));
    write_pair(writer, name, "transfer", times);
    fprintf(writer->file, ",\"args\":{\"tag\":\"%" PRIu64 "\",\"bytes\":%" PRIu64 "}",
            transfer->tag, transfer->bytes);
    end_event(writer, transfer->process, 0);
    write_pair_end(writer, name, "transfer", times);
    end_event(writer, transfer->process, 0);
}

/* Spans of one thread nest: one complete event each. */
static void write_spans(struct writer *writer, uint32_t p)
{
    const struct process *process = &writer->job->processes[p];
    const struct tci_trace_view *view = &process->file->view;
    struct tci_trace_seen event;
    char name[TCI_TRACE_NAME_TEXT];

    for (uint64_t n = tci_trace_view_first(view); n < view->next; n++) {
        if (!tci_trace_view_event(view, n, &event) ||
            (event.kind != TCI_TRACE_APP && event.kind != TCI_TRACE_FOLD &&
             event.kind != TCI_TRACE_STALL))
            continue;
        tci_trace_view_name(view, event.name, name);
        begin_event(writer, event.kind == TCI_TRACE_FOLD ? "fold" : name, "X");
        fprintf(writer->file, ",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f",
                event.kind == TCI_TRACE_APP    ? "app"
                : event.kind == TCI_TRACE_FOLD ? "step"
                                               : "loop",
                micros(writer, (int64_t)event.begin_ns + process->shift_ns),
                (double)(event.end_ns - event.begin_ns) / 1e3);
        fprintf(writer->file, ",\"args\":{\"tag\":\"%" PRIu64 "\"}", event.tag);
        end_event(writer, p, event.thread);
    }
}

bool report_chrome(const struct job *job, FILE *file)
{
    struct writer writer = {.file = file, .job = job};

    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", file);
    for (uint32_t p = 0; p < job->process_count; p++) {
        begin_event(&writer, "process_name", "M");
        fprintf(file, ",\"args\":{\"name\":\"rank %" PRIu32 "\"}", job->processes[p].rank);
        end_event(&writer, p, 0);
        write_spans(&writer, p);
    }
    for (size_t i = 0; i < job->call_count; i++)
        write_call(&writer, &job->calls[i]);
    for (size_t i = 0; i < job->transfer_count; i++)
        write_transfer(&writer, &job->transfers[i]);
    fputs("\n]}\n", file);
    return true;
}
