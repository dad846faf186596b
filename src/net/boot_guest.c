/* boot_guest.c - what the ranks say to rank 0, and what it answers them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "net/boot_meet.h"
#include "net/boot_root.h"
#include "net/boot_silent.h"
#include "net/sock.h"
#include "tcdist/reactor.h"

static void set_guest_state(struct tci_guest *guest, enum tci_guest_state state)
{
    TC_ASSERT(state == guest->state + 1);
    guest->state = state;
}

static void tell_refusal(struct tci_guest *guest, const struct tci_error *error)
{
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_REFUSE_MAX];
    size_t len = tci_boot_refuse_encode(error, bytes + TCI_BOOT_HEAD);

    tci_boot_head_encode(TCI_BOOT_REFUSE, len, bytes);
    tci_boot_conn_part(&guest->conn, bytes, TCI_BOOT_HEAD + len);
}

/* The group cannot be as it was meant; the newcomer that shows it is told as well. */
__attribute__((format(printf, 3, 4))) static void refuse(struct tci_guest *guest, int rank,
                                                         const char *fmt, ...)
{
    struct tci_root *root = guest->root;
    char text[TCI_BOOT_TEXT_MAX + 1];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tci_error_set(&root->boot.error, TC_ERR_RENDEZVOUS, rank, 0, "dist_init", "%s", text);

    tell_refusal(guest, &root->boot.error);
    tci_door_drop(guest);
    tci_root_fail(root);
}

static void lose(struct tci_guest *guest, const char *how)
{
    struct tci_root *root = guest->root;
    char where[TCI_ADDR_TEXT];

    tci_error_blame(&root->boot.error, TC_ERR_PEER_LOST, guest->rank, TC_REASON_EXITED, "dist_init",
                    "rank %d at %s went away before the group stood: %s", guest->rank,
                    tci_addr_print(&guest->conn.peer, where), how);
    tci_boot_conn_close(&guest->conn);
    tci_root_fail(root);
}

static void break_off(struct tci_guest *guest, const char *how)
{
    if (guest->state == TCI_GUEST_NEW)
        tci_door_turn_away(guest, how);
    else
        lose(guest, how);
}

/* ---- All have joined, all are ready ---------------------------------------------------------- */

static void go_if_all_sent(struct tci_root *root)
{
    struct tci_boot_result *result = &root->boot.result;

    for (int rank = 1; rank < result->size; rank++) {
        if (!tci_boot_conn_is_idle(&root->guests[rank]->conn))
            return;
    }
    tci_root_set_state(root, TCI_ROOT_ENDED);
    for (int rank = 1; rank < result->size; rank++)
        tci_boot_hand_over(&root->boot, rank, &root->guests[rank]->conn);
    result->local_ranks = tci_boot_count_local(result);
    tci_boot_end(&root->boot, TC_OK);
}

/* What follows READY on a connection is the transport's: it is not read here. */
static void say_go(struct tci_root *root)
{
    tci_root_set_state(root, TCI_ROOT_GOING);
    for (int rank = 1; rank < root->boot.result.size; rank++) {
        struct tci_guest *guest = root->guests[rank];

        set_guest_state(guest, TCI_GUEST_GONE);
        tci_boot_conn_stop_reading(&guest->conn);
    }
    for (int rank = 1; rank < root->boot.result.size; rank++) {
        struct tci_guest *guest = root->guests[rank];

        if (!tci_boot_conn_send(&guest->conn, root->go, sizeof root->go)) {
            lose(guest, strerror(errno));
            return;
        }
    }
    go_if_all_sent(root);
}

