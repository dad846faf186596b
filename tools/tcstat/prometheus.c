/* prometheus.c - the counts of all ranks as text for a scraper. */
/* SPDX-License-Identifier: Apache-2.0 */
/* Source: "Exposition formats" of the Prometheus documentation, text format version 0.0.4. */
#include <inttypes.h>
#include <stdio.h>

#include "look.h"

/* A counter of the trace, and how it is told. */
struct metric {
    const char *name, *labels, *help;
    bool is_gauge;
    enum tci_trace_counter counter;
};

/* Rows of one name stand together. */
static const struct metric metrics[] = {
    {"tcdist_operations_begun_total", "", "Operations taken up.", false, TCI_COUNT_BEGUN},
    {"tcdist_operations_ended_total", ",outcome=\"finished\"", "Operations that are over.", false,
     TCI_COUNT_FINISHED},
    {"tcdist_operations_ended_total", ",outcome=\"failed\"", NULL, false, TCI_COUNT_FAILED},
    {"tcdist_operations_left_out_total", "",
     "Of those that ended well: short ones of floods, without events in the trace.", false,
     TCI_COUNT_LEFT_OUT},
    {"tcdist_operation_bytes_total", "", "Payload of operations that ended well.", false,
     TCI_COUNT_OP_BYTES},
    {"tcdist_link_bytes_total", ",direction=\"sent\"", "Payload over links.", false,
     TCI_COUNT_BYTES_SENT},
    {"tcdist_link_bytes_total", ",direction=\"received\"", NULL, false, TCI_COUNT_BYTES_RECEIVED},
    {"tcdist_link_messages_total", ",direction=\"sent\"", "Messages over links.", false,
     TCI_COUNT_MESSAGES_SENT},
    {"tcdist_link_messages_total", ",direction=\"received\"", NULL, false,
     TCI_COUNT_MESSAGES_RECEIVED},
    {"tcdist_copied_bytes_total", "", "Payload copied once more on its way.", false,
     TCI_COUNT_BYTES_COPIED},
    {"tcdist_strays_total", "", "Connections and frames that were dropped.", false,
     TCI_COUNT_STRAYS},
    {"tcdist_loop_stalls_total", "", "Callbacks that held the loop for 200 ms and longer.", false,
     TCI_COUNT_STALLS},
    {"tcdist_link_breaks_total", "", "Connections that broke while their peer lived.", false,
     TCI_COUNT_BREAKS},
    {"tcdist_link_heals_total", "", "Connections that were made again.", false, TCI_COUNT_HEALS},
    {"tcdist_kept_bytes", "", "Sent, and kept until the peer has them.", true,
     TCI_COUNT_KEPT_BYTES},
    {"tcdist_early_bytes", "", "Messages held for receives that are not posted.", true,
     TCI_COUNT_EAGER_BYTES},
};

/* Texts of a trace are printable ASCII. */
static void print_label(const char *text, FILE *file)
{
    for (; *text != '\0'; text++)
        fprintf(file, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void print_row(const struct trace_file *at, const char *name, const char *labels,
                      double value, FILE *file)
{
    fprintf(file, "%s{rank=\"%d\",pid=\"%" PRIu64 "\",context=\"%" PRIu64 "\",host=\"", name,
            at->rank, at->view.pid, at->view.context);
    print_label(at->view.host, file);
    fprintf(file, "\"%s} %.17g\n", labels, value);
}

static void print_head(const char *name, const char *help, bool is_gauge, FILE *file)
{
    fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, is_gauge ? "gauge" : "counter");
}

typedef double asked(const struct glance *glance);

static double is_running(const struct glance *glance)
{
    return glance->file->is_alive;
}

static double in_flight(const struct glance *glance)
{
    return (double)glance->in_flight;
}

static double oldest_s(const struct glance *glance)
{
    return (double)glance->age_ns / 1e9;
}

static double links_up(const struct glance *glance)
{
    return glance->links_up;
}

static double links_down(const struct glance *glance)
{
    return glance->links_down;
}

static double loop_s(const struct glance *glance)
{
    const struct trace_file *file = glance->file;

    return file->seen_ns > file->view.loop_ns ? (double)(file->seen_ns - file->view.loop_ns) / 1e9
                                              : 0;
}

static const struct {
    const char *name, *labels, *help;
    asked *ask;
} gauges[] = {
    {"tcdist_running", "", "Whether the process runs.", is_running},
    {"tcdist_operations_in_flight", "", "Operations begun and not over.", in_flight},
    {"tcdist_oldest_operation_seconds", "", "Age of the oldest operation in flight.", oldest_s},
    {"tcdist_links", ",state=\"up\"", "Links to other ranks.", links_up},
    {"tcdist_links", ",state=\"down\"", NULL, links_down},
    {"tcdist_loop_silent_seconds", "", "Time since the loop has turned; it may sleep.", loop_s},
};

void prometheus_print(const struct trace_files *files, FILE *file)
{
    for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
        const struct metric *metric = &metrics[m];

        if (metric->help != NULL)
            print_head(metric->name, metric->help, metric->is_gauge, file);
        for (size_t i = 0; i < files->count; i++)
            print_row(&files->at[i], metric->name, metric->labels,
                      (double)files->at[i].view.counters[metric->counter], file);
    }
    for (size_t g = 0; g < sizeof(gauges) / sizeof(gauges[0]); g++) {
        if (gauges[g].help != NULL)
            print_head(gauges[g].name, gauges[g].help, true, file);
        for (size_t i = 0; i < files->count; i++) {
            struct glance glance;

            glance_at(&files->at[i], &glance);
            print_row(&files->at[i], gauges[g].name, gauges[g].labels, gauges[g].ask(&glance),
                      file);
        }
    }
}
