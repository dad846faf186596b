/* report.h - what was found, for people and for programs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDUMP_REPORT_H
#define TCDUMP_REPORT_H

#include <stdio.h>

#include "find.h"

/* In words. */
void report_print(const struct found *found, FILE *file);

/* Of that, what is in flight.  report_flight.c */
void report_flight(const struct found *found, FILE *file);
/* A line, in lines of 100 columns, those that follow indented by so much. */
void report_wrapped(const char *text, int indent, FILE *file);

/* As JSON; false without memory.  report_json.c */
bool report_has_json(void);
bool report_json(const struct found *found, FILE *file);

/* Timelines: chrome.c, html.c.  False without memory. */
bool report_chrome(const struct job *job, FILE *file);
bool report_html(const struct found *found, FILE *file);

/* "gone", "mismatch", … */
const char *report_kind(enum finding_kind kind);
/* "runs", "ended", "gone", "a dump", "not known". */
const char *report_state(const struct trace_file *file);

#endif
