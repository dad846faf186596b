/* reactor_poll.c - poll(2), and a sentry that tells a foreign loop when to turn ours. */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A set that poll(2) watches has no descriptor of its own.  So once somebody asks for one, a thread
 * stands sentry: it polls the same descriptors, and the time of the timer, and rings a bell, whose
 * descriptor is the one.  Then it rests until the owner of the loop has looked.
 *
 *   sentry    WATCHING  --- something is ready, or the time has come: rings --->  RESTING
 *             WATCHING  <-- the owner looks: hushes the bell, and kicks ---------  RESTING
 *             WATCHING  --- the owner changes the set: kicks; looks at it anew     WATCHING
 */
#include <errno.h>
#include <pthread.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/bell.h"
#include "loop/loop.h"
#include "loop/poll_set.h"
#include "loop/reactor.h"
#include "loop/thread.h"

struct poll_reactor {
    struct tci_reactor base;
    pthread_mutex_t lock;    /* the set and all below: the owner changes it, the sentry reads it */
    struct tci_poll_set set; /* the owner reads it without the lock */
    uint64_t due_ns;         /* of the timer; TCI_NEVER: none */
    tc_reactor_fn timer_fn;
    void *timer_arg;

    /* The sentry's. */
    bool has_sentry, is_resting, is_ending;
    pthread_t sentry;
    struct tci_bell bell, kick; /* rung by the sentry; and by the owner, for the sentry */
    struct pollfd *polls;       /* owned: what it polls, a copy, behind the kick */
    size_t room;
};

/* ---- The sentry ----------------------------------------------------------------------------- */

/* What to poll now, and for how long.  Without memory for a copy the owner is made to look. */
static size_t copy_set(struct poll_reactor *self, uint64_t *timeout_ns_out)
{
    uint64_t now_ns = tci_loop_clock();
    size_t count = 1 + (self->is_resting ? 0 : self->set.count);

    if (count > self->room) {
        struct pollfd *grown = tci_realloc_array(self->polls, self->set.room + 1, sizeof(*grown));

        if (grown == NULL) {
            *timeout_ns_out = 0;
            return 1;
        }
        self->polls = grown;
        self->room = self->set.room + 1;
    }
    for (size_t k = 1; k < count; k++)
        self->polls[k] = (struct pollfd){.fd = self->set.polls[k - 1].fd,
                                         .events = self->set.polls[k - 1].events};
    *timeout_ns_out = TCI_NEVER;
    if (!self->is_resting && self->due_ns != TCI_NEVER)
        *timeout_ns_out = self->due_ns > now_ns ? self->due_ns - now_ns : 0;
    return count;
}

