/* boot_member.c - the rendezvous as every rank but 0 sees it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "net/boot_away.h"
#include "net/boot_meet.h"
#include "net/boot_member.h"
#include "net/boot_silent.h"
#include "net/iface.h"
#include "net/sock.h"
#include "tcdist/reactor.h"

/* Rank 0 speaks at its deadline and names who is missing; whoever started with it waits for that
 * word a moment longer, rather than know less. */
#define GRACE_NS (500 * TCI_NS_PER_MS)

/* Where there are several ports to try, whoever takes a connection at one of them and then says
 * nothing is left after so long.  A rank 0 that is only slow is left too: so it is long. */
#define PATIENCE_NS (8000 * TCI_NS_PER_MS)

/* After so long it is asked whether dialing will lead anywhere: four packets that asked for a
 * connection, at 0, 1, 3 and 4 s, were not answered then, or have got answers. */
#define JUDGE_NS (4500 * TCI_NS_PER_MS)

enum { IFACES_MAX = 32 }; /* addresses of this host that are looked at */

static void set_state(struct tci_member *member, enum tci_member_state state)
{
    static const unsigned legal[] = {
        [TCI_MEMBER_NAMING] = 1u << TCI_MEMBER_DIALING | 1u << TCI_MEMBER_ENDED,
        [TCI_MEMBER_DIALING] =
            1u << TCI_MEMBER_PROVING | 1u << TCI_MEMBER_JOINING | 1u << TCI_MEMBER_ENDED,
        [TCI_MEMBER_PROVING] =
            1u << TCI_MEMBER_DIALING | 1u << TCI_MEMBER_JOINING | 1u << TCI_MEMBER_ENDED,
        [TCI_MEMBER_JOINING] =
            1u << TCI_MEMBER_DIALING | 1u << TCI_MEMBER_WAITING | 1u << TCI_MEMBER_ENDED,
        [TCI_MEMBER_WAITING] = 1u << TCI_MEMBER_HOLDING | 1u << TCI_MEMBER_ENDED,
        [TCI_MEMBER_HOLDING] = 1u << TCI_MEMBER_ENDED,
        [TCI_MEMBER_ENDED] = 0,
    };

    TC_ASSERT((legal[member->state] >> state & 1u) != 0);
    member->state = state;
}

void tci_member_fail(struct tci_member *member)
{
    set_state(member, TCI_MEMBER_ENDED);
    tci_resolve_cancel(member->resolve);
    member->resolve = NULL;
    tci_boot_conn_close(&member->conn);
    tci_dial_free(member->dial);
    member->dial = NULL;
    tci_meet_close(member->meet);
    member->meet = NULL;
    tci_boot_end(&member->boot, member->boot.error.pub.status);
}

void tci_member_fail_without(struct tci_member *member, int cause, const char *doing)
{
    errno = cause;
    (void)tci_error_system(&member->boot.error, cause == ENOMEM ? TC_ERR_ALLOC : TC_ERR_TRANSPORT,
                           doing);
    tci_member_fail(member);
}

static bool is_meeting_root(const struct tci_member *member)
{
    return member->state == TCI_MEMBER_PROVING || member->state == TCI_MEMBER_JOINING;
}

/* When something is to be done without anybody's word. */
static void set_wake(struct tci_member *member)
{
    uint64_t at_ns = member->boot.deadline_ns;

    if (is_meeting_root(member))
        at_ns = tci_min(at_ns, member->leave_ns);
    if (is_meeting_root(member) || member->state == TCI_MEMBER_DIALING)
        at_ns = tci_min(at_ns, member->judge_ns);
    tci_boot_wake(&member->boot, at_ns);
}

static void lose_root(struct tci_member *member, const char *how)
{
    char where[TCI_ADDR_TEXT];

    tci_error_blame(&member->boot.error, TC_ERR_PEER_LOST, 0, TC_REASON_EXITED, "dist_init",
                    "rank 0 at %s went away before the group stood: %s",
                    tci_addr_print(&member->conn.peer, where), how);
    tci_member_fail(member);
}

void tci_member_leave(struct tci_member *member, const char *how)
{
    char where[TCI_ADDR_TEXT];

    (void)snprintf(member->stranger, sizeof member->stranger, "%s: %s",
                   tci_addr_print(&member->conn.peer, where), how);
    tci_boot_conn_close(&member->conn);
    if (member->boot.place.kind != TCI_PLACE_AT && member->boot.result.listener >= 0) {
        close(member->boot.result.listener);
        member->boot.result.listener = -1;
    }
    member->is_foreign = false;
    set_state(member, TCI_MEMBER_DIALING);
    set_wake(member);
    tci_dial_again(member->dial);
}

