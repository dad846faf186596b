/* boot_door.c - who comes to rank 0 and has not said who it is: admitted, bounded, turned away. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"
#include "net/boot_root.h"
#include "net/sock.h"
#include "tcdist/reactor.h"

/* A member says JOIN with its first packet; who is silent for so long is none. */
#define SILENCE_MAX_NS (5000 * TCI_NS_PER_MS)
/* Connections that have not said JOIN: all ranks at once, and some strangers.  One more, and the
 * oldest goes, which is the likeliest to be none of ours. */
enum { STRANGERS_MAX = 64 };
enum { TOLD_MAX = 16 };    /* refusals of those who have not the key: a flood fills no log */
enum { ACCEPTS_MAX = 64 }; /* in one go, so that a flood does not hold the loop */

void tci_door_drop(struct tci_guest *guest)
{
    TC_ASSERT(guest->state == TCI_GUEST_NEW);
    tci_list_del(&guest->link);
    guest->root->strangers_count--;
    tci_boot_conn_close(&guest->conn);
    tci_free(guest);
}

void tci_door_turn_away(struct tci_guest *guest, const char *why)
{
    char where[TCI_ADDR_TEXT];

    guest->root->dropped++;
    tci_log(TC_LOG_DEBUG, "rendezvous: a connection from %s is dropped: %s",
            tci_addr_print(&guest->conn.peer, where), why);
    tci_door_drop(guest);
}

void tci_door_deny(struct tci_guest *guest, const struct tci_auth *auth)
{
    struct tci_root *root = guest->root;
    struct tci_denied *denied = root->denied, *end = denied + root->denied_count;
    char where[TCI_ADDR_TEXT], why[256];

    (void)tci_auth_explain(auth, why, sizeof why);
    tci_log(root->dropped < TOLD_MAX ? TC_LOG_WARN : TC_LOG_DEBUG,
            "rank 0: a connection from %s is refused: %s", tci_addr_print(&guest->conn.peer, where),
            why);
    tci_boot_conn_part(&guest->conn, NULL, 0);
    root->dropped++;
    tci_door_drop(guest);
    while (denied < end && denied->rank != (int)auth->peer)
        denied++;
    if (denied < end || root->denied_count == TCI_DENIED_MAX || auth->peer >= auth->config.size)
        return;
    denied->rank = (int)auth->peer;
    denied->reason = tci_auth_class(auth->reason);
    (void)snprintf(denied->text, sizeof denied->text, "%s (it came from %s)", why, where);
    root->denied_count++;
}

const struct tci_denied *tci_door_denied(const struct tci_root *root)
{
    for (unsigned k = 0; k < root->denied_count; k++)
        if (root->guests[root->denied[k].rank] == NULL)
            return &root->denied[k];
    return NULL;
}

void tci_door_clear(struct tci_root *root)
{
    struct tci_list *link;

    while ((link = tci_list_first(&root->strangers)) != NULL)
        tci_door_drop(tci_container_of(link, struct tci_guest, link));
}

void tci_door_wake(struct tci_root *root)
{
    struct tci_list *oldest = tci_list_first(&root->strangers);
    uint64_t at_ns = root->boot.deadline_ns;

    if (oldest != NULL)
        at_ns = tci_min(at_ns, tci_container_of(oldest, struct tci_guest, link)->since_ns +
                                   SILENCE_MAX_NS);
    if (root->resume_ns != 0)
        at_ns = tci_min(at_ns, root->resume_ns);
    tci_boot_wake(&root->boot, at_ns);
}

/* A newcomer has to prove that it has the key, where there is one. */
static bool ask_for_proof(struct tci_guest *guest)
{
    const struct tci_boot_result *result = &guest->root->boot.result;
    struct tci_auth_config config = {.keyring = result->keyring,
                                     .place = TCI_AUTH_AT_RENDEZVOUS,
                                     .size = (uint32_t)result->size};

    memcpy(config.group_id, result->group_id, TCI_GROUP_ID);
    return result->keyring == NULL || tci_boot_conn_prove(&guest->conn, &config);
}

/* 0, or the errno that ends the rendezvous. */
static int admit(struct tci_root *root, int fd, const struct tci_addr *from)
{
    struct tci_guest *guest = tci_alloc(sizeof *guest);

    if (guest == NULL) {
        close(fd);
        return ENOMEM;
    }
    guest->root = root;
    guest->state = TCI_GUEST_NEW;
    guest->since_ns = tci_boot_now(&root->boot);
    guest->conn.watch.fn = tci_guest_on_ready;
    if (tci_boot_conn_open(&guest->conn, root->boot.loop, fd, from) != 0) {
        int cause = errno;

        tci_free(guest);
        return cause;
    }
    if (!ask_for_proof(guest)) {
        tci_boot_conn_close(&guest->conn);
        tci_free(guest);
        return ENOMEM;
    }
    tci_list_add(&root->strangers, &guest->link);
    root->strangers_count++;
    return 0;
}

/* No descriptor is left: that of a stranger will do, or one that somebody else closes. */
static void make_room(struct tci_root *root)
{
    struct tci_list *oldest = tci_list_first(&root->strangers);

    if (oldest != NULL) {
        tci_door_turn_away(tci_container_of(oldest, struct tci_guest, link), "descriptors run out");
        return;
    }
    tci_log(TC_LOG_WARN, "rank 0: cannot accept the ranks that come: %s", strerror(errno));
    (void)tci_watch_change(&root->listener, 0);
    root->resume_ns = tci_boot_now(&root->boot) + TCI_ROOT_PAUSE_NS;
}

void tci_door_on_ready(struct tci_watch *watch, uint32_t ready)
{
    struct tci_root *root = tci_container_of(watch, struct tci_root, listener);
    unsigned max = (unsigned)root->boot.result.size + STRANGERS_MAX;

    (void)ready;
    for (int k = 0; k < ACCEPTS_MAX && root->resume_ns == 0; k++) {
        struct tci_addr from;
        int fd = tci_sock_accept(root->boot.result.listener, &from);
        int cause;

        if (fd < 0 && errno == EAGAIN)
            break;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            make_room(root);
            continue;
        }
        cause = fd < 0 ? errno : admit(root, fd, &from);
        if (cause != 0) {
            tci_root_fail_without(root, cause, "accept the ranks that come");
            return;
        }
        if (root->strangers_count > max)
            tci_door_turn_away(
                tci_container_of(tci_list_first(&root->strangers), struct tci_guest, link),
                "too many say nothing");
    }
    tci_door_wake(root);
}

void tci_door_expire(struct tci_root *root, uint64_t now_ns)
{
    struct tci_list *link;

    while ((link = tci_list_first(&root->strangers)) != NULL) {
        struct tci_guest *guest = tci_container_of(link, struct tci_guest, link);

        if (now_ns - guest->since_ns < SILENCE_MAX_NS)
            break;
        tci_door_turn_away(guest, "it says nothing");
    }
}
