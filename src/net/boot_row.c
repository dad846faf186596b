/* boot_row.c - the rendezvous of ranks that are linked already: by descriptors of the caller. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/random.h"
#include "net/boot_conn.h"
#include "net/boot_role.h"
#include "net/boot_text.h"
#include "tcdist/reactor.h"

/*   rank r                              rank r + 1
 *      | -- ROW of r -------------------> |    on each connection, to each side: who is there
 *      | -- ROW of r - 1, r - 2, … ------> |    to the right alone, as they come from the left
 *      | <- REFUSE ---------------------> |    there will be no group, and why; passed on
 *
 * With a key both prove that they have it first, on each connection: the higher rank begins, as if
 * it had dialed the lower one.  ROWs are sealed then.
 *
 * A rank that has the ROWs of all ranks, and has passed them on, knows the group; what it says next
 * belongs to the transport, and comes behind its last ROW.
 */

enum { RECORD = TCI_BOOT_HEAD + TCI_BOOT_ROW_LEN };

struct peer {
    struct tci_boot_conn conn;
    struct row *row;
    int rank;
    int came, wanted; /* ROWs from there */
    bool is_open;     /* nothing is to be proven any more */
    bool is_broken;   /* nothing can be said to it */
};

struct row {
    struct tci_boot boot;
    struct peer **peers; /* owned; by rank, NULL where there is no descriptor */
    uint8_t *records;    /* owned; by rank */
    bool *is_known;      /* owned; by rank */
    int passed_on;       /* of the ROWs that came from the left */
    bool is_over;
};

static struct row *row_of(struct tci_boot *boot)
{
    return tci_container_of(boot, struct row, boot);
}

/* The rank that is `steps` before this one. */
static int before(const struct row *row, int steps)
{
    int size = row->boot.result.size;

    return (row->boot.result.rank + size - steps) % size;
}

static void on_readable(struct peer *peer);

/* ---- The end -------------------------------------------------------------------------------- */

/* boot.error says why; all that are reached are told the same. */
static void fail(struct row *row)
{
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_REFUSE_MAX];
    size_t len = tci_boot_refuse_encode(&row->boot.error, bytes + TCI_BOOT_HEAD);

    row->is_over = true;
    tci_boot_head_encode(TCI_BOOT_REFUSE, len, bytes);
    for (int rank = 0; rank < row->boot.result.size && row->peers != NULL; rank++)
        if (row->peers[rank] != NULL)
            tci_boot_conn_part(&row->peers[rank]->conn, bytes, TCI_BOOT_HEAD + len);
    tci_boot_end(&row->boot, row->boot.error.pub.status);
}

static void fail_without(struct row *row, int cause, const char *doing)
{
    errno = cause;
    (void)tci_error_system(&row->boot.error, cause == ENOMEM ? TC_ERR_ALLOC : TC_ERR_TRANSPORT,
                           doing);
    fail(row);
}

static void lose(struct peer *peer, const char *how)
{
    struct row *row = peer->row;

    tci_error_set(
        &row->boot.error, TC_ERR_PEER_LOST, peer->rank, 0, "dist_init",
        "rank %d, linked with rank %d by descriptor %d, went away before the group stood: "
        "%s",
        peer->rank, row->boot.result.rank, peer->conn.fd, how);
    tci_boot_conn_close(&peer->conn);
    fail(row);
}

/* Nothing can be said to a rank any more: it may have said why. */
static void break_off(struct peer *peer, int cause)
{
    peer->is_broken = true;
    on_readable(peer);
    if (!peer->row->is_over)
        lose(peer, strerror(cause));
}

static void refuse(struct row *row, int rank, const char *text)
{
    tci_error_set(&row->boot.error, TC_ERR_RENDEZVOUS, rank, 0, "dist_init", "%s", text);
    fail(row);
}

