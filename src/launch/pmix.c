/* pmix.c - ranks of a launcher with PMIx and no names of its own: PRRTE's prun, srun --mpi=pmix. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "launch/launcher.h"
#include "meet/pmix.h"

/* What srun of Slurm serves says no more than the variables of Slurm. */
static bool is_said_by_slurm(void)
{
    static const char prefix[] = "slurm.pmix.";
    const char *space = tci_launch_get("PMIX_NAMESPACE");

    return space != NULL && strncmp(space, prefix, sizeof(prefix) - 1) == 0 &&
           tci_launcher_slurm.is_there();
}

/* Open MPI's mpirun serves PMIx, too, and has more to say. */
static bool is_there(void)
{
    if ((tci_launch_get("PMIX_RANK") == NULL && tci_launch_get("PMIX_NAMESPACE") == NULL) ||
        tci_launcher_openmpi.is_there())
        return false;
    return !is_said_by_slurm() || tci_pmix_is_usable();
}

/* There is no variable that says how many ranks there are. */
static tc_status_t read(struct tci_launch *launch, struct tci_error *error)
{
    struct tci_pmix_place place = {.size = 1};
    const char *space = NULL, *rank = NULL;
    tc_status_t status = tci_launch_need(launch, "PMIX_NAMESPACE", &space, error);

    if (status == TC_OK)
        status = tci_launch_need(launch, "PMIX_RANK", &rank, error);
    if (status == TC_OK)
        status = tci_pmix_place(&place, error);
    if (status != TC_OK)
        return status;
    launch->rank = place.rank;
    launch->size = place.size;
    launch->local_rank = place.local_rank;
    launch->local_size = place.local_size;
    (void)snprintf(launch->job, sizeof(launch->job), "pmix %.160s", space);
    if (launch->size == 1 || tci_launch_has_place())
        tci_pmix_leave();
    else
        (void)snprintf(launch->url, sizeof(launch->url), "pmix://");
    return TC_OK;
}

const struct tci_launcher tci_launcher_pmix = {
    .name = "pmix",
    .title = "a launcher with PMIx",
    .is_there = is_there,
    .read = read,
};