static void break_off(struct tci_member *member, const char *how)
{
    if (is_meeting_root(member))
        tci_member_leave(member, how);
    else
        lose_root(member, how);
}

/* ---- The key --------------------------------------------------------------------------------- */

/* There is a rank 0, and we do not come together: that does not change by trying again. */
static void be_denied(struct tci_member *member, const struct tci_auth *auth)
{
    struct tci_boot *boot = &member->boot;
    char where[TCI_ADDR_TEXT], text[300];

    tci_error_blame(&boot->error, TC_ERR_AUTH, boot->result.rank, tci_auth_class(auth->reason),
                    "dist_init", "%s (rank 0 is at %s)", tci_auth_explain(auth, text, sizeof text),
                    tci_addr_print(&member->conn.peer, where));
    tci_boot_conn_part(&member->conn, NULL, 0);
    tci_member_fail(member);
}

static void on_denied(struct tci_member *member)
{
    const struct tci_auth *auth = member->conn.auth;

    if (auth->reason == TCI_AUTH_GARBLED)
        tci_member_leave(member, "it does not speak as a rank 0 with a key does");
    else
        be_denied(member, auth);
}

/* Whoever is there knows of no proof, and says that there will be no group. */
static void on_refuse_without_proof(struct tci_member *member)
{
    const struct tci_auth auth = {.config = {.size = (uint32_t)member->boot.result.size,
                                             .self = (uint32_t)member->boot.result.rank},
                                  .reason = TCI_AUTH_PLAIN};

    be_denied(member, &auth);
}

static tc_status_t take_place(struct tci_member *member, struct tci_addr *reached_out);

/* Listen, and tell rank 0 where. */
static void join(struct tci_member *member)
{
    struct tci_boot_result *result = &member->boot.result;
    struct tci_boot_join join = {
        .size = (uint32_t)result->size,
        .rank = (uint32_t)result->rank,
        .host = result->hosts[result->rank],
        .release = TCI_RELEASE,
        .cpus = member->boot.cpus,
    };

    memcpy(join.job, member->boot.meeting.job, TCI_GROUP_ID);
    if (take_place(member, &join.addr) != TC_OK) {
        tci_member_fail(member);
        return;
    }
    tci_boot_head_encode(TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN, member->join);
    tci_boot_join_encode(&join, member->join + TCI_BOOT_HEAD);
    set_state(member, TCI_MEMBER_JOINING);
    if (!tci_boot_conn_send(&member->conn, member->join, sizeof member->join))
        tci_member_leave(member, strerror(errno));
}

static void prove(struct tci_member *member)
{
    const struct tci_boot_result *result = &member->boot.result;
    const struct tci_auth_config config = {.keyring = result->keyring,
                                           .place = TCI_AUTH_AT_RENDEZVOUS,
                                           .is_dialer = true,
                                           .self = (uint32_t)result->rank,
                                           .size = (uint32_t)result->size};

    set_state(member, TCI_MEMBER_PROVING);
    if (tci_boot_conn_prove(&member->conn, &config))
        return;
    if (errno == ENOMEM)
        tci_member_fail_without(member, ENOMEM, "join a group");
    else
        tci_member_leave(member, strerror(errno));
}

/* ---- What rank 0 says ------------------------------------------------------------------------ */

/* A rank that reached rank 0 by loopback is reached from another host where rank 0 is. */
static void look_from_here(const struct tci_member *member, int rank)
{
    const struct tci_boot_result *result = &member->boot.result;
    uint16_t port = tci_addr_port(&result->addrs[rank]);

    if (port == 0 || !tci_addr_is_loopback(&result->addrs[rank]) ||
        result->hosts[rank] != result->hosts[0] || result->hosts[0] == result->hosts[result->rank])
        return;
    result->addrs[rank] = member->conn.peer;
    tci_addr_set_port(&result->addrs[rank], port);
}

