/* boot_meet.c - a rendezvous at a place where rank 0 leaves a card with its addresses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot_meet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/log.h"
#include "core/random.h"
#include "net/iface.h"
#include "net/sock.h"

/*   rank 0:  listens -- card --> the place;  all have joined;  the card goes;  TABLE and so on
 *   others:  look -- card --> dial its addresses;  refused, or a stranger: look for a newer card
 *
 * A card that a job has left behind leads nowhere, or to somebody who knows nothing of the number
 * on it; its readers go on looking, and the next rank 0 puts its own in its place.  It goes before
 * anybody has the table: whoever meets there again finds the new one or none. */

tc_status_t tci_boot_check_meet(struct tci_boot *boot)
{
    boot->url = (struct tci_url){.scheme = TCI_SCHEME_TCP};
    if (boot->meeting.is_local)
        (void)snprintf(boot->url.host, sizeof(boot->url.host), "localhost");
    return tci_meet_check(boot->text, &boot->error);
}

/* ---- Rank 0 -------------------------------------------------------------------------------- */

/* On the same port as before, where a process manager told the others once and for all. */
static bool recall(struct tci_root *root, struct tci_card *card, uint16_t *port)
{
    char text[TCI_CARD_TEXT];
    struct tci_url url;

    if (!tci_meet_again(root->boot.text, text) || !tci_card_parse(text, card) ||
        !tci_url_from_print(card->addrs[0], &url))
        return false;
    *port = url.port;
    return true;
}

static tc_status_t listen_wide(struct tci_root *root, uint16_t port)
{
    struct tci_boot *boot = &root->boot;
    struct tci_addr loopback[2];

    if (!boot->meeting.is_local)
        return tci_boot_listen_all(boot, port, &root->bound, &boot->error);
    (void)tci_addr_from_text("127.0.0.1", port, &loopback[0]);
    (void)tci_addr_from_text("::1", port, &loopback[1]);
    return tci_boot_listen(boot, loopback, 2, &root->bound, &boot->error);
}

/* Addresses that mean the same on other hosts come first; those with a scope only if there is no
 * other, and loopback if there is nothing else. */
static void list_addresses(const struct tci_root *root, struct tci_card *card)
{
    const struct tci_boot *boot = &root->boot;
    struct tci_iface list[16];
    size_t count = tci_iface_list(boot->interfaces, list, 16);
    char text[TCI_ADDR_TEXT];

    for (int scoped = 0; scoped < 2 && card->count == 0; scoped++)
        for (size_t k = 0; k < count; k++) {
            (void)tci_addr_print(&list[k].addr, text);
            if ((strchr(text, '%') != NULL) != (scoped == 1))
                continue;
            tci_addr_set_port(&list[k].addr, tci_addr_port(&root->bound));
            (void)tci_card_add(card, tci_addr_print(&list[k].addr, text));
        }
    if (card->count > 0)
        return;
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", (unsigned)tci_addr_port(&root->bound));
    (void)tci_card_add(card, text);
}

static bool fill_card(struct tci_root *root, struct tci_card *card)
{
    const struct tci_boot *boot = &root->boot;
    const char *host = boot->place.url.host;
    char text[TCI_ADDR_TEXT + 300];

    tci_card_init(card, boot->result.hosts[0], boot->result.size);
    if (!tci_random(card->job, sizeof(card->job)))
        return false;
    if (boot->meeting.is_local) {
        (void)tci_card_add(card, tci_addr_print(&root->bound, text));
    } else if (boot->place.kind == TCI_PLACE_ADVERTISED) {
        (void)snprintf(text, sizeof(text), strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                       (unsigned)tci_addr_port(&root->bound));
        (void)tci_card_add(card, text);
    } else {
        list_addresses(root, card);
    }
    return card->count > 0;
}

static void on_root_event(void *arg, enum tci_meet_event event, const struct tci_card *card,
                          const struct tci_error *error)
{
    struct tci_root *root = arg;

    (void)card;
    if (event == TCI_MEET_POSTED) {
        root->is_posted = true;
    } else if (event == TCI_MEET_FAILED && !root->is_withdrawing) {
        tci_error_set(&root->boot.error, error->pub.status, 0, 0, "dist_init",
                      "rank 0 cannot leave word for the others: %.300s", error->text);
        tci_root_fail(root);
    } else if (event == TCI_MEET_WITHDRAWN || event == TCI_MEET_FAILED) {
        TC_ASSERT(root->is_withdrawing);
        tci_meet_close(root->meet);
        root->meet = NULL;
        if (root->state == TCI_ROOT_COLLECTING)
            tci_guest_tell_all(root);
    }
}

