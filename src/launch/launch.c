/* launch.c - which launcher has started this process: the table, and the order of asking. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch.h"

#include <stdio.h>
#include <string.h>

#include "core/base.h"
#include "launch/launcher.h"
#include "meet/meet.h"
#include "meet/pmix.h"

/* The first whose variables are there is taken.  What is said to tcdist itself comes first; then
 * the launchers from the inside out, since one may be started by another and leaves its variables
 * where they are: torchrun by srun, mpirun and mpiexec.hydra within a job of Slurm. */
static const struct tci_launcher *const launchers[] = {
    &tci_launcher_tcdist, &tci_launcher_mlx,  &tci_launcher_torchrun, &tci_launcher_openmpi,
    &tci_launcher_pmi,    &tci_launcher_pmix, &tci_launcher_slurm,
};

static const char *const backends[] = {"any",  "ring",  "tcp",  "shm",
                                       "rdma", "jaccl", "gloo", "single"};

bool tci_launch_is_backend(const char *name)
{
    for (size_t i = 0; i < TCI_LEN(backends); i++)
        if (strcmp(name, backends[i]) == 0)
            return true;
    return false;
}

/* " slurm (SLURM_PROCID 3, SLURM_NTASKS 8)" to those that are not used. */
static void note_other(struct tci_launch *launch, const struct tci_launcher *other)
{
    size_t len = strlen(launch->others);
    const char *rank = other->rank_name == NULL ? NULL : tci_launch_get(other->rank_name);
    const char *size = other->size_name == NULL ? NULL : tci_launch_get(other->size_name);
    char *at = launch->others + len;
    size_t room = sizeof(launch->others) - len;

    if (rank != NULL && size != NULL)
        (void)snprintf(at, room, "%s%s (%s %.12s, %s %.12s)", len > 0 ? "; " : "", other->title,
                       other->rank_name, rank, other->size_name, size);
    else
        (void)snprintf(at, room, "%s%s", len > 0 ? "; " : "", other->title);
}

static bool is_port_0(const char *url)
{
    size_t len = strlen(url);

    return len > 2 && strcmp(url + len - 2, ":0") == 0;
}

bool tci_launch_has_place(void)
{
    const char *url = tci_launch_get("TCDIST_RENDEZVOUS");

    return url != NULL && strcmp(url, "env://") != 0 && !is_port_0(url);
}

/* "10.0.0.7" of "tcp://10.0.0.7:0", for a launcher that hands round what rank 0 says. */
static tc_status_t take_host(struct tci_launch *launch, const char *url, struct tci_error *error)
{
    const char *host = strncmp(url, "tcp://", 6) == 0 ? url + 6 : url;
    size_t len = strlen(host) - 2;

    if (!tci_meet_is_meant(launch->url))
        return tci_launch_refuse(error, "TCDIST_RENDEZVOUS", url,
                                 "port 0 has to be handed round by a launcher, and this one hands "
                                 "nothing round: choose a port from 1 to 65535");
    if (host == url || len == 0 || len >= sizeof(launch->advertise))
        return tci_launch_refuse(error, "TCDIST_RENDEZVOUS", url, "write tcp://host:0");
    memcpy(launch->advertise, host, len);
    launch->advertise[len] = '\0';
    return TC_OK;
}

/* Where to meet, for whoever it is that gives the rank. */
static tc_status_t override_meeting(struct tci_launch *launch, struct tci_error *error)
{
    const char *url = tci_launch_get("TCDIST_RENDEZVOUS");

    if (url == NULL || strcmp(url, "env://") == 0 || launch->size == 1)
        return TC_OK;
    (void)tci_launch_use(launch, "TCDIST_RENDEZVOUS");
    if (is_port_0(url))
        return take_host(launch, url, error);
    (void)snprintf(launch->url, sizeof(launch->url), "%s", url);
    launch->ports = 1;
    launch->is_loose = false;
    launch->listen_url[0] = '\0';
    return TC_OK;
}

static tc_status_t read_backend(struct tci_launch *launch, struct tci_error *error)
{
    const char *name = tci_launch_get("TCDIST_BACKEND");

    if (name == NULL)
        return TC_OK;
    if (!tci_launch_is_backend(name))
        return tci_launch_refuse(error, "TCDIST_BACKEND", name, "there are " TCI_LAUNCH_BACKENDS);
    (void)snprintf(launch->backend, sizeof(launch->backend), "%s", name);
    return TC_OK;
}

tc_status_t tci_launch_read(struct tci_launch *launch, struct tci_error *error)
{
    const struct tci_launcher *mine = NULL;
    tc_status_t status = TC_OK;

    *launch = (struct tci_launch){
        .name = "none", .size = 1, .local_rank = -1, .local_size = -1, .listen_fd = -1, .ports = 1};
    for (size_t i = 0; i < TCI_LEN(launchers); i++) {
        if (!launchers[i]->is_there())
            continue;
        if (mine == NULL)
            mine = launchers[i];
        else
            note_other(launch, launchers[i]);
    }
    if (mine != NULL) {
        launch->name = mine->name;
        status = mine->read(launch, error);
    }
    if (status == TC_OK && mine != &tci_launcher_tcdist)
        status = override_meeting(launch, error);
    launch->is_local = launch->local_size == launch->size;
    return status == TC_OK ? read_backend(launch, error) : status;
}

void tci_launch_leave(void)
{
    tci_pmix_leave();
}
