/* world.h - the group, its buffers, and batches of operations in flight. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCPERF_WORLD_H
#define TCPERF_WORLD_H

#include <stdint.h>

#include "operation.h"
#include "options.h"
#include "tcdist/tcdist.h"

struct world {
    const struct options *options; /* borrowed */
    tc_context *context;           /* owned, as all below */
    tc_dist_ctx *group;
    tc_buffer *send;
    tc_buffer *recv;
    unsigned char *send_memory; /* of the buffers */
    unsigned char *recv_memory;
    tc_future **futures; /* room for those of one batch */
    uint64_t next_tag;
    int rank;
    int ranks;
};

/* Joins the group that the launcher describes.  Says on standard error why it fails, as all
 * functions here do. */
tc_status_t world_open(struct world *world, const struct options *options);

/* Buffers for the largest line of all that will be measured; once. */
tc_status_t world_alloc(struct world *world, size_t bytes);

/* The algorithm that carries a line out; asked: NULL, or the one to carry it out.  "-" where there
 * is none to choose; NULL where that is not possible, and tc_last_error() says why. */
const char *world_algorithm(const struct world *world, const struct line *line, const char *asked);

/* Leaves the group, in order or at once: then the others' operations fail instead of waiting. */
void world_close(struct world *world, bool is_in_order);

/* Makes it the line of `bytes`, rounded up to whole elements in each block; false where that is no
 * line of its own, but the same as the one before. */
bool line_size(struct line *line, const struct world *world, size_t bytes);

/* Points a line to the data of one of the collectives that are in flight together. */
void world_place(const struct world *world, struct line *line, int tag_index);

/* Bytes from one collective's data to the next one's. */
size_t world_stride(const struct world *world, const struct line *line);

/* Starts one batch, a collective under each tag, and waits for all. */
tc_status_t world_run_batch(struct world *world, const struct line *line);

/* Waits until every rank is here. */
tc_status_t world_meet(struct world *world);

/* all = what each rank gives, rank after rank. */
tc_status_t world_gather(struct world *world, const double *own, double *all, size_t count);

#endif
