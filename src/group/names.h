/* names.h - what each rank of a group calls itself, in this group and in those made of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_NAMES_H
#define TCI_NAMES_H

#include <stdatomic.h>

#include "core/error.h"
#include "tcdist/dist.h"

enum { TCI_NAME_BYTES = 128 }; /* with the zero at the end */

struct tci_names {
    atomic_uint refs;
    uint32_t size;
    char text[][TCI_NAME_BYTES]; /* of each rank */
};

/* NULL is fine. */
struct tci_names *tci_names_ref(struct tci_names *names);
void tci_names_unref(struct tci_names *names);

/* Those of some ranks, one reference; NULL without memory. */
struct tci_names *tci_names_pick(const struct tci_names *names, const uint32_t *ranks,
                                 uint32_t size);

/* Whether a text can be a name: TC_OK, or the cause in error. */
tc_status_t tci_name_check(const char *name, struct tci_error *error);

/* Tell all ranks of a new group what this one calls itself, by way of rank 0, and put what they say
 * into the group; on every rank.  done(arg, error) is called once, later, on the loop; the group
 * may be gone by then, and error (NULL: none) says why.  False without memory.  Loop thread. */
typedef void (*tci_names_fn)(void *arg, const struct tci_error *error);
bool tci_names_gather(tc_dist_ctx *group, const char *mine, tci_names_fn done, void *arg);

#endif