/* Each rank has heard the same of all. */
static void count_cores(struct row *row)
{
    row->boot.cpus = (struct tci_cpus){{0}};
    for (int rank = 0; rank < row->boot.result.size; rank++) {
        const uint8_t *record = row->records + (size_t)rank * RECORD;
        struct tci_boot_row said;

        if (row->boot.result.hosts[rank] == row->boot.result.hosts[0] &&
            tci_boot_row_decode(record + TCI_BOOT_HEAD, &said) == TC_OK)
            tci_cpus_add(&row->boot.cpus, &said.cpus);
    }
    tci_boot_count_cores(&row->boot);
}

static void finish_if_done(struct row *row)
{
    struct tci_boot_result *result = &row->boot.result;

    for (int rank = 0; rank < result->size; rank++) {
        const struct peer *peer = row->peers[rank];

        if (peer != NULL && (peer->came < peer->wanted || !tci_boot_conn_is_idle(&peer->conn)))
            return;
    }
    if (row->passed_on < result->size - 2)
        return;
    for (int rank = 0; rank < result->size; rank++)
        if (row->peers[rank] != NULL)
            tci_boot_hand_over(&row->boot, rank, &row->peers[rank]->conn);
    result->local_ranks = tci_boot_count_local(result);
    count_cores(row);
    /* Descriptors are of this machine: the hosts are what they are. */
    memcpy(result->labels, result->hosts, (size_t)result->size * sizeof *result->labels);
    row->is_over = true;
    tci_boot_end(&row->boot, TC_OK);
}

/* Whether what comes is still for us.  The right neighbour has nothing to say to the transport
 * before it has heard everything from here, but may refuse until then. */
static bool listens_to(const struct peer *peer)
{
    const struct row *row = peer->row;

    if (row->is_over)
        return false;
    if (peer->came < peer->wanted || peer->is_broken)
        return true;
    return peer->rank == before(row, -1) && peer->rank != before(row, 1) &&
           (row->passed_on < row->boot.result.size - 2 || !tci_boot_conn_is_idle(&peer->conn));
}

static void stop_listening_if_done(struct peer *peer)
{
    if (!peer->row->is_over && !listens_to(peer))
        tci_boot_conn_stop_reading(&peer->conn);
}

/* ---- ROWs ----------------------------------------------------------------------------------- */

/* To the right goes what came from the left, but for the ROW of the right one itself. */
static void pass_on(struct row *row)
{
    struct peer *left = row->peers[before(row, 1)], *right = row->peers[before(row, -1)];

    while (right->is_open && row->passed_on < row->boot.result.size - 2 &&
           row->passed_on < left->came && right->conn.out_count < TCI_BOOT_OUT_MAX) {
        int origin = before(row, 1 + row->passed_on);

        row->passed_on++;
        if (!tci_boot_conn_send(&right->conn, row->records + (size_t)origin * RECORD, RECORD)) {
            break_off(right, errno);
            return;
        }
    }
}

/* What is wrong with a ROW, in words; NULL: nothing. */
static const char *check_row(const struct peer *peer, const struct tci_boot_row *said, int expected,
                             char *text, size_t text_bytes)
{
    const struct tci_boot_result *result = &peer->row->boot.result;

    if (said->size != (uint32_t)result->size)
        (void)snprintf(text, text_bytes,
                       "world sizes differ: rank %d was started with %d, the one behind its "
                       "descriptor %d with %u",
                       result->rank, result->size, peer->conn.fd, said->size);
    else if (said->rank != (uint32_t)expected)
        (void)snprintf(text, text_bytes,
                       "descriptor %d of rank %d leads to rank %d by its URL, but rank %u speaks "
                       "there where rank %d should: see which end each rank was given",
                       peer->conn.fd, result->rank, peer->rank, said->rank, expected);
    else if (said->is_ring != result->is_ring)
        (void)snprintf(text, text_bytes,
                       "rank %d was given descriptors to %s, rank %d to %s: give all alike",
                       result->rank, result->is_ring ? "its neighbours" : "all ranks", expected,
                       said->is_ring ? "its neighbours" : "all ranks");
    else
        return NULL;
    return text;
}

