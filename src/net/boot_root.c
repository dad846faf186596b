/* boot_root.c - the rendezvous as rank 0 sees it, from where to listen to who is missing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/log.h"
#include "core/random.h"
#include "net/boot_meet.h"
#include "net/boot_root.h"
#include "net/boot_silent.h"
#include "net/boot_text.h"
#include "net/iface.h"
#include "net/sock.h"
#include "tcdist/reactor.h"

void tci_root_set_state(struct tci_root *root, enum tci_root_state state)
{
    TC_ASSERT(state == root->state + 1 || state == TCI_ROOT_ENDED);
    TC_ASSERT(root->state != TCI_ROOT_ENDED);
    root->state = state;
}

void tci_root_fail(struct tci_root *root)
{
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_REFUSE_MAX];
    size_t len = tci_boot_refuse_encode(&root->boot.error, bytes + TCI_BOOT_HEAD);

    tci_root_set_state(root, TCI_ROOT_ENDED);
    tci_boot_head_encode(TCI_BOOT_REFUSE, len, bytes);
    for (int rank = 1; rank < root->boot.result.size && root->guests != NULL; rank++) {
        if (root->guests[rank] != NULL)
            tci_boot_conn_part(&root->guests[rank]->conn, bytes, TCI_BOOT_HEAD + len);
    }
    tci_watch_del(&root->listener);
    tci_resolve_cancel(root->resolve);
    root->resolve = NULL;
    tci_meet_close(root->meet);
    root->meet = NULL;
    tci_boot_end(&root->boot, root->boot.error.pub.status);
}

void tci_root_fail_without(struct tci_root *root, int cause, const char *doing)
{
    tci_error_set(&root->boot.error, cause == ENOMEM ? TC_ERR_ALLOC : TC_ERR_TRANSPORT, 0, 0,
                  "dist_init", "rank 0 cannot %s: %s", doing, strerror(cause));
    tci_root_fail(root);
}

/* ---- Where ----------------------------------------------------------------------------------- */

void tci_root_collect(struct tci_root *root)
{
    tci_root_set_state(root, TCI_ROOT_COLLECTING);
    root->boot.result.addrs[0] = root->bound;
    root->listener.fn = tci_door_on_ready;
    if (tci_watch_add(root->boot.loop, &root->listener, root->boot.result.listener, TC_READABLE) !=
        0)
        tci_root_fail_without(root, errno, "watch the listening socket");
}

/* Where rank 0 listens, of what its name stands for here.  Ranks of other hosts may know it by any
 * of several addresses, or by one where here it is loopback, as in Debian's /etc/hosts. */
static tc_status_t listen_by_name(struct tci_root *root, const struct tci_addr *addrs, size_t count,
                                  struct tci_error *why)
{
    uint16_t port = tci_addr_port(&addrs[0]);
    struct tci_boot *boot = &root->boot;
    const struct tci_addr *only = NULL;
    bool has_loopback = false;
    size_t own = 0;

    if (tci_boot_is_local(boot))
        return tci_boot_listen(boot, addrs, count, &root->bound, why);
    for (size_t k = 0; k < count; k++) {
        if (tci_addr_is_loopback(&addrs[k])) {
            has_loopback = true;
        } else if (tci_iface_has("*", &addrs[k])) {
            only = &addrs[k];
            own++;
        }
    }
    if (own == 1 && !has_loopback)
        return tci_boot_listen(boot, only, 1, &root->bound, why);
    if (own == 0 && !has_loopback)
        return tci_boot_listen(boot, addrs, count, &root->bound, why);
    tci_log(TC_LOG_INFO, "rank 0: %s is %s here: it listens at all addresses of this host",
            boot->text, has_loopback ? "loopback" : "more than one address");
    return tci_boot_listen_all(boot, port, &root->bound, why);
}

/* Of several ports the first that nobody has. */
static tc_status_t listen_on_ports(struct tci_root *root, const struct tci_addr *addrs,
                                   size_t count, bool is_named, struct tci_error *why)
{
    struct tci_boot *boot = &root->boot;
    struct tci_addr at[TCI_RESOLVE_MAX];
    tc_status_t status = TC_OK;

    for (int k = 0; k < boot->meeting.ports; k++) {
        struct tci_error error = {.pub = {.status = TC_OK}};
        uint16_t port = (uint16_t)(tci_addr_port(&addrs[0]) + k);

        for (size_t i = 0; i < count; i++) {
            at[i] = addrs[i];
            tci_addr_set_port(&at[i], port);
        }
        status = is_named ? listen_by_name(root, at, count, &error)
                          : tci_boot_listen(boot, at, count, &root->bound, &error);
        /* An address in front of this host, say, that leads to one of its own. */
        if (status != TC_OK && errno == EADDRNOTAVAIL && boot->meeting.is_loose) {
            error = (struct tci_error){.pub = {.status = TC_OK}};
            status = tci_boot_listen_all(boot, port, &root->bound, &error);
        }
        if (status == TC_OK || k + 1 == boot->meeting.ports || errno != EADDRINUSE) {
            tci_error_copy(why, &error);
            break;
        }
    }
    return status;
}

