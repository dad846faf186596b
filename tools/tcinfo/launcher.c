/* launcher.c - what tc_dist_init_env() would make of the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "facts.h"
#include "launch/launch.h"

static void find_cables(struct environment_facts *environment, const struct tci_launch *launch)
{
    struct tci_jaccl_asked asked = {
        .name = launch->devices, .rank = launch->rank, .prefers_ring = launch->prefers_ring};
    struct tci_error error = {.pub = {.status = TC_OK}};

    if (asked.name != NULL && tci_jaccl_load(&asked, &environment->cables, &error) == TC_OK)
        environment->device_file = asked.name;
}

void find_launcher(struct environment_facts *environment)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    struct tci_launch launch = {.size = 1};

    if (tci_launch_read(&launch, &error) != TC_OK) {
        if (environment->error[0] == '\0')
            snprintf(environment->error, sizeof(environment->error), "%s", error.text);
        return;
    }
    tci_launch_leave();
    environment->rank = launch.rank;
    environment->size = launch.size;
    snprintf(environment->launcher, sizeof(environment->launcher), "%s", launch.name);
    snprintf(environment->launcher_variables, sizeof(environment->launcher_variables), "%s",
             launch.variables);
    snprintf(environment->others, sizeof(environment->others), "%s", launch.others);
    snprintf(environment->rendezvous, sizeof(environment->rendezvous), "%s", launch.url);
    find_cables(environment, &launch);
}