void tci_guest_tell_all(struct tci_root *root)
{
    struct tci_boot_result *result = &root->boot.result;
    size_t len = tci_boot_table_len(result->size);

    /* Who comes from now on is for the transport, which takes over the listener and its queue. */
    tci_watch_del(&root->listener);
    tci_door_clear(root);
    tci_root_set_state(root, TCI_ROOT_TELLING);

    if (!root->boot.has_labels)
        memcpy(result->labels, result->hosts, (size_t)result->size * sizeof *result->labels);
    tci_boot_count_cores(&root->boot);
    tci_boot_head_encode(TCI_BOOT_TABLE, len, root->table);
    tci_boot_table_encode(result, root->table + TCI_BOOT_HEAD);
    for (int rank = 1; rank < result->size; rank++) {
        struct tci_guest *guest = root->guests[rank];

        set_guest_state(guest, TCI_GUEST_TOLD);
        if (!tci_boot_conn_send(&guest->conn, root->table, TCI_BOOT_HEAD + len)) {
            lose(guest, strerror(errno));
            return;
        }
    }
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* It has a key and we have none: nobody is protected here from a refusal of all. */
static void on_offer(struct tci_guest *guest)
{
    struct tci_root *root = guest->root;
    struct tci_auth auth = {.config.size = (uint32_t)root->boot.result.size,
                            .reason = TCI_AUTH_NO_KEY};
    struct tci_auth_hello hello;
    char where[TCI_ADDR_TEXT], text[256];

    if (tci_auth_hello_decode(guest->conn.body, &hello) != TC_OK ||
        hello.from >= auth.config.size || hello.from == 0) {
        tci_door_turn_away(guest, "its OFFER is garbled");
        return;
    }
    auth.peer = hello.from;
    tci_error_blame(&root->boot.error, TC_ERR_AUTH, (int)hello.from, TC_REASON_REFUSED_KEY,
                    "dist_init", "%s (it came from %s)", tci_auth_explain(&auth, text, sizeof text),
                    tci_addr_print(&guest->conn.peer, where));
    tell_refusal(guest, &root->boot.error);
    tci_door_drop(guest);
    tci_root_fail(root);
}

/* It has no key and we have one: it is told, and the others are protected from it. */
static void on_join_without_proof(struct tci_guest *guest)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    struct tci_auth auth = {.config.size = (uint32_t)guest->root->boot.result.size,
                            .reason = TCI_AUTH_PLAIN};
    struct tci_boot_join join;
    char text[256];

    if (guest->conn.head.version != TCI_BOOT_VERSION ||
        tci_boot_join_decode(guest->conn.body, &join) != TC_OK) {
        tci_door_turn_away(guest, "its JOIN is garbled");
        return;
    }
    auth.peer = join.rank;
    tci_error_set(&error, TC_ERR_AUTH, join.rank < auth.config.size ? (int)join.rank : -1, 0,
                  "dist_init", "%s", tci_auth_explain(&auth, text, sizeof text));
    tell_refusal(guest, &error);
    tci_door_deny(guest, &auth);
}

static void on_denied(struct tci_guest *guest)
{
    const struct tci_auth auth = *guest->conn.auth;

    if (auth.reason == TCI_AUTH_GARBLED && !auth.by_peer)
        tci_door_turn_away(guest, "it does not speak as a rank with a key does");
    else
        tci_door_deny(guest, &auth);
}

/* ---- Releases -------------------------------------------------------------------------------- */

/* A word that ranks of every version begin with: what they run can be said. */
static void refuse_release(struct tci_guest *guest)
{
    char theirs[64], where[TCI_ADDR_TEXT];

    refuse(guest, -1,
           "releases differ: rank 0 runs tcdist %s, a rank at %s runs %s; install the same release "
           "on all hosts",
           tc_version(), tci_addr_print(&guest->conn.peer, where),
           tci_boot_join_release(&guest->conn.head, guest->conn.body, theirs));
}

/* ---- What a guest says ----------------------------------------------------------------------- */

static void welcome(struct tci_guest *guest, const struct tci_boot_join *join)
{
    struct tci_root *root = guest->root;
    struct tci_boot_result *result = &root->boot.result;
    struct tci_addr local;
    int rank = (int)join->rank;

    TC_ASSERT(root->state == TCI_ROOT_COLLECTING && root->guests[rank] == NULL);
    tci_list_del(&guest->link);
    root->strangers_count--;
    root->guests[rank] = guest;
    root->joined++;
    guest->rank = rank;
    set_guest_state(guest, TCI_GUEST_JOINED);

    tci_sock_local(guest->conn.fd, &local);
    result->addrs[rank] = join->addr;
    tci_addr_adopt_scope(&result->addrs[rank], &local);
    result->hosts[rank] = join->host;
    if (join->host == result->hosts[0])
        tci_cpus_add(&root->boot.cpus, &join->cpus);

    if (!tci_boot_conn_send(&guest->conn, root->welcome, sizeof root->welcome))
        lose(guest, strerror(errno));
    else if (root->joined == result->size - 1 && !tci_root_take_card(root))
        tci_guest_tell_all(root);
}

