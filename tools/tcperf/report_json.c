/* report_json.c - the JSON that rank 0 writes, where cJSON is there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

#ifdef HAS_CJSON

#include <cjson/cJSON.h>

bool report_has_json(void)
{
    return true;
}

static cJSON *new_document(const struct report *report)
{
    const struct options *options = report->options;
    cJSON *document = cJSON_CreateObject();

    cJSON_AddStringToObject(document, "tcdist", tc_version());
    cJSON_AddNumberToObject(document, "ranks", report->ranks);
    cJSON_AddNumberToObject(document, "tags", options->tags);
    cJSON_AddStringToObject(document, "mode", options->is_synced ? "sync" : "back_to_back");
    cJSON_AddStringToObject(document, "loop",
                            options->loop_mode == TC_LOOP_MANUAL ? "manual" : "thread");
    cJSON_AddStringToObject(document, "numerics", options_numerics_name(options->numerics));
    if (options->algorithm != NULL)
        cJSON_AddStringToObject(document, "algorithm", options->algorithm);
    cJSON_AddArrayToObject(document, "results");
    return document;
}

void report_json_add(struct report *report, const struct result *result)
{
    const struct line *line = result->line;
    cJSON *row = cJSON_CreateObject();

    if (report->document == NULL)
        report->document = new_document(report);
    cJSON_AddStringToObject(row, "operation", line->operation->name);
    cJSON_AddNumberToObject(row, "bytes", (double)line->bytes);
    cJSON_AddNumberToObject(row, "count", (double)line->count);
    cJSON_AddStringToObject(row, "type", result_type_name(result));
    cJSON_AddStringToObject(row, "op", result_reduce_name(result));
    cJSON_AddStringToObject(row, "place", result_place_name(result));
    cJSON_AddNumberToObject(row, "iterations", result->times.iterations);
    cJSON_AddNumberToObject(row, "time_us", result->times.median_us);
    cJSON_AddNumberToObject(row, "min_us", result->times.min_us);
    cJSON_AddNumberToObject(row, "max_us", result->times.max_us);
    cJSON_AddNumberToObject(row, "algbw_gbs", result->algorithm_gbs);
    cJSON_AddNumberToObject(row, "busbw_gbs", result->bus_gbs);
    cJSON_AddStringToObject(row, "algorithm", result->algorithm);
    if (result->wrong >= 0)
        cJSON_AddNumberToObject(row, "wrong", result->wrong);
    cJSON_AddItemToArray(cJSON_GetObjectItem(report->document, "results"), row);
}

bool report_json_write(struct report *report)
{
    char *text;
    bool is_written;

    if (report->document == NULL)
        report->document = new_document(report);
    text = cJSON_Print(report->document);
    is_written = text != NULL && fprintf(report->json, "%s\n", text) > 0;
    cJSON_free(text);
    cJSON_Delete(report->document);
    report->document = NULL;
    return is_written;
}

#else

bool report_has_json(void)
{
    return false;
}

void report_json_add(struct report *report, const struct result *result)
{
    (void)report;
    (void)result;
}

bool report_json_write(struct report *report)
{
    (void)report;
    return false;
}

#endif
