/* double_tree.c - two binary trees, each for half of the payload, so that all ranks work alike. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   n = 7, root 0: the other ranks are the nodes 1 … 6 of both trees
 *
 *        0                       0            a node's parent is the one above it
 *        |                       |
 *        4                       3            left: where the lowest 1 bit of a node is bit j, its
 *       / \                     / \           children are 2^(j-1) before it and 2^(j-1) after it,
 *      2   6                   1   5          or where that is too far, 2^(j-2), …
 *     / \  |                   |  / \         right: the same with n - v in the place of v; where
 *    1   3 5                   2 4   6        n - 1 is odd, with v + 1, and 1 for the last
 *
 *   A node with children has an even number, so it is a leaf of the other tree: a rank sends one
 *   half of the payload to up to two others, and the other half to none.
 *
 *   broadcast: down both trees, half of the payload each
 *   all-reduce: up to rank 0 in both trees, then down again
 *
 *   cost: the longest path has up to 1 + floor(log2 n) edges, and a node two messages each way, so
 *   that a message on its way down waits for one other at most at each node.  With c pieces and
 *   many bytes a broadcast takes the time of its bytes on one link, an all-reduce that of twice its
 *   bytes; no rank sends more than bytes in a broadcast, nor more than twice that in an all-reduce,
 *   nor reduces more than bytes
 *   waits: reductions at a node follow one another, so the order is fixed; what goes up waits for
 *   the last of them, what goes down for what has come from above
 *
 *   The order of the steps of a piece is: up the left tree, up the right one, down the left one,
 *   down the right one.  Each part alone ends in a window of one step, so all of it does.
 *
 * Source: Sanders, Speck, Träff 2009.
 */
#include "algo/algo.h"
#include "algo/steps.h"

enum { LEFT, RIGHT, TREES };

static uint32_t cuts(const struct tci_shape *shape)
{
    TC_ASSERT(shape->cuts > 0);
    return shape->cuts;
}

static uint32_t blocks(const struct tci_shape *shape)
{
    return shape->size == 1 ? 1 : TREES * cuts(shape);
}

/* ---- The trees ------------------------------------------------------------------------------- */

/* Node v = 1 … nodes of a tree. */
struct place {
    uint32_t parent; /* 0: the root */
    uint32_t child[2], children;
    uint32_t number; /* which child of its parent it is */
};

static uint32_t lowest_bit(uint32_t v)
{
    return v & (~v + 1);
}

/* The right child, in the left tree; 0: none. */
static uint32_t right_child(uint32_t v, uint32_t nodes)
{
    uint32_t by = lowest_bit(v) / 2;

    while (by > 0 && by > nodes - v)
        by /= 2;
    return by > 0 ? v + by : 0;
}

static struct place left_place(uint32_t v, uint32_t nodes)
{
    uint32_t bit = lowest_bit(v), up = (v ^ bit) | bit << 1;
    struct place place = {0};

    TC_ASSERT(v >= 1 && v <= nodes);
    place.parent = up <= nodes && up > v - bit ? up : v ^ bit;
    place.number = place.parent != 0 && place.parent < v ? 1 : 0;
    if (bit > 1)
        place.child[place.children++] = v - bit / 2;
    if (right_child(v, nodes) != 0)
        place.child[place.children++] = right_child(v, nodes);
    return place;
}

/* The number in the left tree of the node that stands where v stands in the right one.  Both ways
 * the same for an even number of nodes; the other way for an odd one is node_at(). */
static uint32_t mirrored(uint32_t v, uint32_t nodes)
{
    return nodes % 2 == 0 ? nodes + 1 - v : v % nodes + 1;
}

static uint32_t node_at(uint32_t place, uint32_t nodes)
{
    if (nodes % 2 == 0)
        return nodes + 1 - place;
    return place == 1 ? nodes : place - 1;
}

static struct place place_of(unsigned tree, uint32_t v, uint32_t nodes)
{
    struct place place;

