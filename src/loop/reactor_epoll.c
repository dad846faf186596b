/* reactor_epoll.c - epoll, whose own descriptor tells a foreign loop when to turn ours. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "loop/reactor.h"

#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 35)
#define HAS_PWAIT2
#endif
#endif

enum { BATCH = 64 };

struct epoll_watch {
    int fd;
    tc_reactor_fn fn;
    void *arg;
};

struct epoll_reactor {
    struct tci_reactor base;
    int epoll_fd;
    struct epoll_watch timer; /* its fd is -1 until the first arming */
    struct epoll_event batch[BATCH];
    int batch_len, batch_at;
};

static uint32_t events_of(uint32_t interest)
{
    return ((interest & TC_READABLE) != 0 ? EPOLLIN | EPOLLRDHUP : 0u) |
           ((interest & TC_WRITABLE) != 0 ? (uint32_t)EPOLLOUT : 0u);
}

static uint32_t ready_of(uint32_t events)
{
    if ((events & (EPOLLERR | EPOLLHUP)) != 0)
        return TC_READABLE | TC_WRITABLE;
    return ((events & (EPOLLIN | EPOLLRDHUP)) != 0 ? (uint32_t)TC_READABLE : 0u) |
           ((events & EPOLLOUT) != 0 ? (uint32_t)TC_WRITABLE : 0u);
}

/* epoll reports errors and hang-ups even of a descriptor without interest, again and again; so a
 * silent watch is not in the set at all. */
static int control(struct epoll_reactor *self, struct epoll_watch *watch, uint32_t interest)
{
    struct epoll_event event = {.events = events_of(interest), .data.ptr = watch};

    if (interest == 0)
        return epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, watch->fd, &event) == 0 || errno == ENOENT
                   ? 0
                   : -1;
    if (epoll_ctl(self->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) == 0)
        return 0;
    return errno == ENOENT ? epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) : -1;
}

static int add_watch(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn, void *arg,
                     void **watch_out)
{
    struct epoll_reactor *self = reactor;
    struct epoll_watch *watch = tci_alloc(sizeof(*watch));
    struct epoll_event event = {.events = events_of(interest), .data.ptr = watch};

    if (watch == NULL) {
        errno = ENOMEM;
        return -1;
    }
    watch->fd = fd;
    watch->fn = fn;
    watch->arg = arg;
    if (interest != 0 && epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        int cause = errno;

        tci_free(watch);
        errno = cause;
        return -1;
    }
    *watch_out = watch;
    return 0;
}

static int change_watch(void *reactor, void *watch, uint32_t interest)
{
    return control(reactor, watch, interest);
}

static void del_watch(void *reactor, void *watch)
{
    struct epoll_reactor *self = reactor;

    control(self, watch, 0);
    for (int i = self->batch_at; i < self->batch_len; i++)
        if (self->batch[i].data.ptr == watch)
            self->batch[i].data.ptr = NULL;
    tci_free(watch);
}

/* ---- The timer ------------------------------------------------------------------------------ */

static void set_timer(struct epoll_reactor *self, uint64_t timeout_ns)
{
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(timeout_ns / TCI_NS_PER_S),
                                           .tv_nsec = (long)(timeout_ns % TCI_NS_PER_S)}};

    timerfd_settime(self->timer.fd, 0, &when, NULL); /* 0 disarms it, and drains it */
}

static int arm_timer(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn, void *arg)
{
    struct epoll_reactor *self = reactor;

    self->timer.fn = fn;
    self->timer.arg = arg;
    set_timer(self, timeout_ns == 0 ? 1 : timeout_ns);
    return 0;
}

static void cancel_timer(void *reactor)
{
    set_timer(reactor, 0);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Whole milliseconds, rounded up, are all that kernels before 5.11 take. */
static int wait_batch(struct epoll_reactor *self, uint64_t timeout_ns)
{
    int fd = self->epoll_fd;
    int timeout_ms = -1;
#ifdef HAS_PWAIT2
    struct timespec limit = {.tv_sec = (time_t)(timeout_ns / TCI_NS_PER_S),
                             .tv_nsec = (long)(timeout_ns % TCI_NS_PER_S)};
    int count;

    if (timeout_ns != 0 && timeout_ns != TCI_NEVER) {
        count = epoll_pwait2(fd, self->batch, BATCH, &limit, NULL);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM))
            return count;
    }
#endif
    if (timeout_ns != TCI_NEVER) {
        uint64_t ms = timeout_ns / TCI_NS_PER_MS + (timeout_ns % TCI_NS_PER_MS != 0);

        timeout_ms = ms > INT32_MAX ? INT32_MAX : (int)ms;
    }
    return epoll_wait(fd, self->batch, BATCH, timeout_ms);
}

static void wait(struct tci_reactor *reactor, uint64_t timeout_ns)
{
    struct epoll_reactor *self = (struct epoll_reactor *)reactor;
    int count = wait_batch(self, timeout_ns);

    TC_ASSERT(count >= 0 || errno == EINTR);
    self->batch_len = count < 0 ? 0 : count;
    for (self->batch_at = 0; self->batch_at < self->batch_len;) {
        struct epoll_event *event = &self->batch[self->batch_at++];
        struct epoll_watch *watch = event->data.ptr;

        if (watch == NULL)
            continue;
        if (watch == &self->timer) {
            set_timer(self, 0);
            watch->fn(watch->arg, 0);
        } else {
            watch->fn(watch->arg, ready_of(event->events));
        }
    }
    self->batch_at = self->batch_len = 0;
}

static int get_fd(struct tci_reactor *reactor)
{
    return ((struct epoll_reactor *)reactor)->epoll_fd;
}

static void free_reactor(struct tci_reactor *reactor)
{
    struct epoll_reactor *self = (struct epoll_reactor *)reactor;

    if (self->timer.fd >= 0)
        close(self->timer.fd);
    if (self->epoll_fd >= 0)
        close(self->epoll_fd);
    tci_free(self);
}

struct tci_reactor *tci_reactor_own_new(struct tci_error *error)
{
    struct epoll_reactor *self = tci_alloc(sizeof(*self));

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
    self->base.fd = get_fd;
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    self->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (self->epoll_fd < 0 || self->timer.fd < 0 || control(self, &self->timer, TC_READABLE) != 0) {
        tci_error_system(error, TC_ERR_TRANSPORT, "set up epoll");
        free_reactor(&self->base);
        return NULL;
    }
    return &self->base;
}
