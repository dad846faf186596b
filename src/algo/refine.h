/* refine.h - a group measures its links anew as it runs, and ordered calls follow. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_REFINE_H
#define TCI_REFINE_H

#include "algo/choice.h"

/* Ordered calls between two rounds. */
enum { TCI_REFINE_CALLS = 256 };

/* From now on, with every TCI_REFINE_CALLS-th ordered call rank 0 says whether `every_ms` have
 * passed; if so the links are measured, and the choices of the calls from the next such border on
 * may be others.  At the same number of ordered calls on every rank, with the same every_ms; 0, or
 * a group of one, for nothing at all.  False without memory.  Loop thread. */
bool tci_refine_open(struct tci_comm *comm, uint64_t every_ms);
void tci_refine_close(struct tci_comm *comm);

/* What it was opened with; 0: it was not. */
uint64_t tci_refine_every_ms(const struct tci_comm *comm);

/* The group was measured because all ranks asked for it: that counts from the next call on.  No
 * round is under way.  Loop thread. */
void tci_refine_forget(struct tci_comm *comm);

/* Run the task now, or as soon as no round is under way and no call waits for one.  One at a time.
 * Loop thread. */
void tci_refine_when_quiet(struct tci_comm *comm, struct tci_task *task);

/* How often the choices have changed.  Loop thread. */
uint64_t tci_refine_changes(const struct tci_comm *comm);

#endif
