/* look.c - what the ranks of a job show at one moment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "look.h"

#include <stdlib.h>

bool look(const struct options *options, struct trace_files *files)
{
    bool is_well = true;

    *files = (struct trace_files){NULL, 0, 0};
    for (size_t i = 0; i < options->path_count; i++)
        is_well = trace_files_add(files, options->paths[i], "tcstat") && is_well;
    trace_files_sort(files);
    if (!options->has_all_jobs)
        trace_files_keep_last_job(files);
    return is_well;
}

static void count_links(const struct tci_trace_view *view, struct glance *glance)
{
    struct tci_trace_seen_link link;

    for (uint32_t i = 0; i < view->tables[TCI_TRACE_LINKS].count; i++) {
        if (!tci_trace_view_link(view, i, &link))
            continue;
        glance->links_up += link.state == TCI_TRACE_LINK_UP;
        glance->links_down += link.state == TCI_TRACE_LINK_DOWN;
    }
}

void glance_at(const struct trace_file *file, struct glance *glance_out)
{
    const struct tci_trace_view *view = &file->view;
    uint64_t over = view->counters[TCI_COUNT_FINISHED] + view->counters[TCI_COUNT_FAILED];
    struct tci_trace_seen_live live;

    *glance_out = (struct glance){.file = file};
    if (view->counters[TCI_COUNT_BEGUN] > over)
        glance_out->in_flight = view->counters[TCI_COUNT_BEGUN] - over;
    count_links(view, glance_out);
    for (uint32_t i = 0; i < view->tables[TCI_TRACE_LIVE].count; i++) {
        if (!tci_trace_view_live(view, i, &live) ||
            (glance_out->has_oldest && glance_out->oldest.called_ns <= live.called_ns))
            continue;
        glance_out->has_oldest = true;
        glance_out->oldest = live;
    }
    if (glance_out->has_oldest && file->seen_ns > glance_out->oldest.called_ns)
        glance_out->age_ns = file->seen_ns - glance_out->oldest.called_ns;
}
