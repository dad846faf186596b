/* mlx.c - the variables that MLX's launcher sets: a host file, JACCL's coordinator, or NCCL's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/hostfile.h"
#include "launch/jaccl.h"
#include "launch/launcher.h"

/* A name of MLX's, and the one of JACCL alone, which is looked at first. */
static const char *pick(const char *jaccl, const char *mlx)
{
    return tci_launch_get(jaccl) != NULL ? jaccl : mlx;
}

static const char *rank_name(void)
{
    return pick("JACCL_RANK", "MLX_RANK");
}

static bool is_there(void)
{
    return tci_launch_get(rank_name()) != NULL || tci_launch_get("MLX_HOSTFILE") != NULL ||
           tci_launch_get(pick("JACCL_COORDINATOR", "MLX_JACCL_COORDINATOR")) != NULL;
}

static tc_status_t read_rank(struct tci_launch *launch, struct tci_error *error)
{
    struct tci_launch_number rank = {.name = rank_name(), .low = 0, .high = launch->size - 1};

    return tci_launch_need_number(launch, &rank, &launch->rank, error);
}

/* What MLX has and this library has not is left to its choice. */
static tc_status_t take_backend(struct tci_launch *launch, const char *path, const char *name,
                                struct tci_error *error)
{
    if (name[0] == '\0' || strcmp(name, "mpi") == 0 || strcmp(name, "nccl") == 0)
        return TC_OK;
    if (strcmp(name, "jaccl-ring") == 0)
        name = "jaccl";
    if (!tci_launch_is_backend(name)) {
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "dist_init_env",
            "the host file %.120s: its backend is \"%.40s\": there are " TCI_LAUNCH_BACKENDS, path,
            name);
        return TC_ERR_INVALID_ARG;
    }
    (void)snprintf(launch->backend, sizeof(launch->backend), "%s", name);
    return TC_OK;
}

/* The first address of rank 0 is where all meet; each rank listens at its own. */
static tc_status_t read_ring(struct tci_launch *launch, struct tci_error *error)
{
    const char *path = NULL;
    struct tci_hostfile hosts;
    tc_status_t status = tci_launch_need(launch, "MLX_HOSTFILE", &path, error);

    if (status == TC_OK)
        status = tci_hostfile_load(path, &hosts, error);
    if (status != TC_OK)
        return status;
    launch->size = (int)hosts.size;
    status = read_rank(launch, error);
    if (status == TC_OK && launch->size > 1) {
        (void)snprintf(launch->url, sizeof(launch->url), "tcp://%s", tci_hostfile_at(&hosts, 0, 0));
        launch->connections = (int)hosts.ranks[launch->rank].count;
        if (launch->rank > 0)
            (void)snprintf(launch->listen_url, sizeof(launch->listen_url), "tcp://%s",
                           tci_hostfile_at(&hosts, (size_t)launch->rank, 0));
        status = take_backend(launch, path, hosts.backend, error);
    }
    tci_hostfile_fini(&hosts);
    return status;
}

/* The device file has a row a rank; which devices lead where is for who carries the group. */
static tc_status_t read_jaccl(struct tci_launch *launch, struct tci_error *error)
{
    struct tci_launch_number rank = {.name = rank_name(), .low = 0, .high = TCI_RING_MAX - 1};
    struct tci_jaccl_asked asked = {.prefers_ring =
                                        tci_launch_get(pick("JACCL_RING", "MLX_JACCL_RING"))};
    struct tci_jaccl jaccl = {.size = 0};
    const char *coordinator = NULL;
    tc_status_t status = tci_launch_need(launch, pick("JACCL_COORDINATOR", "MLX_JACCL_COORDINATOR"),
                                         &coordinator, error);

    if (status == TC_OK)
        status = tci_launch_need(launch, pick("JACCL_IBV_DEVICES", "MLX_IBV_DEVICES"), &asked.name,
                                 error);
    if (status == TC_OK)
        status = tci_launch_need_number(launch, &rank, &asked.rank, error);
    if (status == TC_OK)
        status = tci_jaccl_load(&asked, &jaccl, error);
    if (status != TC_OK)
        return status;
    launch->rank = asked.rank;
    launch->size = (int)jaccl.size;
    launch->devices = asked.name;
    launch->prefers_ring = asked.prefers_ring;
    tci_jaccl_fini(&jaccl);
    if (launch->size > 1)
        (void)snprintf(launch->url, sizeof(launch->url), "rdma://%.300s", coordinator);
    return TC_OK;
}

static tc_status_t read_nccl(struct tci_launch *launch, struct tci_error *error)
{
    struct tci_launch_number port = {.name = "NCCL_PORT", .low = 1, .high = 65535};
    /* Of the connections by which NCCL begins: milliseconds. */
    struct tci_launch_number timeout = {.name = "MLX_NCCL_TIMEOUT", .low = 1, .high = INT_MAX};
    const char *host = NULL;
    int number = 0;
    tc_status_t status = tci_launch_place(launch, rank_name(), "MLX_WORLD_SIZE", error);

    if (status != TC_OK || launch->size == 1)
        return status;
    status = tci_launch_need(launch, "NCCL_HOST_IP", &host, error);
    if (status == TC_OK)
        status = tci_launch_need_number(launch, &port, &number, error);
    if (status == TC_OK)
        status = tci_launch_may_number(launch, &timeout, &launch->start_timeout_ms, error);
    return status == TC_OK ? tci_launch_meet_at(launch, host, number, error) : status;
}

static tc_status_t read(struct tci_launch *launch, struct tci_error *error)
{
    if (tci_launch_get("MLX_HOSTFILE") != NULL)
        return read_ring(launch, error);
    if (tci_launch_get("MLX_WORLD_SIZE") != NULL)
        return read_nccl(launch, error);
    if (tci_launch_get(pick("JACCL_COORDINATOR", "MLX_JACCL_COORDINATOR")) != NULL ||
        tci_launch_get(pick("JACCL_IBV_DEVICES", "MLX_IBV_DEVICES")) != NULL)
        return read_jaccl(launch, error);
    (void)tci_launch_use(launch, rank_name());
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init_env",
                  "%s is set, but there is no MLX_HOSTFILE, no MLX_JACCL_COORDINATOR with "
                  "MLX_IBV_DEVICES, and no MLX_WORLD_SIZE: start the program with mlx.launch, or "
                  "unset it",
                  rank_name());
    return TC_ERR_INVALID_ARG;
}

const struct tci_launcher tci_launcher_mlx = {
    .name = "mlx",
    .title = "mlx.launch",
    .rank_name = "MLX_RANK",
    .is_there = is_there,
    .read = read,
};