void tci_root_leave_card(struct tci_root *root)
{
    struct tci_boot *boot = &root->boot;
    struct tci_card card;
    struct tci_meet_config config = {.url = boot->text,
                                     .size = boot->result.size,
                                     .host = boot->result.hosts[0],
                                     .side = boot->meeting.side,
                                     .card = &card};
    uint16_t port = 0;
    bool is_again;

    if (boot->result.listener >= 0) { /* an inherited one has an address that nobody was told */
        close(boot->result.listener);
        boot->result.listener = -1;
    }
    is_again = recall(root, &card, &port);
    if (listen_wide(root, port) != TC_OK) {
        tci_root_fail(root);
        return;
    }
    if (!is_again && !fill_card(root, &card)) {
        tci_root_fail_without(root, EADDRNOTAVAIL, "find an address of this host to be reached by");
        return;
    }
    memcpy(boot->meeting.job, card.job, TCI_GROUP_ID);
    root->meet = tci_meet_start(boot->loop, &config, on_root_event, root);
    if (root->meet == NULL) {
        tci_root_fail_without(root, errno, "leave word for the other ranks");
        return;
    }
    tci_log(TC_LOG_INFO, "rank 0: at %.200s it says that it listens at %s%s", boot->text,
            card.addrs[0], card.count > 1 ? " and others" : "");
    tci_root_collect(root);
}

bool tci_root_take_card(struct tci_root *root)
{
    if (root->meet == NULL)
        return false;
    root->is_withdrawing = true;
    tci_meet_withdraw(root->meet);
    return true;
}

bool tci_root_blame_place(const struct tci_root *root, const char *time, struct tci_error *error)
{
    char last[160];

    if (root->meet == NULL || root->is_posted)
        return false;
    (void)tci_meet_last(root->meet, last);
    if (last[0] == '\0' && tci_meet_exchanges(root->meet)) /* it waits for the others itself */
        return false;
    tci_error_set(error, TC_ERR_TIMEOUT, 0, 0, "dist_init",
                  "rank 0 has left no word for the others at %.100s within %s (%.150s): check that "
                  "this place is there, and that rank 0 may write to it",
                  root->boot.text, time, last[0] != '\0' ? last : "it has not answered yet");
    return true;
}

/* ---- The others ---------------------------------------------------------------------------- */

static size_t read_addresses(const struct tci_card *card, struct tci_addr *addrs)
{
    size_t count = 0;

    for (size_t k = 0; k < card->count; k++) {
        struct tci_url url;

        if (tci_url_from_print(card->addrs[k], &url) &&
            tci_addr_from_text(url.host, url.port, &addrs[count]))
            count++;
    }
    return count;
}

static void dial_card(struct tci_member *member, const struct tci_card *card)
{
    struct tci_boot *boot = &member->boot;
    struct tci_addr addrs[TCI_CARD_ADDRS];
    size_t count = read_addresses(card, addrs);

    tci_dial_free(member->dial);
    member->dial = NULL;
    memcpy(boot->meeting.job, card->job, TCI_GROUP_ID);
    if (count > 0)
        member->dial = tci_dial_start_at(boot->loop, addrs, count, tci_member_dialed, member);
    else if (tci_url_from_print(card->addrs[0], &boot->url)) /* the name that rank 0 advertises */
        member->dial =
            tci_dial_start(boot->loop, boot->url.host, boot->url.port, tci_member_dialed, member);
    else
        return; /* nothing on it can be read here: another one may come */
    if (member->dial == NULL)
        tci_member_fail_without(member, ENOMEM, "join a group");
    else
        tci_member_begin_dial(member);
}

static void on_member_event(void *arg, enum tci_meet_event event, const struct tci_card *card,
                            const struct tci_error *error)
{
    struct tci_member *member = arg;

    if (event == TCI_MEET_FAILED) {
        tci_error_set(&member->boot.error, error->pub.status, -1, 0, "dist_init",
                      "rank %d cannot look for word of rank 0: %.300s", member->boot.result.rank,
                      error->text);
        tci_member_fail(member);
        return;
    }
    if (member->state == TCI_MEMBER_PROVING || member->state == TCI_MEMBER_JOINING)
        tci_member_leave(member, "it is not the one of the newest card");
    if (member->state == TCI_MEMBER_DIALING)
        dial_card(member, card);
}

void tci_member_find_card(struct tci_member *member)
{
    struct tci_boot *boot = &member->boot;
    const struct tci_meet_config config = {.url = boot->text,
                                           .rank = boot->result.rank,
                                           .size = boot->result.size,
                                           .host = boot->result.hosts[boot->result.rank],
                                           .side = boot->meeting.side};

    member->meet = tci_meet_start(boot->loop, &config, on_member_event, member);
    if (member->meet == NULL)
        tci_member_fail_without(member, errno, "look for word of rank 0");
}

void tci_member_blame_place(const struct tci_member *member, const char *time,
                            struct tci_error *error)
{
    char last[160];

    (void)tci_meet_last(member->meet, last);
    tci_error_blame(error, TC_ERR_TIMEOUT, 0, TC_REASON_NEVER_STARTED, "dist_init",
                    "rank %d has found no word of rank 0 at %.100s within %s%s%.100s%s: start rank "
                    "0, or check that both see the same place",
                    member->boot.result.rank, member->boot.text, time, last[0] != '\0' ? " (" : "",
                    last, last[0] != '\0' ? ")" : "");
}
