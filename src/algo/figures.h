/* figures.h - where the figures of a group come from when nobody has measured them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ALGO_FIGURES_H
#define TCI_ALGO_FIGURES_H

#include "core/figures.h"
#include "tcdist/dtype.h"

/* What is usual for TCP: on the loopback device, and on a network of 10 Gbit/s. */
void tci_figures_default(struct tci_figures *figures);

/* So many ranks of a host share so many cores. */
void tci_figures_share(struct tci_figures *figures, uint32_t ranks, uint32_t cores);

/* Bring every figure between bounds within which costs can be computed. */
void tci_figures_clamp(struct tci_figures *figures);

enum tci_fold_class tci_fold_class_of(tc_dtype_t dtype);
/* A type of that class. */
tc_dtype_t tci_fold_class_dtype(enum tci_fold_class fold);

#endif
