/* probe.h - a rank tries every other one: each of its addresses, small and large messages. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_PROBE_H
#define TOOLS_PROBE_H

#include <stddef.h>

#include "facts.h"

struct probe; /* answers those who try this rank, on a thread of its own */

/* Answers from now on at *port_out, on all addresses; NULL: errno says why. */
struct probe *probe_open(uint64_t nonce, uint32_t *port_out);
void probe_close(struct probe *probe);

/* Tries all addresses of all ranks that are there; tried has one entry a rank. */
void probe_reach(const struct facts *all, const uint8_t *is_here, int rank, struct tried *tried,
                 int timeout_ms);

/* How an attempt that did not reach its peer ended, in words: "no answer". */
const char *probe_outcome(const struct attempt *attempt);

/* Sends so many bytes to one rank over its best address. */
void probe_large(const struct facts *me, const struct facts *peer, struct tried *tried,
                 size_t bytes, int timeout_ms);
/* The same over each address that answers, one after the other; into its attempt. */
void probe_each(const struct facts *me, const struct facts *peer, struct tried *tried, size_t bytes,
                int timeout_ms);

#endif
