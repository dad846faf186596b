/* etcd_text.h - what is said to etcd's HTTP interface, and what it answers, as text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ETCD_TEXT_H
#define TCI_ETCD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Base 64 with "+" and "/", as JSON of protocol buffers has bytes.  Encode gives the length; text
 * has room for 4 characters for every 3 bytes begun, and a zero.  Decode refuses what is none, and
 * what has no room with a zero at its end. */
size_t tci_base64_encode(const char *bytes, size_t len, char *text);
bool tci_base64_decode(const char *text, char *bytes, size_t room);

/* The one value of a range in an answer, decoded, into card: 1; 0: the key is not there; -1: it is
 * no such answer. */
int tci_etcd_value(const char *answer, char *card, size_t room);
/* "error" or "message" of an answer that is none, for people; "" where there is none. */
void tci_etcd_reason(const char *answer, char *text, size_t room);

#endif
