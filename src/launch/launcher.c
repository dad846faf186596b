/* launcher.c - reading variables: which are there, which are missing, which are no numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launcher.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char operation[] = "dist_init_env";

const char *tci_launch_get(const char *name)
{
    const char *text = getenv(name);

    return text == NULL || *text == '\0' ? NULL : text;
}

const char *tci_launch_use(struct tci_launch *launch, const char *name)
{
    const char *text = tci_launch_get(name);
    size_t len = strlen(launch->variables);

    if (text != NULL)
        (void)snprintf(launch->variables + len, sizeof(launch->variables) - len, "%s%s",
                       len > 0 ? ", " : "", name);
    return text;
}

/* What is there of it already tells which launcher is meant. */
static tc_status_t lack(const struct tci_launch *launch, const char *name, struct tci_error *error)
{
    bool is_first = launch->variables[0] == '\0';

    if (strcmp(launch->name, "tcdist") == 0)
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, operation,
                      "%s %s set, but %s is not set: start the program with tcrun, or set "
                      "TCDIST_RANK, TCDIST_WORLD_SIZE and TCDIST_RENDEZVOUS",
                      is_first ? "part of TCDIST_…" : launch->variables,
                      strchr(launch->variables, ',') != NULL ? "are" : "is", name);
    else
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, operation,
                      "%s is not set, and variables of %s are there (%.120s): start the program "
                      "with that launcher, or unset them",
                      name, launch->name, is_first ? "others of it" : launch->variables);
    return TC_ERR_INVALID_ARG;
}

tc_status_t tci_launch_need(struct tci_launch *launch, const char *name, const char **text_out,
                            struct tci_error *error)
{
    const char *text = tci_launch_use(launch, name);

    if (text == NULL)
        return lack(launch, name, error);
    *text_out = text;
    return TC_OK;
}

tc_status_t tci_launch_refuse(struct tci_error *error, const char *name, const char *text,
                              const char *why)
{
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, operation, "%s is \"%.80s\": %s", name, text,
                  why);
    return TC_ERR_INVALID_ARG;
}

static tc_status_t parse_number(const struct tci_launch_number *what, const char *text, int *out,
                                struct tci_error *error)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (errno == 0 && *end == '\0' && value >= what->low && value <= what->high) {
        *out = (int)value;
        return TC_OK;
    }
    if (what->high < what->low)
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, operation,
                      "%s is \"%.80s\", which no rank of this group can have", what->name, text);
    else if (what->high == INT_MAX)
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, operation,
                      "%s is \"%.80s\": it must be a whole number from %d on", what->name, text,
                      what->low);
    else
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, operation,
                      "%s is \"%.80s\": it must be a whole number in %d … %d", what->name, text,
                      what->low, what->high);
    return TC_ERR_INVALID_ARG;
}

tc_status_t tci_launch_need_number(struct tci_launch *launch, const struct tci_launch_number *what,
                                   int *out, struct tci_error *error)
{
    const char *text;
    tc_status_t status = tci_launch_need(launch, what->name, &text, error);

    return status == TC_OK ? parse_number(what, text, out, error) : status;
}

tc_status_t tci_launch_may_number(struct tci_launch *launch, const struct tci_launch_number *what,
                                  int *out, struct tci_error *error)
{
    const char *text = tci_launch_use(launch, what->name);

    return text == NULL ? TC_OK : parse_number(what, text, out, error);
}

tc_status_t tci_launch_place(struct tci_launch *launch, const char *rank_name,
                             const char *size_name, struct tci_error *error)
{
    struct tci_launch_number size = {.name = size_name, .low = 1, .high = INT_MAX};
    struct tci_launch_number rank = {.name = rank_name};
    tc_status_t status;

    /* What is there is named where the other is missing. */
    if (tci_launch_get(size_name) == NULL)
        (void)tci_launch_use(launch, rank_name);
    status = tci_launch_need_number(launch, &size, &launch->size, error);
    rank.high = launch->size - 1;
    return status == TC_OK ? tci_launch_need_number(launch, &rank, &launch->rank, error) : status;
}

tc_status_t tci_launch_local(struct tci_launch *launch, const char *rank_name,
                             const char *size_name, struct tci_error *error)
{
    struct tci_launch_number rank = {.name = rank_name, .low = 0, .high = INT_MAX};
    struct tci_launch_number size = {.name = size_name, .low = 1, .high = INT_MAX};
    tc_status_t status = tci_launch_may_number(launch, &rank, &launch->local_rank, error);

    return status == TC_OK ? tci_launch_may_number(launch, &size, &launch->local_size, error)
                           : status;
}

tc_status_t tci_launch_meet_at(struct tci_launch *launch, const char *host, int port,
                               struct tci_error *error)
{
    bool is_bare = strchr(host, ':') != NULL && host[0] != '[';
    int len = snprintf(launch->url, sizeof(launch->url), is_bare ? "tcp://[%s]:%d" : "tcp://%s:%d",
                       host, port);

    if (len < (int)sizeof(launch->url))
        return TC_OK;
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, operation,
                  "the host \"%.60s…\" is longer than the name of a host can be", host);
    return TC_ERR_INVALID_ARG;
}
