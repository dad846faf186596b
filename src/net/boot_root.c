/* boot_root.c - the rendezvous as rank 0 sees it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/list.h"
#include "core/log.h"
#include "net/boot_conn.h"
#include "net/boot_role.h"
#include "net/boot_text.h"
#include "net/resolve.h"
#include "net/sock.h"
#include "tcdist/reactor.h"

/* A member says JOIN with its first packet; who is silent for so long is none. */
#define SILENCE_MAX_NS (5000 * TCI_NS_PER_MS)
/* Before a name that has no address, or a process that has no descriptor left, is asked again. */
#define PAUSE_NS (100 * TCI_NS_PER_MS)
/* Connections that have not said JOIN: all ranks at once, and some strangers.  One more, and the
 * oldest goes, which is the likeliest to be none of ours. */
enum { STRANGERS_MAX = 64 };
enum { ACCEPTS_MAX = 64 }; /* in one go, so that a flood does not hold the loop */

/*   NAMING --address--> COLLECTING --all joined--> TELLING --all ready--> GOING --all sent--> ENDED
 *
 * and of each connection:
 *
 *   NEW --JOIN--> JOINED --TABLE sent--> TOLD --READY--> READY --GO sent--> GONE
 *    +-- anything else, or nothing: dropped and counted
 *
 * (From JOINED on the loss of a connection ends it all, as the deadline does.)
 */
enum root_state { ROOT_NAMING, ROOT_COLLECTING, ROOT_TELLING, ROOT_GOING, ROOT_ENDED };
enum guest_state { GUEST_NEW, GUEST_JOINED, GUEST_TOLD, GUEST_READY, GUEST_GONE };

struct guest {
    struct tci_boot_conn conn;
    struct tci_list link; /* in root->strangers, while NEW */
    struct root *root;
    enum guest_state state;
    int rank; /* once it has joined */
    uint64_t since_ns;
};

struct root {
    struct tci_boot boot;
    enum root_state state;
    struct tci_resolve *resolve;
    struct tci_watch listener;
    struct tci_addr bound;
    uint64_t resume_ns; /* go on accepting, or ask for the name again; 0: not paused */
    char why[128];      /* the name has no address */

    struct tci_list strangers; /* of struct guest, the oldest first */
    unsigned strangers_count, dropped;
    struct guest **guests; /* owned; by rank */
    int joined, ready;

    uint8_t *table; /* owned: head and body */
    uint8_t welcome[TCI_BOOT_HEAD], go[TCI_BOOT_HEAD];
};

static void set_state(struct root *root, enum root_state state)
{
    TC_ASSERT(state == root->state + 1 || state == ROOT_ENDED);
    TC_ASSERT(root->state != ROOT_ENDED);
    root->state = state;
}

static void set_guest_state(struct guest *guest, enum guest_state state)
{
    TC_ASSERT(state == guest->state + 1);
    guest->state = state;
}

/* ---- Ends ------------------------------------------------------------------------------------- */

static void drop(struct guest *guest)
{
    TC_ASSERT(guest->state == GUEST_NEW);
    tci_list_del(&guest->link);
    guest->root->strangers_count--;
    tci_boot_conn_close(&guest->conn);
    tci_free(guest);
}

static void drop_stranger(struct guest *guest, const char *why)
{
    char where[TCI_ADDR_TEXT];

    guest->root->dropped++;
    tci_log(TC_LOG_DEBUG, "rendezvous: a connection from %s is dropped: %s",
            tci_addr_print(&guest->conn.peer, where), why);
    drop(guest);
}

static void drop_all_strangers(struct root *root)
{
    struct tci_list *link;

    while ((link = tci_list_first(&root->strangers)) != NULL)
        drop(tci_container_of(link, struct guest, link));
}

/* boot.error says why; everyone is told the same. */
static void fail(struct root *root)
{
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_REFUSE_MAX];
    size_t len = tci_boot_refuse_encode(&root->boot.error, bytes + TCI_BOOT_HEAD);

    set_state(root, ROOT_ENDED);
    tci_boot_head_encode(TCI_BOOT_REFUSE, len, bytes);
    for (int rank = 1; rank < root->boot.result.size && root->guests != NULL; rank++) {
        if (root->guests[rank] != NULL)
            tci_boot_conn_part(&root->guests[rank]->conn, bytes, TCI_BOOT_HEAD + len);
    }
    tci_watch_del(&root->listener);
    tci_resolve_cancel(root->resolve);
    root->resolve = NULL;
    tci_boot_end(&root->boot, root->boot.error.pub.status);
}

