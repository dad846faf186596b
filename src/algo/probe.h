/* probe.h - plans and kernels that are timed to learn what messages and folds cost. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PROBE_H
#define TCI_PROBE_H

#include "core/figures.h"
#include "core/plan.h"

/* What is timed between two ranks; shape.root is the partner.  A rank that is its own partner has
 * no step to take. */
enum tci_probe { TCI_PROBE_TURNS, TCI_PROBE_BURST, TCI_PROBE_BOTH_WAYS, TCI_PROBES };
extern const struct tci_plan tci_probe_plans[TCI_PROBES];

/* Bytes of each message of a probe. */
enum { TCI_PROBE_BYTES_MAX = 256 << 10 };
uint32_t tci_probe_bytes(enum tci_probe probe);

/* Figures of a link from the least times of the probes, in nanoseconds. */
void tci_probe_read(const uint64_t ns[TCI_PROBES], struct tci_link_figures *link_out);

/* Time the kernels of this processor; takes a few hundred microseconds.  The memory holds
 * 2 * TCI_PROBE_BYTES_MAX bytes.  Any thread. */
void tci_probe_kernels(void *memory, uint64_t fold_fs[TCI_FOLD_CLASSES], uint64_t *copy_fs_out);

#endif
