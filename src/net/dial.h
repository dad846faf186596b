/* dial.h - connects to a host that may not be up yet: over all its addresses, again and again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_DIAL_H
#define TCI_DIAL_H

#include "loop/loop.h"
#include "net/addr.h"

/* A connection that stands, the callee's from then on; or, with fd -1, errno of what cannot be
 * waited out (memory, descriptors). */
typedef void (*tci_dial_fn)(void *arg, int fd, const struct tci_addr *peer, int cause);

/* Begin; fn is called on the loop, never from within this call, once for each start and again.
 * The dial tries until it is freed: a deadline is its owner's.  host is borrowed until then.
 * NULL without memory.  Loop thread. */
struct tci_dial;
struct tci_dial *tci_dial_start(struct tci_loop *loop, const char *host, uint16_t port,
                                tci_dial_fn fn, void *arg);
/* The same to literal addresses with their ports. */
struct tci_dial *tci_dial_start_at(struct tci_loop *loop, const struct tci_addr *addrs,
                                   size_t count, tci_dial_fn fn, void *arg);
/* Before the loop turns: so many ports, from that one on, and not that one alone. */
void tci_dial_spread(struct tci_dial *dial, int ports);
/* The connection was of no use: try again, after a while, the next address first. */
void tci_dial_again(struct tci_dial *dial);
void tci_dial_free(struct tci_dial *dial); /* NULL is fine */

/* "10.0.0.7:4100: Connection refused": how the last attempt that ended went, else that one goes on;
 * "" before the first.  Valid until the loop turns again. */
const char *tci_dial_last(struct tci_dial *dial);

/* Connections that were tried so far, and questions for a name that gave no address. */
unsigned tci_dial_attempts(const struct tci_dial *dial);
/* Whether all of the last round failed by what lies on this side, or in the name, and is seldom
 * mended by waiting: no such name, no route, no such address or family, forbidden. */
bool tci_dial_is_stuck(const struct tci_dial *dial);
/* Whether the last round has ended in nothing; and, of one that has, whether each attempt was
 * answered: refused, or told by somebody on the way that it leads nowhere. */
bool tci_dial_has_failed(const struct tci_dial *dial);
bool tci_dial_is_answered(const struct tci_dial *dial);
/* Addresses with their ports. */
size_t tci_dial_count(const struct tci_dial *dial);
/* Whether all of them are this host's own. */
bool tci_dial_is_here(const struct tci_dial *dial);
/* Whether no address is known. */
bool tci_dial_is_nameless(const struct tci_dial *dial);
/* Whether all that the host stands for is loopback: nobody but this host itself. */
bool tci_dial_is_loopback(const struct tci_dial *dial);

#endif
