/* table.c - all ranks of a job as a table. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "core/transport.h"
#include "look.h"

enum { TEXT = 64, PEERS_MAX = 6 };

static const char *print_bytes(double bytes, char text[TEXT])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, TEXT, unit == 0 ? "%.0f %s" : "%.3g %s", bytes, units[unit]);
    return text;
}

static const char *print_time(uint64_t ns, char text[32])
{
    double ms = (double)ns / 1e6;

    snprintf(text, 32, ms >= 999.5 ? "%.1f s" : "%.1f ms", ms >= 999.5 ? ms / 1e3 : ms);
    return text;
}

/* A loop that sleeps or turns is well; one that has been at something for long is told of. */
static const char *print_loop(const struct trace_file *file, char text[TEXT])
{
    static const char *const parts[] = {[TCI_PART_NONE] = "-",
                                        [TCI_PART_TURNING] = "turns",
                                        [TCI_PART_USER] = "user",
                                        [TCI_PART_ASLEEP] = "asleep",
                                        [TCI_PART_AWAY] = "away"};
    const struct tci_trace_view *view = &file->view;
    uint64_t silent_ns = file->seen_ns > view->loop_ns ? file->seen_ns - view->loop_ns : 0;
    const char *part = view->loop_part < TCI_PARTS ? parts[view->loop_part] : "-";
    char time[32];

    if (view->ended_ns != 0 || !file->is_alive)
        snprintf(text, TEXT, "-");
    else if (silent_ns >= 1000000000u &&
             (view->loop_part == TCI_PART_TURNING || view->loop_part == TCI_PART_USER))
        snprintf(text, TEXT, "%s %s", part, print_time(silent_ns, time));
    else
        snprintf(text, TEXT, "%s", part);
    return text;
}

static const char *print_state(const struct trace_file *file)
{
    if (file->view.ended_ns != 0)
        return "ended";
    if (file->is_alive)
        return "runs";
    return file->is_here ? "gone" : "?";
}

/* Peers that it receives from, or sends to; each once, and a few of many. */
static void print_waits(const struct tci_trace_seen_live *live, bool is_send, FILE *file)
{
    uint32_t told = 0;

    for (uint32_t w = 0; w < live->waits_count; w++) {
        bool is_told = live->is_send[w] != is_send;

        for (uint32_t before = 0; before < w; before++)
            is_told = is_told ||
                      (live->waits[before] == live->waits[w] && live->is_send[before] == is_send);
        if (is_told)
            continue;
        if (told == PEERS_MAX) {
            fprintf(file, " …");
            return;
        }
        fprintf(file, told == 0 ? is_send ? ", to %" PRId32 : ", from %" PRId32 : " %" PRId32,
                live->waits[w]);
        told++;
    }
}

static void print_oldest(const struct glance *glance, FILE *file)
{
    const struct tci_trace_seen_live *live = &glance->oldest;
    char name[TCI_TRACE_NAME_TEXT], age[32];
    bool is_ordered = live->space == TCI_SPACE_ORDERED || live->space >= TCI_SPACE_P2P_ORDERED_UP;

    if (!glance->has_oldest)
        return;
    fprintf(file, "  %s", tci_trace_view_name(&glance->file->view, live->name, name));
    if (live->space != TCI_SPACE_INTERNAL)
        fprintf(file, "%s %" PRIu64, is_ordered ? ", ordered call" : " tag", live->tag);
    fprintf(file, " for %s", print_time(glance->age_ns, age));
    print_waits(live, false, file);
    print_waits(live, true, file);
}

static const struct trace_file *find_before(const struct trace_files *before,
                                            const struct trace_file *file)
{
    for (size_t i = 0; before != NULL && i < before->count; i++)
        if (trace_files_are_same(&before->at[i], file))
            return &before->at[i];
    return NULL;
}

/* Bytes a second since the look before; "-" where there is none. */
static const char *print_rate(const struct trace_file *file, const struct trace_file *before,
                              enum tci_trace_counter counter, char text[TEXT])
{
    double seconds, bytes;

    if (before == NULL || file->seen_ns <= before->seen_ns ||
        file->view.counters[counter] < before->view.counters[counter])
        return "-";
    seconds = (double)(file->seen_ns - before->seen_ns) / 1e9;
    bytes = (double)(file->view.counters[counter] - before->view.counters[counter]);
    return print_bytes(bytes / seconds, text);
}

static void print_rank(const struct trace_file *at, const struct trace_file *before, FILE *file)
{
    const uint64_t *counters = at->view.counters;
    char loop[TEXT], sent[TEXT], received[TEXT], out[TEXT], in[TEXT], early[TEXT], kept[TEXT],
        rank[TEXT] = "-";
    struct glance glance;

    glance_at(at, &glance);
    if (at->rank >= 0)
        snprintf(rank, sizeof(rank), "%d", at->rank);
    fprintf(file,
            "%5s %8" PRIu64 " %-12.12s %-5s %-12.12s %6" PRIu64 " %10" PRIu64 " %7" PRIu64
            " %9s %9s %9s %9s %5" PRIu32 " %5" PRIu32 " %8s %8s",
            rank, at->view.pid, at->view.host, print_state(at), print_loop(at, loop),
            glance.in_flight, counters[TCI_COUNT_FINISHED], counters[TCI_COUNT_FAILED],
            print_bytes((double)counters[TCI_COUNT_BYTES_SENT], sent),
            print_bytes((double)counters[TCI_COUNT_BYTES_RECEIVED], received),
            print_rate(at, before, TCI_COUNT_BYTES_SENT, out),
            print_rate(at, before, TCI_COUNT_BYTES_RECEIVED, in), glance.links_up,
            glance.links_down, print_bytes((double)counters[TCI_COUNT_EAGER_BYTES], early),
            print_bytes((double)counters[TCI_COUNT_KEPT_BYTES], kept));
    print_oldest(&glance, file);
    fprintf(file, "\n");
}

void table_print(const struct trace_files *files, const struct trace_files *before, FILE *file)
{
    fprintf(file, "%5s %8s %-12s %-5s %-12s %6s %10s %7s %9s %9s %9s %9s %5s %5s %8s %8s  %s\n",
            "rank", "pid", "host", "is", "loop", "flight", "finished", "failed", "sent", "received",
            "sent/s", "recv/s", "up", "down", "early", "kept", "longest in flight");
    for (size_t i = 0; i < files->count; i++)
        print_rank(&files->at[i], find_before(before, &files->at[i]), file);
}
