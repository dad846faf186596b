/* future_room.c - a context on a fake loop, which must leave no memory behind. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/future_room.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/future_body.h"

char room_notes[64];

void room_init(struct room *room)
{
    *room = (struct room){.live = tci_alloc_live()};
    fake_exec_init(&room->fake);
    room->context = tci_context_new(64);
    TC_ASSERT(room->context != NULL);
    room->context->exec = &room->fake.exec;
}

void room_fini(struct room *room)
{
    room->context->exec = NULL;
    fake_exec_fini(&room->fake);
    tci_context_end(room->context);
}

int room_enter(void **state)
{
    struct room *room = malloc(sizeof(*room));

    TC_ASSERT(room != NULL);
    room_init(room);
    room_notes[0] = '\0';
    *state = room;
    return 0;
}

int room_leave(void **state)
{
    struct room *room = *state;
    uint64_t live = room->live;

    room_fini(room);
    free(room);
    return tci_alloc_live() == live ? 0 : -1;
}

struct settling {
    struct tci_task task;
    tc_future *future;
    tc_status_t status;
    const struct tci_error *error;
};

static void run_settling(struct tci_task *task)
{
    struct settling *settling = tci_container_of(task, struct settling, task);

    tci_future_settle(settling->future, settling->status, settling->error);
}

void room_settle(tc_future *future, tc_status_t status, const struct tci_error *error)
{
    struct tci_exec *exec = future->context->exec;
    struct fake_exec *fake = tci_container_of(exec, struct fake_exec, exec);
    struct settling settling = {
        .task = {.fn = run_settling}, .future = future, .status = status, .error = error};

    fake_exec_only(fake, &settling.task);
}

void room_note(tc_future *future, void *arg)
{
    TC_ASSERT(tci_future_is_settled(future));
    TC_ASSERT(strlen(room_notes) + strlen(arg) < sizeof(room_notes));
    strcat(room_notes, arg);
}
