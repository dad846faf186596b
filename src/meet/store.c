/* store.c - what meeting places share: reading their URLs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
#define HOST   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
#define KEY    HOST "/:@+="

tc_status_t tci_store_refuse(struct tci_error *error, const char *url, const char *why)
{
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init", "rendezvous URL \"%.120s\": %s",
                  url, why);
    return TC_ERR_INVALID_ARG;
}

/* A host, or an IPv6 address in brackets; gives what follows, or NULL. */
static const char *read_host(const char *at, char *host, size_t room)
{
    bool is_bracketed = *at == '[';
    size_t len = is_bracketed ? strcspn(++at, "]") : strspn(at, HOST);

    if (len == 0 || len >= room || (is_bracketed && at[len] != ']') ||
        (is_bracketed && strspn(at, "0123456789abcdefABCDEF:.") != len))
        return NULL;
    memcpy(host, at, len);
    host[len] = '\0';
    return at + len + is_bracketed;
}

static const char *read_port(const char *at, int *port)
{
    size_t digits = strspn(at, DIGITS);
    long value = digits == 0 || digits > 5 ? 0 : strtol(at, NULL, 10);

    if (value < 1 || value > 65535)
        return NULL;
    *port = (int)value;
    return at + digits;
}

tc_status_t tci_store_parse(const char *url, const char *scheme, int port,
                            struct tci_store_where *out, struct tci_error *error)
{
    struct tci_store_where where = {.port = port};
    const char *at = read_host(tci_store_rest(url, scheme), where.host, sizeof(where.host));

    if (at == NULL)
        return tci_store_refuse(
            error, url, "there is no host; write host:port/key, an IPv6 address in brackets");
    if (*at == ':')
        at = read_port(at + 1, &where.port);
    if (at == NULL)
        return tci_store_refuse(error, url, "the port is not a number in 1 … 65535");
    if (*at != '/' || at[1] == '\0')
        return tci_store_refuse(error, url,
                                "there is no key: write host:port/key, another one for each job");
    if (strlen(at + 1) >= sizeof(where.key) || strspn(at + 1, KEY) != strlen(at + 1))
        return tci_store_refuse(error, url,
                                "the key may have 255 letters, digits and -._/:@+= at most");
    (void)snprintf(where.key, sizeof(where.key), "%s", at + 1);
    *out = where;
    return TC_OK;
}