static void fail_without(struct root *root, int cause, const char *doing)
{
    errno = cause;
    (void)tci_error_system(&root->boot.error, cause == ENOMEM ? TC_ERR_ALLOC : TC_ERR_TRANSPORT,
                           doing);
    fail(root);
}

/* The group cannot be as it was meant; the newcomer that shows it is told as well. */
__attribute__((format(printf, 3, 4))) static void refuse(struct guest *guest, int rank,
                                                         const char *fmt, ...)
{
    struct root *root = guest->root;
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_REFUSE_MAX];
    char text[TCI_BOOT_TEXT_MAX + 1];
    size_t len;
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tci_error_set(&root->boot.error, TC_ERR_RENDEZVOUS, rank, 0, "dist_init", "%s", text);

    len = tci_boot_refuse_encode(&root->boot.error, bytes + TCI_BOOT_HEAD);
    tci_boot_head_encode(TCI_BOOT_REFUSE, len, bytes);
    tci_boot_conn_part(&guest->conn, bytes, TCI_BOOT_HEAD + len);
    drop(guest);
    fail(root);
}

static void lose(struct guest *guest, const char *how)
{
    struct root *root = guest->root;
    char where[TCI_ADDR_TEXT];

    tci_error_set(&root->boot.error, TC_ERR_PEER_LOST, guest->rank, 0, "dist_init",
                  "rank %d at %s went away before the group stood: %s", guest->rank,
                  tci_addr_print(&guest->conn.peer, where), how);
    tci_boot_conn_close(&guest->conn);
    fail(root);
}

static void break_off(struct guest *guest, const char *how)
{
    if (guest->state == GUEST_NEW)
        drop_stranger(guest, how);
    else
        lose(guest, how);
}

/* ---- All have joined, all are ready ----------------------------------------------------------- */

static void go_if_all_sent(struct root *root)
{
    struct tci_boot_result *result = &root->boot.result;

    for (int rank = 1; rank < result->size; rank++) {
        if (!tci_boot_conn_is_idle(&root->guests[rank]->conn))
            return;
    }
    set_state(root, ROOT_ENDED);
    for (int rank = 1; rank < result->size; rank++)
        result->fds[rank] = tci_boot_conn_release(&root->guests[rank]->conn);
    result->local_ranks = tci_boot_count_local(result);
    tci_boot_end(&root->boot, TC_OK);
}

/* What follows READY on a connection is the transport's: it is not read here. */
static void say_go(struct root *root)
{
    set_state(root, ROOT_GOING);
    for (int rank = 1; rank < root->boot.result.size; rank++) {
        struct guest *guest = root->guests[rank];

        set_guest_state(guest, GUEST_GONE);
        tci_boot_conn_stop_reading(&guest->conn);
    }
    for (int rank = 1; rank < root->boot.result.size; rank++) {
        struct guest *guest = root->guests[rank];

        if (!tci_boot_conn_send(&guest->conn, root->go, sizeof root->go)) {
            lose(guest, strerror(errno));
            return;
        }
    }
    go_if_all_sent(root);
}

static void tell(struct root *root)
{
    struct tci_boot_result *result = &root->boot.result;
    size_t len = tci_boot_table_len(result->size);

    /* Who comes from now on is for the transport, which takes over the listener and its queue. */
    tci_watch_del(&root->listener);
    drop_all_strangers(root);
    set_state(root, ROOT_TELLING);

    if (getrandom(result->group_id, sizeof result->group_id, 0) != sizeof result->group_id) {
        fail_without(root, errno, "draw a random group id");
        return;
    }
    tci_boot_head_encode(TCI_BOOT_TABLE, len, root->table);
    tci_boot_table_encode(result, root->table + TCI_BOOT_HEAD);
    for (int rank = 1; rank < result->size; rank++) {
        struct guest *guest = root->guests[rank];

        set_guest_state(guest, GUEST_TOLD);
        if (!tci_boot_conn_send(&guest->conn, root->table, TCI_BOOT_HEAD + len)) {
            lose(guest, strerror(errno));
            return;
        }
    }
}

