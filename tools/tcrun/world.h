/* world.h - which rank runs on which machine, and how it is reached there. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_WORLD_H
#define TCRUN_WORLD_H

#include <stdbool.h>

#include "hosts.h"

/* Entries of a host file with one name are one machine, as are all names of this one. */
struct machine {
    const char *name; /* borrowed from the hosts */
    bool is_local;    /* needs no ssh */
    unsigned ranks;
};

struct place {
    unsigned entry; /* of the host file */
    unsigned machine;
    unsigned local_rank; /* among the ranks of the machine */
};

struct world {
    const struct hosts *hosts; /* borrowed */
    struct machine *machines;  /* owned, as places; at most one for each entry */
    unsigned machine_count;
    struct place *places; /* one a rank */
    unsigned ranks;
    char own_address[HOST_NAME_ROOM]; /* by which others reach this machine; "": none is known */
};

/* Lays out `ranks` ranks (0: as many as there are slots) in the order of the hosts, each host with
 * `repeat` times its slots.  False: why says what is wrong. */
bool world_init(struct world *world, const struct hosts *hosts, unsigned ranks, unsigned repeat,
                char why[HOSTS_WHY_ROOM]);
void world_fini(struct world *world);

/* All ranks are on this machine. */
bool world_is_local(const struct world *world);

/* Address number `index` of the host of a rank, as other ranks reach it; NULL: there is none. */
const char *world_address(const struct world *world, unsigned rank, size_t index);
/* There are so many. */
size_t world_address_count(const struct world *world, unsigned rank);

#endif
