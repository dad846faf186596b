/* reactor_libevent.c - libevent, which turns the loop of a context with a thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/event.h>
#include <sys/time.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "loop/reactor.h"

struct libevent_watch {
    struct event *event; /* owned */
    tc_reactor_fn fn;
    void *arg;
};

struct libevent_reactor {
    struct tci_reactor base;
    struct event_base *events;   /* owned */
    struct libevent_watch timer; /* of the verbs */
    struct event *limit;         /* owned: ends a wait */
};

static short events_of(uint32_t interest)
{
    return (short)(EV_PERSIST | ((interest & TC_READABLE) != 0 ? EV_READ : 0) |
                   ((interest & TC_WRITABLE) != 0 ? EV_WRITE : 0));
}

/* libevent reports errors and hang-ups as both. */
static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct libevent_watch *watch = arg;

    (void)fd;
    watch->fn(watch->arg, ((what & EV_READ) != 0 ? (uint32_t)TC_READABLE : 0u) |
                              ((what & EV_WRITE) != 0 ? (uint32_t)TC_WRITABLE : 0u));
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

static int add_watch(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn, void *arg,
                     void **watch_out)
{
    struct libevent_reactor *self = reactor;
    struct libevent_watch *watch = tci_alloc(sizeof(*watch));

    if (watch == NULL) {
        errno = ENOMEM;
        return -1;
    }
    watch->fn = fn;
    watch->arg = arg;
    watch->event = event_new(self->events, fd, events_of(interest), on_ready, watch);
    if (watch->event == NULL) {
        tci_free(watch);
        errno = ENOMEM;
        return -1;
    }
    if (interest != 0 && event_add(watch->event, NULL) != 0) {
        int cause = errno;

        event_free(watch->event);
        tci_free(watch);
        errno = cause;
        return -1;
    }
    *watch_out = watch;
    return 0;
}

static int change_watch(void *reactor, void *handle, uint32_t interest)
{
    struct libevent_reactor *self = reactor;
    struct libevent_watch *watch = handle;
    int fd = event_get_fd(watch->event);

    event_del(watch->event);
    event_assign(watch->event, self->events, fd, events_of(interest), on_ready, watch);
    return interest == 0 ? 0 : event_add(watch->event, NULL);
}

static void del_watch(void *reactor, void *handle)
{
    struct libevent_watch *watch = handle;

    (void)reactor;
    event_free(watch->event); /* out of the queue of ready ones, too */
    tci_free(watch);
}

/* Microseconds, rounded up. */
static int add_timeout(struct event *event, uint64_t timeout_ns)
{
    uint64_t us = timeout_ns / 1000 + (timeout_ns % 1000 != 0);
    struct timeval when = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (long)(us % 1000000)};

    return event_add(event, &when);
}

static int arm_timer(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn, void *arg)
{
    struct libevent_reactor *self = reactor;

    self->timer.fn = fn;
    self->timer.arg = arg;
    return add_timeout(self->timer.event, timeout_ns);
}

static void cancel_timer(void *reactor)
{
    struct libevent_reactor *self = reactor;

    event_del(self->timer.event);
}

static void wait(struct tci_reactor *reactor, uint64_t timeout_ns)
{
    struct libevent_reactor *self = (struct libevent_reactor *)reactor;
    int flags = EVLOOP_ONCE | (timeout_ns == 0 ? EVLOOP_NONBLOCK : 0);

    if (timeout_ns == TCI_NEVER)
        event_del(self->limit);
    else if (timeout_ns != 0)
        add_timeout(self->limit, timeout_ns);
    event_base_loop(self->events, flags);
}

static void free_reactor(struct tci_reactor *reactor)
{
    struct libevent_reactor *self = (struct libevent_reactor *)reactor;

    if (self->timer.event != NULL)
        event_free(self->timer.event);
    if (self->limit != NULL)
        event_free(self->limit);
    if (self->events != NULL)
        event_base_free(self->events);
    tci_free(self);
}

static struct event_base *make_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *events;

    if (config == NULL)
        return NULL;
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER | EVENT_BASE_FLAG_NOLOCK |
                                      EVENT_BASE_FLAG_IGNORE_ENV);
    events = event_base_new_with_config(config);
    event_config_free(config);
    return events;
}

struct tci_reactor *tci_reactor_libevent_new(struct tci_error *error)
{
    struct libevent_reactor *self = tci_alloc(sizeof(*self));

    if (self == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, NULL, "no memory for an event loop");
        return NULL;
    }
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
    self->events = make_base();
    if (self->events != NULL) {
        self->timer.event = evtimer_new(self->events, on_ready, &self->timer);
        self->limit = evtimer_new(self->events, on_limit, NULL);
    }
    if (self->timer.event == NULL || self->limit == NULL) {
        tci_error_set(error, TC_ERR_TRANSPORT, -1, 0, NULL, "libevent gives no event base");
        free_reactor(&self->base);
        return NULL;
    }
    return &self->base;
}