static void *stand_sentry(void *arg)
{
    struct poll_reactor *self = arg;

    (void)pthread_mutex_lock(&self->lock);
    while (!self->is_ending) {
        uint64_t timeout_ns;
        size_t count = copy_set(self, &timeout_ns);
        bool is_kicked;
        int ready;

        (void)pthread_mutex_unlock(&self->lock);
        self->polls[0] = (struct pollfd){.fd = self->kick.fd, .events = POLLIN};
        ready = tci_poll(self->polls, count, timeout_ns);
        (void)pthread_mutex_lock(&self->lock);
        is_kicked = ready > 0 && self->polls[0].revents != 0;
        if (is_kicked)
            tci_bell_hush(&self->kick);
        /* 0: the time has come; -1: the owner will see why */
        if (!self->is_resting && (ready <= 0 || ready > is_kicked)) {
            self->is_resting = true;
            tci_bell_ring(&self->bell);
        }
    }
    (void)pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* What the sentry polls is another set now.  The lock is held. */
static void kick(struct poll_reactor *self)
{
    if (self->has_sentry && !self->is_resting)
        tci_bell_ring(&self->kick);
}

/* The owner looks itself: who waits for the bell need not come for what it finds. */
static void hush(struct poll_reactor *self)
{
    (void)pthread_mutex_lock(&self->lock);
    if (self->is_resting) {
        tci_bell_hush(&self->bell);
        self->is_resting = false;
        kick(self);
    }
    (void)pthread_mutex_unlock(&self->lock);
}

/* 0, or -1. */
static int start_sentry(struct poll_reactor *self)
{
    self->polls = tci_alloc_array(1, sizeof(*self->polls));
    if (self->polls == NULL)
        return -1;
    self->room = 1;
    if (tci_bell_open(&self->bell) != 0 || tci_bell_open(&self->kick) != 0 ||
        tci_thread_start(stand_sentry, self, &self->sentry) != 0) {
        tci_bell_close(&self->bell);
        tci_bell_close(&self->kick);
        tci_free(self->polls);
        self->polls = NULL;
        return -1;
    }
    self->has_sentry = true;
    return 0;
}

static int get_fd(struct tci_reactor *reactor)
{
    struct poll_reactor *self = (struct poll_reactor *)reactor;
    int fd;

    (void)pthread_mutex_lock(&self->lock);
    fd = self->has_sentry || start_sentry(self) == 0 ? self->bell.fd : -1;
    (void)pthread_mutex_unlock(&self->lock);
    return fd;
}

static void end_sentry(struct poll_reactor *self)
{
    if (!self->has_sentry)
        return;
    (void)pthread_mutex_lock(&self->lock);
    self->is_ending = true;
    tci_bell_ring(&self->kick);
    (void)pthread_mutex_unlock(&self->lock);
    (void)pthread_join(self->sentry, NULL);
    tci_bell_close(&self->bell);
    tci_bell_close(&self->kick);
    tci_free(self->polls);
}

/* ---- The verbs ------------------------------------------------------------------------------ */

static int add_watch(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn, void *arg,
                     void **watch_out)
{
    struct poll_reactor *self = reactor;
    struct tci_poll_entry *entry = tci_alloc(sizeof(*entry));
    int result = -1;

    if (entry == NULL) {
        errno = ENOMEM;
        return -1;
    }
    *entry = (struct tci_poll_entry){.fn = fn, .arg = arg};
    (void)pthread_mutex_lock(&self->lock);
    if (tci_poll_reserve(&self->set) == 0) {
        tci_poll_add(&self->set, entry, fd, interest);
        *watch_out = entry;
        kick(self);
        result = 0;
    }
    (void)pthread_mutex_unlock(&self->lock);
    if (result != 0) {
        tci_free(entry);
        errno = ENOMEM;
    }
    return result;
}

static int change_watch(void *reactor, void *entry, uint32_t interest)
{
    struct poll_reactor *self = reactor;

    (void)pthread_mutex_lock(&self->lock);
    tci_poll_change(&self->set, entry, interest);
    kick(self);
    (void)pthread_mutex_unlock(&self->lock);
    return 0;
}

static void del_watch(void *reactor, void *entry)
{
    struct poll_reactor *self = reactor;

    (void)pthread_mutex_lock(&self->lock);
    tci_poll_del(&self->set, entry);
    kick(self);
    (void)pthread_mutex_unlock(&self->lock);
    tci_free(entry);
}

static void set_timer(struct poll_reactor *self, uint64_t due_ns)
{
    (void)pthread_mutex_lock(&self->lock);
    self->due_ns = due_ns;
    kick(self);
    (void)pthread_mutex_unlock(&self->lock);
}

static int arm_timer(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn, void *arg)
{
    struct poll_reactor *self = reactor;

    self->timer_fn = fn;
    self->timer_arg = arg;
    set_timer(self, tci_loop_clock() + timeout_ns);
    return 0;
}

static void cancel_timer(void *reactor)
{
    set_timer(reactor, TCI_NEVER);
}

static void wait(struct tci_reactor *reactor, uint64_t timeout_ns)
{
    struct poll_reactor *self = (struct poll_reactor *)reactor;

    hush(self);
    tci_poll_wait(&self->set, timeout_ns);
    if (self->due_ns != TCI_NEVER && self->due_ns <= tci_loop_clock()) {
        set_timer(self, TCI_NEVER);
        self->timer_fn(self->timer_arg, 0);
    }
}

static void free_reactor(struct tci_reactor *reactor)
{
    struct poll_reactor *self = (struct poll_reactor *)reactor;

    end_sentry(self);
    tci_poll_fini(&self->set);
    (void)pthread_mutex_destroy(&self->lock);
    tci_free(self);
}

struct tci_reactor *tci_reactor_own_new(struct tci_error *error)
{
    struct poll_reactor *self = tci_alloc(sizeof(*self));

    if (self == NULL || pthread_mutex_init(&self->lock, NULL) != 0) {
        tci_free(self);
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
    self->due_ns = TCI_NEVER;
    self->bell = self->kick = (struct tci_bell)TCI_NO_BELL;
    return &self->base;
}
