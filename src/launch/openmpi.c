/* openmpi.c - ranks that mpirun of Open MPI has started. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "launch/launcher.h"

static bool is_there(void)
{
    return tci_launch_get("OMPI_COMM_WORLD_RANK") != NULL ||
           tci_launch_get("OMPI_COMM_WORLD_SIZE") != NULL;
}

/* Where all are on one host, a file in the job's own folder will do.  Else rank 0's address goes
 * round through PMIx. */
static tc_status_t find_meeting(struct tci_launch *launch, struct tci_error *error)
{
    const char *space = tci_launch_use(launch, "PMIX_NAMESPACE");
    const char *folder = tci_launch_get("PMIX_SERVER_TMPDIR");

    if (folder == NULL)
        folder = tci_launch_get("OMPI_FILE_LOCATION");
    if (space == NULL) {
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "dist_init_env",
            "PMIX_NAMESPACE is not set, though OMPI_COMM_WORLD_RANK is: start the program "
            "with mpirun, or say where the ranks meet with TCDIST_RENDEZVOUS");
        return TC_ERR_INVALID_ARG;
    }
    (void)snprintf(launch->job, sizeof(launch->job), "pmix %.160s", space);
    if (folder != NULL && folder[0] == '/' && launch->local_size == launch->size &&
        strlen(folder) + strlen(space) + 32 < sizeof(launch->url))
        (void)snprintf(launch->url, sizeof(launch->url), "file://%s/tcdist-%s", folder, space);
    else
        (void)snprintf(launch->url, sizeof(launch->url), "pmix://");
    return TC_OK;
}

static tc_status_t read(struct tci_launch *launch, struct tci_error *error)
{
    tc_status_t status =
        tci_launch_place(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", error);

    if (status == TC_OK)
        status = tci_launch_local(launch, "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE", error);
    /* A place of the user's own needs nothing of this. */
    if (status != TC_OK || launch->size == 1 || tci_launch_has_place())
        return status;
    return find_meeting(launch, error);
}

const struct tci_launcher tci_launcher_openmpi = {
    .name = "openmpi",
    .title = "mpirun of Open MPI",
    .rank_name = "OMPI_COMM_WORLD_RANK",
    .size_name = "OMPI_COMM_WORLD_SIZE",
    .is_there = is_there,
    .read = read,
};
