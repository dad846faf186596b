/* hostfile.h - the host files of MLX: which addresses each rank listens at. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_HOSTFILE_H
#define TCI_HOSTFILE_H

#include <stddef.h>

#include "core/error.h"

/* Each rank has one address at least: "10.0.0.7:4100", "[fd00::7]:4100". */
enum { TCI_HOSTFILE_ADDRS = 16, TCI_HOSTFILE_RANKS = 65536 };
struct tci_hostfile {
    size_t size; /* ranks */
    struct tci_hostfile_rank {
        size_t first, count; /* of the addresses */
    } * ranks;               /* owned */
    char **addrs;            /* owned; addr_count of them */
    size_t addr_count;
    char backend[16]; /* "ring"; "": none is said */
};

/* Both forms of a file: [["10.0.0.7:4100", …], …], one list a rank, as the launcher hands it to
 * ranks; or [{"ssh": …, "ips": ["10.0.0.7"]}, …], as users write it, alone or as "hosts" of an
 * object, where ports are dealt out from 32323 on as the launcher does.  TC_ERR_INVALID_ARG names
 * the entry that is wrong; TC_ERR_UNSUPPORTED where the library was built without cJSON. */
tc_status_t tci_hostfile_load(const char *path, struct tci_hostfile *out, struct tci_error *error);
/* The same of its text. */
tc_status_t tci_hostfile_parse(const char *path, const char *text, struct tci_hostfile *out,
                               struct tci_error *error);
const char *tci_hostfile_at(const struct tci_hostfile *file, size_t rank, size_t k);
void tci_hostfile_fini(struct tci_hostfile *file);

#endif
