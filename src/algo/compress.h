/* compress.h - what the compressed all-reduces share: checks, the start, one exchange of blocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_COMPRESS_H
#define TCI_COMPRESS_H

#include "algo/coll.h"
#include "core/stages.h"

struct tci_compress_request {
    const char *name;
    enum tci_coll coll;  /* as the others see it */
    enum tci_coll plans; /* of which collective the first exchange is */
    uint64_t tag, count; /* the count that all ranks share */
    tc_dtype_t dtype;    /* the type that they share */
    tc_reduce_op_t op;
    bool is_sparse; /* the result is */
    size_t bytes;   /* of this rank in the first exchange */
    const tc_options *options;
    struct tci_stages *stages; /* given away */
};

/* Group, options, operator; false with the cause. */
bool tci_compress_check(const tc_dist_ctx *group, const struct tci_compress_request *request,
                        struct tci_error *error);
/* Start the operation; never NULL. */
tc_future *tci_compress_start(struct tci_comm *comm, const struct tci_compress_request *request);

/* Bytes that an all-reduce in f32 sends at least, from each rank. */
uint64_t tci_compress_dense_bytes(const struct tci_comm *comm, uint64_t count);

/* Pieces of memory, one a rank, one after the other. */
struct tci_compress_blocks {
    size_t n, total;
    size_t *sizes, *offsets; /* owned */
};
bool tci_compress_blocks_init(struct tci_compress_blocks *blocks, size_t n);
void tci_compress_blocks_fini(struct tci_compress_blocks *blocks);
/* Rank after rank; false where that is more than memory can hold. */
bool tci_compress_blocks_set(struct tci_compress_blocks *blocks, size_t rank, size_t bytes);

/* What the engine carries out next: op->args.plan, with blocks of `bytes` for each rank. */
void tci_compress_exchange(struct tci_op *op, const void *send, void *recv, size_t bytes);
/* The same with blocks that differ; an all-gather. */
void tci_compress_gather(struct tci_op *op, const void *send, void *recv,
                         const struct tci_compress_blocks *blocks);

#endif
