/* trace_files.h - traces of processes, read from files and folders. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TRACE_FILES_H
#define TOOLS_TRACE_FILES_H

#include "core/trace_read.h"

struct trace_file {
    char *path;     /* owned */
    uint8_t *bytes; /* owned: a copy of the file */
    struct tci_trace_view view;
    bool is_here;     /* written by this boot of this machine: its clock is ours */
    bool is_alive;    /* … and its process runs */
    uint64_t seen_ns; /* up to when it tells anything, on its clock */
    int rank;         /* of its first group, or the number that its groups show; -1: none yet */
};

struct trace_files {
    struct trace_file *at; /* owned */
    size_t count;
    size_t left_out; /* copies of others, and other jobs */
};

/* Add a file, or all *.trace and *.dump of a folder.  False after having said on standard error
 * what is wrong; in a folder, files that are wrong are told of and left out. */
bool trace_files_add(struct trace_files *files, const char *path, const char *tool);

/* Of several copies of one trace the trace itself stays, else the latest; sorted by rank. */
void trace_files_sort(struct trace_files *files);

/* Leave the traces of the job that was seen last, and of processes that were in none meanwhile. */
void trace_files_keep_last_job(struct trace_files *files);

/* Whether two are of the same context of the same process. */
bool trace_files_are_same(const struct trace_file *a, const struct trace_file *b);

void trace_files_fini(struct trace_files *files);

#endif
