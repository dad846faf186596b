/* tcp.h - transport over TCP: links between all pairs, made when first needed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_TCP_H
#define TCI_TCP_H

#include "core/transport.h"
#include "net/boot.h"

/* A transport over the sockets of a boot result, which it takes over (result is left empty).
 * Its cq and sink are to be set before anything is posted, and before the loop turns again.
 * NULL without memory, with the cause in error.  Loop thread. */
struct tci_transport *tci_tcp_open(struct tci_loop *loop, tc_context *context,
                                   struct tci_boot_result *result, struct tci_error *error);

/* Most payload goes another way: a link without transfers is left to the reactor, which notices
 * what comes there while the loop is hot, too, and is not polled.  Loop thread. */
void tci_tcp_be_quiet(struct tci_transport *self);

/* Try to link with a peer until a deadline, before anything is sent to it.  Unlike at the first
 * message, a failure is no loss: the link is made anew when it is needed.  fn(arg, stands) is
 * called once, on the loop, maybe from within this call, and at the latest when the transport is
 * closed.  Loop thread. */
typedef void (*tci_tcp_probe_fn)(void *arg, bool stands);
void tci_tcp_probe(struct tci_transport *self, uint32_t peer, uint64_t deadline_ns,
                   tci_tcp_probe_fn fn, void *arg);

#endif
