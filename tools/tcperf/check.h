/* check.h - whether every element of every rank is what the definition says. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_CHECK_H
#define TCPERF_CHECK_H

#include "world.h"

/* Runs batches on data that differ from rank to rank and compares all results; *wrong_out counts
 * the wrong elements of all ranks.  The first one of a rank is told on its standard error.
 *
 * Bit for bit, but with fast numerics a rounded result may be off by what its steps can lose. */
tc_status_t check_line(struct world *world, const struct line *line, double *wrong_out);

#endif
