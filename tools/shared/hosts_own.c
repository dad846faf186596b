/* hosts_own.c - which names of hosts are those of this one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hosts.h"

static bool has_address(const char *address)
{
    struct ifaddrs *list = NULL;
    bool is_found = false;

    if (getifaddrs(&list) != 0)
        return false;
    for (const struct ifaddrs *at = list; at != NULL && !is_found; at = at->ifa_next) {
        char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
        socklen_t len;

        if (at->ifa_addr == NULL)
            continue;
        if (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6)
            continue;
        len = at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                 : sizeof(struct sockaddr_in6);
        is_found =
            getnameinfo(at->ifa_addr, len, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0 &&
            strcmp(text, address) == 0;
    }
    freeifaddrs(list);
    return is_found;
}

bool hosts_is_loopback(const char *name)
{
    return strcmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 ||
           strcmp(name, "::1") == 0;
}

/* A name with a user in it is left to ssh: that user is someone else perhaps. */
bool hosts_is_own(const char *name)
{
    char own[HOST_NAME_ROOM] = "";

    if (hosts_is_loopback(name))
        return true;
    if (hosts_is_address(name))
        return has_address(name);
    if (gethostname(own, sizeof own - 1) != 0)
        return false;
    if (strcmp(name, own) == 0)
        return true;
    own[strcspn(own, ".")] = '\0';
    return own[0] != '\0' && strcmp(name, own) == 0;
}
