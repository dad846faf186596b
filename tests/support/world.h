/* world.h - several ranks in one process, each with a context of its own, linked over loopback. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include "tcdist/tcdist.h"

enum { WORLD_MAX = 64 };

struct world {
    int size;
    int mode; /* tc_loop_mode_t */
    tc_context *context[WORLD_MAX];
    tc_dist_ctx *group[WORLD_MAX];
};

/* Form a group of `size` ranks; config may be NULL.  Fails the test when that does not work. */
void world_open(struct world *world, int size, const tc_config *config);
/* Finalize the groups still there (group[r] not NULL), shut the contexts down. */
void world_close(struct world *world);
/* Wait until a future is settled, turning every loop of the world that needs it; fails the test
 * after a minute.  Gives its status. */
tc_status_t world_wait(struct world *world, tc_future *future);

/* An unused address to meet at: "tcp://127.0.0.1:port" with a socket that listens there. */
int world_listen(char *url, size_t url_bytes);

/* TCDIST_TEST_EFFORT: 0 quick, 1 normal, 2 full. */
int test_effort(void);

#endif