/* ---- What a guest says ------------------------------------------------------------------------ */

static void welcome(struct guest *guest, const struct tci_boot_join *join)
{
    struct root *root = guest->root;
    struct tci_boot_result *result = &root->boot.result;
    struct tci_addr local;
    int rank = (int)join->rank;

    TC_ASSERT(root->state == ROOT_COLLECTING && root->guests[rank] == NULL);
    tci_list_del(&guest->link);
    root->strangers_count--;
    root->guests[rank] = guest;
    root->joined++;
    guest->rank = rank;
    set_guest_state(guest, GUEST_JOINED);

    tci_sock_local(guest->conn.fd, &local);
    result->addrs[rank] = join->addr;
    tci_addr_adopt_scope(&result->addrs[rank], &local);
    result->hosts[rank] = join->host;

    if (!tci_boot_conn_send(&guest->conn, root->welcome, sizeof root->welcome))
        lose(guest, strerror(errno));
    else if (root->joined == result->size - 1)
        tell(root);
}

static void on_join(struct guest *guest)
{
    struct root *root = guest->root;
    int size = root->boot.result.size;
    struct tci_boot_join join;
    char here[TCI_ADDR_TEXT], there[TCI_ADDR_TEXT];

    if (tci_boot_join_decode(guest->conn.body, &join) != TC_OK) {
        drop_stranger(guest, "its JOIN is garbled");
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

static void on_message(struct guest *guest)
{
    const struct tci_boot_head *head = &guest->conn.head;
    struct root *root = guest->root;
    char here[TCI_ADDR_TEXT];

    if (guest->state == GUEST_NEW && head->type == TCI_BOOT_JOIN) {
        if (head->version == TCI_BOOT_VERSION)
            on_join(guest);
        else
            refuse(guest, -1,
                   "versions differ: rank 0 speaks version %d of the rendezvous, a rank at %s "
                   "version %u; install the same release everywhere",
                   TCI_BOOT_VERSION, tci_addr_print(&guest->conn.peer, here), head->version);
    } else if (guest->state == GUEST_TOLD && head->type == TCI_BOOT_READY &&
               head->version == TCI_BOOT_VERSION) {
        set_guest_state(guest, GUEST_READY);
        root->ready++;
        if (root->ready == root->boot.result.size - 1)
            say_go(root);
    } else {
        break_off(guest, "it says things out of turn");
    }
}

/* One message a turn: the guest may be gone after it, and what is left comes with the next. */
static void on_readable(struct guest *guest)
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
    case TCI_BOOT_READ_ERROR:
        break_off(guest, strerror(errno));
        return;
    }
}

static void on_guest(struct tci_watch *watch, uint32_t ready)
{
    struct guest *guest = tci_container_of(watch, struct guest, conn.watch);
    struct root *root = guest->root;

    if ((ready & TC_WRITABLE) != 0 && !tci_boot_conn_is_idle(&guest->conn)) {
        if (!tci_boot_conn_flush(&guest->conn)) {
            break_off(guest, strerror(errno));
            return;
        }
        if (root->state == ROOT_GOING) {
            go_if_all_sent(root);
            return;
        }
    }
    if ((ready & TC_READABLE) != 0 && guest->state != GUEST_GONE)
        on_readable(guest);
}

/* ---- Who comes -------------------------------------------------------------------------------- */

static void wake(struct root *root)
{
    struct tci_list *oldest = tci_list_first(&root->strangers);
    uint64_t at_ns = root->boot.deadline_ns;

    if (oldest != NULL)
        at_ns =
            tci_min(at_ns, tci_container_of(oldest, struct guest, link)->since_ns + SILENCE_MAX_NS);
    if (root->resume_ns != 0)
        at_ns = tci_min(at_ns, root->resume_ns);
    tci_boot_wake(&root->boot, at_ns);
}

