/* state.h - inside of the loop: what its files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_LOOP_STATE_H
#define TCI_LOOP_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/base.h"
#include "core/bell.h"
#include "core/heap.h"
#include "core/inbox.h"
#include "core/process.h"
#include "core/trace.h"
#include "loop/loop.h"
#include "loop/reactor.h"

/* Tasks in the order in which they were posted. */
struct tci_queue {
    struct tci_task *head;
    struct tci_task **tail;
};

/* Somebody who waits for something that only turns bring about. */
struct tci_waiter {
    bool (*is_done)(void *arg); /* any thread; NULL: until its deadline */
    void *arg;
    uint64_t deadline_ns; /* TCI_NEVER: none */
};

static inline bool tci_waiter_is_done(const struct tci_waiter *waiter)
{
    return waiter->is_done != NULL && waiter->is_done(waiter->arg);
}

/* A call of tci_loop_call or tci_loop_await; on its caller's stack. */
struct tci_errand {
    struct tci_task task;
    struct tci_errand *next; /* in loop->calls */
    struct tci_loop *loop;
    void (*fn)(void *arg);
    bool (*is_true)(void *arg); /* asked after each turn until it is; NULL: fn is called once */
    void *arg;
    atomic_bool is_done;
};

/* How long spins for something have been worth while; spin.c. */
struct tci_patience {
    uint64_t limit_ns; /* of the next one, where it is adaptive */
    unsigned failures; /* that were for nothing, ever */
    bool is_probe;     /* the next one is as long as can be */
};

/* Looking again and again instead of sleeping; spin.c. */
struct tci_spin {
    uint64_t progress_ns;            /* when something was last done; 0: since the clock was read */
    unsigned yields;                 /* since the progress */
    struct tci_patience work, calls; /* what one may be for */
    struct tci_patience *now;        /* what this one is for; NULL: none since the last sleep */
};

struct tci_loop {
    struct tci_exec exec;
    int mode;     /* tc_loop_mode_t */
    bool is_lent; /* HOST with a reactor of the application's */
    int spin_us;  /* -1: adaptive */
    atomic_uint cores;
    atomic_uint local_ranks;
    struct tci_reactor *reactor;       /* owned */
    struct tci_process process;        /* that it was made in */
    _Atomic(struct tci_trace *) trace; /* borrowed; NULL: none yet */
    _Atomic(atomic_uint *) sleepers;   /* likewise: how many threads wait asleep for a future */

    /* Doors for other threads. */
    struct tci_inbox inbox;
    atomic_bool is_asleep; /* a post has to ring the bell; see wake.c */
    struct tci_bell bell;
    atomic_uintptr_t owner; /* the thread that turns the loop, as tci_loop_me(); 0: nobody */
    uintptr_t home;         /* lent: the host's thread; the only one that may turn the loop */

    /* Waiters that another thread's turn keeps from turning; see wait.c. */
    pthread_mutex_t lock;
    pthread_cond_t news;
    atomic_uint waiting;

    /* Of the owner. */
    struct tci_queue posted, user;
    struct tci_source *sources; /* last; a ring */
    struct tci_source *cursor;  /* the next one of a walk over sources */
    struct tci_watch *watches;
    struct tci_watch wake_watch;
    struct tci_heap timers;
    struct tci_errand *calls;
    uint64_t now_ns; /* of this turn */
    bool is_now_stale;
    bool is_in_user, is_in_wait, is_stopping;
    unsigned events;      /* watches that were called, ever */
    unsigned events_seen; /* … before the last pass ended */
    unsigned passes;      /* since the reactor was asked last */
    uint64_t asked_ns;    /* when it was */
    unsigned short_waits; /* since the last whole turn of a waiter */
    struct tci_spin spin;
    bool was_called;  /* THREAD: by another one, since it last gave up to wait for that */
    uint64_t lap_ns;  /* when the last part of the turn ended; lap.c */
    uint64_t long_ns; /* when one was last told to have taken long; 0: never */
    uint64_t ran_ns;  /* what the thread that turns had had of a processor … */
    uint64_t ran_at_ns;
    pthread_t ran_by; /* … at that time of lap_ns, and which it is */

