/* reactor_host.c - the application's own loop, and poll(2) while we keep it from turning. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "core/alloc.h"
#include "core/base.h"
#include "loop/reactor.h"

struct host_reactor;

struct host_watch {
    struct host_reactor *reactor;
    size_t at;    /* place in the two arrays */
    void *handle; /* the host's */
    tc_reactor_fn fn;
    void *arg;
};

/* Silent watches have the descriptor -1 - fd in polls, which poll(2) skips. */
struct host_reactor {
    struct tci_reactor base;
    tc_reactor_ops host;
    void *host_arg;              /* borrowed */
    struct pollfd *polls;        /* owned */
    struct host_watch **watches; /* owned, in the same order */
    size_t count, room;
};

static short events_of(uint32_t interest)
{
    return (short)(((interest & TC_READABLE) != 0 ? POLLIN | POLLRDHUP : 0) |
                   ((interest & TC_WRITABLE) != 0 ? POLLOUT : 0));
}

static uint32_t ready_of(short events)
{
    if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        return TC_READABLE | TC_WRITABLE;
    return ((events & (POLLIN | POLLRDHUP)) != 0 ? (uint32_t)TC_READABLE : 0u) |
           ((events & POLLOUT) != 0 ? (uint32_t)TC_WRITABLE : 0u);
}

static void set_interest(struct pollfd *slot, int fd, uint32_t interest)
{
    slot->fd = interest == 0 ? -1 - fd : fd;
    slot->events = events_of(interest);
    slot->revents = 0;
}

static int reserve(struct host_reactor *self)
{
    size_t room = self->room == 0 ? 16 : 2 * self->room;
    void *grown;

    if (self->count < self->room)
        return 0;
    grown = tci_realloc_array(self->polls, room, sizeof(*self->polls));
    if (grown != NULL) {
        self->polls = grown;
        grown = tci_realloc_array(self->watches, room, sizeof(struct host_watch *));
    }
    if (grown == NULL) {
        errno = ENOMEM;
        return -1;
    }
    self->watches = grown;
    self->room = room;
    return 0;
}

static void on_ready(void *arg, uint32_t ready)
{
    struct host_watch *watch = arg;

    watch->fn(watch->arg, ready);
}

static int add_watch(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn, void *arg,
                     void **watch_out)
{
    struct host_reactor *self = reactor;
    struct host_watch *watch;

    if (reserve(self) != 0)
        return -1;
    watch = tci_alloc(sizeof(*watch));
    if (watch == NULL) {
        errno = ENOMEM;
        return -1;
    }
    watch->reactor = self;
    watch->fn = fn;
    watch->arg = arg;
    if (self->host.watch_add(self->host_arg, fd, interest, on_ready, watch, &watch->handle) != 0) {
        int cause = errno;

        tci_free(watch);
        errno = cause;
        return -1;
    }
    watch->at = self->count++;
    self->watches[watch->at] = watch;
    set_interest(&self->polls[watch->at], fd, interest);
    *watch_out = watch;
    return 0;
}

static int change_watch(void *reactor, void *handle, uint32_t interest)
{
    struct host_reactor *self = reactor;
    struct host_watch *watch = handle;
    struct pollfd *slot = &self->polls[watch->at];

    if (self->host.watch_change(self->host_arg, watch->handle, interest) != 0)
        return -1;
    set_interest(slot, slot->fd < 0 ? -1 - slot->fd : slot->fd, interest);
    return 0;
}

/* The last one takes the place. */
static void del_watch(void *reactor, void *handle)
{
    struct host_reactor *self = reactor;
    struct host_watch *watch = handle;

    self->host.watch_del(self->host_arg, watch->handle);
    self->count--;
    self->polls[watch->at] = self->polls[self->count];
    self->watches[watch->at] = self->watches[self->count];
    self->watches[watch->at]->at = watch->at;
    tci_free(watch);
}

static int arm_timer(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn, void *arg)
{
    struct host_reactor *self = reactor;

    return self->host.timer_arm(self->host_arg, timeout_ns, fn, arg);
}

static void cancel_timer(void *reactor)
{
    struct host_reactor *self = reactor;

    self->host.timer_cancel(self->host_arg);
}

/* Backwards, so that a watch that takes the place of a deleted one has had its call already; one
 * that is passed over is ready still the next time. */
static void wait(struct tci_reactor *reactor, uint64_t timeout_ns)
{
    struct host_reactor *self = (struct host_reactor *)reactor;
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                             .tv_nsec = (long)(timeout_ns % 1000000000u)};

    if (ppoll(self->polls, self->count, timeout_ns == TCI_NEVER ? NULL : &limit, NULL) <= 0)
        return;
    for (size_t at = self->count; at-- > 0;) {
        short events;

        if (at >= self->count)
            continue;
        events = self->polls[at].revents;
        self->polls[at].revents = 0;
        if (events != 0)
            on_ready(self->watches[at], ready_of(events));
    }
}

static void free_reactor(struct tci_reactor *reactor)
{
    struct host_reactor *self = (struct host_reactor *)reactor;

    tci_free(self->polls);
    tci_free(self->watches);
    tci_free(self);
}

struct tci_reactor *tci_reactor_host_new(const tc_reactor_ops *ops, void *arg,
                                         struct tci_error *error)
{
    struct host_reactor *self;

    if (ops->abi_version != TC_REACTOR_ABI_VERSION) {
        tci_error_set(error, TC_ERR_ABI_MISMATCH, -1, 0, "init",
                      "the reactor has version %u of its interface, this library %d",
                      (unsigned)ops->abi_version, TC_REACTOR_ABI_VERSION);
        return NULL;
    }
    self = tci_alloc(sizeof(*self));
    if (self == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, NULL, "no memory for an event loop");
        return NULL;
    }
    self->host = *ops;
    self->host_arg = arg;
    self->base.ops = (tc_reactor_ops){
        .abi_version = TC_REACTOR_ABI_VERSION,
        .watch_add = add_watch,
        .watch_change = change_watch,
        .watch_del = del_watch,
        .timer_arm = arm_timer,
        .timer_cancel = cancel_timer,
    };
    self->base.arg = self;
    self->base.wait = wait;
    self->base.free = free_reactor;
    self->base.fd = -1;
    return &self->base;
}
