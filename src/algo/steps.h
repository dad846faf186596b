/* steps.h - the words in which plans are written: ranks around a circle, slices, steps. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_STEPS_H
#define TCI_STEPS_H

#include "core/assert.h"
#include "core/plan.h"

/* The place `by` after, or before, `at` on a circle of `size`; by <= size. */
static inline uint32_t tci_after(uint32_t at, uint32_t by, uint32_t size)
{
    TC_ASSERT(at < size && by <= size);
    return (at + by) % size;
}

static inline uint32_t tci_before(uint32_t at, uint32_t by, uint32_t size)
{
    TC_ASSERT(at < size && by <= size);
    return (at + size - by) % size;
}

/* To wait for the step that lies `distance` back.  Beyond the window it has ended anyway. */
static inline uint8_t tci_back(uint32_t distance)
{
    return distance < TCI_WINDOW ? (uint8_t)distance : 0;
}

static inline struct tci_slice tci_src(uint32_t block)
{
    return (struct tci_slice){TCI_BUF_SRC, block, 0};
}

static inline struct tci_slice tci_dst(uint32_t block)
{
    return (struct tci_slice){TCI_BUF_DST, block, 0};
}

static inline struct tci_slice tci_tmp(uint32_t slot)
{
    return (struct tci_slice){TCI_BUF_TMP, slot, 0};
}

/* `blocks` consecutive ones from a slice on; at least 1. */
static inline struct tci_slice tci_run(struct tci_slice first, uint32_t blocks)
{
    TC_ASSERT(blocks > 0);
    first.more = blocks - 1;
    return first;
}

/* The scratch slot of another rank where each of them has one, in rank order. */
static inline struct tci_slice tci_tmp_of(const struct tci_shape *shape, uint32_t peer)
{
    TC_ASSERT(peer != shape->rank && peer < shape->size);
    return tci_tmp(peer < shape->rank ? peer : peer - 1);
}

static inline struct tci_step tci_send(struct tci_slice src, uint32_t peer, uint32_t match)
{
    return (struct tci_step){.kind = TCI_STEP_SEND, .src = src, .peer = peer, .match = match};
}

static inline struct tci_step tci_recv(struct tci_slice dst, uint32_t peer)
{
    return (struct tci_step){.kind = TCI_STEP_RECV, .dst = dst, .peer = peer};
}

static inline struct tci_step tci_recv_reduce(struct tci_slice dst, struct tci_slice src,
                                              uint32_t peer)
{
    return (struct tci_step){.kind = TCI_STEP_RECV_REDUCE, .src = src, .dst = dst, .peer = peer};
}

/* What all other ranks sent lies in the slots of tci_tmp_of() when every earlier step has ended. */
static inline struct tci_step tci_fold(struct tci_slice dst, struct tci_slice src)
{
    return (struct tci_step){.kind = TCI_STEP_FOLD, .fence = true, .src = src, .dst = dst};
}

static inline struct tci_step tci_copy(struct tci_slice dst, struct tci_slice src)
{
    return (struct tci_step){.kind = TCI_STEP_COPY, .src = src, .dst = dst};
}

/* The round in which blocks travel to their owners: steps 2(k - 1) and 2(k - 1) + 1, for k = 1 …
 * n - 1, receive this rank's block from the k-th rank before, and send the k-th rank after its. */
static inline void tci_scatter_step(const struct tci_shape *shape, uint32_t i,
                                    struct tci_step *step_out)
{
    uint32_t n = shape->size, r = shape->rank, k = i / 2 + 1;

    if (i % 2 == 0) {
        uint32_t peer = tci_before(r, k, n);

        *step_out = tci_recv(tci_tmp_of(shape, peer), peer);
        step_out->src = tci_src(r);
    } else {
        uint32_t peer = tci_after(r, k, n);

        *step_out = tci_send(tci_src(peer), peer, i - 1);
    }
}

/* Steps that a rank needs to have its own payload in its result: a copy, or in place none. */
static inline uint32_t tci_copies(const struct tci_shape *shape)
{
    return shape->in_place ? 0 : 1;
}

/* Numbers of blocks and slots that many plans share. */
static inline uint32_t tci_none(const struct tci_shape *shape)
{
    (void)shape;
    return 0;
}

static inline uint32_t tci_one(const struct tci_shape *shape)
{
    (void)shape;
    return 1;
}

static inline uint32_t tci_each_rank(const struct tci_shape *shape)
{
    return shape->size;
}

static inline uint32_t tci_each_other_rank(const struct tci_shape *shape)
{
    return shape->size - 1;
}

#endif
