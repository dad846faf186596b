/* transport_suite.h - what every transport must do, tested through the port alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TRANSPORT_SUITE_H
#define TEST_TRANSPORT_SUITE_H

#include "core/context.h"
#include "core/transport.h"
#include "loop/loop.h"

enum { NET_SIZE_MAX = 8 };

/* One rank: what its sink heard. */
struct net_node {
    struct tci_transport_sink sink; /* first */
    struct tci_cq cq;
    struct tci_transport *transport; /* owned; NULL once closed */
    bool refuses;                    /* answer of admit */
    unsigned admits, notices, losses, lefts, completions;
    struct tci_notice notice; /* the last one */
    struct tci_error error;
    uint32_t lost_peer;
};

/* All ranks in one process, on one loop that the test turns itself. */
struct net {
    struct tci_loop *loop;
    tc_context context;
    uint32_t size;
    struct net_node nodes[NET_SIZE_MAX];
};

/* A transport under test: fills transport of each node, on the loop; eager_bytes is agreed. */
typedef void (*net_open_fn)(struct net *net, size_t eager_bytes);
struct net_subject {
    const char *name;
    net_open_fn open;
};
extern const struct net_subject *net_subject; /* set before the suite runs */

void net_open(struct net *net, uint32_t size, size_t eager_bytes);
void net_close(struct net *net);
/* The transports alone, in the middle of what they do; net_close() has yet to be called. */
void net_close_transports(struct net *net);
/* Turn the loop once; or until *value is at least `least`, which fails after some seconds. */
void net_turn(struct net *net);
void net_turn_until(struct net *net, const unsigned *value, unsigned least);
void net_wait(struct net *net, const struct tci_xfer *xfer);
struct tci_transport_stats net_stats(const struct net *net, uint32_t rank);

/* Turn until so many early bytes are held. */
void net_turn_until_held(struct net *net, uint32_t rank, uint64_t least);

/* A transfer with memory of its own. */
struct net_message {
    struct tci_xfer xfer;
    struct tci_call call;
    uint8_t *bytes; /* owned */
};
void net_send(struct net *net, struct net_message *message, uint32_t from, uint32_t to,
              uint64_t tag, size_t len);
void net_recv(struct net *net, struct net_message *message, uint32_t to, uint32_t from,
              uint64_t tag, size_t len);
/* The same without posting. */
void net_prepare(struct net_message *message, bool is_send, uint32_t peer, uint64_t tag,
                 size_t len);
void net_post(struct net *net, struct net_message *message, uint32_t rank);
/* Whether it holds what net_send() sends under this tag. */
bool net_is_intact(const struct net_message *message);
void net_free(struct net_message *message);

/* Wait, check the status, and what was received, free. */
void net_finish(struct net *net, struct net_message *message, tc_status_t status);
/* Wait until it has ended one way or the other, with nothing wrong taken for right, free. */
void net_drop(struct net *net, struct net_message *message);
/* A rank aborts what is under a key, with all peers. */
void net_abort(struct net *net, uint32_t rank, const struct tci_key *key);
/* A message of a length passes between the first two ranks, in both directions at once. */
void net_exchange(struct net *net, size_t len, uint64_t tag);
void net_turns(struct net *net, int times);
/* A message of a length goes from rank 0 to rank 1, and the nth allocation on its way fails: it
 * arrives, or one of its ends is told that it does not.  How many allocations there were. */
uint64_t net_send_without_memory(struct net *net, uint64_t nth, size_t len);

/* The tests, for cmocka_run_group_tests: messages, and how things end. */
struct CMUnitTest;
extern const struct CMUnitTest transport_suite[], transport_ends[];
extern const size_t transport_suite_count, transport_ends_count;

/* Run both of a subject, or how things end alone; `after` is the teardown of each of the two, NULL:
 * none.  Give how many tests have failed. */
int transport_suite_run(const struct net_subject *subject, int (*after)(void **state));
int transport_ends_run(const struct net_subject *subject, int (*after)(void **state));

#endif
