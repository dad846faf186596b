/* look.h - what the ranks of a job show at one moment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCSTAT_LOOK_H
#define TCSTAT_LOOK_H

#include <stdio.h>

#include "options.h"
#include "trace_files.h"

/* One rank, summed up. */
struct glance {
    const struct trace_file *file;
    uint64_t in_flight;
    uint32_t links_up, links_down;
    bool has_oldest;
    struct tci_trace_seen_live oldest; /* of the operations in flight */
    uint64_t age_ns;                   /* of it */
};

/* Read all traces; false after having said what is wrong. */
bool look(const struct options *options, struct trace_files *files);
void glance_at(const struct trace_file *file, struct glance *glance_out);

/* A table of all ranks: table.c.  Rates are taken against `before`, where a rank is in both. */
void table_print(const struct trace_files *files, const struct trace_files *before, FILE *file);

/* Text for a scraper: prometheus.c. */
void prometheus_print(const struct trace_files *files, FILE *file);

/* Give that text to whoever asks, for good: listen.c.  Gives an exit code. */
int listen_and_tell(const struct options *options);

#endif
