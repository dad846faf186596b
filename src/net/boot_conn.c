/* boot_conn.c - a connection of the rendezvous: one message in, some out, not a byte beyond. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot_conn.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "net/acks.h"
#include "net/auth_proof.h"
#include "net/sock.h"
#include "tcdist/reactor.h"

int tci_boot_conn_open(struct tci_boot_conn *conn, struct tci_loop *loop, int fd,
                       const struct tci_addr *peer)
{
    TC_ASSERT(conn->watch.fn != NULL && fd >= 0);
    conn->fd = fd;
    conn->peer = *peer;
    conn->got = 0;
    conn->out_count = 0;
    conn->auth = NULL;
    conn->crypt = NULL;
    if (tci_watch_add(loop, &conn->watch, fd, TC_READABLE) != 0) {
        int cause = errno;

        close(fd);
        conn->fd = -1;
        errno = cause;
        return -1;
    }
    tci_sock_tune(fd);
    return 0;
}

static void end_auth(struct tci_boot_conn *conn)
{
    if (conn->auth != NULL)
        tci_auth_fini(conn->auth);
    tci_free(conn->auth);
    conn->auth = NULL;
}

void tci_boot_conn_close(struct tci_boot_conn *conn)
{
    if (conn->fd < 0)
        return;
    tci_watch_del(&conn->watch);
    close(conn->fd);
    conn->fd = -1;
    conn->out_count = 0;
    end_auth(conn);
    tci_crypt_free(conn->crypt);
    conn->crypt = NULL;
}

int tci_boot_conn_release(struct tci_boot_conn *conn, struct tci_crypt **crypt_out)
{
    int fd = conn->fd;

    TC_ASSERT(fd >= 0 && tci_boot_conn_is_idle(conn));
    tci_watch_del(&conn->watch);
    conn->fd = -1;
    *crypt_out = NULL;
    if (conn->crypt != NULL && conn->auth->session.encrypts)
        *crypt_out = conn->crypt;
    else
        tci_crypt_free(conn->crypt);
    conn->crypt = NULL;
    end_auth(conn);
    return fd;
}

/* ---- The proof ------------------------------------------------------------------------------- */

static bool send_as(struct tci_boot_conn *conn, const uint8_t *bytes, size_t len, bool is_sealed)
{
    TC_ASSERT(conn->out_count < TCI_BOOT_OUT_MAX && len > 0);
    conn->out[conn->out_count].bytes = bytes;
    conn->out[conn->out_count].len = len;
    conn->out[conn->out_count].is_sealed = is_sealed;
    conn->out_count++;
    return conn->out_count > 1 || tci_boot_conn_flush(conn);
}

bool tci_boot_conn_prove(struct tci_boot_conn *conn, const struct tci_auth_config *config)
{
    TC_ASSERT(conn->auth == NULL && conn->got == 0 && conn->out_count == 0);
    conn->auth = tci_alloc(sizeof *conn->auth);
    if (conn->auth == NULL) {
        errno = ENOMEM;
        return false;
    }
    tci_auth_init(conn->auth, config);
    return conn->auth->out == NULL || send_as(conn, conn->auth->out, conn->auth->out_len, false);
}

/* Each step has been taken.  What the peer said instead goes where it belongs. */
static enum tci_boot_read end_proof(struct tci_boot_conn *conn)
{
    struct tci_auth *auth = conn->auth;

    switch (auth->state) {
    case TCI_AUTH_PROVEN:
        conn->crypt = tci_crypt_new(&auth->session);
        tci_proof_wipe(auth->session.send, sizeof auth->session.send);
        tci_proof_wipe(auth->session.receive, sizeof auth->session.receive);
        if (conn->crypt != NULL)
            return TCI_BOOT_READ_PROVEN;
        errno = ENOMEM;
        return TCI_BOOT_READ_ERROR;
    case TCI_AUTH_FOREIGN:
        memcpy(conn->head_bytes, auth->in, TCI_BOOT_HEAD);
        conn->got = TCI_BOOT_HEAD;
        if (conn->out_count == 0)
            end_auth(conn);
        return TCI_BOOT_READ_MORE;
    default:
        return TCI_BOOT_READ_DENIED;
    }
}

static enum tci_boot_read read_proof(struct tci_boot_conn *conn)
{
    struct tci_auth *auth = conn->auth;
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN];

    /* Bounded by what the proof takes. */
    while (auth->state == TCI_AUTH_WAITING) {
        ssize_t got = recv(conn->fd, bytes, tci_auth_wants(auth), 0);

        if (got == 0)
            return TCI_BOOT_READ_END;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? TCI_BOOT_READ_MORE : TCI_BOOT_READ_ERROR;
        tci_auth_feed(auth, bytes, (size_t)got);
        if (auth->out != NULL && !send_as(conn, auth->out, auth->out_len, false))
            return TCI_BOOT_READ_ERROR;
    }
    return end_proof(conn);
}

/* ---- In -------------------------------------------------------------------------------------- */

/* The head is here: find room for the body, or say that it is not to be had. */
static bool begin_body(struct tci_boot_conn *conn)
{
    if (tci_boot_head_decode(conn->head_bytes, &conn->head) != TC_OK)
        return false;
    conn->body = conn->small;
    if (conn->head.len <= sizeof conn->small && conn->head.type != TCI_BOOT_TABLE)
        return true;
    conn->body = conn->large;
    return conn->large != NULL && conn->head.len == conn->large_len;
}

