/* reactor_host.c - the application's own loop, and poll(2) while we keep it from turning. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "core/alloc.h"
#include "loop/poll_set.h"
#include "loop/reactor.h"

struct host_watch {
    struct tci_poll_entry entry; /* first */
    void *handle;                /* the host's */
};

struct host_reactor {
    struct tci_reactor base;
    tc_reactor_ops host;
    void *host_arg; /* borrowed */
    struct tci_poll_set set;
};

static void on_ready(void *arg, uint32_t ready)
{
    struct host_watch *watch = arg;

    watch->entry.fn(watch->entry.arg, ready);
}

static int add_watch(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn, void *arg,
                     void **watch_out)
{
    struct host_reactor *self = reactor;
    struct host_watch *watch;

    if (tci_poll_reserve(&self->set) != 0)
        return -1;
    watch = tci_alloc(sizeof(*watch));
    if (watch == NULL) {
        errno = ENOMEM;
        return -1;
    }
    watch->entry = (struct tci_poll_entry){.fn = fn, .arg = arg};
    if (self->host.watch_add(self->host_arg, fd, interest, on_ready, watch, &watch->handle) != 0) {
        int cause = errno;

        tci_free(watch);
        errno = cause;
        return -1;
    }
    tci_poll_add(&self->set, &watch->entry, fd, interest);
    *watch_out = watch;
    return 0;
}

static int change_watch(void *reactor, void *handle, uint32_t interest)
{
    struct host_reactor *self = reactor;
    struct host_watch *watch = handle;

    if (self->host.watch_change(self->host_arg, watch->handle, interest) != 0)
        return -1;
    tci_poll_change(&self->set, &watch->entry, interest);
    return 0;
}

static void del_watch(void *reactor, void *handle)
{
    struct host_reactor *self = reactor;
    struct host_watch *watch = handle;

    self->host.watch_del(self->host_arg, watch->handle);
    tci_poll_del(&self->set, &watch->entry);
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

static void wait(struct tci_reactor *reactor, uint64_t timeout_ns)
{
    tci_poll_wait(&((struct host_reactor *)reactor)->set, timeout_ns);
}

static void free_reactor(struct tci_reactor *reactor)
{
    struct host_reactor *self = (struct host_reactor *)reactor;

    tci_poll_fini(&self->set);
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
    return &self->base;
}
