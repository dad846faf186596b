/* network.c - interfaces with their addresses, and RDMA devices with their ports. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/alloc.h"
#include "facts.h"
#include "net/iface.h"

static int mtu_of(int fd, const char *name)
{
    struct ifreq request = {.ifr_mtu = 0};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    return fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

/* "10.0.0.7", without brackets and port. */
static void print_address(const struct tci_addr *addr, char text[TCI_ADDR_TEXT])
{
    char full[TCI_ADDR_TEXT];
    char *end;

    tci_addr_print(addr, full);
    end = strrchr(full, ':');
    if (end != NULL)
        *end = '\0';
    end = strchr(full, ']');
    if (end != NULL)
        *end = '\0';
    snprintf(text, TCI_ADDR_TEXT, "%s", full[0] == '[' ? full + 1 : full);
}

static void read_interface(const struct ifaddrs *from, int fd, const char *choice,
                           struct interface *out)
{
    struct tci_addr addr = {.len = 0};
    bool is_chosen = choice != NULL && choice[0] != '\0' && tci_iface_is_choice(choice);

    *out = (struct interface){.is_up = (from->ifa_flags & IFF_UP) != 0,
                              .is_loopback = (from->ifa_flags & IFF_LOOPBACK) != 0,
                              .mtu = mtu_of(fd, from->ifa_name)};
    snprintf(out->name, sizeof(out->name), "%s", from->ifa_name);
    out->is_listed = is_chosen ? tci_iface_rank(choice, out->name) >= 0 : !out->is_loopback;
    if (from->ifa_addr != NULL)
        tci_addr_from_system(from->ifa_addr,
                             from->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                                  : sizeof(struct sockaddr_in6),
                             &addr);
    if (addr.len > 0)
        print_address(&addr, out->address);
}

/* Every address, and an interface that has none as well. */
static bool is_told(const struct ifaddrs *from, const struct ifaddrs *all)
{
    int family = from->ifa_addr != NULL ? from->ifa_addr->sa_family : AF_UNSPEC;

    if (family == AF_INET || family == AF_INET6)
        return true;
    for (; all != NULL; all = all->ifa_next) {
        int other = all->ifa_addr != NULL ? all->ifa_addr->sa_family : AF_UNSPEC;

        if (strcmp(all->ifa_name, from->ifa_name) == 0 && (other == AF_INET || other == AF_INET6))
            return false;
    }
    return true;
}

bool find_interfaces(struct interface_facts *interfaces)
{
    const char *choice = getenv("TCDIST_INTERFACE");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifaddrs *all = NULL;
    size_t count = 0;

    *interfaces = (struct interface_facts){.count = 0};
    if (getifaddrs(&all) != 0)
        all = NULL;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next)
        count += is_told(at, all);
    interfaces->at = tci_alloc_array(count + 1, sizeof(*interfaces->at));
    for (const struct ifaddrs *at = all; at != NULL && interfaces->at != NULL; at = at->ifa_next)
        if (is_told(at, all))
            read_interface(at, fd, choice, &interfaces->at[interfaces->count++]);
    if (all != NULL)
        freeifaddrs(all);
    if (fd >= 0)
        close(fd);
    return interfaces->at != NULL;
}

void find_rdma(struct rdma_facts *rdma)
{
    const char *text = getenv("TCDIST_RDMA");
    struct tci_rdma_options options;

    *rdma = (struct rdma_facts){.ports = NULL};
    snprintf(rdma->settings, sizeof(rdma->settings), "%s",
             text != NULL && text[0] != '\0' ? text : "auto");
    /* Where it is wrong the environment says so. */
    if (!tci_rdma_options_parse(text, &options))
        (void)tci_rdma_options_parse(NULL, &options);
    rdma->why = tci_rdma_list(&options, &rdma->ports, &rdma->count);
}
