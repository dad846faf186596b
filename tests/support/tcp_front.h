/* tcp_front.h - a rank over TCP whose peers are descriptors in the hands of a test. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_TCP_FRONT_H
#define TEST_SUPPORT_TCP_FRONT_H

#include "net/frame.h"
#include "transport_suite.h"

enum { FRONT_EAGER = 4096 };

/* Rank 0 of four is real; ranks 1 and 2 are descriptors, front_peers[1] and [2], rank 3 has an
 * address at which nobody listens. */
extern int front_peers[3];
extern struct net front_net;

/* Setup and teardown of a test. */
int front_open(void **state);
int front_close(void **state);

/* A stranger at the door of rank 0. */
int front_dial(void);
void front_turn(int times);
void front_put(int fd, const void *bytes, size_t len);
void front_put_frame(int fd, const struct tci_frame *frame);
struct tci_frame front_frame(uint8_t kind, uint32_t seq);

/* A receive from rank 2 still works. */
void front_other_link_works(uint32_t seq);

#endif