static void on_table(struct tci_member *member)
{
    struct tci_boot_result *result = &member->boot.result;
    struct tci_addr local;

    if (tci_boot_table_decode(member->conn.body, result) != TC_OK ||
        (result->keyring != NULL &&
         memcmp(result->group_id, member->conn.auth->group_id, TCI_GROUP_ID) != 0)) {
        lose_root(member, "its table of addresses is garbled");
        return;
    }
    tci_sock_local(member->conn.fd, &local);
    for (int rank = 0; rank < result->size; rank++) {
        tci_addr_adopt_scope(&result->addrs[rank], &local);
        look_from_here(member, rank);
    }
    /* Where rank 0 was reached is sure to be right, also where it listens on any address. */
    result->addrs[0] = member->conn.peer;
    result->local_ranks = tci_boot_count_local(result);

    set_state(member, TCI_MEMBER_HOLDING);
    tci_boot_head_encode(TCI_BOOT_READY, 0, member->ready);
    if (!tci_boot_conn_send(&member->conn, member->ready, sizeof member->ready))
        lose_root(member, strerror(errno));
}

static void on_go(struct tci_member *member)
{
    if (!tci_boot_conn_is_idle(&member->conn)) {
        lose_root(member, "it does not wait for an answer");
        return;
    }
    set_state(member, TCI_MEMBER_ENDED);
    tci_boot_hand_over(&member->boot, 0, &member->conn);
    tci_boot_end(&member->boot, TC_OK);
}

static void on_message(struct tci_member *member)
{
    const struct tci_boot_head *head = &member->conn.head;

    if (head->type == TCI_BOOT_REFUSE && member->state == TCI_MEMBER_PROVING) {
        on_refuse_without_proof(member);
    } else if (head->type == TCI_BOOT_REFUSE) {
        tci_boot_refuse_decode(member->conn.body, head->len, &member->boot.error);
        tci_member_fail(member);
    } else if (head->version != TCI_BOOT_VERSION) {
        break_off(member, "it speaks another version of the rendezvous");
    } else if (head->type == TCI_BOOT_WELCOME && member->state == TCI_MEMBER_JOINING) {
        set_state(member, TCI_MEMBER_WAITING);
        set_wake(member);
    } else if (head->type == TCI_BOOT_TABLE && member->state == TCI_MEMBER_WAITING) {
        on_table(member);
    } else if (head->type == TCI_BOOT_GO && member->state == TCI_MEMBER_HOLDING) {
        on_go(member);
    } else if (head->type == TCI_BOOT_PING &&
               (member->state == TCI_MEMBER_WAITING || member->state == TCI_MEMBER_HOLDING)) {
        if (!tci_member_pinged(member))
            lose_root(member, "it says without end that it is there");
    } else {
        break_off(member, "it says things out of turn");
    }
}

static void on_readable(struct tci_member *member)
{
    /* Bounded: each message moves the state on, and pings are counted. */
    while (member->conn.fd >= 0) {
        switch (tci_boot_conn_read(&member->conn)) {
        case TCI_BOOT_READ_MORE:
            return;
        case TCI_BOOT_READ_MESSAGE:
            on_message(member);
            break;
        case TCI_BOOT_READ_END:
            break_off(member, "it closed the connection");
            return;
        case TCI_BOOT_READ_GARBAGE:
            break_off(member, "it does not speak as rank 0 of a group does");
            member->is_foreign = true;
            return;
        case TCI_BOOT_READ_PROVEN:
            join(member);
            break;
        case TCI_BOOT_READ_DENIED:
            on_denied(member);
            return;
        case TCI_BOOT_READ_ERROR:
            break_off(member, strerror(errno));
            return;
        }
    }
}

static void on_conn(struct tci_watch *watch, uint32_t ready)
{
    struct tci_member *member = tci_container_of(watch, struct tci_member, conn.watch);

    /* What can be read is looked at first: after a loss it may be the reason. */
    if ((ready & TC_READABLE) != 0)
        on_readable(member);
    if ((ready & TC_WRITABLE) != 0 && member->conn.fd >= 0 && !tci_boot_conn_flush(&member->conn))
        break_off(member, strerror(errno));
}

/* ---- The way there --------------------------------------------------------------------------- */

/* The best address of the chosen interfaces, of the family by which rank 0 is reached if there is
 * one. */
static tc_status_t choose(struct tci_member *member, const struct tci_addr *local,
                          struct tci_addr *at_out)
{
    struct tci_boot *boot = &member->boot;
    struct tci_iface list[IFACES_MAX];
    size_t count = tci_iface_list(boot->interfaces, list, IFACES_MAX), best = 0;
    char text[160];

    if (count == 0) {
        tci_error_set(&boot->error, TC_ERR_INVALID_ARG, boot->result.rank, 0, "dist_init",
                      "rank %d has no address on the interfaces \"%.80s\"; this host has %s",
                      boot->result.rank, boot->interfaces, tci_iface_print("*", text, sizeof text));
        return TC_ERR_INVALID_ARG;
    }
    while (best < count && list[best].addr.sa.ss_family != local->sa.ss_family)
        best++;
    *at_out = list[best < count ? best : 0].addr;
    return TC_OK;
}

