/* report.h - the table, the CSV and the JSON that rank 0 writes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_REPORT_H
#define TCPERF_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "measure.h"
#include "world.h"

/* One measured line. */
struct result {
    const struct line *line; /* borrowed */
    struct times times;
    double algorithm_gbs; /* bytes / time, 1e9 bytes a second */
    double bus_gbs;
    double wrong;          /* elements; -1: not checked */
    const char *algorithm; /* that carried it out; "-" where there is none to choose */
};

struct report {
    const struct options *options; /* borrowed */
    FILE *table;                   /* borrowed; NULL: standard output has something else */
    FILE *csv;                     /* owned; NULL: none */
    FILE *json;
    void *document;                    /* owned: what goes to json */
    const struct operation *operation; /* of the line before */
    int ranks;
    double wrong; /* of all lines */
};

/* Whether this build writes JSON. */
bool report_has_json(void);

/* Opens the files, on rank 0; others open an empty report that writes nothing.  False when a file
 * can't be written, with the reason on standard error. */
bool report_open(struct report *report, const struct world *world);

void report_add(struct report *report, const struct result *result);

/* Says in the table that a line was left out. */
void report_skip(struct report *report, const struct line *line, const char *reason);

/* Says in the table that the algorithm that was asked for is not possible for an operation. */
void report_other_algorithm(struct report *report, const struct line *line, const char *reason);

/* Writes what is left; false when something could not be written. */
bool report_close(struct report *report);

/* What goes into the JSON; the document is made at the first call. */
void report_json_add(struct report *report, const struct result *result);
bool report_json_write(struct report *report);

/* Names of columns: "sum", or "none" where nothing is reduced. */
const char *result_reduce_name(const struct result *result);
const char *result_place_name(const struct result *result);
const char *result_type_name(const struct result *result);

#endif
