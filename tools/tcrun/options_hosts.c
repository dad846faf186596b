/* options_hosts.c - what the options say together: hosts, ranks, backends, ports. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "options.h"
#include "ports.h"

enum { PORT_MAX = 65535 };

static const struct {
    const char *name;
    const char *library; /* what tcdist calls it; NULL: it has none of it */
} backends[] = {{"any", "any"},     {"ring", "ring"},        {"tcp", "tcp"},
                {"shm", "shm"},     {"rdma", "rdma"},        {"gloo", "gloo"},
                {"jaccl", "jaccl"}, {"jaccl-ring", "jaccl"}, {"nccl", NULL}};

bool options_is_jaccl(const struct options *options)
{
    return options->backend != NULL && strncmp(options->backend, "jaccl", 5) == 0;
}

/* Each rank's addresses, connections times. */
static size_t count_ports(const struct options *options)
{
    size_t count = 0;

    for (unsigned rank = 0; rank < options->world.ranks; rank++)
        count += world_address_count(&options->world, rank) * options->connections;
    return count;
}

unsigned options_master_port(const struct options *options)
{
    return options->starting_port + (unsigned)count_ports(options);
}

static const char *settle_backend(struct options *options, char why[HOSTS_WHY_ROOM])
{
    if (options->backend == NULL)
        options->backend = options->hosts.backend;
    if (options->backend == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (strcmp(options->backend, backends[i].name) != 0)
            continue;
        options->library_backend = backends[i].library;
        return NULL;
    }
    (void)snprintf(why, HOSTS_WHY_ROOM,
                   strcmp(options->backend, "mpi") == 0
                       ? "backend '%s': MPI starts its ranks itself, by mpirun, and tcdist's too"
                       : "backend '%.60s' is not one of any, ring, tcp, shm, rdma, gloo, jaccl, "
                         "jaccl-ring and nccl",
                   options->backend);
    return why;
}

/* Devices between all pairs, or, for a ring, as many to either neighbour everywhere. */
static const char *check_devices(const struct options *options, char why[HOSTS_WHY_ROOM])
{
    const struct world *world = &options->world;
    bool is_ring = strcmp(options->backend, "jaccl-ring") == 0;

    for (unsigned a = 0; a < world->ranks; a++) {
        const struct host *host = &world->hosts->at[world->places[a].entry];

        if (world->places[a].local_rank > 0) {
            (void)snprintf(why, HOSTS_WHY_ROOM, "backend %s: %s has more than one rank",
                           options->backend, host->name);
            return why;
        }
        for (unsigned b = 0; b < world->ranks; b++) {
            bool is_next = (a + 1) % world->ranks == b || (b + 1) % world->ranks == a;
            const struct host *other = &world->hosts->at[world->places[b].entry];

            if (a == b || (is_ring && !is_next))
                continue;
            if (host->rdma == NULL || host->rdma[world->places[b].entry].count == 0) {
                (void)snprintf(why, HOSTS_WHY_ROOM,
                               "backend %s: the host file has no rdma device from %.60s to %.60s",
                               options->backend, host->name, other->name);
                return why;
            }
            if (is_ring && host->rdma[world->places[b].entry].count !=
                               world->hosts->at[world->places[0].entry]
                                   .rdma[world->places[1 % world->ranks].entry]
                                   .count) {
                (void)snprintf(why, HOSTS_WHY_ROOM,
                               "backend %s: neighbours differ in their number of devices, see "
                               "%.60s to %.60s",
                               options->backend, host->name, other->name);
                return why;
            }
        }
    }
    return NULL;
}

/* Ring and rendezvous need to know by which address a host is reached. */
static const char *check_addresses(const struct options *options, char why[HOSTS_WHY_ROOM])
{
    for (unsigned rank = 0; rank < options->world.ranks; rank++) {
        const struct place *place = &options->world.places[rank];

        if (world_address(&options->world, rank, 0) != NULL)
            continue;
        if (rank > 0 && (options->backend == NULL || strcmp(options->backend, "ring") != 0))
            continue;
        (void)snprintf(why, HOSTS_WHY_ROOM,
                       "rank %u runs here, but by which address do others reach it? Give %.60s "
                       "\"ips\", or ip=ADDRESS, in a host file",
                       rank, options->hosts.at[place->entry].name);
        return why;
    }
    return NULL;
}

/* This host alone has as many slots as there are ranks. */
static bool add_this_host(struct options *options, char why[HOSTS_WHY_ROOM])
{
    struct host *host = hosts_add(&options->hosts, "localhost", strlen("localhost"), why);

    if (host != NULL)
        host->slots = options->ranks > 0 ? options->ranks : 1;
    return host != NULL;
}

const char *options_settle(struct options *options, char why[HOSTS_WHY_ROOM])
{
    const char *wrong;

    if (options->hosts.count == 0 && !add_this_host(options, why))
        return why;
    wrong = settle_backend(options, why);
    if (wrong != NULL)
        return wrong;
    if (!world_init(&options->world, &options->hosts, options->ranks, options->repeat, why))
        return why;
    options->ranks = options->world.ranks;
    wrong = options->rendezvous == NULL ? check_addresses(options, why) : NULL;
    if (wrong == NULL && options_is_jaccl(options))
        wrong = check_devices(options, why);
    if (wrong != NULL)
        return wrong;
    if (options->starting_port == 0)
        options->starting_port = world_is_local(&options->world)
                                     ? ports_find_free((unsigned)count_ports(options) + 1)
                                     : STARTING_PORT;
    if (options->starting_port + count_ports(options) <= PORT_MAX)
        return NULL;
    (void)snprintf(why, HOSTS_WHY_ROOM, "there are not %zu ports from %u on",
                   count_ports(options) + 1, options->starting_port);
    return why;
}
