/* facts.c - what a rank says about itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcdist/tcdist.h"

#define MAGIC UINT32_C(0x64743176)

/* FNV-1a of the system's boot number, and of name and network where containers share it. */
static uint64_t hash_machine(const char *host)
{
    char text[128 + NAME_ROOM] = "", network[48] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t len = file != NULL ? fread(text, 1, 63, file) : 0;

    if (file != NULL)
        (void)fclose(file);
    if (readlink("/proc/self/ns/net", network, sizeof network - 1) < 0)
        network[0] = '\0';
    (void)snprintf(text + len, sizeof text - len, "%s%s", host, network);
    for (const char *at = text; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return hash;
}

static void add_address(struct facts *facts, const struct ifaddrs *at)
{
    socklen_t len = at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                       : sizeof(struct sockaddr_in6);
    uint32_t n = facts->address_count;

    if (n == ADDRESSES_MAX || getnameinfo(at->ifa_addr, len, facts->addresses[n].text, ADDRESS_ROOM,
                                          NULL, 0, NI_NUMERICHOST) != 0)
        return;
    /* A link-local address means nothing without a scope of whoever tries it. */
    if (strchr(facts->addresses[n].text, '%') != NULL)
        return;
    (void)snprintf(facts->addresses[n].interface, sizeof facts->addresses[n].interface, "%s",
                   at->ifa_name);
    facts->addresses[n].is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    facts->address_count++;
}

/* Those of IPv4 first. */
static void list_addresses(struct facts *facts)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list) != 0)
        return;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next)
            if (at->ifa_addr != NULL && at->ifa_addr->sa_family == families[f] &&
                (at->ifa_flags & IFF_UP) != 0)
                add_address(facts, at);
    freeifaddrs(list);
}

static void list_transports(struct facts *facts)
{
    static const char *const names[] = {"tcp", "shm", "rdma"};
    size_t len = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tc_dist_available(names[i]) == TC_OK)
            len += (size_t)snprintf(facts->transports + len, sizeof facts->transports - len, "%s%s",
                                    len > 0 ? " " : "", names[i]);
}

void facts_gather(struct facts *facts, int rank, int size, const char *launcher)
{
    *facts = (struct facts){.magic = MAGIC, .rank = rank, .size = size, .pid = (int)getpid()};
    if (gethostname(facts->host, sizeof facts->host - 1) != 0)
        (void)snprintf(facts->host, sizeof facts->host, "?");
    (void)snprintf(facts->version, sizeof facts->version, "%s", tc_version());
    (void)snprintf(facts->launcher, sizeof facts->launcher, "%s", launcher);
    facts->machine = hash_machine(facts->host);
    if (getrandom(&facts->nonce, sizeof facts->nonce, 0) != sizeof facts->nonce)
        facts->nonce = (uint64_t)getpid();
    list_transports(facts);
    list_addresses(facts);
}

/* Ends a text that came from outside, and makes it fit for a terminal. */
static void tame(char *text, size_t room)
{
    text[room - 1] = '\0';
    for (char *at = text; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

bool facts_check(struct facts *facts, int rank, int size)
{
    if (facts->magic != MAGIC || facts->rank != rank || facts->size != size ||
        facts->address_count > ADDRESSES_MAX || facts->probe_port > 65535)
        return false;
    tame(facts->host, sizeof facts->host);
    tame(facts->version, sizeof facts->version);
    tame(facts->launcher, sizeof facts->launcher);
    tame(facts->transports, sizeof facts->transports);
    for (uint32_t i = 0; i < facts->address_count; i++) {
        tame(facts->addresses[i].text, ADDRESS_ROOM);
        tame(facts->addresses[i].interface, sizeof facts->addresses[i].interface);
        memset(&facts->addresses[i].is_loopback, facts->addresses[i].is_loopback ? 1 : 0, 1);
    }
    return true;
}
