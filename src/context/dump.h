/* dump.h - copies of a trace, made when something has failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_DUMP_H
#define TCI_DUMP_H

#include "tcdist/status.h"

/* An operation of a context has failed: leaves a copy in config.dump_dir, a few times at most.
 * `context` is a tc_context.  Loop thread. */
void tci_dump_on_failure(void *context, tc_status_t status);

#endif
