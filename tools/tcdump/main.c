/* main.c - tcdump tells what the traces of a job's ranks say together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "report.h"

static bool read_traces(struct trace_files *files, const struct options *options)
{
    bool is_well = true;

    for (size_t i = 0; i < options->path_count; i++)
        is_well = trace_files_add(files, options->paths[i], "tcdump") && is_well;
    trace_files_sort(files);
    if (!options->has_all_jobs) {
        size_t before = files->left_out;

        trace_files_keep_last_job(files);
        if (files->left_out > before)
            fprintf(stderr,
                    "tcdump: %zu trace%s of other jobs left out: --all-jobs takes them in\n",
                    files->left_out - before, files->left_out - before == 1 ? " is" : "s are");
    }
    if (files->count == 0 && is_well)
        fprintf(stderr, "tcdump: there is no trace in %s\n", options->paths[0]);
    return is_well && files->count > 0;
}

/* One of the written forms. */
typedef bool writer(const struct found *found, FILE *file);

static bool write_chrome(const struct found *found, FILE *file)
{
    return report_chrome(found->job, file);
}

static bool write_to(const char *path, const struct found *found, writer *write)
{
    bool is_stdout = path != NULL && strcmp(path, "-") == 0;
    FILE *file;
    bool is_well;

    if (path == NULL)
        return true;
    file = is_stdout ? stdout : fopen(path, "we");
    if (file == NULL) {
        fprintf(stderr, "tcdump: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    is_well = write(found, file);
    if (!is_well)
        fprintf(stderr, "tcdump: there is no memory for %s\n", path);
    if (ferror(file) != 0 || (is_stdout ? fflush(file) : fclose(file)) != 0) {
        fprintf(stderr, "tcdump: cannot write %s: %s\n", path, strerror(errno));
        is_well = false;
    }
    return is_well;
}

static int tell(const struct options *options, const struct found *found)
{
    bool is_well = true;

    if (!options->is_quiet)
        report_print(found, stdout);
    is_well = write_to(options->chrome_path, found, write_chrome) && is_well;
    is_well = write_to(options->html_path, found, report_html) && is_well;
    is_well = write_to(options->json_path, found, report_json) && is_well;
    if (fflush(stdout) != 0)
        is_well = false;
    if (!is_well)
        return EXIT_TROUBLE;
    return found->finding_count > 0 ? EXIT_FOUND : 0;
}

int main(int argc, char **argv)
{
    struct trace_files files = {NULL, 0, 0};
    struct options options;
    struct found found = {.job = NULL};
    struct job job = {.process_count = 0};
    int exit_code = EXIT_TROUBLE;

    options_parse(&options, argc, argv);
    if (!read_traces(&files, &options))
        goto end;
    if (job_build(&job, &files) && find_all(&found, &job, &options.limits))
        exit_code = tell(&options, &found);
    else
        fprintf(stderr, "tcdump: there is no memory for these traces\n");
end:
    find_fini(&found);
    job_fini(&job);
    trace_files_fini(&files);
    return exit_code;
}
