/* reactor.h - the one interface behind which libevent, epoll, poll and the host's loop stand. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_REACTOR_H
#define TCI_REACTOR_H

#include <stdint.h>

#include "core/error.h"
#include "tcdist/context.h"
#include "tcdist/reactor.h"

/* The verbs that an application may lend, and what the loop needs besides when it sleeps itself.
 * The loop's own timers bound `wait`; the timer verbs serve loops that nobody turns right now. */
struct tci_reactor {
    tc_reactor_ops ops;
    void *arg; /* given to each verb of ops */
    /* Call what is ready; sleep for it up to timeout_ns (0: do not, TCI_NEVER: no limit).  Returns
     * after the first batch, when the time is up, or early. */
    void (*wait)(struct tci_reactor *self, uint64_t timeout_ns);
    void (*free)(struct tci_reactor *self);
    /* Readable when a watch or the timer is ready; -1: there is none now.  Any thread.  NULL: there
     * never is one. */
    int (*fd)(struct tci_reactor *self);
};

/* NULL on failure, with the cause in error. */
struct tci_reactor *tci_reactor_libevent_new(struct tci_error *error);
/* For a loop that its callers turn: epoll where the system has it, else poll(2). */
struct tci_reactor *tci_reactor_own_new(struct tci_error *error);
struct tci_reactor *tci_reactor_host_new(const tc_reactor_ops *ops, void *arg,
                                         struct tci_error *error);

#endif