/* Listen where we are reached by those who reach rank 0, and nowhere else.  From loopback that
 * would be nobody of another host: then at all addresses, and who comes from there finds this rank
 * by that of rank 0. */
static tc_status_t listen_beside(struct tci_member *member, const struct tci_addr *local,
                                 struct tci_addr *bound_out)
{
    struct tci_boot *boot = &member->boot;
    struct tci_addr at = *local;
    tc_status_t status = TC_OK;

    if (boot->interfaces != NULL && !tci_iface_has(boot->interfaces, local))
        status = choose(member, local, &at);
    else if (tci_addr_is_loopback(local) && !tci_boot_is_local(boot))
        status = tci_boot_listen_all(boot, 0, bound_out, &boot->error);
    if (status != TC_OK)
        return status;
    if (boot->result.listener >= 0) {
        tci_addr_set_port(&at, tci_addr_port(bound_out));
        *bound_out = at;
        return TC_OK;
    }
    tci_addr_set_port(&at, 0);
    return tci_sock_listen(&at, &boot->result.listener, bound_out, &boot->error);
}

/* The others come to the advertised address.  Where that is not of this host, something in front
 * of it (a translating router, an overlay) has to bring them to the same port here. */
static tc_status_t listen_advertised(struct tci_member *member, const struct tci_addr *local,
                                     struct tci_addr *reached_out)
{
    struct tci_addr at = member->place, bound;
    struct tci_error why = {.pub = {.status = TC_OK}};
    tc_status_t status;

    tci_addr_set_port(&at, 0);
    status = tci_sock_listen(&at, &member->boot.result.listener, &bound, &why);
    if (status != TC_OK && errno == EADDRNOTAVAIL)
        status = listen_beside(member, local, &bound);
    else if (status != TC_OK)
        tci_error_copy(&member->boot.error, &why);
    if (status != TC_OK)
        return status;
    *reached_out = member->place;
    tci_addr_set_port(reached_out, tci_addr_port(&bound));
    return TC_OK;
}

/* Listen, unless we do, and say where we are reached. */
static tc_status_t take_place(struct tci_member *member, struct tci_addr *reached_out)
{
    struct tci_addr local;

    tci_sock_local(member->conn.fd, &local);
    if (local.len == 0) {
        errno = ENOTCONN;
        return tci_error_system(&member->boot.error, TC_ERR_TRANSPORT,
                                "ask for the own address of a connection");
    }
    switch (member->boot.place.kind) {
    case TCI_PLACE_BESIDE:
        return listen_beside(member, &local, reached_out);
    case TCI_PLACE_ADVERTISED:
        return listen_advertised(member, &local, reached_out);
    case TCI_PLACE_AT:
        break;
    }
    *reached_out = member->place;
    if (tci_addr_is_any(&member->place)) {
        *reached_out = local;
        tci_addr_set_port(reached_out, tci_addr_port(&member->place));
    }
    return TC_OK;
}

void tci_member_dialed(void *arg, int fd, const struct tci_addr *peer, int cause)
{
    struct tci_member *member = arg;

    if (fd < 0) {
        tci_member_fail_without(member, cause, "connect to rank 0");
        return;
    }
    if (tci_boot_conn_open(&member->conn, member->boot.loop, fd, peer) != 0) {
        tci_member_fail_without(member, errno, "watch the connection to rank 0");
        return;
    }
    member->leave_ns = TCI_NEVER;
    if (member->boot.meeting.ports > 1 || member->meet != NULL)
        member->leave_ns = tci_boot_now(&member->boot) + PATIENCE_NS;
    if (member->boot.result.keyring != NULL)
        prove(member);
    else
        join(member);
    set_wake(member);
}

void tci_member_begin_dial(struct tci_member *member)
{
    member->judge_ns = member->boot.is_patient ? TCI_NEVER : tci_boot_now(&member->boot) + JUDGE_NS;
    set_wake(member);
}

static void start_dialing(struct tci_member *member)
{
    struct tci_boot *boot = &member->boot;

    set_state(member, TCI_MEMBER_DIALING);
    if (tci_meet_is_meant(boot->text)) {
        tci_member_find_card(member);
        return;
    }
    member->dial =
        tci_dial_start(boot->loop, boot->url.host, boot->url.port, tci_member_dialed, member);
    if (member->dial == NULL) {
        tci_member_fail_without(member, ENOMEM, "join a group");
        return;
    }
    tci_dial_spread(member->dial, boot->meeting.ports);
    tci_member_begin_dial(member);
}

