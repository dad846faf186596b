/* iface_list.c - the interfaces of this host, as the system lists them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>

#include "net/iface.h"

void tci_iface_each(void (*fn)(void *arg, const struct tci_iface *iface), void *arg)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        struct tci_iface iface = {.addr.len = 0};

        if (at->ifa_addr == NULL || (at->ifa_flags & IFF_UP) == 0)
            continue;
        if (at->ifa_addr->sa_family == AF_INET)
            tci_addr_from_system(at->ifa_addr, sizeof(struct sockaddr_in), &iface.addr);
        else if (at->ifa_addr->sa_family == AF_INET6)
            tci_addr_from_system(at->ifa_addr, sizeof(struct sockaddr_in6), &iface.addr);
        (void)snprintf(iface.name, sizeof iface.name, "%s", at->ifa_name);
        if (iface.addr.len != 0)
            fn(arg, &iface);
    }
    freeifaddrs(all);
}
