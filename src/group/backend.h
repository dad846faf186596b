/* backend.h - what carries a group, by its name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BACKEND_H
#define TCI_BACKEND_H

#include "net/boot.h"
#include "tcdist/dist.h"

/* What a group may use; ANY: the best that there is between two ranks. */
enum tci_carrier { TCI_CARRY_ANY, TCI_CARRY_TCP, TCI_CARRY_SHM, TCI_CARRY_RDMA };

/* A name of TCDIST_BACKEND, "" for any, as the group's options and its carrier have it; what it
 * takes is there.  TC_OK, or the cause in error. */
tc_status_t tci_backend_read(const char *name, int *backend_out, enum tci_carrier *carrier_out,
                             struct tci_error *error);
/* Whether the ranks that have met can be carried so. */
tc_status_t tci_backend_fits(enum tci_carrier carrier, const struct tci_boot_result *result,
                             struct tci_error *error);

#endif