static void on_row(struct peer *peer)
{
    struct row *row = peer->row;
    struct tci_boot_result *result = &row->boot.result;
    bool is_left = peer->rank == before(row, 1);
    int expected = is_left ? before(row, 1 + peer->came) : peer->rank;
    struct tci_boot_row said;
    char text[300];
    uint8_t *record = row->records + (size_t)expected * RECORD;

    if (tci_boot_row_decode(peer->conn.body, &said) != TC_OK) {
        lose(peer, "what it says of itself is garbled");
        return;
    }
    if (check_row(peer, &said, expected, text, sizeof text) != NULL) {
        refuse(row, expected, text);
        return;
    }
    tci_boot_head_encode(TCI_BOOT_ROW, TCI_BOOT_ROW_LEN, record);
    memcpy(record + TCI_BOOT_HEAD, peer->conn.body, TCI_BOOT_ROW_LEN);
    row->is_known[expected] = true;
    result->hosts[expected] = said.host;
    if (expected == 0) {
        result->agreed = said.agreed;
        memcpy(result->group_id, said.group_id, TCI_GROUP_ID);
    }
    peer->came++;
    if (is_left)
        pass_on(row);
}

/* ---- The key -------------------------------------------------------------------------------- */

static void say_own_row(struct peer *peer)
{
    struct row *row = peer->row;

    peer->is_open = true;
    if (!tci_boot_conn_send(&peer->conn, row->records + (size_t)row->boot.result.rank * RECORD,
                            RECORD))
        break_off(peer, errno);
}

static void prove(struct peer *peer)
{
    const struct tci_boot_result *result = &peer->row->boot.result;
    const struct tci_auth_config config = {.keyring = result->keyring,
                                           .place = TCI_AUTH_AT_DESCRIPTOR,
                                           .is_dialer = result->rank > peer->rank,
                                           .self = (uint32_t)result->rank,
                                           .size = (uint32_t)result->size,
                                           .peer = (uint32_t)peer->rank};

    if (tci_boot_conn_prove(&peer->conn, &config))
        return;
    if (errno == ENOMEM)
        fail_without(peer->row, ENOMEM, "form a group");
    else
        break_off(peer, errno);
}

static void be_denied(struct peer *peer, const struct tci_auth *auth)
{
    struct row *row = peer->row;
    char text[300];

    tci_error_blame(&row->boot.error, TC_ERR_AUTH, peer->rank, tci_auth_class(auth->reason),
                    "dist_init", "%s (they are linked by descriptor %d of rank %d)",
                    tci_auth_explain(auth, text, sizeof text), peer->conn.fd,
                    row->boot.result.rank);
    fail(row);
}

/* One of the two has a key. */
static void be_unlike(struct peer *peer, enum tci_auth_reason reason)
{
    const struct tci_boot_result *result = &peer->row->boot.result;
    const struct tci_auth auth = {
        .config = {.size = (uint32_t)result->size, .self = (uint32_t)result->rank},
        .peer = (uint32_t)peer->rank,
        .reason = reason};

    be_denied(peer, &auth);
}

static void on_proven(struct peer *peer)
{
    char text[200];

    if (peer->conn.auth->peer == (uint32_t)peer->rank) {
        say_own_row(peer);
        return;
    }
    (void)snprintf(
        text, sizeof text,
        "descriptor %d of rank %d leads to rank %d by its URL, but rank %u proves itself "
        "there: see which end each rank was given",
        peer->conn.fd, peer->row->boot.result.rank, peer->rank, peer->conn.auth->peer);
    refuse(peer->row, peer->rank, text);
}