static void on_join(struct tci_guest *guest)
{
    struct tci_root *root = guest->root;
    int size = root->boot.result.size;
    struct tci_boot_join join;
    char here[TCI_ADDR_TEXT], there[TCI_ADDR_TEXT];

    if (tci_boot_join_decode(guest->conn.body, &join) != TC_OK) {
        tci_door_turn_away(guest, "its JOIN is garbled");
        return;
    }
    if (tci_boot_conn_is_proven(&guest->conn) && join.rank != guest->conn.auth->peer) {
        tci_door_turn_away(guest, "it joins as another rank than it has proven to be");
        return;
    }
    if (memcmp(join.job, root->boot.meeting.job, TCI_GROUP_ID) != 0) {
        tci_door_turn_away(guest, "it is of another job");
        return;
    }
    if (!tci_release_fits(join.release)) {
        refuse_release(guest);
        return;
    }
    (void)tci_addr_print(&guest->conn.peer, here);
    if (join.size != (uint32_t)size)
        refuse(guest, join.rank < (uint32_t)size ? (int)join.rank : -1,
               "world sizes differ: rank 0 was started with %d, rank %u at %s with %u; start all "
               "with the same",
               size, join.rank, here, join.size);
    else if (join.rank >= (uint32_t)size)
        refuse(guest, -1, "%s claims to be rank %u, but the ranks are 0 to %d", here, join.rank,
               size - 1);
    else if (join.rank == 0)
        refuse(guest, 0, "rank 0 is there twice: here, at %s, and at %s",
               tci_addr_print(&root->bound, there), here);
    else if (root->guests[join.rank] != NULL)
        refuse(guest, (int)join.rank,
               "rank %u has joined twice: from %s and from %s; each rank is started once",
               join.rank, tci_addr_print(&root->guests[join.rank]->conn.peer, there), here);
    else
        welcome(guest, &join);
}

static void on_message(struct tci_guest *guest)
{
    const struct tci_boot_head *head = &guest->conn.head;
    struct tci_root *root = guest->root;

    if (guest->state == TCI_GUEST_NEW && head->type == TCI_BOOT_JOIN &&
        root->boot.result.keyring != NULL && !tci_boot_conn_is_proven(&guest->conn)) {
        on_join_without_proof(guest);
    } else if (guest->state == TCI_GUEST_NEW && head->type == TCI_BOOT_OFFER &&
               head->version == TCI_BOOT_VERSION) {
        on_offer(guest);
    } else if (guest->state == TCI_GUEST_NEW && head->type == TCI_BOOT_JOIN) {
        if (head->version == TCI_BOOT_VERSION)
            on_join(guest);
        else
            refuse_release(guest);
    } else if (guest->state == TCI_GUEST_TOLD && head->type == TCI_BOOT_READY &&
               head->version == TCI_BOOT_VERSION) {
        set_guest_state(guest, TCI_GUEST_READY);
        root->ready++;
        if (root->ready == root->boot.result.size - 1)
            say_go(root);
    } else if ((guest->state == TCI_GUEST_JOINED || guest->state == TCI_GUEST_TOLD) &&
               head->type == TCI_BOOT_PING && head->version == TCI_BOOT_VERSION) {
        tci_root_pinged(guest);
    } else {
        break_off(guest, "it says things out of turn");
    }
}

/* One message a turn: the guest may be gone after it, and what is left comes with the next. */
static void on_readable(struct tci_guest *guest)
{
    switch (tci_boot_conn_read(&guest->conn)) {
    case TCI_BOOT_READ_MORE:
        return;
    case TCI_BOOT_READ_MESSAGE:
        on_message(guest);
        return;
    case TCI_BOOT_READ_END:
        break_off(guest, "it closed the connection");
        return;
    case TCI_BOOT_READ_GARBAGE:
        break_off(guest, "it does not speak as a rank does");
        return;
    case TCI_BOOT_READ_PROVEN:
        return; /* JOIN follows */
    case TCI_BOOT_READ_DENIED:
        on_denied(guest);
        return;
    case TCI_BOOT_READ_ERROR:
        break_off(guest, strerror(errno));
        return;
    }
}

void tci_guest_on_ready(struct tci_watch *watch, uint32_t ready)
{
    struct tci_guest *guest = tci_container_of(watch, struct tci_guest, conn.watch);
    struct tci_root *root = guest->root;

    if ((ready & TC_WRITABLE) != 0 && !tci_boot_conn_is_idle(&guest->conn)) {
        if (!tci_boot_conn_flush(&guest->conn)) {
            break_off(guest, strerror(errno));
            return;
        }
        if (root->state == TCI_ROOT_GOING) {
            go_if_all_sent(root);
            return;
        }
    }
    if ((ready & TC_READABLE) != 0 && guest->state != TCI_GUEST_GONE)
        on_readable(guest);
}
