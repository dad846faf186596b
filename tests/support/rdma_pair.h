/* rdma_pair.h - two ranks over the fake devices, for what befalls them: opened, cut, asked. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_RDMA_PAIR_H
#define TEST_SUPPORT_RDMA_PAIR_H

#include "rdma/link.h"
#include "support/rdma_net.h"

enum { PAIR_EAGER = 65536 };

/* How the two are joined: over which devices (NULL: those of the cables), and the time to heal. */
struct pair_kind {
    struct net_subject subject;
    void (*setup)(void);
    int heal_ms; /* 0: the usual */
};

extern struct net pair;
extern const struct pair_kind *pair_kind; /* the last one that was opened */

void pair_open(const struct pair_kind *kind);
/* Closed, and nothing is left. */
void pair_close(void);
/* Closed, and opened again as it was. */
void pair_reopen(void);

/* The initial state of a test is its kind. */
int pair_setup(void **state);
int pair_teardown(void **state);
#define PAIR_CASE(test, kind)                                                                      \
    cmocka_unit_test_prestate_setup_teardown(test, pair_setup, pair_teardown, (void *)&(kind))
#define PAIR_CASE_OF(what, test, kind)                                                             \
    {                                                                                              \
        what ": " #test, test, pair_setup, pair_teardown, (void *)&(kind)                          \
    }

/* A rank's link of a cable to the other one. */
struct tci_rdma_link *pair_link(uint32_t rank, int cable);
/* How often one has lost the other, and whether either heard of this. */
unsigned pair_losses(void);
bool pair_is_told(const char *text);
void pair_turn_for(uint64_t ms);
/* All goes over TCP, for a reason that one of them tells, and nothing is left of another way. */
void pair_goes_over_tcp(const char *reason);

/* A rank's connections below; what they do instead of sending its notices, and sending one. */
typedef void pair_notify_fn(struct tci_transport *self, uint32_t peer,
                            const struct tci_notice *notice, bool may_link);
struct tci_transport *pair_tcp(uint32_t rank);
void pair_let_notify(uint32_t rank, pair_notify_fn *notify);
pair_notify_fn pair_notify, pair_say_nothing;

#endif