static void on_message(struct peer *peer)
{
    const struct tci_boot_head *head = &peer->conn.head;
    struct row *row = peer->row;

    if (head->type == TCI_BOOT_REFUSE) {
        tci_boot_refuse_decode(peer->conn.body, head->len, &row->boot.error);
        tci_boot_conn_close(&peer->conn);
        fail(row);
    } else if (row->boot.result.keyring == NULL && head->type == TCI_BOOT_OFFER) {
        be_unlike(peer, TCI_AUTH_NO_KEY);
    } else if (!peer->is_open && head->type == TCI_BOOT_ROW) {
        be_unlike(peer, TCI_AUTH_PLAIN);
    } else if (head->version != TCI_BOOT_VERSION) {
        refuse(row, peer->rank,
               "versions of the rendezvous differ: install the same release everywhere");
    } else if (head->type == TCI_BOOT_ROW && peer->came < peer->wanted) {
        on_row(peer);
    } else {
        lose(peer, "it says things out of turn");
    }
}

/* Who gives the group up before it has our FINISH can seal nothing yet. */
static void take_plain_end(struct peer *peer)
{
    uint8_t bytes[TCI_BOOT_HEAD];
    struct tci_boot_head head;

    if (peer->conn.crypt == NULL || peer->came > 0 ||
        recv(peer->conn.fd, bytes, sizeof bytes, MSG_PEEK) != (ssize_t)sizeof bytes ||
        tci_boot_head_decode(bytes, &head) != TC_OK || head.type != TCI_BOOT_REFUSE)
        return;
    tci_crypt_free(peer->conn.crypt);
    peer->conn.crypt = NULL;
    peer->conn.out_count = 0; /* nothing is to be said to it any more */
    peer->is_open = false;
}

static void on_readable(struct peer *peer)
{
    bool was_proving = !peer->is_open;

    /* Bounded by the ROWs that are wanted, a REFUSE, and one more try. */
    while (listens_to(peer)) {
        take_plain_end(peer);
        switch (tci_boot_conn_read(&peer->conn)) {
        case TCI_BOOT_READ_MORE:
            return;
        case TCI_BOOT_READ_MESSAGE:
            on_message(peer);
            break;
        case TCI_BOOT_READ_END:
            lose(peer, "it closed the connection");
            return;
        case TCI_BOOT_READ_PROVEN:
            on_proven(peer);
            break;
        case TCI_BOOT_READ_DENIED:
            be_denied(peer, peer->conn.auth);
            return;
        case TCI_BOOT_READ_GARBAGE:
            lose(peer, "it does not speak as a rank does");
            return;
        case TCI_BOOT_READ_ERROR:
            if (was_proving && errno == EPIPE) { /* no answer can be given: it may have said why */
                was_proving = false;
                break;
            }
            lose(peer, strerror(errno));
            return;
        }
    }
}

static void on_conn(struct tci_watch *watch, uint32_t ready)
{
    struct peer *peer = tci_container_of(watch, struct peer, conn.watch);
    struct row *row = peer->row;

    if ((ready & TC_READABLE) != 0)
        on_readable(peer);
    if (row->is_over)
        return;
    if ((ready & TC_WRITABLE) != 0 && !tci_boot_conn_flush(&peer->conn)) {
        break_off(peer, errno);
        return;
    }
    pass_on(row);
    if (row->is_over)
        return;
    stop_listening_if_done(peer);
    stop_listening_if_done(row->peers[before(row, -1)]);
    finish_if_done(row);
}

/* ---- The beginning -------------------------------------------------------------------------- */

