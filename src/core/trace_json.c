/* trace_json.c - the events of a context as a Chrome trace. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "core/context.h"
#include "core/error.h"
#include "tcdist/trace.h"

struct writer {
    FILE *file;
    bool has_events;
};

/* A process is a rank; events without one are those of a process that comes after all ranks. */
#define NO_RANK_PID INT32_MAX

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(file, "\\u%04x", *c);
        else
            fputc(*c, file);
    }
    fputc('"', file);
}

/* Times are microseconds with three decimals. */
static void write_time(FILE *file, const char *key, uint64_t ns)
{
    fprintf(file, ",\"%s\":%" PRIu64 ".%03u", key, (uint64_t)(ns / TCI_NS_PER_US),
            (unsigned)(ns % TCI_NS_PER_US));
}

static void write_event(const tc_trace_event *event, void *arg)
{
    struct writer *writer = arg;
    FILE *file = writer->file;
    bool is_span = event->end_ns > event->begin_ns;

    fputs(writer->has_events ? ",\n{\"name\":" : "\n{\"name\":", file);
    writer->has_events = true;
    write_string(file, event->name);
    fputs(",\"cat\":", file);
    write_string(file, event->category);
    fputs(is_span ? ",\"ph\":\"X\"" : ",\"ph\":\"i\",\"s\":\"t\"", file);
    write_time(file, "ts", event->begin_ns);
    if (is_span)
        write_time(file, "dur", event->end_ns - event->begin_ns);
    fprintf(file, ",\"pid\":%d,\"tid\":%u", event->rank < 0 ? NO_RANK_PID : event->rank,
            event->thread);
    /* The tag is a string: the readers' numbers have 53 bits. */
    fprintf(file, ",\"args\":{\"tag\":\"%" PRIu64 "\",\"bytes\":%" PRIu64, event->tag,
            event->bytes);
    if (event->algorithm != NULL) {
        fputs(",\"algorithm\":", file);
        write_string(file, event->algorithm);
    }
    fputs("}}", file);
}

/* The file is made under its name at once: a trace that was cut short is one more to look at. */
tc_status_t tc_trace_write(tc_context *context, const char *path)
{
    struct writer writer = {.has_events = false};
    bool has_failed;

    if (context == NULL || path == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "trace_write", "the context or the path is NULL");
    writer.file = fopen(path, "we");
    if (writer.file == NULL)
        return tci_fail(TC_ERR_INVALID_ARG, "trace_write", "open %s: %s", path, strerror(errno));
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", writer.file);
    tc_trace_visit(context, write_event, &writer);
    fputs("\n]}\n", writer.file);
    has_failed = ferror(writer.file) != 0;
    if (fclose(writer.file) != 0 || has_failed)
        return tci_fail(TC_ERR_INVALID_ARG, "trace_write", "write %s: %s", path, strerror(errno));
    return TC_OK;
}
