/* reach.h - how the other ranks reach this one: what the options and the environment say. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_REACH_H
#define TCI_REACH_H

#include "core/error.h"
#include "tcdist/dist.h"

struct tci_reached {
    char *advertise;  /* owned; host under which the others reach this rank; NULL: not given */
    char *interfaces; /* owned; a choice (net/iface.h); NULL: none was made */
};

/* The options, else TCDIST_ADVERTISE and TCDIST_INTERFACE.  Any thread. */
tc_status_t tci_reach_read(const tc_dist_options *options, struct tci_reached *reach,
                           struct tci_error *error);
void tci_reach_fini(struct tci_reached *reach);

/* The host of this rank in a variable that has one, or one a rank with commas between them (an
 * entry may be empty): a copy, without the blanks around it, or NULL. */
tc_status_t tci_reach_entry(const char *name, const char *text, const tc_dist_options *options,
                            char **out, struct tci_error *error);
tc_status_t tci_reach_copy(const char *from, size_t len, char **copy, struct tci_error *error);

#endif
