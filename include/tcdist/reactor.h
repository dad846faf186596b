/* reactor.h - what an application's event loop lends to tcdist. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_REACTOR_H
#define TCDIST_REACTOR_H

#include <stdint.h>

#include "tcdist/export.h"

TC_BEGIN_DECLS

enum { TC_READABLE = 1, TC_WRITABLE = 2 };

/* Called by the host's loop when a watched descriptor is ready (bits of TC_READABLE and
 * TC_WRITABLE; errors and hang-ups count as both), or with 0 when the timer is due. */
typedef void (*tc_reactor_fn)(void *arg, uint32_t ready);

/* Verbs of a host's event loop.  Everything is called on the thread of that loop, and calls back
 * on it, never from within a verb.  include/tcdist/adapters/ holds ready ones.
 *
 * Watches are level-triggered.  A verb that fails gives -1 and leaves errno set. */
typedef struct tc_reactor_ops {
    uint32_t abi_version; /* TC_REACTOR_ABI_VERSION */

    /* Watch fd for `interest`; *watch_out is handed to the two verbs below. */
    int (*watch_add)(void *reactor, int fd, uint32_t interest, tc_reactor_fn fn, void *arg,
                     void **watch_out);
    /* Change the interest; 0 keeps the watch, silent. */
    int (*watch_change)(void *reactor, void *watch, uint32_t interest);
    /* Stop watching; fn is not called any more, the descriptor may be closed right after. */
    void (*watch_del)(void *reactor, void *watch);

    /* Call fn(arg, 0) once in timeout_ns nanoseconds from now (0: in the next turn), instead of
     * what was armed before.  There is one timer. */
    int (*timer_arm)(void *reactor, uint64_t timeout_ns, tc_reactor_fn fn, void *arg);
    /* Forget what was armed; nothing armed is fine. */
    void (*timer_cancel)(void *reactor);
} tc_reactor_ops;

#define TC_REACTOR_ABI_VERSION 1 /* of tc_reactor_ops, in this header */

TC_END_DECLS

#endif
