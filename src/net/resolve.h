/* resolve.h - names to addresses, without keeping the loop waiting. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RESOLVE_H
#define TCI_RESOLVE_H

#include "loop/loop.h"
#include "net/addr.h"

/* Addresses of one name that are looked at. */
enum { TCI_RESOLVE_MAX = 32 };

/* Why a name has no address. */
struct tci_unnamed {
    bool is_unknown; /* the system has heard that there is no such name, and not merely nothing */
    char text[128];  /* "Name or service not known" */
};

/* All addresses of a name, in the order in which they are to be tried, each with the port; or
 * none, and why.  Valid during the call. */
typedef void (*tci_resolve_fn)(void *arg, const struct tci_addr *addrs, size_t count,
                               const struct tci_unnamed *why);

/* Ask the system.  It answers when it likes, and only to a thread that waits for it: one is lent
 * for the question, in every mode of the loop, and reports back through a descriptor.  fn is called
 * once, on the loop, never from within this call.  NULL with errno.  Loop thread. */
struct tci_resolve;
struct tci_resolve *tci_resolve_start(struct tci_loop *loop, const char *host, uint16_t port,
                                      tci_resolve_fn fn, void *arg);
/* Stop waiting before fn was called; the thread ends by itself.  NULL is fine.  Loop thread. */
void tci_resolve_cancel(struct tci_resolve *resolve);

#endif
