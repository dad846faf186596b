/* report.c - the table and the CSV that rank 0 writes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <string.h>

#include "tcdist/version.h"

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static bool open_file(const char *path, FILE **file_out)
{
    if (path == NULL)
        return true;
    *file_out = is_stdout(path) ? stdout : fopen(path, "we");
    if (*file_out != NULL)
        return true;
    fprintf(stderr, "tcperf: cannot write '%s': %s\n", path, strerror(errno));
    return false;
}

/* The table of choices is written when all is measured: a path that cannot be shows before. */
static bool check_path(const char *path)
{
    FILE *file = path == NULL || is_stdout(path) ? NULL : fopen(path, "ae");

    if (file != NULL)
        fclose(file);
    else if (path != NULL && !is_stdout(path))
        fprintf(stderr, "tcperf: cannot write '%s': %s\n", path, strerror(errno));
    return file != NULL || path == NULL || is_stdout(path);
}

static void print_head(const struct report *report)
{
    const struct options *options = report->options;

    fprintf(report->table, "# tcperf %s: %d rank%s, %s, %d in flight, loop %s, %s, algorithm %s\n",
            tc_version(), report->ranks, report->ranks == 1 ? "" : "s",
            options->is_synced ? "aligned before each" : "back to back", options->tags,
            options->loop_mode == TC_LOOP_MANUAL ? "manual" : "thread",
            options_numerics_name(options->numerics),
            options->algorithm == NULL ? "chosen" : options->algorithm);
}

static void print_operation(struct report *report, const struct line *line)
{
    if (report->operation == line->operation)
        return;
    report->operation = line->operation;
    fprintf(report->table, "#\n# %s\n#%11s %11s %7s %5s %5s %10s %10s %10s %8s %8s %6s  %s\n",
            line->operation->name, "bytes", "count", "type", "op", "place", "time", "min", "max",
            "algbw", "busbw", "wrong", "algorithm");
    fprintf(report->table, "#%11s %11s %7s %5s %5s %10s %10s %10s %8s %8s\n", "", "", "", "", "",
            "us", "us", "us", "GB/s", "GB/s");
}

bool report_open(struct report *report, const struct world *world)
{
    const struct options *options = world->options;

    *report = (struct report){.options = options, .ranks = world->ranks};
    if (world->rank != 0)
        return true;
    if (!is_stdout(options->csv_path) && !is_stdout(options->json_path) &&
        !is_stdout(options->tune_path))
        report->table = stdout;
    if (!check_path(options->tune_path) || !open_file(options->csv_path, &report->csv) ||
        !open_file(options->json_path, &report->json))
        return false;
    if (report->table != NULL)
        print_head(report);
    if (report->csv != NULL)
        fputs("operation,bytes,count,type,op,place,ranks,tags,mode,iterations,time_us,min_us,"
              "max_us,algbw_gbs,busbw_gbs,wrong,algorithm\n",
              report->csv);
    return true;
}

const char *result_reduce_name(const struct result *result)
{
    return result->line->operation->has_reduce ? tc_reduce_op_name(result->line->reduce) : "none";
}

const char *result_place_name(const struct result *result)
{
    return result->line->is_in_place ? "in" : "out";
}

const char *result_type_name(const struct result *result)
{
    return result->line->count == 0 ? "none" : tc_dtype_name(result->line->dtype);
}

static void print_row(const struct report *report, const struct result *result)
{
    const struct line *line = result->line;
    const struct times *times = &result->times;

    fprintf(report->table, " %11zu %11zu %7s %5s %5s %10.2f %10.2f %10.2f %8.3f %8.3f ",
            line->bytes, line->count, result_type_name(result), result_reduce_name(result),
            result_place_name(result), times->median_us, times->min_us, times->max_us,
            result->algorithm_gbs, result->bus_gbs);
    if (result->wrong < 0)
        fprintf(report->table, "%6s", "-");
    else
        fprintf(report->table, "%6.0f", result->wrong);
    fprintf(report->table, "  %s\n", result->algorithm);
    fflush(report->table);
}

static void write_csv(const struct report *report, const struct result *result)
{
    const struct line *line = result->line;
    const struct times *times = &result->times;

    fprintf(report->csv, "%s,%zu,%zu,%s,%s,%s,%d,%d,%s,%d,%.3f,%.3f,%.3f,%.5f,%.5f,",
            line->operation->name, line->bytes, line->count, result_type_name(result),
            result_reduce_name(result), result_place_name(result), report->ranks,
            report->options->tags, report->options->is_synced ? "sync" : "back_to_back",
            times->iterations, times->median_us, times->min_us, times->max_us,
            result->algorithm_gbs, result->bus_gbs);
    if (result->wrong >= 0)
        fprintf(report->csv, "%.0f", result->wrong);
    fprintf(report->csv, ",%s\n", result->algorithm);
    fflush(report->csv);
}

void report_add(struct report *report, const struct result *result)
{
    if (result->wrong > 0)
        report->wrong += result->wrong;
    if (report->table != NULL) {
        print_operation(report, result->line);
        print_row(report, result);
    }
    if (report->csv != NULL)
        write_csv(report, result);
    if (report->json != NULL)
        report_json_add(report, result);
}

void report_skip(struct report *report, const struct line *line, const char *reason)
{
    if (report->table == NULL)
        return;
    print_operation(report, line);
    fprintf(report->table, "# %s %s left out: %s\n", tc_dtype_name(line->dtype),
            tc_reduce_op_name(line->reduce), reason);
}

void report_other_algorithm(struct report *report, const struct line *line, const char *reason)
{
    if (report->table != NULL)
        fprintf(report->table, "# %s: not as asked: %s\n", line->operation->name, reason);
}

static bool close_file(FILE *file, const char *path)
{
    bool is_written;

    if (file == NULL)
        return true;
    is_written = fflush(file) == 0 && !ferror(file);
    if (file != stdout)
        is_written = fclose(file) == 0 && is_written;
    if (!is_written)
        fprintf(stderr, "tcperf: cannot write '%s'\n", path);
    return is_written;
}

bool report_close(struct report *report)
{
    bool is_written = true;

    if (report->table != NULL && report->options->checks > 0)
        fprintf(report->table, "#\n# wrong elements: %.0f\n", report->wrong);
    if (report->json != NULL)
        is_written = report_json_write(report);
    is_written = close_file(report->table, "standard output") && is_written;
    is_written = close_file(report->csv, report->options->csv_path) && is_written;
    is_written = close_file(report->json, report->options->json_path) && is_written;
    *report = (struct report){0};
    return is_written;
}
