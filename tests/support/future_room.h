/* future_room.h - a context on a fake loop, which must leave no memory behind. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUTURE_ROOM_H
#define FUTURE_ROOM_H

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/context.h"
#include "core/future.h"
#include "support/fake_exec.h"

struct room {
    struct fake_exec fake;
    tc_context *context;
    struct tci_task closing; /* for a test that needs one */
    uint64_t live;           /* allocations before */
};

void room_init(struct room *room);
void room_fini(struct room *room);

/* The same as set-up and tear-down of a test; leaving fails when memory is left. */
int room_enter(void **state);
int room_leave(void **state);

/* Settle on the loop, now; what that posts, and what was posted, is not run. */
void room_settle(tc_future *future, tc_status_t status, const struct tci_error *error);

/* A continuation that appends the string `arg` to room_notes, which room_enter empties. */
void room_note(tc_future *future, void *arg);
extern char room_notes[64];

/* A literal as such an argument: it is only read. */
#define NOTE(text) ((void *)(text))

#endif
