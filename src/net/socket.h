/* socket.h - making sockets, and options of theirs, as the system has them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SOCKET_H
#define TCI_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>

/* As socket(2) and accept(2), for streams: non-blocking, close-on-exec, and to write where nobody
 * reads any more raises no signal. */
int tci_socket(int family);
int tci_socket_datagrams(int family);
int tci_socket_accept(int listener, struct sockaddr *from_out, socklen_t *len);

/* Whether a system's own cause of a failed accept is that one connection's. */
bool tci_socket_is_of_one(int cause);

/* A peer that is silent for so many seconds is asked so many times, with such a pause between, as
 * far as the system lets that be chosen. */
void tci_socket_keep_alive(int fd, int idle_s, int pause_s, int count);

/* Choose the congestion control that suits a wire without loss and queue: bbr paces a transfer
 * there to 0.4 of what reno gives (1 GiB over loopback in 1 MiB sends, median of 5).  To be called
 * before the socket listens or connects: Linux paces a connection that bbr has begun by a timer to
 * its end, whatever is chosen later. */
void tci_socket_suit_one_host(int fd);
/* Take that back: what is usual on this system. */
void tci_socket_suit_network(int fd);

#endif