/* A place of one's own is taken before anybody is told of it. */
static void on_place(void *arg, const struct tci_addr *addrs, size_t count,
                     const struct tci_unnamed *why)
{
    struct tci_member *member = arg;
    struct tci_boot *boot = &member->boot;
    struct tci_error error = {.pub = {.status = TC_OK}};

    member->resolve = NULL;
    if (count == 0)
        tci_error_set(&boot->error, TC_ERR_RENDEZVOUS, boot->result.rank, 0, "dist_init",
                      "rank %d has no address for %.80s: %.100s", boot->result.rank,
                      boot->place.text, why->text);
    else if (boot->place.kind == TCI_PLACE_ADVERTISED)
        member->place = addrs[0];
    else if (tci_boot_listen(boot, addrs, count, &member->place, &error) != TC_OK)
        tci_error_set(&boot->error, TC_ERR_RENDEZVOUS, boot->result.rank, 0, "dist_init",
                      "rank %d cannot listen at %.80s: %.200s", boot->result.rank, boot->place.text,
                      error.text);
    if (boot->error.pub.status == TC_OK)
        start_dialing(member);
    else
        tci_member_fail(member);
}

static void ask(struct tci_member *member)
{
    const struct tci_url *url = &member->boot.place.url;

    member->resolve = tci_resolve_start(member->boot.loop, url->host, url->port, on_place, member);
    if (member->resolve == NULL)
        tci_member_fail_without(member, errno, "look up the name to listen at");
}

static void begin(struct tci_boot *boot)
{
    struct tci_member *member = tci_container_of(boot, struct tci_member, boot);
    struct tci_addr literal;

    member->conn.fd = -1;
    member->leave_ns = member->judge_ns = TCI_NEVER;
    member->conn.watch.fn = on_conn;
    member->conn.large_len = (uint32_t)tci_boot_table_len(boot->result.size);
    member->table = tci_alloc(member->conn.large_len);
    member->conn.large = member->table;
    if (member->table == NULL)
        tci_member_fail_without(member, ENOMEM, "join a group");
    else if (boot->place.kind == TCI_PLACE_BESIDE)
        start_dialing(member);
    else if (tci_addr_from_text(boot->place.url.host, boot->place.url.port, &literal))
        on_place(member, &literal, 1, NULL);
    else
        ask(member);
}

static void on_deadline(struct tci_boot *boot)
{
    struct tci_member *member = tci_container_of(boot, struct tci_member, boot);
    char time[32];

    (void)tci_boot_time(boot, time);
    if ((member->state == TCI_MEMBER_WAITING || member->state == TCI_MEMBER_HOLDING) &&
        !member->is_in_grace) {
        member->is_in_grace = true;
        tci_boot_wake(boot, tci_boot_now(boot) + GRACE_NS);
        return;
    }
    if (member->state == TCI_MEMBER_WAITING || member->state == TCI_MEMBER_HOLDING)
        tci_member_blame_root(member, time, &boot->error);
    else
        tci_member_blame_away(member, time, &boot->error);
    tci_member_fail(member);
}

static void on_timer(struct tci_boot *boot)
{
    struct tci_member *member = tci_container_of(boot, struct tci_member, boot);
    uint64_t now_ns = tci_boot_now(boot);

    if (now_ns >= boot->deadline_ns) {
        on_deadline(boot);
        return;
    }
    if (is_meeting_root(member) && now_ns >= member->leave_ns)
        tci_member_leave(member, "it says nothing");
    if (now_ns >= member->judge_ns)
        tci_member_judge(member);
    if (member->state != TCI_MEMBER_ENDED)
        set_wake(member);
}

static void fini(struct tci_boot *boot)
{
    struct tci_member *member = tci_container_of(boot, struct tci_member, boot);

    tci_resolve_cancel(member->resolve);
    tci_boot_conn_close(&member->conn);
    tci_dial_free(member->dial);
    tci_meet_close(member->meet);
    tci_free(member->table);
}

const struct tci_boot_role tci_boot_member = {
    .bytes = sizeof(struct tci_member),
    .begin = begin,
    .on_timer = on_timer,
    .ping = tci_member_ping,
    .say = tci_member_say,
    .fini = fini,
};
