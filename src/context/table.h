/* table.h - a table of choices that was measured before, read from its file. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TABLE_H
#define TCI_TABLE_H

#include "algo/measure.h"
#include "core/error.h"

/* Read and check a file that tcperf --tune wrote, or a person.  On failure the cause is in error,
 * and names the file and the line of the table.  Any thread; blocks while it reads. */
tc_status_t tci_table_load(const char *path, struct tci_table *table_out, struct tci_error *error);
void tci_table_fini(struct tci_table *table);

#endif
