/* facts.c - what a rank says about itself. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcdist/tcdist.h"

#define MAGIC UINT32_C(0x64743176)

/* SIOCGIWNAME, which only wireless links answer; its header and <net/if.h> exclude each other. */
enum { WIRELESS_NAME = 0x8B01 };

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

/* ---- Links ----------------------------------------------------------------------------------- */

/* A line of a file of the system; "" where there is none. */
static void read_line(const char *path, char *line, size_t room)
{
    FILE *file = fopen(path, "re");

    line[0] = '\0';
    if (file != NULL && fgets(line, (int)room, file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

/* The last part of where a link of the file system leads; "". */
static void read_last(const char *name, const char *what, char *last, size_t room)
{
    char path[160], target[512] = "";
    const char *slash;

    (void)snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, what);
    if (readlink(path, target, sizeof target - 1) < 0)
        target[0] = '\0';
    slash = strrchr(target, '/');
    (void)snprintf(last, room, "%.*s", (int)room - 1, slash != NULL ? slash + 1 : target);
}

/* The kernel is asked by name: what lies under /sys may be that of another network namespace. */
static bool ask_link(int fd, const char *name, unsigned long request, struct ifreq *answer)
{
    (void)snprintf(answer->ifr_name, sizeof answer->ifr_name, "%s", name);
    return ioctl(fd, request, answer) == 0;
}

static uint8_t kind_of(int fd, const char *name, unsigned flags)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (void *)&driver};
    int type = -1;

    if ((flags & IFF_LOOPBACK) != 0)
        return LINK_LOOPBACK;
    if (!ask_link(fd, name, SIOCETHTOOL, &request))
        driver.driver[0] = '\0';
    if (strncmp(driver.driver, "thunderbolt", 11) == 0)
        return LINK_THUNDERBOLT;
    if (strcmp(driver.driver, "bridge") == 0)
        return LINK_BRIDGE;
    if (ask_link(fd, name, WIRELESS_NAME, &request))
        return LINK_WIRELESS;
    if (ask_link(fd, name, SIOCGIFHWADDR, &request))
        type = request.ifr_hwaddr.sa_family;
    if (type == ARPHRD_INFINIBAND)
        return LINK_INFINIBAND;
    return type == ARPHRD_ETHER ? LINK_ETHERNET : LINK_OTHER;
}

static void ask_all(struct link_facts *link, unsigned flags)
{
    struct ethtool_cmd settings = {.cmd = ETHTOOL_GSET};
    struct ifreq request = {.ifr_data = (void *)&settings};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    link->kind = kind_of(fd, link->name, flags);
    if (ask_link(fd, link->name, SIOCETHTOOL, &request)) {
        uint32_t speed = (uint32_t)settings.speed_hi << 16 | settings.speed;

        link->speed_mbit = speed != (uint32_t)SPEED_UNKNOWN ? speed : 0;
    }
    if (ask_link(fd, link->name, SIOCGIFMTU, &request))
        link->mtu = (uint32_t)request.ifr_mtu;
    if (fd >= 0)
        close(fd);
}

/* The place of a link, which is described when it is met first; LINKS_MAX: there are too many. */
static uint32_t find_link(struct facts *facts, const char *name, unsigned flags)
{
    struct link_facts *link;
    uint32_t i;

    for (i = 0; i < facts->link_count; i++)
        if (strcmp(facts->links[i].name, name) == 0)
            return i;
    if (i == LINKS_MAX)
        return i;
    link = &facts->links[facts->link_count++];
    (void)snprintf(link->name, sizeof link->name, "%s", name);
    read_last(name, "master", link->master, sizeof link->master);
    link->is_up = (flags & IFF_UP) != 0;
    link->has_carrier = (flags & IFF_RUNNING) != 0;
    ask_all(link, flags);
    return i;
}

static unsigned prefix_of(const struct sockaddr *mask)
{
    const unsigned char *bytes = (const unsigned char *)mask;
    size_t at = offsetof(struct sockaddr_in, sin_addr), len = 4;
    unsigned bits = 0;

    if (mask == NULL)
        return 0;
    if (mask->sa_family == AF_INET6) {
        at = offsetof(struct sockaddr_in6, sin6_addr);
        len = 16;
    }
    for (size_t i = 0; i < len; i++)
        bits += (unsigned)__builtin_popcount(bytes[at + i]);
    return bits;
}

