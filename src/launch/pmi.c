/* pmi.c - ranks with a process manager that speaks PMI: hydra of MPICH, srun with --mpi=pmi2. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "launch/launcher.h"
#include "meet/pmi.h"

static bool is_there(void)
{
    return tci_launch_get("PMI_FD") != NULL || tci_launch_get("PMI_PORT") != NULL ||
           (tci_launch_get("PMI_RANK") != NULL && tci_launch_get("PMI_SIZE") != NULL);
}

/* With PMI_PORT the manager tells rank and size to whoever connects and says its PMI_ID. */
static tc_status_t ask_manager(struct tci_launch *launch, struct tci_error *error)
{
    const char *text = NULL;
    tc_status_t status = tci_launch_need(launch, "PMI_ID", &text, error);

    (void)tci_launch_use(launch, "PMI_PORT");
    return status == TC_OK ? tci_pmi_place(&launch->rank, &launch->size, error) : status;
}

static tc_status_t read(struct tci_launch *launch, struct tci_error *error)
{
    bool by_port = tci_launch_get("PMI_FD") == NULL && tci_launch_get("PMI_PORT") != NULL;
    tc_status_t status;

    status = by_port && tci_launch_get("PMI_RANK") == NULL
                 ? ask_manager(launch, error)
                 : tci_launch_place(launch, "PMI_RANK", "PMI_SIZE", error);
    if (status == TC_OK)
        status = tci_launch_local(launch, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", error);
    if (status != TC_OK || launch->size == 1 || tci_launch_has_place())
        return status;
    if (tci_launch_use(launch, "PMI_FD") == NULL && !by_port) {
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "dist_init_env",
            "PMI_RANK and PMI_SIZE are set, but neither PMI_FD nor PMI_PORT, by which the "
            "ranks would learn where to meet: say it with TCDIST_RENDEZVOUS");
        return TC_ERR_INVALID_ARG;
    }
    (void)snprintf(launch->url, sizeof(launch->url), "pmi://");
    return TC_OK;
}

const struct tci_launcher tci_launcher_pmi = {
    .name = "pmi",
    .title = "a process manager with PMI",
    .rank_name = "PMI_RANK",
    .size_name = "PMI_SIZE",
    .is_there = is_there,
    .read = read,
};