    /* While nobody turns it. */
    atomic_bool wants_park;  /* HOST, and MANUAL once tc_fd or tc_timeout_ms was asked */
    uint64_t armed_ns;       /* what the reactor's timer is set to; TCI_NEVER: it is not */
    _Atomic uint64_t due_ns; /* when the next dispatch is due; 0: at once */

    pthread_t thread;
    bool has_thread;
};

/* A number of the calling thread's own. */
uintptr_t tci_loop_me(void);

static inline bool tci_loop_is_here(struct tci_loop *loop)
{
    /* relaxed: a thread can only see its own number if it wrote it */
    return atomic_load_explicit(&loop->owner, memory_order_relaxed) == tci_loop_me();
}

static inline struct tci_trace *tci_loop_trace(struct tci_loop *loop)
{
    return atomic_load_explicit(&loop->trace, memory_order_acquire);
}

/* loop.c */
void tci_queue_add(struct tci_queue *queue, struct tci_task *task);
uint64_t tci_loop_now(struct tci_loop *loop);

/* wake.c */
int tci_wake_open(struct tci_loop *loop); /* 0, or -1 with errno */
void tci_wake_close(struct tci_loop *loop);
void tci_wake_post(struct tci_loop *loop, struct tci_task *task);
/* Say that the loop sleeps from now on; false: something was posted already, and it does not. */
bool tci_wake_sleep(struct tci_loop *loop);
void tci_wake_rise(struct tci_loop *loop);

/* turn.c: the owner's. */
unsigned tci_loop_pass(struct tci_loop *loop);                 /* gives the amount of work done */
void tci_loop_ask(struct tci_loop *loop, uint64_t timeout_ns); /* the reactor */
bool tci_loop_may_sleep(struct tci_loop *loop);
uint64_t tci_loop_next_ns(struct tci_loop *loop); /* of the next timer */
/* Turn until the waiter is satisfied or its time has come, or the loop is to stop; with is_once,
 * until something was done. */
void tci_loop_run(struct tci_loop *loop, const struct tci_waiter *waiter, bool is_once);
/* Any thread. */
bool tci_loop_run_or_post(struct tci_exec *exec, struct tci_task *task, uint64_t now_ns);

/* spin.c: the owner's.  A wait begins; something was done; nothing was: whether to look once more
 * instead of sleeping. */
void tci_spin_init(struct tci_spin *spin);
void tci_spin_begin(struct tci_spin *spin);
void tci_spin_progress(struct tci_spin *spin);
bool tci_spin_goes_on(struct tci_loop *loop);
/* The same between two looks at the sources alone, where ranks share cores. */
bool tci_spin_lets_through(struct tci_loop *loop);

/* lap.c: a part of a turn begins, and has ended after `count` callbacks of a kind, which it gives
 * back; one that took long is told of in the log. */
void tci_loop_lap_begin(struct tci_loop *loop);
unsigned tci_loop_lap(struct tci_loop *loop, const char *what, unsigned count);

/* wait.c */
void *tci_loop_main(void *loop);
void tci_loop_wait(struct tci_exec *exec, struct tc_future *future, uint64_t deadline_ns);
void tci_loop_tell(struct tci_loop *loop); /* look again, waiters */
bool tci_loop_try_enter(struct tci_loop *loop);
void tci_loop_leave(struct tci_loop *loop);
void tci_loop_let_go(struct tci_loop *loop);     /* without a turn */
void tci_loop_call_check(struct tci_loop *loop); /* loop->calls, after a turn */

/* watch.c: what the reactor calls */
void tci_loop_on_timer(void *loop, uint32_t ready);

#endif
