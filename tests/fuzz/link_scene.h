/* link_scene.h - one rank of two, with calls of all kinds begun, linked by a socket pair. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_LINK_SCENE_H
#define TEST_LINK_SCENE_H

#include <stdbool.h>

#include "tcdist/tcdist.h"

/* Messages above LINK_EAGER bytes wait for a credit. */
enum { LINK_CALLS = 8, LINK_SMALL = 10, LINK_LARGE = 200, LINK_EAGER = 512 };

struct link_scene {
    int rank;
    tc_context *context;
    tc_dist_ctx *group;
    tc_future *formed;
    int peer; /* the other end, non-blocking by flag alone */
    tc_future *futures[LINK_CALLS];
    float *data; /* LINK_CALLS times LINK_LARGE */
};

/* Aborts unless so. */
void link_want(bool holds);

/* A context, and a group that begins to form. */
void link_scene_open(struct link_scene *scene, int rank);
/* Once it is formed. */
void link_scene_start(struct link_scene *scene);
bool link_scene_is_settled(const struct link_scene *scene);
/* All ends at once, whatever the peer has done; what it has not read is gone with it. */
void link_scene_close(struct link_scene *scene);

#endif
