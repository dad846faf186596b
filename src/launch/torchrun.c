/* torchrun.c - the variables that PyTorch's torchrun sets, and that many scripts set by hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "launch/launcher.h"

/* Names as plain as these may mean something else: one of the two and one more are taken. */
static bool is_there(void)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    int count = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        count += tci_launch_get(names[i]) != NULL;
    return count >= 2 && (tci_launch_get("RANK") != NULL || tci_launch_get("WORLD_SIZE") != NULL);
}

/* torchrun's agent may have MASTER_PORT for its own store.  Then the ranks meet at one of the ports
 * behind it, each knowing by the name of the job whether it has found the others. */
static void move_ports(struct tci_launch *launch, int *port)
{
    const char *is_taken = tci_launch_get("TORCHELASTIC_USE_AGENT_STORE");
    const char *run = tci_launch_get("TORCHELASTIC_RUN_ID");
    const char *restarts = tci_launch_get("TORCHELASTIC_RESTART_COUNT");

    if (run != NULL || restarts != NULL)
        (void)snprintf(launch->job, sizeof(launch->job), "torchrun %.64s %.12s %.64s %d",
                       run != NULL ? run : "", restarts != NULL ? restarts : "",
                       tci_launch_get("MASTER_ADDR"), *port);
    if (is_taken == NULL || strcmp(is_taken, "True") != 0)
        return;
    (void)tci_launch_use(launch, "TORCHELASTIC_USE_AGENT_STORE");
    launch->ports = 8;
    *port = *port + 1 + launch->ports <= 65535 ? *port + 1 : *port - launch->ports;
}

static tc_status_t read(struct tci_launch *launch, struct tci_error *error)
{
    struct tci_launch_number port = {.name = "MASTER_PORT", .low = 1, .high = 65535};
    tc_status_t status = tci_launch_place(launch, "RANK", "WORLD_SIZE", error);
    const char *host = NULL;
    int number = 0;

    if (status == TC_OK)
        status = tci_launch_local(launch, "LOCAL_RANK", "LOCAL_WORLD_SIZE", error);
    if (status != TC_OK || launch->size == 1)
        return status;
    status = tci_launch_need(launch, "MASTER_ADDR", &host, error);
    if (status == TC_OK)
        status = tci_launch_need_number(launch, &port, &number, error);
    if (status != TC_OK)
        return status;
    move_ports(launch, &number);
    launch->is_loose = true;
    return tci_launch_meet_at(launch, host, number, error);
}

const struct tci_launcher tci_launcher_torchrun = {
    .name = "torchrun",
    .title = "torchrun",
    .rank_name = "RANK",
    .size_name = "WORLD_SIZE",
    .is_there = is_there,
    .read = read,
};
