/* layout.h - the setting that says how ranks lie on hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LAYOUT_H
#define TCI_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* What a layout may be, for messages. */
#define TCI_LAYOUT_ALLOWED                                                                         \
    "auto, ranks a host such as 4,4,2 or 8*16 (8 on each of 16), or a host a rank such as "        \
    "=0,1,0,1"

/* Whether the text is a layout, of however many ranks. */
bool tci_layout_is_one(const char *text);

/* The hosts of a group's ranks, equal labels for equal hosts: owned by the caller.  NULL in labels
 * where the ranks find it out themselves ("auto"), and for one rank.  TC_ERR_INVALID_ARG where the
 * text speaks of another number of ranks, TC_ERR_ALLOC.  text: tci_layout_is_one(). */
tc_status_t tci_layout_labels(const char *text, uint32_t size, uint64_t **labels_out,
                              struct tci_error *error);

#endif
