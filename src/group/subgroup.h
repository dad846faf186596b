/* subgroup.h - a group of some ranks of another one, over the same links. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SUBGROUP_H
#define TCI_SUBGROUP_H

#include "group/group.h"

/* What its members have agreed on. */
struct tci_subgroup {
    tc_dist_ctx *parent;
    const uint32_t *members; /* ranks in the parent, by rank in the new group; borrowed */
    uint32_t size, rank;     /* of the new group */
    uint64_t number;         /* without meaning in a group of one */
};

/* The group as this rank sees it; settings and figures are the parent's.  NULL without memory, or
 * when the parent has been closed meanwhile: the other members are told then.  Where links are
 * shared, within tci_mux_expect … tci_mux_expect_end.  Loop thread. */
tc_dist_ctx *tci_subgroup_make(const struct tci_subgroup *subgroup);

/* Why it was not made, after "rank 2 ". */
const char *tci_subgroup_why_not(const tc_dist_ctx *parent);
bool tci_subgroup_is_parent_closed(const tc_dist_ctx *parent);

#endif
