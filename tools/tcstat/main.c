/* main.c - tcstat shows what the ranks of a job are doing, by their traces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "look.h"

static void rest(double seconds)
{
    struct timespec nap = {.tv_sec = (time_t)seconds};

    nap.tv_nsec = (long)((seconds - (double)nap.tv_sec) * 1e9);
    nanosleep(&nap, NULL);
}

/* Two looks: rates are between them. */
static int show_once(const struct options *options)
{
    struct trace_files before, files;
    bool is_well = look(options, &before);

    if (is_well && !options->is_prometheus)
        rest(options->interval_s);
    is_well = is_well && look(options, &files);
    if (is_well && files.count == 0)
        fprintf(stderr, "tcstat: there is no trace in %s: run the ranks with TCDIST_TRACE_DIR\n",
                options->paths[0]);
    if (!is_well || files.count == 0) {
        trace_files_fini(&before);
        return EXIT_TROUBLE;
    }
    if (options->is_prometheus)
        prometheus_print(&files, stdout);
    else
        table_print(&files, &before, stdout);
    trace_files_fini(&files);
    trace_files_fini(&before);
    return fflush(stdout) == 0 ? 0 : EXIT_TROUBLE;
}

/* Until a signal, or the reader of the output, ends it. */
static int show_forever(const struct options *options)
{
    bool is_terminal = isatty(STDOUT_FILENO) == 1;
    struct trace_files before = {NULL, 0, 0}, files;

    while (look(options, &files)) {
        if (is_terminal)
            printf("\033[H\033[2J");
        table_print(&files, &before, stdout);
        printf("\n");
        if (fflush(stdout) != 0)
            break;
        trace_files_fini(&before);
        before = files;
        rest(options->interval_s);
    }
    return EXIT_TROUBLE;
}

int main(int argc, char **argv)
{
    struct options options;

    options_parse(&options, argc, argv);
    if (options.port >= 0)
        return listen_and_tell(&options);
    return options.is_watching ? show_forever(&options) : show_once(&options);
}
