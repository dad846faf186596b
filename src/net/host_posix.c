/* host_posix.c - a host known by its name and its addresses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/host.h"

#include <string.h>
#include <sys/utsname.h>

#include "net/iface.h"

/* Of IPv6 a host has such as come and go. */
static void add_address(void *id, const struct tci_iface *iface)
{
    uint64_t *seed = id;

    if (iface->addr.sa.ss_family == AF_INET)
        *seed = tci_host_hash(*seed, &iface->addr.v4.sin_addr, sizeof iface->addr.v4.sin_addr);
}

uint64_t tci_host_id(void)
{
    uint64_t id = 0xcbf29ce484222325u;
    struct utsname names;

    if (uname(&names) >= 0)
        id = tci_host_hash(id, names.nodename, strlen(names.nodename));
    tci_iface_each(add_address, &id);
    return id;
}