/* 0, or the errno that ends the rendezvous. */
static int admit(struct root *root, int fd, const struct tci_addr *from)
{
    struct guest *guest = tci_alloc(sizeof *guest);

    if (guest == NULL) {
        close(fd);
        return ENOMEM;
    }
    guest->root = root;
    guest->state = GUEST_NEW;
    guest->since_ns = tci_boot_now(&root->boot);
    guest->conn.watch.fn = on_guest;
    if (tci_boot_conn_open(&guest->conn, root->boot.loop, fd, from) != 0) {
        int cause = errno;

        tci_free(guest);
        return cause;
    }
    tci_list_add(&root->strangers, &guest->link);
    root->strangers_count++;
    return 0;
}

/* No descriptor is left: that of a stranger will do, or one that somebody else closes. */
static void make_room(struct root *root)
{
    struct tci_list *oldest = tci_list_first(&root->strangers);

    if (oldest != NULL) {
        drop_stranger(tci_container_of(oldest, struct guest, link), "descriptors run out");
        return;
    }
    tci_log(TC_LOG_WARN, "rank 0: cannot accept the ranks that come: %s", strerror(errno));
    (void)tci_watch_change(&root->listener, 0);
    root->resume_ns = tci_boot_now(&root->boot) + PAUSE_NS;
}

static void on_listener(struct tci_watch *watch, uint32_t ready)
{
    struct root *root = tci_container_of(watch, struct root, listener);
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
            fail_without(root, cause, "accept the ranks that come");
            return;
        }
        if (root->strangers_count > max)
            drop_stranger(tci_container_of(tci_list_first(&root->strangers), struct guest, link),
                          "too many say nothing");
    }
    wake(root);
}

/* ---- Where ------------------------------------------------------------------------------------ */

static void collect(struct root *root)
{
    set_state(root, ROOT_COLLECTING);
    root->boot.result.addrs[0] = root->bound;
    root->listener.fn = on_listener;
    if (tci_watch_add(root->boot.loop, &root->listener, root->boot.result.listener, TC_READABLE) !=
        0)
        fail_without(root, errno, "watch the listening socket");
}

/* The first address of the name that this host has.  One that is taken is an error, and no reason
 * to take the next: the ranks would come to whoever has the first. */
static void listen_on_first(struct root *root, const struct tci_addr *addrs, size_t count)
{
    struct tci_boot *boot = &root->boot;
    tc_status_t status = TC_ERR_TRANSPORT;

    for (size_t k = 0; k < count && status != TC_OK; k++) {
        struct tci_error error = {.pub = {.status = TC_OK}};

        status = tci_sock_listen(&addrs[k], &boot->result.listener, &root->bound, &error);
        if (status == TC_OK)
            break;
        if (k + 1 == count || (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)) {
            tci_error_set(&boot->error, TC_ERR_RENDEZVOUS, 0, 0, "dist_init",
                          "rank 0 cannot meet the others at %.80s: %.200s", boot->text, error.text);
            fail(root);
            return;
        }
    }
    if (tci_addr_is_loopback(&root->bound) && strcmp(boot->url.host, "localhost") != 0 && count > 0)
        tci_log(TC_LOG_INFO, "rank 0: %s is loopback here: ranks of other hosts cannot come",
                boot->text);
    collect(root);
}

static void on_addresses(void *arg, const struct tci_addr *addrs, size_t count, const char *why)
{
    struct root *root = arg;

    root->resolve = NULL;
    if (count > 0) {
        listen_on_first(root, addrs, count);
        return;
    }
    if (root->why[0] == '\0')
        tci_log(TC_LOG_WARN, "rank 0: %s: %s; it is asked again until the deadline",
                root->boot.text, why);
    (void)snprintf(root->why, sizeof root->why, "%s", why);
    root->resume_ns = tci_boot_now(&root->boot) + PAUSE_NS;
    wake(root);
}

static void ask(struct root *root)
{
    root->resolve = tci_resolve_start(root->boot.loop, root->boot.url.host, root->boot.url.port,
                                      on_addresses, root);
    if (root->resolve == NULL)
        fail_without(root, errno, "look up the name of the rendezvous");
}

