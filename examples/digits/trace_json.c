/* trace_json.c - writes a timeline as JSON that Perfetto, speedscope and Chrome's viewer read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "timeline.h"

/* Source: "Trace Event Format", the document of the Catapult project. */

static double micros(const struct timeline *timeline, uint64_t at_ns)
{
    return (double)(at_ns - timeline->begin_ns) / 1000;
}

/* An event of a phase at a time in microseconds; NULL without memory. */
static cJSON *add_event(cJSON *events, const char *name, const char *phase, double at,
                        const struct span *span)
{
    cJSON *event = cJSON_CreateObject();

    if (!cJSON_AddItemToArray(events, event)) {
        cJSON_Delete(event);
        return NULL;
    }
    if (cJSON_AddStringToObject(event, "name", name) == NULL ||
        cJSON_AddStringToObject(event, "ph", phase) == NULL ||
        cJSON_AddNumberToObject(event, "ts", at) == NULL ||
        cJSON_AddNumberToObject(event, "pid", span->rank) == NULL ||
        cJSON_AddNumberToObject(event, "tid", span->thread) == NULL)
        return NULL;
    return event;
}

/* Spans of one thread nest: one complete event each. */
static bool add_complete(cJSON *events, const struct timeline *timeline, const struct span *span)
{
    cJSON *event = add_event(events, span->name, "X", micros(timeline, span->begin_ns), span);
    cJSON *args = event == NULL ? NULL : cJSON_AddObjectToObject(event, "args");
    double micros_long = (double)(span->end_ns - span->begin_ns) / 1000;

    return args != NULL && cJSON_AddStringToObject(event, "cat", "compute") != NULL &&
           cJSON_AddNumberToObject(event, "dur", micros_long) != NULL &&
           cJSON_AddNumberToObject(args, "index", (double)span->tag) != NULL;
}

/* Collectives and transfers overlap: a begin and an end with a number in common. */
static bool add_overlapping(cJSON *events, const struct timeline *timeline, size_t index)
{
    const struct span *span = &timeline->spans[index];
    const char *category = span->kind == SPAN_COLLECTIVE ? "collective" : "transfer";
    cJSON *begin = add_event(events, span->name, "b", micros(timeline, span->begin_ns), span);
    cJSON *end = begin == NULL
                     ? NULL
                     : add_event(events, span->name, "e", micros(timeline, span->end_ns), span);
    cJSON *args = end == NULL ? NULL : cJSON_AddObjectToObject(begin, "args");

    return args != NULL && cJSON_AddStringToObject(begin, "cat", category) != NULL &&
           cJSON_AddStringToObject(end, "cat", category) != NULL &&
           cJSON_AddNumberToObject(begin, "id", (double)index) != NULL &&
           cJSON_AddNumberToObject(end, "id", (double)index) != NULL &&
           cJSON_AddNumberToObject(args, "tag", (double)span->tag) != NULL &&
           cJSON_AddNumberToObject(args, "bytes", (double)span->bytes) != NULL;
}

static bool add_rank_name(cJSON *events, int rank)
{
    struct span span = {.rank = (uint32_t)rank};
    cJSON *event = add_event(events, "process_name", "M", 0, &span);
    cJSON *args = event == NULL ? NULL : cJSON_AddObjectToObject(event, "args");
    char name[32];

    (void)snprintf(name, sizeof name, "rank %d", rank);
    return args != NULL && cJSON_AddStringToObject(args, "name", name) != NULL;
}

static char *print(const struct timeline *timeline)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *events = root == NULL ? NULL : cJSON_AddArrayToObject(root, "traceEvents");
    bool is_well = events != NULL && cJSON_AddStringToObject(root, "displayTimeUnit", "ms") != NULL;
    char *text;

    for (int rank = 0; rank < timeline->ranks && is_well; rank++)
        is_well = add_rank_name(events, rank);
    for (size_t i = 0; i < timeline->count && is_well; i++)
        is_well = timeline->spans[i].kind == SPAN_APP
                      ? add_complete(events, timeline, &timeline->spans[i])
                      : add_overlapping(events, timeline, i);
    text = is_well ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return text;
}

bool timeline_write_json(const struct timeline *timeline, const char *path)
{
    char *text = print(timeline);
    FILE *file;
    bool is_written;

    if (text == NULL) {
        fprintf(stderr, "digits: no memory for the trace\n");
        return false;
    }
    file = fopen(path, "we");
    is_written = file != NULL && fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    is_written = (file == NULL || fclose(file) == 0) && is_written;
    if (!is_written)
        fprintf(stderr, "digits: %s: %s\n", path, strerror(errno));
    cJSON_free(text);
    return is_written;
}
