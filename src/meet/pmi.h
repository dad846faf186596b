/* pmi.h - the process manager's interface, version 1: what ranks ask it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PMI_H
#define TCI_PMI_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* Rank and size by way of PMI_PORT and PMI_ID: the manager is asked once in a process.  It may take
 * as long as a connection takes. */
tc_status_t tci_pmi_place(int *rank_out, int *size_out, struct tci_error *error);

/* One line of the manager, "cmd=NAME key=value … value=text": whether it is of that name; the value
 * of a key, cut where it has no room (false then, and where there is none). */
bool tci_pmi_is(const char *line, const char *name);
bool tci_pmi_value(const char *line, const char *key, char *value, size_t room);

#endif
