/* tune.h - the fastest algorithm for each collective and size, measured, as a table. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_TUNE_H
#define TCPERF_TUNE_H

#include "report.h"
#include "world.h"

/* Measures every algorithm of every collective that can carry it out, in every numerics, from the
 * smallest to the largest size; all ranks.  Each measurement is a line of the report, and rank 0
 * writes the table.  Says on standard error why it fails. */
tc_status_t tune(struct world *world, struct report *report);

#endif