static void begin_listening(struct tci_root *root, const struct tci_addr *addrs, size_t count,
                            bool is_named)
{
    struct tci_boot *boot = &root->boot;
    struct tci_error why = {.pub = {.status = TC_OK}};
    char text[160];
    tc_status_t status = listen_on_ports(root, addrs, count, is_named, &why);

    if (status == TC_OK) {
        tci_root_collect(root);
        return;
    }
    if (errno == EADDRNOTAVAIL)
        tci_error_set(&boot->error, TC_ERR_RENDEZVOUS, 0, 0, "dist_init",
                      "rank 0 cannot meet the others at %.80s: %.150s; this host has %s",
                      boot->text, why.text, tci_iface_print("*", text, sizeof text));
    else
        tci_error_set(&boot->error, TC_ERR_RENDEZVOUS, 0, 0, "dist_init",
                      "rank 0 cannot meet the others at %.80s: %.200s", boot->text, why.text);
    tci_root_fail(root);
}

static void on_addresses(void *arg, const struct tci_addr *addrs, size_t count,
                         const struct tci_unnamed *why)
{
    struct tci_root *root = arg;

    root->resolve = NULL;
    if (count > 0) {
        begin_listening(root, addrs, count, true);
        return;
    }
    root->why = *why;
    root->resume_ns = tci_boot_now(&root->boot) + TCI_ROOT_PAUSE_NS;
    tci_door_wake(root);
}

static void ask(struct tci_root *root)
{
    root->resolve = tci_resolve_start(root->boot.loop, root->boot.url.host, root->boot.url.port,
                                      on_addresses, root);
    if (root->resolve == NULL)
        tci_root_fail_without(root, errno, "look up the name of the rendezvous");
}

static void begin(struct tci_boot *boot)
{
    struct tci_root *root = tci_container_of(boot, struct tci_root, boot);
    struct tci_addr literal;

    tci_list_init(&root->strangers);
    tci_boot_head_encode(TCI_BOOT_WELCOME, 0, root->welcome);
    tci_boot_head_encode(TCI_BOOT_GO, 0, root->go);
    root->guests = tci_alloc_array((size_t)boot->result.size, sizeof(struct tci_guest *));
    root->table = tci_alloc(TCI_BOOT_HEAD + tci_boot_table_len(boot->result.size));
    if (root->guests == NULL || root->table == NULL)
        tci_root_fail_without(root, ENOMEM, "form a group");
    else if (!tci_random(boot->result.group_id, TCI_GROUP_ID))
        tci_root_fail_without(root, errno, "draw a random group id");
    else if (boot->result.listener >= 0 && !tci_meet_is_meant(boot->text)) {
        if (tci_sock_adopt_listener(boot->result.listener, &root->bound, &boot->error) != TC_OK)
            tci_root_fail(root);
        else
            tci_root_collect(root);
    } else if (tci_meet_is_meant(boot->text))
        tci_root_leave_card(root);
    else if (tci_addr_from_text(boot->url.host, boot->url.port, &literal))
        begin_listening(root, &literal, 1, false);
    else
        ask(root);
}

/* ---- When ------------------------------------------------------------------------------------ */

static void find_missing(const struct tci_root *root, struct tci_boot_missing *missing)
{
    for (int rank = 1; rank < root->boot.result.size; rank++) {
        const struct tci_guest *guest = root->guests[rank];

        if (guest == NULL ||
            (root->state != TCI_ROOT_COLLECTING && guest->state < TCI_GUEST_READY) ||
            (root->state == TCI_ROOT_GOING && !tci_boot_conn_is_idle(&guest->conn)))
            tci_boot_missing_add(missing, rank);
    }
    tci_boot_missing_end(missing);
}

static void blame_name(const struct tci_root *root, const char *time, struct tci_error *error)
{
    tci_error_set(error, TC_ERR_TIMEOUT, 0, 0, "dist_init",
                  "rank 0 has found no address of its own for %.80s within %s (%s)",
                  root->boot.text, time,
                  root->why.text[0] != '\0' ? root->why.text : "the name server is silent");
}

/* Those that are missing have not come.  One that came, and could not prove that it is one of them,
 * has started and reaches this address. */
