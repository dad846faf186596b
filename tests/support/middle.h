/* middle.h - a thread between two ends of a connection: changes, records, cuts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MIDDLE_H
#define TEST_MIDDLE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Directions: what the client says, and what it is answered. */
enum { MIDDLE_UP, MIDDLE_DOWN };

/* Listens on a port of loopback, and relays every connection to a target.  All of it from any
 * thread; what is done to bytes is done to one connection, the first after middle_begin(). */
struct middle;
struct middle *middle_new(void);
uint16_t middle_port(const struct middle *middle);
void middle_free(struct middle *middle);

/* The next connection goes there, and is left as it is. */
void middle_begin(struct middle *middle, const struct sockaddr_in *target);
/* Byte number `at` of a direction is changed by these bits, when it comes. */
void middle_flip(struct middle *middle, int way, size_t at, uint8_t bits);
/* Both ends are closed instead of it. */
void middle_cut(struct middle *middle, int way, size_t at);

/* Whether that change has been made, and whether the connection has ended. */
bool middle_is_done(struct middle *middle);
bool middle_has_ended(struct middle *middle);
/* Bytes so far; and a copy of the first `room` of them. */
size_t middle_count(struct middle *middle, int way);
size_t middle_copy(struct middle *middle, int way, uint8_t *bytes, size_t room);
/* Whether those bytes have passed, in either direction. */
bool middle_has_seen(struct middle *middle, const void *bytes, size_t len);

#endif