    if (tree == LEFT)
        return left_place(v, nodes);
    place = left_place(mirrored(v, nodes), nodes);
    if (place.parent != 0)
        place.parent = node_at(place.parent, nodes);
    for (uint32_t c = 0; c < place.children; c++)
        place.child[c] = node_at(place.child[c], nodes);
    return place;
}

/* The root has one child: the node that is the largest power of two. */
static struct place place_of_root(unsigned tree, uint32_t nodes)
{
    struct place place = {.children = 1, .child = {1}};

    while (place.child[0] <= nodes / 2)
        place.child[0] *= 2;
    if (tree == RIGHT)
        place.child[0] = node_at(place.child[0], nodes);
    return place;
}

/* Where a rank stands in both trees. */
struct spot {
    bool is_root;
    struct place in[TREES];
};

static struct spot spot_of(const struct tci_shape *shape, uint32_t v)
{
    struct spot spot = {.is_root = v == 0};

    for (unsigned tree = 0; tree < TREES; tree++)
        spot.in[tree] =
            v == 0 ? place_of_root(tree, shape->size - 1) : place_of(tree, v, shape->size - 1);
    return spot;
}

static uint32_t node_of(const struct tci_shape *shape)
{
    return tci_before(shape->rank, shape->root, shape->size);
}

static uint32_t rank_of(const struct tci_shape *shape, uint32_t v)
{
    return tci_after(shape->root, v, shape->size);
}

/* ---- Broadcast ------------------------------------------------------------------------------- */

/* Steps a piece in one tree: receive, send to the children. */
static uint32_t down_steps(const struct spot *spot, unsigned tree)
{
    return (spot->is_root ? 0 : 1) + spot->in[tree].children;
}

static uint32_t broadcast_steps(const struct tci_shape *shape)
{
    struct spot spot;

    if (shape->size == 1)
        return 0;
    spot = spot_of(shape, node_of(shape));
    return cuts(shape) * (down_steps(&spot, LEFT) + down_steps(&spot, RIGHT));
}

/* The step in which node v has a piece from above. */
static uint32_t broadcast_match(const struct tci_shape *shape, unsigned tree, uint32_t v,
                                uint32_t piece)
{
    struct spot spot = spot_of(shape, v);
    uint32_t left = down_steps(&spot, LEFT);

    return piece * (left + down_steps(&spot, RIGHT)) + (tree == LEFT ? 0 : left);
}

static void broadcast_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct spot spot = spot_of(shape, node_of(shape));
    uint32_t left = down_steps(&spot, LEFT), each = left + down_steps(&spot, RIGHT);
    uint32_t piece = i / each, at = i % each, block;
    unsigned tree = at < left ? LEFT : RIGHT;
    const struct place *place = &spot.in[tree];

    TC_ASSERT(i < broadcast_steps(shape));
    block = TREES * piece + tree;
    at -= tree == LEFT ? 0 : left;
    if (at == 0 && !spot.is_root) {
        *step_out = tci_recv(tci_dst(block), rank_of(shape, place->parent));
    } else {
        uint32_t child = place->child[at - (spot.is_root ? 0 : 1)];

        *step_out = tci_send(tci_dst(block), rank_of(shape, child),
                             broadcast_match(shape, tree, child, piece));
        step_out->wait[0] = spot.is_root ? 0 : (uint8_t)at;
    }
}

/* Edges from the root down to the farthest node, at most. */
static uint32_t height(const struct tci_shape *shape)
{
    uint32_t edges = 1;

    while (shape->size >> edges > 1)
        edges++;
    return edges;
}

const struct tci_plan tci_double_tree_broadcast = {
    .name = "double_tree",
    .coll = TCI_COLL_BROADCAST,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_DOUBLE_TREE,
    .canonical = true,
    .is_used = true,
    .steps = broadcast_steps,
    .blocks = blocks,
    .slots = tci_none,
    .depth = height,
    .step = broadcast_step,
};

/* ---- All-reduce ------------------------------------------------------------------------------ */

/* Steps a piece, part by part: up the left tree, up the right one, down the left one, … */
enum { PARTS = 2 * TREES };

static uint32_t part_steps(const struct spot *spot, unsigned part)
{
    return (spot->is_root ? 0 : 1) + spot->in[part % TREES].children;
}