static void blame_absent(const struct tci_root *root, const struct tci_boot_missing *missing,
                         const char *time, struct tci_error *error)
{
    const struct tci_boot *boot = &root->boot;
    const struct tci_denied *denied = tci_door_denied(root);
    const char *have = missing->count == 1 ? "has" : "have";

    if (tci_root_blame_place(root, time, error))
        return;
    if (denied != NULL) {
        tci_error_blame(error, TC_ERR_AUTH, denied->rank, denied->reason, "dist_init",
                        "%s of %d %s not come to %.60s within %s: %.240s", missing->text,
                        boot->result.size, have, boot->text, time, denied->text);
        return;
    }
    tci_error_blame(error, TC_ERR_TIMEOUT, missing->first, TC_REASON_NEVER_STARTED, "dist_init",
                    "%s of %d %s not come to %.80s within %s%s: start %s, or check that %s this "
                    "address",
                    missing->text, boot->result.size, have, boot->text, time,
                    root->dropped > 0 ? " (strangers have, and were dropped)" : "",
                    missing->count == 1 ? "it" : "them",
                    missing->count == 1 ? "it reaches" : "they reach");
}

/* A name that nobody knows is as a rule misspelt, and else comes with whoever has it. */
static void say(struct tci_boot *boot, const char *time)
{
    struct tci_root *root = tci_container_of(boot, struct tci_root, boot);
    struct tci_boot_missing missing = {.first = -1};
    struct tci_error error = {.pub = {.status = TC_OK}};

    if (root->state == TCI_ROOT_NAMING) {
        blame_name(root, time, &error);
        if (root->why.is_unknown && !boot->is_patient) {
            tci_error_set(&boot->error, TC_ERR_RENDEZVOUS, 0, 0, "dist_init",
                          "%.400s; TCDIST_START_TIMEOUT=SECONDS waits for it", error.text);
            tci_root_fail(root);
            return;
        }
    } else if (root->state == TCI_ROOT_COLLECTING && root->joined + 1 < boot->result.size) {
        find_missing(root, &missing);
        blame_absent(root, &missing, time, &error);
    }
    if (error.pub.status != TC_OK)
        tci_boot_tell(boot, &error);
}

static void on_deadline(struct tci_root *root)
{
    struct tci_boot *boot = &root->boot;
    const struct tci_denied *denied = tci_door_denied(root);
    struct tci_boot_missing missing = {.first = -1};
    int silent = tci_root_find_silent(root);
    char time[32];

    (void)tci_boot_time(boot, time);
    find_missing(root, &missing);
    if (root->state == TCI_ROOT_NAMING)
        blame_name(root, time, &boot->error);
    else if (denied != NULL)
        tci_error_blame(&boot->error, TC_ERR_AUTH, denied->rank, denied->reason, "dist_init", "%s",
                        denied->text);
    else if (silent == 0 || (silent > 0 && root->state != TCI_ROOT_COLLECTING))
        tci_root_blame_silent(root, silent, time);
    else if (root->state == TCI_ROOT_COLLECTING)
        blame_absent(root, &missing, time, &boot->error);
    else
        tci_error_blame(
            &boot->error, TC_ERR_TIMEOUT, missing.first, TC_REASON_LOOP_STALLED, "dist_init",
            "%s of %d joined at %.80s, but %s fallen silent since; waited %s", missing.text,
            boot->result.size, boot->text, missing.count == 1 ? "has" : "have", time);
    tci_root_fail(root);
}

static void on_timer(struct tci_boot *boot)
{
    struct tci_root *root = tci_container_of(boot, struct tci_root, boot);
    uint64_t now = tci_boot_now(boot);

    if (now >= boot->deadline_ns) {
        on_deadline(root);
        return;
    }
    tci_door_expire(root, now);
    if (root->resume_ns != 0 && now >= root->resume_ns) {
        root->resume_ns = 0;
        if (root->state == TCI_ROOT_NAMING)
            ask(root);
        else if (root->state == TCI_ROOT_COLLECTING &&
                 tci_watch_change(&root->listener, TC_READABLE) != 0)
            tci_root_fail_without(root, errno, "watch the listening socket");
    }
    if (root->state != TCI_ROOT_ENDED)
        tci_door_wake(root);
}

static void fini(struct tci_boot *boot)
{
    struct tci_root *root = tci_container_of(boot, struct tci_root, boot);

    tci_resolve_cancel(root->resolve);
    tci_meet_close(root->meet);
    tci_watch_del(&root->listener);
    tci_door_clear(root);
    for (int rank = 1; rank < boot->result.size && root->guests != NULL; rank++) {
        if (root->guests[rank] != NULL)
            tci_boot_conn_close(&root->guests[rank]->conn);
        tci_free(root->guests[rank]);
    }
    tci_free(root->guests);
    tci_free(root->table);
}

const struct tci_boot_role tci_boot_root = {
    .bytes = sizeof(struct tci_root),
    .begin = begin,
    .on_timer = on_timer,
    .ping = tci_root_ping,
    .say = say,
    .fini = fini,
};
