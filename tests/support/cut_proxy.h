/* cut_proxy.h - a thread between sockets that cuts connections, at random places. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CUT_PROXY_H
#define TEST_CUT_PROXY_H

#include <netinet/in.h>
#include <stdint.h>

/* Listens on ports of loopback, and relays what comes to a target each.  A target that refuses is
 * refused with. */
struct cut_proxy;
struct cut_proxy *cut_proxy_new(uint64_t seed);
/* A new port that leads to a target; from any thread. */
uint16_t cut_proxy_add(struct cut_proxy *proxy, const struct sockaddr_in *target);
/* From now on a connection is cut after `mean` bytes, more or less (0: never), some in the middle
 * of their greeting, some on one side alone at first; `most` cuts in all. */
void cut_proxy_set(struct cut_proxy *proxy, uint64_t mean, unsigned most);
/* Cut the connection that was made n-th, from 0, after so many bytes more. */
void cut_proxy_cut_after(struct cut_proxy *proxy, unsigned n, uint64_t bytes);
unsigned cut_proxy_made(struct cut_proxy *proxy);
/* New connections are taken and left lying (not answered), or no longer. */
void cut_proxy_swallow(struct cut_proxy *proxy, int is_on);
unsigned cut_proxy_cuts(struct cut_proxy *proxy);
void cut_proxy_free(struct cut_proxy *proxy);

#endif