static ssize_t receive(struct tci_boot_conn *conn, uint8_t *bytes, size_t len)
{
    const struct iovec iov = {bytes, len};

    return conn->crypt != NULL ? tci_crypt_readv(conn->crypt, conn->fd, &iov, 1)
                               : recv(conn->fd, bytes, len, 0);
}

static bool is_to_prove(const struct tci_boot_conn *conn)
{
    return conn->auth != NULL && conn->auth->state == TCI_AUTH_WAITING;
}

enum tci_boot_read tci_boot_conn_read(struct tci_boot_conn *conn)
{
    if (is_to_prove(conn)) {
        enum tci_boot_read result = read_proof(conn);

        if (result != TCI_BOOT_READ_MORE || is_to_prove(conn))
            return result;
        if (!begin_body(conn))
            return TCI_BOOT_READ_GARBAGE;
    }
    /* Bounded by what the head may announce. */
    for (;;) {
        bool in_head = conn->got < TCI_BOOT_HEAD;
        size_t want = in_head ? TCI_BOOT_HEAD : TCI_BOOT_HEAD + (size_t)conn->head.len;
        ssize_t got;

        if (conn->got == want) { /* both are whole */
            conn->got = 0;
            return TCI_BOOT_READ_MESSAGE;
        }
        got = receive(
            conn, in_head ? conn->head_bytes + conn->got : conn->body + conn->got - TCI_BOOT_HEAD,
            want - conn->got);
        if (got == 0)
            return TCI_BOOT_READ_END;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EBADMSG)
            return TCI_BOOT_READ_GARBAGE;
        if (got < 0)
            return errno == EAGAIN ? TCI_BOOT_READ_MORE : TCI_BOOT_READ_ERROR;

        conn->got += (size_t)got;
        if (in_head && !tci_boot_head_begins(conn->head_bytes, conn->got))
            return TCI_BOOT_READ_GARBAGE;
        if (conn->got == TCI_BOOT_HEAD && !begin_body(conn))
            return TCI_BOOT_READ_GARBAGE;
    }
}

void tci_boot_conn_ping(struct tci_boot_conn *conn)
{
    if (conn->fd < 0 || !tci_boot_conn_is_idle(conn))
        return;
    tci_boot_head_encode(TCI_BOOT_PING, 0, conn->ping);
    (void)tci_boot_conn_send(conn, conn->ping, sizeof(conn->ping)); /* its end is seen by reading */
}

bool tci_boot_conn_is_silent(const struct tci_boot_conn *conn)
{
    struct tci_acks acks;

    return conn->fd >= 0 && tci_acks_get(conn->fd, &acks) && acks.owes;
}

void tci_boot_conn_stop_reading(struct tci_boot_conn *conn)
{
    (void)tci_watch_change(&conn->watch, conn->watch.interest & ~(uint32_t)TC_READABLE);
}

/* ---- Out ------------------------------------------------------------------------------------- */

bool tci_boot_conn_send(struct tci_boot_conn *conn, const uint8_t *bytes, size_t len)
{
    return send_as(conn, bytes, len, conn->crypt != NULL);
}

/* As send(2). */
static ssize_t send_first(struct tci_boot_conn *conn)
{
    const struct iovec iov = {(void *)(uintptr_t)conn->out[0].bytes, conn->out[0].len};

    return conn->out[0].is_sealed ? tci_crypt_writev(conn->crypt, conn->fd, &iov, 1)
                                  : send(conn->fd, iov.iov_base, iov.iov_len, MSG_NOSIGNAL);
}

bool tci_boot_conn_flush(struct tci_boot_conn *conn)
{
    uint32_t reading = conn->watch.interest & TC_READABLE;

    while (!tci_boot_conn_is_idle(conn)) {
        ssize_t sent =
            conn->out_count > 0 ? send_first(conn) : tci_crypt_flush(conn->crypt, conn->fd);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            return false;
        if (sent < 0)
            return tci_watch_change(&conn->watch, reading | TC_WRITABLE) == 0;
        if (conn->out_count == 0)
            continue;
        conn->out[0].bytes += sent;
        conn->out[0].len -= (size_t)sent;
        if (conn->out[0].len > 0)
            continue;
        conn->out_count--;
        memmove(&conn->out[0], &conn->out[1], conn->out_count * sizeof conn->out[0]);
    }
    return conn->watch.interest == reading || tci_watch_change(&conn->watch, reading) == 0;
}

/* Closing with bytes unread resets the connection, and the peer may lose what was said last. */
void tci_boot_conn_part(struct tci_boot_conn *conn, const uint8_t *bytes, size_t len)
{
    enum { READS_MAX = 16 };
    uint8_t sink[512];

    if (conn->fd < 0)
        return;
    if (tci_boot_conn_is_idle(conn)) {
        if (bytes != NULL)
            (void)tci_boot_conn_send(conn, bytes, len);
        (void)shutdown(conn->fd, SHUT_WR);
        for (int k = 0; k < READS_MAX && recv(conn->fd, sink, sizeof sink, 0) > 0; k++)
            continue;
    }
    tci_boot_conn_close(conn);
}
