/* tree.h - the k-nomial tree: where a node hangs, and what hangs on it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TREE_H
#define TCI_TREE_H

#include "algo/steps.h"

/* Where node v hangs.  Node 0 has no parent. */
struct tci_tree_place {
    uint32_t parent;
    uint32_t child;    /* v is the child-th child of its parent */
    uint32_t children; /* of v */
    uint32_t nodes;    /* of the subtree of v, itself included: v … v + nodes - 1 */
};

struct tci_tree_place tci_tree_place_of(const struct tci_shape *shape, uint32_t v);

/* The c-th child of v; each child's subtree follows on the one before it. */
uint32_t tci_tree_child(const struct tci_shape *shape, uint32_t v, uint32_t c);

/* Nodes are numbered from the root of the call on: node v is the v-th rank after it. */
static inline uint32_t tci_tree_node(const struct tci_shape *shape)
{
    return tci_before(shape->rank, shape->root, shape->size);
}

static inline uint32_t tci_tree_rank(const struct tci_shape *shape, uint32_t v)
{
    return tci_after(shape->root, v, shape->size);
}

#endif
