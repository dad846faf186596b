/* world.c - which rank runs on which machine, and how it is reached there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOPBACK "127.0.0.1"

/* ---- How others reach this machine ----------------------------------------------------------- */

/* The address from which this machine would send to another one. */
static void find_own_address(const char *peer, char own[HOST_NAME_ROOM])
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    int fd;

    own[0] = '\0';
    if (getaddrinfo(peer, "9", &hints, &list) != 0)
        return;
    fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&addr, &len) == 0 &&
        getnameinfo((struct sockaddr *)&addr, len, own, HOST_NAME_ROOM, NULL, 0, NI_NUMERICHOST) !=
            0)
        own[0] = '\0';
    if (fd >= 0)
        close(fd);
    freeaddrinfo(list);
}

/* ---- Laying out ------------------------------------------------------------------------------ */

static unsigned find_machine(struct world *world, const char *name)
{
    bool is_local = hosts_is_own(name);
    unsigned i;

    for (i = 0; i < world->machine_count; i++) {
        const struct machine *machine = &world->machines[i];

        if ((is_local && machine->is_local) || strcmp(machine->name, name) == 0)
            return i;
    }
    world->machines[world->machine_count++] = (struct machine){.name = name, .is_local = is_local};
    return i;
}

static bool lay_out(struct world *world, unsigned repeat)
{
    unsigned rank = 0;

    for (unsigned entry = 0; entry < world->hosts->count && rank < world->ranks; entry++) {
        const struct host *host = &world->hosts->at[entry];
        unsigned machine = find_machine(world, host->name);

        for (unsigned slot = 0; slot < host->slots * repeat && rank < world->ranks; slot++)
            world->places[rank++] =
                (struct place){entry, machine, world->machines[machine].ranks++};
    }
    return rank == world->ranks;
}

/* What follows the user: "node" of "me@node". */
static const char *bare_name(const char *name)
{
    const char *at = strrchr(name, '@');

    return at != NULL ? at + 1 : name;
}

static void note_own_address(struct world *world)
{
    for (unsigned i = 0; i < world->machine_count; i++) {
        for (unsigned rank = 0; rank < world->ranks && world->own_address[0] == '\0'; rank++) {
            const struct host *host = &world->hosts->at[world->places[rank].entry];

            if (world->places[rank].machine == i && !world->machines[i].is_local)
                find_own_address(host->ip_count > 0 ? host->ips[0] : bare_name(host->name),
                                 world->own_address);
        }
    }
}

bool world_init(struct world *world, const struct hosts *hosts, unsigned ranks, unsigned repeat,
                char why[HOSTS_WHY_ROOM])
{
    unsigned long slots = 0;

    *world = (struct world){.hosts = hosts};
    for (size_t i = 0; i < hosts->count; i++)
        slots += (unsigned long)hosts->at[i].slots * repeat;
    if (ranks > slots || (ranks == 0 && slots > HOSTS_MAX)) {
        (void)snprintf(why, HOSTS_WHY_ROOM,
                       ranks > slots ? "the hosts take %lu ranks, not %u: see slots= and "
                                       "--repeat-hosts"
                                     : "the hosts take %lu ranks, which is too many",
                       slots, ranks);
        return false;
    }
    world->ranks = ranks == 0 ? (unsigned)slots : ranks;
    world->machines = calloc(hosts->count, sizeof *world->machines);
    world->places = calloc(world->ranks, sizeof *world->places);
    if (world->machines == NULL || world->places == NULL || !lay_out(world, repeat)) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "out of memory");
        world_fini(world);
        return false;
    }
    if (!world_is_local(world))
        note_own_address(world);
    return true;
}

void world_fini(struct world *world)
{
    free(world->machines);
    free(world->places);
    *world = (struct world){.ranks = 0};
}

bool world_is_local(const struct world *world)
{
    return world->machine_count == 1 && world->machines[0].is_local;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

size_t world_address_count(const struct world *world, unsigned rank)
{
    const struct host *host = &world->hosts->at[world->places[rank].entry];

    return host->ip_count > 0 ? host->ip_count : 1;
}

const char *world_address(const struct world *world, unsigned rank, size_t index)
{
    const struct host *host = &world->hosts->at[world->places[rank].entry];
    const char *address = host->ip_count > 0 ? host->ips[index] : bare_name(host->name);

    if (world_is_local(world))
        return host->ip_count > 0 ? address : LOOPBACK;
    /* What this machine calls itself says nothing to others. */
    if (world->machines[world->places[rank].machine].is_local &&
        (hosts_is_loopback(address) || host->ip_count == 0))
        return world->own_address[0] != '\0' ? world->own_address : NULL;
    return address;
}
