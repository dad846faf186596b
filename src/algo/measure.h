/* measure.h - a group measures itself, or reads a table, and all ranks change their choices. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_MEASURE_H
#define TCI_MEASURE_H

#include "algo/choice.h"

/* What a group's choices come from; on the wire. */
enum tci_tune { TCI_TUNE_OFF, TCI_TUNE_AUTO, TCI_TUNE_MEASURE, TCI_TUNE_TABLE, TCI_TUNES };

/* Lines of a table at most. */
enum { TCI_TOLD_MAX = 4096 };

/* A table that was measured before: figures that are 0 are not known. */
struct tci_table {
    struct tci_figures figures;
    struct tci_told *told; /* owned by whoever has the table; bytes ascend within a collective */
    uint32_t count;
    uint32_t ranks; /* that it was measured with: its lines are for groups of as many */
};

/* Measure the links (table == NULL), or agree on rank 0's table (others give one without lines);
 * then change the choices.  What nobody asked for leaves fast folds alone.  Collective, with no
 * other call of the group under way on this thread's side: calls are refused meanwhile.  done is
 * called once, on the loop, when this rank has changed.  Loop thread. */
typedef void (*tci_measure_fn)(void *arg, tc_status_t status, const struct tci_error *error);
void tci_measure_start(struct tci_comm *comm, const struct tci_table *table, bool is_asked_for,
                       tci_measure_fn done, void *arg);

#endif
