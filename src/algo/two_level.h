/* two_level.h - the tree of ranks inside hosts and of hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TWO_LEVEL_H
#define TCI_TWO_LEVEL_H

#include "algo/steps.h"

/* A rank in the tree.  Children are counted inside the host first, then between hosts. */
struct tci_node {
    bool is_root, leads;
    uint32_t host;          /* its number, counted from that of the root on */
    uint32_t parent, child; /* a rank, and which of its children this is */
    uint32_t near, children;
};

uint32_t tci_node_hosts(const struct tci_shape *shape);
/* The rank that leads the v-th host, counted from that of the root on. */
uint32_t tci_node_leader(const struct tci_shape *shape, uint32_t v);
struct tci_node tci_node_of(const struct tci_shape *shape, uint32_t rank);
/* The c-th child of the rank that the shape is for. */
uint32_t tci_node_child(const struct tci_shape *shape, const struct tci_node *node, uint32_t c);

/* An all-reduce up the tree and down again, in one block. */
uint32_t tci_node_steps(const struct tci_shape *shape);
void tci_node_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out);

#endif
