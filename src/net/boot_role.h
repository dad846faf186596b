/* boot_role.h - inside of the rendezvous: what both roles are made of. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_ROLE_H
#define TCI_BOOT_ROLE_H

#include "net/boot.h"
#include "net/boot_wire.h"

struct tci_boot_role {
    size_t bytes; /* of the object that begins with a struct tci_boot */
    /* Each ends with tci_boot_end() sooner or later. */
    void (*begin)(struct tci_boot *boot);
    void (*on_timer)(struct tci_boot *boot); /* the time of tci_boot_wake has come */
    void (*ping)(struct tci_boot *boot);     /* the deadline comes soon; or NULL */
    /* It takes long, `time` so far: say who is missed, and why; or end it.  Or NULL. */
    void (*say)(struct tci_boot *boot, const char *time);
    void (*fini)(struct tci_boot *boot); /* at any moment after begin */
};

extern const struct tci_boot_role tci_boot_root, tci_boot_member, tci_boot_row;

/* Where a member listens. */
enum tci_place_kind { TCI_PLACE_BESIDE, TCI_PLACE_AT, TCI_PLACE_ADVERTISED };
struct tci_place {
    enum tci_place_kind kind;
    char *text; /* owned; NULL with BESIDE */
    struct tci_url url;
};

struct tci_boot {
    const struct tci_boot_role *role;
    struct tci_loop *loop;
    struct tci_exec *exec;
    tci_boot_fn done;
    void *arg;

    char *text; /* owned: the URL as it was given */
    struct tci_url url;
    struct tci_meeting meeting;
    struct tci_place place;
    struct tci_cpus cpus; /* of this rank; of rank 0, of all of its host that have come */
    char *interfaces;     /* owned; or NULL */
    uint64_t start_ns, deadline_ns;
    struct tci_timer timer; /* armed from start to finish, so that to move it takes no memory */
    uint64_t wake_ns;       /* when on_timer is to be called */
    uint64_t say_ns;        /* when say is */
    bool is_patient, has_said;
    bool has_pinged;
    bool has_labels; /* rank 0 was told where ranks are */
    bool has_begun, is_ended;
    tc_status_t status; /* once it has ended */

    struct tci_error error;
    struct tci_boot_result result;
};

/* All of rank 0's host have come: so many cores they have together. */
void tci_boot_count_cores(struct tci_boot *boot);
uint64_t tci_boot_now(struct tci_boot *boot);
/* Call on_timer at this time, and not at another. */
void tci_boot_wake(struct tci_boot *boot, uint64_t at_ns);
/* It is over: with TC_OK and a result that is filled in, or with an error that is written down.
 * done is called in a later step of the loop; nothing of the role is called until then. */
void tci_boot_end(struct tci_boot *boot, tc_status_t status);
/* "30 s", "1500 ms": from start to deadline; to a time. */
const char *tci_boot_time(const struct tci_boot *boot, char text[32]);
const char *tci_boot_time_to(const struct tci_boot *boot, uint64_t at_ns, char text[32]);
/* What is said of a rendezvous that takes long, and that it goes on: a warning once, then news. */
void tci_boot_tell(struct tci_boot *boot, const struct tci_error *error);
/* Listen at the first of these addresses that this host has.  One that is taken is an error, and no
 * reason to take the next: the others would come to whoever has the first.  The listener goes into
 * the result; on failure the cause is in why, and nothing in boot.error. */
tc_status_t tci_boot_listen(struct tci_boot *boot, const struct tci_addr *addrs, size_t count,
                            struct tci_addr *bound_out, struct tci_error *why);
/* Listen at all addresses of this host, of both families where it has both.  As above. */
tc_status_t tci_boot_listen_all(struct tci_boot *boot, uint16_t port, struct tci_addr *bound_out,
                                struct tci_error *why);
/* Whether the URL can only be meant for ranks of one host: "localhost", or a loopback address. */
bool tci_boot_is_local(const struct tci_boot *boot);
/* The connection to a rank goes on, with what seals it, as a link: into the result. */
struct tci_boot_conn;
void tci_boot_hand_over(struct tci_boot *boot, int rank, struct tci_boot_conn *conn);
/* How many hosts[] are as that of `rank`. */
unsigned tci_boot_count_local(const struct tci_boot_result *result);

#endif