/* Steps of a piece before a part; with PARTS, all of them. */
static uint32_t part_begin(const struct spot *spot, unsigned part)
{
    uint32_t steps = 0;

    for (unsigned p = 0; p < part; p++)
        steps += part_steps(spot, p);
    return steps;
}

static uint32_t allreduce_steps(const struct tci_shape *shape)
{
    struct spot spot;

    if (shape->size == 1)
        return tci_copies(shape);
    spot = spot_of(shape, shape->rank);
    return cuts(shape) * part_begin(&spot, PARTS);
}

/* What a step up or down needs to know. */
struct at {
    const struct spot *spot;
    const struct place *place;
    uint32_t piece, block;
    unsigned part;
    uint32_t step; /* of the part */
};

static void up_step(const struct tci_shape *shape, const struct at *at, struct tci_step *step_out)
{
    const struct place *place = at->place;
    uint32_t s = at->step;

    if (s < place->children) {
        *step_out = tci_recv_reduce(
            tci_dst(at->block), s == 0 ? tci_src(at->block) : tci_dst(at->block), place->child[s]);
        step_out->wait[0] = s == 0 ? 0 : 1;
        step_out->last = at->spot->is_root && s + 1 == place->children;
    } else {
        struct spot parent = spot_of(shape, place->parent);

        *step_out = tci_send(s == 0 ? tci_src(at->block) : tci_dst(at->block), place->parent,
                             at->piece * part_begin(&parent, PARTS) +
                                 part_begin(&parent, at->part) + place->number);
        step_out->wait[0] = s == 0 ? 0 : 1;
    }
}

static void down_step(const struct tci_shape *shape, const struct at *at, struct tci_step *step_out)
{
    const struct place *place = at->place;
    const struct spot *spot = at->spot;
    uint32_t s = at->step;
    uint32_t up_end = part_begin(spot, at->part - TREES) + part_steps(spot, at->part - TREES);
    uint32_t since_up = part_begin(spot, at->part) + s - (up_end - 1);

    if (s == 0 && !spot->is_root) {
        *step_out = tci_recv(tci_dst(at->block), place->parent);
        step_out->wait[0] = place->children > 0 || shape->in_place ? (uint8_t)since_up : 0;
    } else {
        uint32_t child = place->child[s - (spot->is_root ? 0 : 1)];
        struct spot below = spot_of(shape, child);

        *step_out = tci_send(tci_dst(at->block), child,
                             at->piece * part_begin(&below, PARTS) + part_begin(&below, at->part));
        step_out->wait[0] = spot->is_root ? (uint8_t)since_up : (uint8_t)s;
    }
}

static void allreduce_step(const struct tci_shape *shape, uint32_t i, struct tci_step *step_out)
{
    struct spot spot;
    struct at at = {.spot = &spot};
    uint32_t each;

    TC_ASSERT(i < allreduce_steps(shape));
    if (shape->size == 1) {
        *step_out = tci_copy(tci_dst(0), tci_src(0));
        return;
    }
    spot = spot_of(shape, shape->rank);
    each = part_begin(&spot, PARTS);
    at.piece = i / each;
    at.step = i % each;
    for (; at.step >= part_steps(&spot, at.part); at.part++)
        at.step -= part_steps(&spot, at.part);
    at.place = &spot.in[at.part % TREES];
    at.block = TREES * at.piece + at.part % TREES;
    if (at.part < TREES)
        up_step(shape, &at, step_out);
    else
        down_step(shape, &at, step_out);
}

static uint32_t allreduce_depth(const struct tci_shape *shape)
{
    return 2 * height(shape);
}

const struct tci_plan tci_double_tree_allreduce = {
    .name = "double_tree",
    .coll = TCI_COLL_ALLREDUCE,
    .layout = TCI_LAYOUT_CUT,
    .id = TCI_ALGO_DOUBLE_TREE,
    .canonical = false,
    .is_used = true,
    .steps = allreduce_steps,
    .blocks = blocks,
    .slots = tci_none,
    .depth = allreduce_depth,
    .step = allreduce_step,
};
