/* subgroup.c - a group of some ranks of another one: its links are a view of the other's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "subgroup.h"

#include <string.h>

#include "algo/refine.h"
#include "algo/tuning.h"
#include "core/alloc.h"
#include "core/log.h"
#include "core/mux.h"
#include "group/names.h"

/* Closed meanwhile, by itself or with all groups of its context: there is to be no new one. */
bool tci_subgroup_is_parent_closed(const tc_dist_ctx *parent)
{
    return parent->state == TCI_GROUP_CLOSING || parent->state == TCI_GROUP_PARTING;
}

const char *tci_subgroup_why_not(const tc_dist_ctx *parent)
{
    return tci_subgroup_is_parent_closed(parent) ? "has closed the group that was to give it"
                                                 : "has no memory left for the group";
}

/* The hosts of the members, as the parent numbers them; NULL where it has one, or no memory. */
static struct tci_hosts *hosts_of(const struct tci_subgroup *subgroup)
{
    const struct tci_comm *parent = &subgroup->parent->comm;
    struct tci_hosts *hosts = NULL;
    uint64_t *labels = NULL;

    if (parent->hosts != NULL)
        labels = tci_alloc_array(subgroup->size, sizeof(*labels));
    if (labels == NULL)
        return NULL;
    for (uint32_t r = 0; r < subgroup->size; r++)
        labels[r] = parent->hosts->host[subgroup->members[r]];
    hosts = tci_hosts_new(labels, subgroup->size);
    tci_free(labels);
    return hosts;
}

static bool take_names(tc_dist_ctx *group, const struct tci_subgroup *subgroup)
{
    const struct tci_names *names = subgroup->parent->names;

    if (names != NULL)
        group->names = tci_names_pick(names, subgroup->members, subgroup->size);
    return names == NULL || group->names != NULL;
}

/* Takes the view over. */
static tc_dist_ctx *make_group(const struct tci_subgroup *subgroup, struct tci_transport *view)
{
    struct tci_comm *parent = &subgroup->parent->comm;
    struct tci_hosts *hosts = hosts_of(subgroup);
    struct tci_comm_config config = {.rank = (int)subgroup->rank,
                                     .shown_rank = parent->shown_rank,
                                     .size = (int)subgroup->size,
                                     .group = view != NULL ? subgroup->number : TCI_MUX_WORLD,
                                     .segment_bytes = parent->segment_bytes,
                                     .numerics = parent->numerics,
                                     .check = parent->check,
                                     .algorithm = parent->algorithm,
                                     .hosts = hosts,
                                     .figures = tci_tuning_figures(parent),
                                     .steady = tci_tuning_steady(parent)};
    tc_dist_ctx *group = NULL;

    memcpy(config.job, parent->job, sizeof(config.job));
    if (parent->hosts == NULL || hosts != NULL)
        group = tci_group_new(parent->context, view, &config);
    else if (view != NULL)
        view->ops->close(view);
    tci_hosts_unref(hosts);
    if (group != NULL && (!take_names(group, subgroup) ||
                          !tci_refine_open(&group->comm, tci_refine_every_ms(parent)))) {
        tci_group_close(group, NULL); /* the others learn of it as of any end */
        return NULL;
    }
    if (group != NULL)
        tci_beat_start(&group->comm, parent->beat.period_ms);
    if (group != NULL)
        tci_log(TC_LOG_INFO, "rank %d of %d stands in a group of %d as rank %d", parent->rank,
                parent->size, config.size, config.rank);
    return group;
}

static tc_dist_ctx *make_linked_group(const struct tci_subgroup *subgroup)
{
    tc_dist_ctx *parent = subgroup->parent, *group = NULL;
    struct tci_mux *mux = tci_mux_of(parent->comm.transport);
    uint32_t size = subgroup->size;
    uint32_t *ranks = tci_alloc_array(size, sizeof(*ranks)), *copy;
    struct tci_transport *view = NULL;

    if (ranks == NULL)
        return NULL; /* the others learn of it by a deadline */
    for (uint32_t r = 0; r < size; r++)
        ranks[r] = tci_view_below(parent->comm.transport, subgroup->members[r]);
    copy = tci_alloc_array(size, sizeof(*copy));
    if (copy != NULL && !tci_subgroup_is_parent_closed(parent)) {
        memcpy(copy, ranks, size * sizeof(*copy));
        view = tci_mux_view(mux, subgroup->number, copy, size);
    } else {
        tci_free(copy);
    }
    if (view != NULL)
        group = make_group(subgroup, view);
    if (group == NULL)
        tci_mux_decline(mux, subgroup->number, ranks, subgroup->rank, size,
                        tci_subgroup_why_not(parent));
    tci_free(ranks);
    return group;
}

tc_dist_ctx *tci_subgroup_make(const struct tci_subgroup *subgroup)
{
    if (subgroup->size > 1)
        return make_linked_group(subgroup);
    if (tci_subgroup_is_parent_closed(subgroup->parent))
        return NULL;
    return make_group(subgroup, NULL);
}
