/* spot.h - the steps that are carried out on the spot: copies and folds. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SPOT_H
#define TCI_SPOT_H

#include "core/op.h"

void tci_spot_copy(struct tci_lane *lane, const struct tci_step *step);
/* One part of a canonical fold that is spread over the ranks. */
void tci_spot_part(struct tci_lane *lane, const struct tci_step *step);
/* A FOLD in rank order, from where it stopped; true when the step has ended. */
bool tci_spot_fold(struct tci_lane *lane, const struct tci_step *step);

#endif
