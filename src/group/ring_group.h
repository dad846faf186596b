/* ring_group.h - groups whose ranks are linked with their neighbours alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RING_GROUP_H
#define TCI_RING_GROUP_H

#include "group/group.h"

/* comm->advise of such a group: a plan that goes along the ring, or a refusal. */
const char *tci_ring_advise(struct tci_comm *comm, const struct tci_advice *advice,
                            struct tci_error *error);

/* The plan along the ring for a collective under these numerics; NULL: there is none. */
const char *tci_ring_plan(enum tci_coll coll, int numerics);

/* Whether every message of that plan for a collective goes to the rank before or after. */
bool tci_ring_has(enum tci_coll coll, const char *algorithm);

#endif
