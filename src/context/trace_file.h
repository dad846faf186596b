/* trace_file.h - where a context keeps its trace, and where it leaves copies of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TRACE_FILE_H
#define TCI_TRACE_FILE_H

#include "core/context.h"
#include "core/error.h"

/* Whether every operation leaves events: config->trace_all becomes 1 or -1. */
tc_status_t tci_trace_resolve(tc_config *config, struct tci_error *error);

/* The trace of a context whose config is resolved: in a file of config.trace_dir that outlives the
 * process, or in memory.  NULL on failure, with the cause in error. */
struct tci_trace *tci_trace_open(tc_context *context, struct tci_error *error);

#endif