static void add_address(struct facts *facts, const struct ifaddrs *at)
{
    socklen_t len = at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                       : sizeof(struct sockaddr_in6);
    uint32_t link = find_link(facts, at->ifa_name, at->ifa_flags);
    struct address_facts *address = &facts->addresses[facts->address_count];

    if (facts->address_count == ADDRESSES_MAX || link == LINKS_MAX ||
        getnameinfo(at->ifa_addr, len, address->text, ADDRESS_ROOM, NULL, 0, NI_NUMERICHOST) != 0)
        return;
    address->is_scoped = strchr(address->text, '%') != NULL;
    address->text[strcspn(address->text, "%")] = '\0';
    address->link = (uint8_t)link;
    address->prefix_len = (uint8_t)prefix_of(at->ifa_netmask);
    address->is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
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
    for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next)
        (void)find_link(facts, at->ifa_name, at->ifa_flags);
    freeifaddrs(list);
}

/* Of each device its first port. */
static void list_devices(struct facts *facts)
{
    DIR *dir = opendir("/sys/class/infiniband");
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL && facts->device_count < DEVICES_MAX) {
        struct device_facts *device = &facts->devices[facts->device_count];
        char path[384], state[32];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(device->name, sizeof device->name, "%.*s", NAME_ROOM - 1, entry->d_name);
        (void)snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/state", entry->d_name);
        read_line(path, state, sizeof state);
        device->is_active = strstr(state, "ACTIVE") != NULL;
        (void)snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0",
                       entry->d_name);
        read_line(path, device->link, sizeof device->link);
        facts->device_count++;
    }
    if (dir != NULL)
        closedir(dir);
}

/* ---- All of it ------------------------------------------------------------------------------- */

const char *facts_kind_name(unsigned kind)
{
    static const char *const names[LINK_KINDS] = {
        "loopback", "ethernet", "thunderbolt", "wireless", "infiniband", "bridge", "other"};

    return kind < LINK_KINDS ? names[kind] : "?";
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
    list_devices(facts);
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
        facts->address_count > ADDRESSES_MAX || facts->link_count > LINKS_MAX ||
        facts->device_count > DEVICES_MAX || facts->probe_port > 65535)
        return false;
    tame(facts->host, sizeof facts->host);
    tame(facts->version, sizeof facts->version);
    tame(facts->launcher, sizeof facts->launcher);
    tame(facts->transports, sizeof facts->transports);
    /* Those beyond the counts too: what others tried names links and addresses by their places. */
    for (uint32_t i = 0; i < ADDRESSES_MAX; i++)
        tame(facts->addresses[i].text, ADDRESS_ROOM);
    for (uint32_t i = 0; i < LINKS_MAX; i++) {
        tame(facts->links[i].name, LINK_ROOM);
        tame(facts->links[i].master, LINK_ROOM);
    }
    for (uint32_t i = 0; i < DEVICES_MAX; i++) {
        tame(facts->devices[i].name, NAME_ROOM);
        tame(facts->devices[i].link, LINK_ROOM);
    }
    for (uint32_t i = 0; i < facts->address_count; i++)
        if (facts->addresses[i].link >= facts->link_count)
            return false;
    return true;
}

void facts_check_tried(struct tried *tried, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tried[i].best >= ADDRESSES_MAX || tried[i].best < -1)
            tried[i].best = -1;
        if (tried[i].best < 0) /* large messages go to the best address */
            tried[i].is_large = tried[i].has_stuck = 0;
        for (int k = 0; k < ADDRESSES_MAX; k++)
            if (tried[i].attempts[k].via >= LINKS_MAX || tried[i].attempts[k].via < -1)
                tried[i].attempts[k].via = -1;
    }
}

void facts_check_worked(struct worked *worked, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tame(worked[i].error, TEXT_ROOM);
}
