/* boot_member.h - inside of a member's side of the rendezvous: what its files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_MEMBER_H
#define TCI_BOOT_MEMBER_H

#include "net/boot_conn.h"
#include "net/boot_role.h"
#include "net/dial.h"
#include "net/resolve.h"

/*   NAMING --> DIALING --stands--> JOINING --WELCOME--> WAITING --TABLE--> HOLDING --GO--> ENDED
 *                 ^                   |                    |                  |
 *                 +--- no rank 0 -----+                    +---- REFUSE, loss, deadline --> ENDED
 *
 * (With a key PROVING lies between DIALING and JOINING, and goes where JOINING goes.)
 * (REFUSE and the deadline end every state.)
 */
enum tci_member_state {
    TCI_MEMBER_NAMING,  /* until the name of the place to listen at is known */
    TCI_MEMBER_DIALING, /* until a connection stands */
    TCI_MEMBER_PROVING, /* whoever is there has to have the key, as we do */
    TCI_MEMBER_JOINING, /* JOIN is sent; whoever is there may be a stranger */
    TCI_MEMBER_WAITING, /* rank 0 knows us */
    TCI_MEMBER_HOLDING, /* we have the table, READY is sent */
    TCI_MEMBER_ENDED
};

struct tci_member {
    struct tci_boot boot;
    enum tci_member_state state;
    bool is_in_grace;
    bool is_foreign;             /* who has answered last is nothing of ours */
    uint64_t leave_ns, judge_ns; /* who says nothing is left; whether to go on dialing is asked */
    unsigned pings; /* how often rank 0 has said, shortly before the deadline, that it is there */
    struct tci_resolve *resolve; /* owned */
    struct tci_addr place; /* with AT: where we listen; with ADVERTISED: where we are reached */
    struct tci_meet *meet; /* owned; where rank 0 leaves its card; NULL: its address is known */
    struct tci_dial *dial; /* owned; NULL: no card was found yet */
    struct tci_boot_conn conn;
    uint8_t *table; /* owned */
    uint8_t join[TCI_BOOT_HEAD + TCI_BOOT_JOIN_LEN];
    uint8_t ready[TCI_BOOT_HEAD];
    char stranger[TCI_ADDR_TEXT + 64]; /* who was no rank 0, and why */
};

/* boot.error says why. */
void tci_member_fail(struct tci_member *member);
void tci_member_fail_without(struct tci_member *member, int cause, const char *doing);
/* Whoever answers at an address, or does not, is no rank 0: look on. */
void tci_member_leave(struct tci_member *member, const char *how);
/* A dial begins. */
void tci_member_begin_dial(struct tci_member *member);
/* Of a dial. */
void tci_member_dialed(void *arg, int fd, const struct tci_addr *peer, int cause);

#endif
