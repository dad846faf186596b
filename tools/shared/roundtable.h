/* roundtable.h - ranks sit around a table: each lays something on it, and sees what all have. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ROUNDTABLE_H
#define TOOLS_ROUNDTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/tcdist.h"

/* Where the ranks meet at tcp://host:port the table is a star of connections to rank 0 of this
 * program's own, so that it stands where groups can't.  Elsewhere it is a group. */
struct table {
    int rank, size;
    int listener;       /* rank 0: owned; -1 */
    int *conns;         /* owned; rank 0: one a rank, -1: not there; others: [0] is to rank 0 */
    int out;            /* owned; a table of pipes: conns[0] is read, this is written; else -1 */
    tc_dist_ctx *group; /* borrowed; NULL: there are connections */
    uint8_t *is_here;   /* owned; one a rank: 1 or 0 */
    int64_t ahead_ns;   /* of other ranks: the wall clock here, less that of rank 0 */
};

/* Meets the others at env->rendezvous for up to timeout_ms; false: this rank could not, and why
 * says it.  Rank 0 never fails for others who don't come: is_here tells. */
bool table_open(struct table *table, const tc_dist_env *env, int timeout_ms, char *why,
                size_t room);
/* The same over a group that stands. */
bool table_open_group(struct table *table, tc_dist_ctx *group);
/* The same over pipes to a process that plays rank 0's part in exchanges without being one. */
bool table_open_pipes(struct table *table, int rank, int size, int in, int out);
void table_close(struct table *table);

/* Whole messages over a descriptor that does not block, until a deadline; SIGPIPE is ignored. */
bool table_send(int fd, const void *bytes, size_t len, int64_t deadline_ms);
bool table_recv(int fd, void *bytes, size_t len, int64_t deadline_ms);

/* Lays len bytes on the table, and sees those of all ranks in `all`, size times len; of ranks that
 * are not there any more they are zero.  Every rank does the same.  False: rank 0 is gone. */
bool table_exchange(struct table *table, const void *mine, size_t len, void *all, int timeout_ms);

int64_t table_now_ms(void);

#endif
