/* watch.c - descriptors that are watched, and the ways from a reactor back into the loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "core/assert.h"
#include "loop/state.h"

static void call(struct tci_watch *watch, uint32_t ready)
{
    struct tci_loop *loop = watch->loop;

    loop->events++;
    tci_loop_lap_begin(loop);
    watch->fn(watch, ready); /* may be the end of the watch */
    (void)tci_loop_lap(loop, "what a descriptor brought", 1);
}

/* Called by the reactor: inside of its wait, or by the host's loop out of the blue; then the
 * host's thread turns the loop once.  A host that runs its loop inside one of our continuations
 * gets nothing from us until that has returned. */
static void on_ready(void *arg, uint32_t ready)
{
    struct tci_watch *watch = arg;
    struct tci_loop *loop = watch->loop;

    if (!tci_process_is_this(&loop->process))
        return; /* the host goes on in a child, the library does not */
    if (tci_loop_is_here(loop)) {
        if (!loop->is_in_wait)
            return;
        call(watch, ready);
        return;
    }
    if (!tci_loop_try_enter(loop))
        return;
    call(watch, ready);
    tci_loop_pass(loop);
    tci_loop_leave(loop);
}

void tci_loop_on_timer(void *arg, uint32_t ready)
{
    struct tci_loop *loop = arg;

    (void)ready;
    if (!tci_process_is_this(&loop->process))
        return;
    if (tci_loop_is_here(loop)) {
        loop->armed_ns = TCI_NEVER; /* leaving arms it again */
        return;
    }
    if (!tci_loop_try_enter(loop))
        return;
    loop->armed_ns = TCI_NEVER;
    tci_loop_pass(loop);
    tci_loop_leave(loop);
}

int tci_watch_add(struct tci_loop *loop, struct tci_watch *watch, int fd, uint32_t interest)
{
    struct tci_reactor *reactor = loop->reactor;

    TC_ASSERT(watch->loop == NULL);
    if (fd < 0) {
        errno = EBADF;
        return -1;
    }
    watch->fd = fd;
    watch->interest = interest;
    watch->loop = loop;
    if (reactor->ops.watch_add(reactor->arg, fd, interest, on_ready, watch, &watch->handle) != 0) {
        watch->loop = NULL;
        return -1;
    }
    watch->prev = NULL;
    watch->next = loop->watches;
    if (watch->next != NULL)
        watch->next->prev = watch;
    loop->watches = watch;
    return 0;
}

int tci_watch_change(struct tci_watch *watch, uint32_t interest)
{
    struct tci_reactor *reactor;

    TC_ASSERT(watch->loop != NULL);
    if (watch->interest == interest)
        return 0;
    reactor = watch->loop->reactor;
    if (reactor->ops.watch_change(reactor->arg, watch->handle, interest) != 0)
        return -1;
    watch->interest = interest;
    return 0;
}

void tci_watch_del(struct tci_watch *watch)
{
    struct tci_loop *loop = watch->loop;

    if (loop == NULL)
        return;
    loop->reactor->ops.watch_del(loop->reactor->arg, watch->handle);
    if (watch->prev != NULL)
        watch->prev->next = watch->next;
    else
        loop->watches = watch->next;
    if (watch->next != NULL)
        watch->next->prev = watch->prev;
    watch->prev = watch->next = NULL;
    watch->handle = NULL;
    watch->loop = NULL;
}
