/* nodelist.h - lists of nodes as Slurm writes them, "n[1-3,7],m[01-04]-ib0", expanded. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_NODELIST_H
#define TCI_NODELIST_H

#include <stdbool.h>
#include <stddef.h>

enum { TCI_NODE_NAME = 256 }; /* with the zero at the end */

/* Number `index` of a list, from 0, into name.  False: the list is shorter, is malformed up to
 * there, or the name is longer. */
bool tci_nodelist_at(const char *list, size_t index, char name[TCI_NODE_NAME]);
/* Where a name is in a list; false: nowhere before its end, or before what is malformed. */
bool tci_nodelist_find(const char *list, const char *name, size_t *index_out);

/* Number `index` of counts as Slurm writes them, "3,2(x2)"; -1: there is none. */
int tci_nodecounts_at(const char *counts, size_t index);

#endif
