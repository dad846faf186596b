/* environment.c - the variables that are set, and what would be made of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "context/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "facts.h"
#include "tcdist/context.h"

#define PREFIX "TCDIST_"

static bool is_secret(const char *name)
{
    return strstr(name, "KEY") != NULL;
}

static bool is_known(const char *name)
{
    for (const char *const *known = tci_environment; *known != NULL; known++)
        if (strcmp(*known, name) == 0)
            return true;
    return strncmp(name, PREFIX "TEST_", strlen(PREFIX "TEST_")) == 0;
}

static void read_variable(const char *setting, struct variable *out)
{
    size_t len = strcspn(setting, "=");

    *out = (struct variable){.value = setting[len] == '=' ? setting + len + 1 : ""};
    snprintf(out->name, sizeof(out->name), "%.*s", (int)len, setting);
    if (is_secret(out->name))
        out->value = NULL;
    if (!is_known(out->name)) {
        out->nearest = tci_environment_nearest(out->name);
        if (out->nearest == NULL)
            out->nearest = "";
    }
}

static void find_idle(struct environment_facts *environment)
{
    for (const struct tci_environment_idle *idle = tci_environment_idle; idle->name != NULL;
         idle++) {
        struct variable *variable = &environment->at[environment->count];

        *variable = (struct variable){.value = getenv(idle->name), .idle = idle->why};
        if (variable->value == NULL)
            continue;
        snprintf(variable->name, sizeof(variable->name), "%s", idle->name);
        environment->count++;
    }
}

/* A context is made, and what that says is kept: the library's own words. */
static void try_settings(struct environment_facts *environment)
{
    tc_context *context = NULL;
    tc_config config;

    tc_config_default(&config);
    if (tc_init_config(&config, &context) != TC_OK)
        snprintf(environment->error, sizeof(environment->error), "%s", tc_last_error()->message);
    tc_shutdown(context);
}

bool find_environment(struct environment_facts *environment)
{
    size_t count = 0, idle = 0;

    *environment = (struct environment_facts){.size = 1};
    for (char **at = environ; at != NULL && *at != NULL; at++)
        count += strncmp(*at, PREFIX, strlen(PREFIX)) == 0;
    while (tci_environment_idle[idle].name != NULL)
        idle++;
    environment->at = tci_alloc_array(count + idle + 1, sizeof(*environment->at));
    if (environment->at == NULL)
        return false;
    for (char **at = environ; at != NULL && *at != NULL && environment->count < count; at++)
        if (strncmp(*at, PREFIX, strlen(PREFIX)) == 0)
            read_variable(*at, &environment->at[environment->count++]);
    find_idle(environment);
    try_settings(environment);
    find_launcher(environment);
    return true;
}
