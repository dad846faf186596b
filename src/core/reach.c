/* reach.c - whether memory that an operation was given is there, before it is touched. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/reach.h"

#include "core/base.h"
#include "core/comm.h"
#include "core/probe.h"

/* What is shorter is not asked for: the system call, of a microsecond, would be more than a
 * hundredth of what moving it takes. */
enum { LONG_BYTES = 2 << 20 };

bool tci_reach_ends(const void *data, size_t len)
{
    const char *first = data;
    const void *at[] = {first, first + (len > 0 ? len - 1 : 0)};

    return len == 0 || tci_probe(at, 2);
}

bool tci_reach_all(const void *data, size_t len)
{
    const void *at[TCI_PROBES_MAX];
    const char *first = data;
    unsigned count = 0;

    if (!tci_reach_ends(data, len))
        return false;
    for (size_t done = TCI_PROBE_EVERY; done < len; done += TCI_PROBE_EVERY) {
        at[count++] = first + done;
        if (count < TCI_PROBES_MAX)
            continue;
        if (!tci_probe(at, count))
            return false;
        count = 0;
    }
    return count == 0 || tci_probe(at, count);
}

/* ---- Of an operation ---------------------------------------------------------------------- */

static bool has_each_rank(enum tci_coll coll, bool is_send)
{
    switch (coll) {
    case TCI_COLL_ALLTOALL:
        return true;
    case TCI_COLL_ALLGATHER:
    case TCI_COLL_GATHER:
        return !is_send;
    case TCI_COLL_REDUCE_SCATTER:
    case TCI_COLL_SCATTER:
        return is_send;
    default:
        return false;
    }
}

/* What only the root gives may be anything elsewhere. */
static bool is_given(const struct tci_op_args *args, enum tci_coll coll, bool is_send)
{
    bool is_root = args->shape.rank == args->shape.root;

    if (coll == TCI_COLL_BARRIER || (is_send ? args->send : args->recv) == NULL)
        return false;
    if (coll == TCI_COLL_REDUCE || coll == TCI_COLL_GATHER)
        return is_send || is_root;
    return coll != TCI_COLL_SCATTER || !is_send || is_root;
}

/* Where one of the buffers ends, in elements from its beginning, and where it begins. */
static void extent_of(const struct tci_op_args *args, enum tci_coll coll, bool is_send,
                      size_t *begin_out, size_t *end_out)
{
    const struct tci_blocks *blocks = &args->blocks;
    const size_t *counts = is_send ? blocks->src_counts : blocks->dst_counts;
    const size_t *offsets = is_send ? blocks->src_offsets : blocks->dst_offsets;
    bool has_each = has_each_rank(coll, is_send);

    *begin_out = 0;
    *end_out = args->count * (has_each ? args->shape.size : 1);
    if (counts == NULL)
        return;
    *end_out = has_each ? 0 : counts[args->shape.rank];
    *begin_out = has_each ? SIZE_MAX : 0;
    for (uint32_t r = 0; r < args->shape.size && has_each; r++) {
        if (counts[r] == 0)
            continue;
        *begin_out = tci_min(*begin_out, offsets[r]);
        *end_out = tci_max(*end_out, offsets[r] + counts[r]);
    }
    *begin_out = tci_min(*begin_out, *end_out);
}

/* The ends of one of the buffers, if it is long, behind others; how many there are then. */
static unsigned add_ends(const struct tci_op_args *args, bool is_send, const void **ends,
                         unsigned count)
{
    enum tci_coll coll = tci_coll_base((enum tci_coll)args->call.coll);
    const char *data = is_send ? args->send : args->recv;
    size_t begin, end;

    if (!is_given(args, coll, is_send))
        return count;
    extent_of(args, coll, is_send, &begin, &end);
    if ((end - begin) * args->elem_bytes < LONG_BYTES)
        return count;
    ends[count++] = data + begin * args->elem_bytes;
    ends[count++] = data + end * args->elem_bytes - 1;
    return count;
}

bool tci_reach_buffers(const struct tci_op *op)
{
    const struct tci_op_args *args = &op->args;
    const void *ends[4];
    unsigned count;

    /* Those of several plans have buffers of their own. */
    if (args->count * args->elem_bytes < LONG_BYTES / args->shape.size || args->stages != NULL)
        return true;
    count = add_ends(args, true, ends, 0);
    count = add_ends(args, false, ends, count);
    return count == 0 || tci_probe(ends, count);
}

void tci_reach_failed(struct tci_op *op)
{
    tci_op_fail_with(op, TC_ERR_INVALID_ARG, op->comm->rank, true,
                     "the buffer given to %s on rank %d lies outside its memory: it was freed too "
                     "early, or is shorter than its count",
                     op->args.name, op->comm->rank);
}