static void begin(struct tci_boot *boot)
{
    struct root *root = tci_container_of(boot, struct root, boot);
    struct tci_addr literal;

    tci_list_init(&root->strangers);
    tci_boot_head_encode(TCI_BOOT_WELCOME, 0, root->welcome);
    tci_boot_head_encode(TCI_BOOT_GO, 0, root->go);
    root->guests = tci_alloc_array((size_t)boot->result.size, sizeof(struct guest *));
    root->table = tci_alloc(TCI_BOOT_HEAD + tci_boot_table_len(boot->result.size));
    if (root->guests == NULL || root->table == NULL)
        fail_without(root, ENOMEM, "form a group");
    else if (boot->result.listener >= 0) {
        if (tci_sock_adopt_listener(boot->result.listener, &root->bound, &boot->error) != TC_OK)
            fail(root);
        else
            collect(root);
    } else if (tci_addr_from_text(boot->url.host, boot->url.port, &literal))
        listen_on_first(root, &literal, 1);
    else
        ask(root);
}

/* ---- When ------------------------------------------------------------------------------------- */

static void on_deadline(struct root *root)
{
    struct tci_boot *boot = &root->boot;
    struct tci_boot_missing missing = {.first = -1};
    char time[32];

    (void)tci_boot_time(boot, time);
    for (int rank = 1; rank < boot->result.size; rank++) {
        const struct guest *guest = root->guests[rank];

        if (guest == NULL || (root->state != ROOT_COLLECTING && guest->state < GUEST_READY) ||
            (root->state == ROOT_GOING && !tci_boot_conn_is_idle(&guest->conn)))
            tci_boot_missing_add(&missing, rank);
    }
    tci_boot_missing_end(&missing);

    if (root->state == ROOT_NAMING)
        tci_error_set(&boot->error, TC_ERR_TIMEOUT, 0, 0, "dist_init",
                      "rank 0 has found no address of its own for %.80s within %s (%s)", boot->text,
                      time, root->why[0] != '\0' ? root->why : "the name server is silent");
    else if (root->state == ROOT_COLLECTING)
        tci_error_set(
            &boot->error, TC_ERR_TIMEOUT, missing.first, 0, "dist_init",
            "%s of %d %s not come to %.80s within %s%s: start %s, or check that %s this "
            "address",
            missing.text, boot->result.size, missing.count == 1 ? "has" : "have", boot->text, time,
            root->dropped > 0 ? " (strangers have, and were dropped)" : "",
            missing.count == 1 ? "it" : "them", missing.count == 1 ? "it reaches" : "they reach");
    else
        tci_error_set(&boot->error, TC_ERR_TIMEOUT, missing.first, 0, "dist_init",
                      "%s of %d joined at %.80s, but %s fallen silent since; waited %s",
                      missing.text, boot->result.size, boot->text,
                      missing.count == 1 ? "has" : "have", time);
    fail(root);
}

static void on_timer(struct tci_boot *boot)
{
    struct root *root = tci_container_of(boot, struct root, boot);
    uint64_t now = tci_boot_now(boot);
    struct tci_list *link;

    if (now >= boot->deadline_ns) {
        on_deadline(root);
        return;
    }
    while ((link = tci_list_first(&root->strangers)) != NULL) {
        struct guest *guest = tci_container_of(link, struct guest, link);

        if (now - guest->since_ns < SILENCE_MAX_NS)
            break;
        drop_stranger(guest, "it says nothing");
    }
    if (root->resume_ns != 0 && now >= root->resume_ns) {
        root->resume_ns = 0;
        if (root->state == ROOT_NAMING)
            ask(root);
        else if (root->state == ROOT_COLLECTING &&
                 tci_watch_change(&root->listener, TC_READABLE) != 0)
            fail_without(root, errno, "watch the listening socket");
    }
    if (root->state != ROOT_ENDED)
        wake(root);
}

static void fini(struct tci_boot *boot)
{
    struct root *root = tci_container_of(boot, struct root, boot);

    tci_resolve_cancel(root->resolve);
    tci_watch_del(&root->listener);
    drop_all_strangers(root);
    for (int rank = 1; rank < boot->result.size && root->guests != NULL; rank++) {
        if (root->guests[rank] != NULL)
            tci_boot_conn_close(&root->guests[rank]->conn);
        tci_free(root->guests[rank]);
    }
    tci_free(root->guests);
    tci_free(root->table);
}

const struct tci_boot_role tci_boot_root = {
    .bytes = sizeof(struct root),
    .begin = begin,
    .on_timer = on_timer,
    .fini = fini,
};