static bool write_own(struct row *row)
{
    struct tci_boot_result *result = &row->boot.result;
    uint8_t *record = row->records + (size_t)result->rank * RECORD;
    struct tci_boot_row own = {.size = (uint32_t)result->size,
                               .rank = (uint32_t)result->rank,
                               .host = result->hosts[result->rank],
                               .agreed = result->agreed,
                               .is_ring = result->is_ring,
                               .cpus = row->boot.cpus};

    if (result->rank == 0 && !tci_random(result->group_id, sizeof result->group_id))
        return false;
    memcpy(own.group_id, result->group_id, TCI_GROUP_ID);
    tci_boot_head_encode(TCI_BOOT_ROW, TCI_BOOT_ROW_LEN, record);
    tci_boot_row_encode(&own, record + TCI_BOOT_HEAD);
    row->is_known[result->rank] = true;
    return true;
}

/* The descriptor to a rank is a connection's from now on. */
static void open_peer(struct row *row, int rank)
{
    struct tci_boot_result *result = &row->boot.result;
    static const struct tci_addr none = {.len = 0};
    struct peer *peer = tci_alloc(sizeof *peer);
    int fd = result->fds[rank];

    if (peer == NULL) {
        fail_without(row, ENOMEM, "form a group");
        return;
    }
    row->peers[rank] = peer;
    result->fds[rank] = -1;
    peer->row = row;
    peer->rank = rank;
    peer->wanted = rank == before(row, 1) ? result->size - 1 : 1;
    peer->conn.watch.fn = on_conn;
    if (tci_boot_conn_open(&peer->conn, row->boot.loop, fd, &none) != 0)
        fail_without(row, errno, "watch a descriptor that was given");
}

static void begin(struct tci_boot *boot)
{
    struct row *row = row_of(boot);
    size_t size = (size_t)boot->result.size;

    row->peers = tci_alloc_array(size, sizeof(struct peer *));
    row->records = tci_alloc_array(size, RECORD);
    row->is_known = tci_alloc_array(size, sizeof(bool));
    if (row->peers == NULL || row->records == NULL || row->is_known == NULL) {
        fail_without(row, ENOMEM, "form a group");
        return;
    }
    if (!write_own(row)) {
        fail_without(row, errno, "draw a random group id");
        return;
    }
    /* All are open before one is spoken to: who is told that it cannot be tells the others. */
    for (int rank = 0; rank < boot->result.size && !row->is_over; rank++)
        if (boot->result.fds[rank] >= 0)
            open_peer(row, rank);
    for (int rank = 0; rank < boot->result.size && !row->is_over; rank++)
        if (row->peers[rank] != NULL && boot->result.keyring != NULL)
            prove(row->peers[rank]);
        else if (row->peers[rank] != NULL)
            say_own_row(row->peers[rank]);
}

static void on_deadline(struct tci_boot *boot)
{
    struct row *row = row_of(boot);
    struct tci_boot_missing missing = {.first = -1};
    char time[32];

    for (int rank = 0; rank < boot->result.size; rank++)
        if (!row->is_known[rank])
            tci_boot_missing_add(&missing, rank);
    tci_boot_missing_end(&missing);
    tci_error_set(&boot->error, TC_ERR_TIMEOUT, missing.first, 0, "dist_init",
                  "%s of %d %s not spoken over the descriptors of \"%.80s\" within %s: see whether "
                  "%s",
                  missing.count > 0 ? missing.text : "none", boot->result.size,
                  missing.count == 1 ? "has" : "have", boot->text, tci_boot_time(boot, time),
                  missing.count == 1 ? "it runs" : "they run");
    fail(row);
}

static void fini(struct tci_boot *boot)
{
    struct row *row = row_of(boot);

    for (int rank = 0; rank < boot->result.size && row->peers != NULL; rank++) {
        if (row->peers[rank] != NULL)
            tci_boot_conn_close(&row->peers[rank]->conn);
        tci_free(row->peers[rank]);
    }
    tci_free(row->peers);
    tci_free(row->records);
    tci_free(row->is_known);
}

const struct tci_boot_role tci_boot_row = {
    .bytes = sizeof(struct row),
    .begin = begin,
    .on_timer = on_deadline,
    .fini = fini,
};
