/* reach.c - how the other ranks reach this one: what the options and the environment say. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "reach.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "net/iface.h"

enum { HOST_CHARS_MAX = 255 };

tc_status_t tci_reach_copy(const char *from, size_t len, char **copy, struct tci_error *error)
{
    while (len > 0 && isspace((unsigned char)*from)) {
        from++;
        len--;
    }
    while (len > 0 && isspace((unsigned char)from[len - 1]))
        len--;
    if (len == 0)
        return TC_OK;
    *copy = len <= HOST_CHARS_MAX ? tci_alloc(len + 1) : NULL;
    if (*copy != NULL)
        memcpy(*copy, from, len);
    else if (len > HOST_CHARS_MAX)
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "dist_init: an advertised host is longer than 255 characters");
    else
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init", "dist_init: no memory left");
    return error->pub.status;
}

tc_status_t tci_reach_entry(const char *name, const char *text, const tc_dist_options *options,
                            char **out, struct tci_error *error)
{
    const char *at = text;
    int entries = 1;

    if (text == NULL || text[strspn(text, " \t")] == '\0')
        return TC_OK;
    for (const char *c = text; *c != '\0'; c++)
        entries += *c == ',';
    if (entries != options->world_size) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "%s has %d entries for %d ranks: one a rank, separated by commas", name,
                      entries, options->world_size);
        return error->pub.status;
    }
    for (int rank = 0; rank < options->rank; rank++)
        at = strchr(at, ',') + 1;
    return tci_reach_copy(at, strcspn(at, ","), out, error);
}

static tc_status_t read_advertise(const tc_dist_options *options, struct tci_reached *reach,
                                  struct tci_error *error)
{
    static const char name[] = "TCDIST_ADVERTISE";
    const char *text = getenv(name);

    if (options->advertise != NULL)
        return tci_reach_copy(options->advertise, strlen(options->advertise), &reach->advertise,
                              error);
    if (text == NULL || strchr(text, ',') != NULL)
        return tci_reach_entry(name, text, options, &reach->advertise, error);
    return tci_reach_copy(text, strlen(text), &reach->advertise, error);
}

static tc_status_t read_interfaces(const tc_dist_options *options, struct tci_reached *reach,
                                   struct tci_error *error)
{
    const char *text = options->interfaces;
    const char *what = "interfaces";

    if (text == NULL) {
        what = "TCDIST_INTERFACE";
        text = getenv(what);
    }
    if (text == NULL || *text == '\0')
        return TC_OK;
    if (!tci_iface_is_choice(text)) {
        tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                      "dist_init: %s is \"%.80s\", but must be %s", what, text, tci_iface_allowed);
        return error->pub.status;
    }
    return tci_reach_copy(text, strlen(text), &reach->interfaces, error);
}

tc_status_t tci_reach_read(const tc_dist_options *options, struct tci_reached *reach,
                           struct tci_error *error)
{
    *reach = (struct tci_reached){.advertise = NULL};
    if (options->world_size == 1)
        return TC_OK;
    if (read_advertise(options, reach, error) == TC_OK)
        (void)read_interfaces(options, reach, error);
    return error->pub.status;
}

void tci_reach_fini(struct tci_reached *reach)
{
    tci_free(reach->advertise);
    tci_free(reach->interfaces);
    *reach = (struct tci_reached){.advertise = NULL};
}
