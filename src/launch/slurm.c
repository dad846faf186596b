/* slurm.c - ranks that srun has started: the variables of a step, and where its first node is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "launch/launcher.h"
#include "launch/nodelist.h"
#include "launch/slurm_conf.h"

/* Below what systems take for connections of their own (from 32768 on), above most services. */
enum { PORT_FIRST = 20000, PORT_SPAN = 12000, PORTS = 8 };

/* Steps beyond are no steps of srun: the script of sbatch, the shell of salloc. */
#define STEP_MAX 0xfffffff0u

/* In a script of sbatch there are the numbers of a job, and no step: it is no rank. */
static bool is_there(void)
{
    const char *step = tci_launch_get("SLURM_STEP_ID");

    if (step == NULL)
        step = tci_launch_get("SLURM_STEPID");
    return step != NULL && strtoul(step, NULL, 10) < STEP_MAX &&
           tci_launch_get("SLURM_PROCID") != NULL;
}

/* FNV-1a: the same port on every node, and another one for another step. */
static int port_of(const char *job)
{
    uint32_t hash = 0x811c9dc5u;

    for (const char *c = job; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x01000193u;
    return PORT_FIRST + (int)(hash % (PORT_SPAN / PORTS)) * PORTS;
}

/* The first of two names that is set; older releases of Slurm have the second alone. */
static const char *either(const char *name, const char *older)
{
    return tci_launch_get(name) != NULL ? name : older;
}

/* The name that is set; where none is, the one that every step has. */
static const char *size_name(void)
{
    static const char *const names[] = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"};

    for (size_t k = 0; k < TCI_LEN(names); k++)
        if (tci_launch_get(names[k]) != NULL)
            return names[k];
    return names[0];
}

static tc_status_t read_local(struct tci_launch *launch, struct tci_error *error)
{
    struct tci_launch_number local = {.name = "SLURM_LOCALID", .low = 0, .high = INT_MAX};
    struct tci_launch_number node = {.name = "SLURM_NODEID", .low = 0, .high = INT_MAX};
    const char *counts =
        tci_launch_get(either("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"));
    int node_index = -1;
    tc_status_t status = tci_launch_may_number(launch, &local, &launch->local_rank, error);

    if (status == TC_OK)
        status = tci_launch_may_number(launch, &node, &node_index, error);
    if (status == TC_OK && counts != NULL && node_index >= 0)
        launch->local_size = tci_nodecounts_at(counts, (size_t)node_index);
    return status;
}

/* Rank 0 is on the first node of the step.  A name of a node need not be known to any name server:
 * where the configuration of Slurm can be read, its address is there. */
static tc_status_t find_host(struct tci_launch *launch, const char *job, struct tci_error *error)
{
    const char *name = either("SLURM_STEP_NODELIST", "SLURM_NODELIST"), *list = NULL;
    struct tci_launch_number count = {.low = 1, .high = INT_MAX};
    char node[TCI_NODE_NAME], address[TCI_NODE_NAME];
    int nodes = 0;
    tc_status_t status = tci_launch_need(launch, name, &list, error);

    count.name = either("SLURM_STEP_NUM_NODES", "SLURM_NNODES");
    if (status == TC_OK)
        status = tci_launch_may_number(launch, &count, &nodes, error);
    if (status != TC_OK)
        return status;
    if (!tci_nodelist_at(list, 0, node))
        return tci_launch_refuse(error, name, list, "it is no list of nodes, as n[1-3],m7");
    if (nodes == 1)
        (void)snprintf(address, sizeof(address), "127.0.0.1");
    else if (!tci_slurm_alias(tci_launch_get("SLURM_NODE_ALIASES"), node, address) &&
             !tci_slurm_conf_address(tci_launch_get("SLURM_CONF"), node, address))
        memcpy(address, node, sizeof(address));
    launch->ports = PORTS;
    launch->is_loose = true;
    return tci_launch_meet_at(launch, address, port_of(job), error);
}

static tc_status_t read(struct tci_launch *launch, struct tci_error *error)
{
    const char *job = NULL, *step = NULL;
    tc_status_t status = tci_launch_place(launch, "SLURM_PROCID", size_name(), error);

    if (status == TC_OK)
        status = read_local(launch, error);
    if (status != TC_OK || launch->size == 1)
        return status;
    status = tci_launch_need(launch, either("SLURM_JOB_ID", "SLURM_JOBID"), &job, error);
    if (status == TC_OK)
        status = tci_launch_need(launch, either("SLURM_STEP_ID", "SLURM_STEPID"), &step, error);
    if (status != TC_OK)
        return status;
    (void)snprintf(
        launch->job, sizeof(launch->job), "slurm %.60s %.24s.%.24s",
        tci_launch_get("SLURM_CLUSTER_NAME") != NULL ? tci_launch_get("SLURM_CLUSTER_NAME") : "",
        job, step);
    return find_host(launch, launch->job, error);
}

const struct tci_launcher tci_launcher_slurm = {
    .name = "slurm",
    .title = "srun of Slurm",
    .rank_name = "SLURM_PROCID",
    .size_name = "SLURM_NTASKS",
    .is_there = is_there,
    .read = read,
};
