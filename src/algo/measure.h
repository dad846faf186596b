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

/* The same while the group forms: the links are measured anew every so many milliseconds from then
 * on (refine.h); 0: never.  Rank 0's counts. */
void tci_measure_open(struct tci_comm *comm, bool is_asked_for, uint64_t every_ms,
                      tci_measure_fn done, void *arg);

/* Measure the links beside what else is going on, and change nothing: fn is called once, on the
 * loop, with what all ranks have agreed on (valid for the call; what was not measured is as in
 * `from`), or with an error.  Tags from first_tag on are the measurement's.  Loop thread. */
typedef void (*tci_measured_fn)(void *arg, const struct tci_error *error,
                                const struct tci_figures *figures);
void tci_measure_beside(struct tci_comm *comm, uint64_t first_tag, const struct tci_figures *from,
                        tci_measured_fn fn, void *arg);

/* Start an internal collective: args has its plan, call and buffers.  Loop thread. */
tc_future *tci_measure_op(struct tci_comm *comm, struct tci_op_args *args, uint64_t tag,
                          int timeout_ms);

#endif
