/* boot_root.h - inside of rank 0's side of the rendezvous: what its files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_ROOT_H
#define TCI_BOOT_ROOT_H

#include "core/base.h"
#include "core/list.h"
#include "net/boot_conn.h"
#include "net/boot_role.h"
#include "net/resolve.h"

/* Before a name that has no address, or a process that has no descriptor left, is asked again. */
#define TCI_ROOT_PAUSE_NS (100 * TCI_NS_PER_MS)

/*   NAMING --address--> COLLECTING --all joined--> TELLING --all ready--> GOING --all sent--> ENDED
 *
 * and of each connection:
 *
 *   NEW --JOIN--> JOINED --TABLE sent--> TOLD --READY--> READY --GO sent--> GONE
 *    +-- anything else, or nothing: dropped and counted
 *
 * (From JOINED on the loss of a connection ends it all, as the deadline does.)
 */
enum tci_root_state {
    TCI_ROOT_NAMING,
    TCI_ROOT_COLLECTING,
    TCI_ROOT_TELLING,
    TCI_ROOT_GOING,
    TCI_ROOT_ENDED
};
enum tci_guest_state {
    TCI_GUEST_NEW,
    TCI_GUEST_JOINED,
    TCI_GUEST_TOLD,
    TCI_GUEST_READY,
    TCI_GUEST_GONE
};

struct tci_guest {
    struct tci_boot_conn conn;
    struct tci_list link; /* in root->strangers, while NEW */
    struct tci_root *root;
    enum tci_guest_state state;
    int rank; /* once it has joined */
    uint64_t since_ns;
};

/* A rank came, and could not prove that it is one: the words for it, in case that it stays away. */
struct tci_denied {
    int rank;
    tc_reason_t reason;
    char text[384];
};
enum { TCI_DENIED_MAX = 8 };

struct tci_root {
    struct tci_boot boot;
    enum tci_root_state state;
    struct tci_resolve *resolve;
    struct tci_watch listener;
    struct tci_addr bound;
    uint64_t resume_ns;     /* go on accepting, or ask for the name again; 0: not paused */
    struct tci_unnamed why; /* the name has no address */
    struct tci_meet *meet; /* owned; where a card of this rank is left; NULL: there is an address */
    bool is_posted;        /* the card has been left */
    bool is_withdrawing;   /* all have joined, the card is taken away */

    struct tci_list strangers; /* of struct tci_guest, the oldest first */
    unsigned strangers_count, dropped;
    struct tci_denied denied[TCI_DENIED_MAX]; /* the first of them, each rank once */
    unsigned denied_count;
    struct tci_guest **guests; /* owned; by rank */
    int joined, ready;

    uint8_t *table; /* owned: head and body */
    uint8_t welcome[TCI_BOOT_HEAD], go[TCI_BOOT_HEAD];
};

/* boot_root.c */
void tci_root_set_state(struct tci_root *root, enum tci_root_state state);
/* boot.error says why; everyone is told the same. */
void tci_root_fail(struct tci_root *root);
void tci_root_fail_without(struct tci_root *root, int cause, const char *doing);
/* It listens: accept who comes. */
void tci_root_collect(struct tci_root *root);

/* boot_door.c: who comes, and has not said who it is. */
void tci_door_on_ready(struct tci_watch *listener, uint32_t ready);
void tci_door_drop(struct tci_guest *guest);
void tci_door_turn_away(struct tci_guest *guest, const char *why); /* counted */
/* Said to, or by, a guest that claims to be a rank and has not the key; the group is not disturbed:
 * it may be a stranger, and the rank may come. */
void tci_door_deny(struct tci_guest *guest, const struct tci_auth *auth);
/* Among those that were denied one that has not come; NULL: there is none. */
const struct tci_denied *tci_door_denied(const struct tci_root *root);
void tci_door_clear(struct tci_root *root);
void tci_door_expire(struct tci_root *root, uint64_t now_ns); /* those who say nothing */
/* Set the timer to what comes first: the deadline, the end of a silence or of a pause. */
void tci_door_wake(struct tci_root *root);

/* boot_guest.c: what they say; and all who have joined are told who all are. */
void tci_guest_tell_all(struct tci_root *root);
void tci_guest_on_ready(struct tci_watch *watch, uint32_t ready);

#endif
