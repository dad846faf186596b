/* boot_conn.h - a connection of the rendezvous: one message in, some out, not a byte beyond. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_CONN_H
#define TCI_BOOT_CONN_H

#include "loop/loop.h"
#include "net/auth.h"
#include "net/boot_wire.h"
#include "net/crypt.h"

enum { TCI_BOOT_OUT_MAX = 4, TCI_BOOT_BODY_SMALL = 448 };

/* How reading went.  Only MESSAGE leaves something to look at: head and body.  PROVEN and DENIED
 * come once, where something was to be proven, and leave conn->auth to look at. */
enum tci_boot_read {
    TCI_BOOT_READ_MORE,    /* the message is not whole yet */
    TCI_BOOT_READ_MESSAGE, /* it is; the next read begins the next one */
    TCI_BOOT_READ_END,     /* the peer has closed */
    TCI_BOOT_READ_GARBAGE, /* this is not the rendezvous */
    TCI_BOOT_READ_PROVEN,  /* both sides have the key: what is said from now on is sealed */
    TCI_BOOT_READ_DENIED,  /* they have not */
    TCI_BOOT_READ_ERROR    /* errno says what */
};

struct tci_boot_conn {
    struct tci_watch watch; /* set watch.fn first */
    int fd;                 /* owned; -1: closed, or given away */
    struct tci_addr peer;

    struct tci_auth *auth;   /* owned; NULL: nothing is to be proven, or the peer does not try */
    struct tci_crypt *crypt; /* owned; NULL: nothing is sealed, or not yet */

    uint8_t head_bytes[TCI_BOOT_HEAD];
    struct tci_boot_head head;
    uint8_t small[TCI_BOOT_BODY_SMALL];
    uint8_t *large;     /* borrowed: room for a table, or NULL where none may come */
    uint32_t large_len; /* the length that it must have */
    uint8_t *body;
    size_t got; /* bytes of this message that are here */

    /* What is still to be sent: borrowed until it is. */
    struct {
        const uint8_t *bytes;
        size_t len;
        bool is_sealed;
    } out[TCI_BOOT_OUT_MAX];
    unsigned out_count;
    uint8_t ping[TCI_BOOT_HEAD];
};

/* Take fd over, and watch it; -1 with errno, and fd closed, when that is refused. */
int tci_boot_conn_open(struct tci_boot_conn *conn, struct tci_loop *loop, int fd,
                       const struct tci_addr *peer);
void tci_boot_conn_close(struct tci_boot_conn *conn); /* harmless when closed */
/* Give the descriptor away, no longer watched, nothing waiting to be sent; with what it is sealed
 * by, or NULL where it is not from now on. */
int tci_boot_conn_release(struct tci_boot_conn *conn, struct tci_crypt **crypt_out);

/* Before anything else is said: prove that both sides have the key.  Who dials begins; who was
 * dialed may find a peer that knows of no proof, whose first message is then read as ever, with
 * conn->auth gone.  false with errno when the connection is broken. */
bool tci_boot_conn_prove(struct tci_boot_conn *conn, const struct tci_auth_config *config);
static inline bool tci_boot_conn_is_proven(const struct tci_boot_conn *conn)
{
    return conn->crypt != NULL;
}

/* Take what is there of one message, and nothing of what follows it. */
enum tci_boot_read tci_boot_conn_read(struct tci_boot_conn *conn);
/* Send bytes that stay where they are until the connection is idle; now, or when it is writable.
 * false with errno when the connection is broken. */
bool tci_boot_conn_send(struct tci_boot_conn *conn, const uint8_t *bytes, size_t len);
/* Go on sending: call it when writable. */
bool tci_boot_conn_flush(struct tci_boot_conn *conn);
static inline bool tci_boot_conn_is_idle(const struct tci_boot_conn *conn)
{
    return conn->out_count == 0 && (conn->crypt == NULL || tci_crypt_is_flushed(conn->crypt));
}
/* Say that this rank is there, so that the peer's host has something to acknowledge; not where
 * something else is still to be sent. */
void tci_boot_conn_ping(struct tci_boot_conn *conn);
/* Whether the peer's host has not acknowledged all that was said. */
bool tci_boot_conn_is_silent(const struct tci_boot_conn *conn);
/* Read no more: what comes belongs to the next owner of the descriptor. */
void tci_boot_conn_stop_reading(struct tci_boot_conn *conn);
/* Say one last thing (NULL: nothing), if that needs no waiting, and close so that it arrives. */
void tci_boot_conn_part(struct tci_boot_conn *conn, const uint8_t *bytes, size_t len);

#endif
