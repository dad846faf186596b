/* tcdist.c - tcdist's own variables, as tcrun sets them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "launch/launcher.h"

static bool is_there(void)
{
    return tci_launch_get("TCDIST_RANK") != NULL || tci_launch_get("TCDIST_WORLD_SIZE") != NULL;
}

static tc_status_t read_place(struct tci_launch *launch, struct tci_error *error)
{
    struct tci_launch_number size = {.name = "TCDIST_WORLD_SIZE", .low = 1, .high = INT_MAX};
    struct tci_launch_number fd = {.name = "TCDIST_RENDEZVOUS_FD", .low = 0, .high = INT_MAX};
    struct tci_launch_number rank = {.name = "TCDIST_RANK"};
    tc_status_t status;

    if (tci_launch_get(size.name) == NULL)
        (void)tci_launch_use(launch, rank.name);
    status = tci_launch_need_number(launch, &size, &launch->size, error);
    rank.high = launch->size - 1;
    if (status == TC_OK && launch->size > 1)
        status = tci_launch_need_number(launch, &rank, &launch->rank, error);
    else if (status == TC_OK) /* a group of one may say so */
        status = tci_launch_may_number(launch, &rank, &launch->rank, error);
    if (status == TC_OK)
        status = tci_launch_may_number(launch, &fd, &launch->listen_fd, error);
    return status;
}

static tc_status_t read(struct tci_launch *launch, struct tci_error *error)
{
    tc_status_t status = read_place(launch, error);
    bool is_elsewhere = false; /* the socket that was made: both variables are inherited by all */
    const char *url, *up;

    if (status == TC_OK)
        status = tci_launch_local(launch, "TCDIST_LOCAL_RANK", "TCDIST_LOCAL_SIZE", error);
    if (status == TC_OK && launch->size > 1)
        status = tci_launch_need(launch, "TCDIST_RENDEZVOUS", &url, error);
    if (status != TC_OK)
        return status;
    if (launch->size > 1) {
        up = tci_launch_get("TCDIST_RENDEZVOUS_UP");
        launch->is_up = up != NULL && strcmp(up, url) == 0;
        is_elsewhere = up != NULL && !launch->is_up;
        (void)snprintf(launch->url, sizeof(launch->url), "%s", url);
    }
    if (launch->size == 1 || launch->rank != 0 || is_elsewhere)
        launch->listen_fd = -1;
    return TC_OK;
}

const struct tci_launcher tci_launcher_tcdist = {
    .name = "tcdist",
    .title = "tcrun",
    .rank_name = "TCDIST_RANK",
    .size_name = "TCDIST_WORLD_SIZE",
    .is_there = is_there,
    .read = read,
};
