/* sock.h - socket calls with their errors named; all sockets non-blocking and close-on-exec. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SOCK_H
#define TCI_SOCK_H

#include "net/addr.h"

/* A host that acknowledges nothing for so long is lost, whether something was said to it
 * (tcp_hear.c) or not (keepalive). */
enum { TCI_SILENCE_MS = 13000 };

/* A listening TCP socket on exactly this address (port 0: any); its real address in *bound_out. */
tc_status_t tci_sock_listen(const struct tci_addr *addr, int *fd_out, struct tci_addr *bound_out,
                            struct tci_error *error);
/* The same where the address is "::", for IPv4 as well. */
tc_status_t tci_sock_listen_both(const struct tci_addr *addr, int *fd_out,
                                 struct tci_addr *bound_out, struct tci_error *error);
/* Take over a listening TCP socket that someone else made: checked, made non-blocking. */
tc_status_t tci_sock_adopt_listener(int fd, struct tci_addr *bound_out, struct tci_error *error);
/* Begin to connect; *is_up_out says whether it stands already.  Else it is writable when decided,
 * ask tci_sock_connect_result. */
tc_status_t tci_sock_connect(const struct tci_addr *to, int *fd_out, bool *is_up_out,
                             struct tci_error *error);
/* 0: the connection stands; else the errno it failed with.  One with itself counts as refused. */
int tci_sock_connect_result(int fd);
/* Accept one; -1 with errno (EAGAIN: none waits). */
int tci_sock_accept(int listener, struct tci_addr *from_out);
/* Options for a link that stands: no delay, keepalive, and between addresses of one host the
 * congestion control that fits (reno or cubic, whichever is allowed: bbr paces loopback).  True:
 * between such. */
bool tci_sock_tune(int fd);
void tci_sock_local(int fd, struct tci_addr *addr_out);
void tci_sock_peer(int fd, struct tci_addr *addr_out);

#endif
