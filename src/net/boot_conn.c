/* boot_conn.c - a connection of the rendezvous: one message in, some out, not a byte beyond. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot_conn.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/base.h"
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

void tci_boot_conn_close(struct tci_boot_conn *conn)
{
    if (conn->fd < 0)
        return;
    tci_watch_del(&conn->watch);
    close(conn->fd);
    conn->fd = -1;
    conn->out_count = 0;
}

int tci_boot_conn_release(struct tci_boot_conn *conn)
{
    int fd = conn->fd;

    TC_ASSERT(fd >= 0 && conn->out_count == 0);
    tci_watch_del(&conn->watch);
    conn->fd = -1;
    return fd;
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

enum tci_boot_read tci_boot_conn_read(struct tci_boot_conn *conn)
{
    /* Bounded by what the head may announce. */
    for (;;) {
        bool in_head = conn->got < TCI_BOOT_HEAD;
        size_t want = in_head ? TCI_BOOT_HEAD : TCI_BOOT_HEAD + (size_t)conn->head.len;
        ssize_t got;

        if (conn->got == want) { /* both are whole */
            conn->got = 0;
            return TCI_BOOT_READ_MESSAGE;
        }
        got = recv(conn->fd,
                   in_head ? conn->head_bytes + conn->got : conn->body + conn->got - TCI_BOOT_HEAD,
                   want - conn->got, 0);
        if (got == 0)
            return TCI_BOOT_READ_END;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? TCI_BOOT_READ_MORE : TCI_BOOT_READ_ERROR;

        conn->got += (size_t)got;
        if (in_head && !tci_boot_head_begins(conn->head_bytes, conn->got))
            return TCI_BOOT_READ_GARBAGE;
        if (conn->got == TCI_BOOT_HEAD && !begin_body(conn))
            return TCI_BOOT_READ_GARBAGE;
    }
}

void tci_boot_conn_stop_reading(struct tci_boot_conn *conn)
{
    (void)tci_watch_change(&conn->watch, conn->watch.interest & ~(uint32_t)TC_READABLE);
}

/* ---- Out ------------------------------------------------------------------------------------- */

bool tci_boot_conn_send(struct tci_boot_conn *conn, const uint8_t *bytes, size_t len)
{
    TC_ASSERT(conn->out_count < TCI_BOOT_OUT_MAX && len > 0);
    conn->out[conn->out_count].bytes = bytes;
    conn->out[conn->out_count].len = len;
    conn->out_count++;
    return conn->out_count > 1 || tci_boot_conn_flush(conn);
}

bool tci_boot_conn_flush(struct tci_boot_conn *conn)
{
    uint32_t reading = conn->watch.interest & TC_READABLE;

    while (conn->out_count > 0) {
        ssize_t sent = send(conn->fd, conn->out[0].bytes, conn->out[0].len, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            return false;
        if (sent < 0)
            return tci_watch_change(&conn->watch, reading | TC_WRITABLE) == 0;
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
        (void)!send(conn->fd, bytes, len, MSG_NOSIGNAL);
        (void)shutdown(conn->fd, SHUT_WR);
        for (int k = 0; k < READS_MAX && recv(conn->fd, sink, sizeof sink, 0) > 0; k++)
            continue;
    }
    tci_boot_conn_close(conn);
}
