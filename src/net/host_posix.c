/* host_posix.c - a host known by its name and its addresses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/host.h"

#include <stddef.h>
#include <sys/utsname.h>

#include "net/iface.h"

/* FNV-1a. */
static uint64_t hash(uint64_t seed, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    for (size_t k = 0; k < len; k++)
        seed = (seed ^ bytes[k]) * 0x100000001b3u;
    return seed;
}

/* Of IPv6 a host has such as come and go. */
static void add_address(void *id, const struct tci_iface *iface)
{
    uint64_t *seed = id;

    if (iface->addr.sa.ss_family == AF_INET)
        *seed = hash(*seed, &iface->addr.v4.sin_addr, sizeof iface->addr.v4.sin_addr);
}

uint64_t tci_host_id(void)
{
    uint64_t id = 0xcbf29ce484222325u;
    struct utsname names;

    if (uname(&names) >= 0) {
        for (size_t len = 0; names.nodename[len] != '\0'; len++)
            id = hash(id, &names.nodename[len], 1);
    }
    tci_iface_each(add_address, &id);
    return id;
}
