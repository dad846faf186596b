/* crypt.c - a sealed connection: the calls of a socket, with records below them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/crypt.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"

enum { RECORDS_OUT = 4, RECORDS_IN = 4 };

/* ---- Beginning and end ----------------------------------------------------------------------- */

static bool make_room(struct tci_crypt *crypt, size_t payload_max, size_t out, size_t in)
{
    uint8_t *grown_out = tci_realloc_array(crypt->out, out, payload_max + TCI_RECORD_OVER);
    uint8_t *grown_in;

    if (grown_out == NULL)
        return false;
    crypt->out = grown_out;
    grown_in = tci_realloc_array(crypt->in, in, payload_max + TCI_RECORD_OVER);
    if (grown_in == NULL)
        return false;
    crypt->in = grown_in;
    crypt->payload_max = payload_max;
    crypt->out_room = out * (payload_max + TCI_RECORD_OVER);
    crypt->in_room = in * (payload_max + TCI_RECORD_OVER);
    return true;
}

struct tci_crypt *tci_crypt_new(const struct tci_session *session)
{
    struct tci_crypt *crypt = tci_alloc_raw(sizeof *crypt); /* aligned as the cipher wants it */

    if (crypt == NULL)
        return NULL;
    memset(crypt, 0, sizeof *crypt);
    tci_seal_init(&crypt->send, session->cipher, session->send);
    tci_seal_init(&crypt->receive, session->cipher, session->receive);
    crypt->is_small = true;
    if (make_room(crypt, TCI_RECORD_SMALL, 1, 1))
        return crypt;
    tci_crypt_free(crypt);
    return NULL;
}

bool tci_crypt_grow(struct tci_crypt *crypt)
{
    TC_ASSERT(crypt->is_small);
    if (!tci_crypt_is_between(crypt)) /* it said more than it was asked */
        crypt->is_broken = true;
    if (!make_room(crypt, TCI_RECORD_MAX, RECORDS_OUT, RECORDS_IN))
        return false;
    crypt->is_small = false;
    return true;
}

void tci_crypt_free(struct tci_crypt *crypt)
{
    if (crypt == NULL)
        return;
    tci_seal_fini(&crypt->send);
    tci_seal_fini(&crypt->receive);
    if (crypt->in != NULL)
        sodium_memzero(crypt->in, crypt->in_room);
    tci_free(crypt->in);
    tci_free(crypt->out);
    tci_free(crypt);
}

/* ---- Out ------------------------------------------------------------------------------------- */

int tci_crypt_flush(struct tci_crypt *crypt, int fd)
{
    while (crypt->out_done < crypt->out_len) {
        ssize_t sent = send(fd, crypt->out + crypt->out_done, crypt->out_len - crypt->out_done,
                            MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -1;
        crypt->out_done += (size_t)sent;
    }
    crypt->out_done = crypt->out_len = 0;
    return 0;
}

/* As much as one record takes, from where it lies, or gathered to where it is sealed. */
static size_t seal_next(struct tci_crypt *crypt, const struct iovec *iov, int count)
{
    uint8_t *record = crypt->out + crypt->out_len, *gathered = record + TCI_RECORD_HEAD;
    size_t room = crypt->out_room - crypt->out_len, len = 0;
    const uint8_t *payload = gathered;

    if (room <= TCI_RECORD_OVER)
        return 0;
    room = tci_min(room - TCI_RECORD_OVER, crypt->payload_max);
    if (iov[0].iov_len >= room) {
        payload = iov[0].iov_base;
        len = room;
    }
    for (int k = 0; k < count && payload == gathered && len < room; k++) {
        size_t part = tci_min(room - len, iov[k].iov_len);

        memcpy(gathered + len, iov[k].iov_base, part);
        len += part;
    }
    tci_seal_close(&crypt->send, payload, len, record);
    crypt->out_len += len + TCI_RECORD_OVER;
    return len;
}

/* A record is not made short by a buffer that is nearly full, unless it is short itself. */
static bool has_room(const struct tci_crypt *crypt, const struct iovec *iov, int count)
{
    size_t asked = 0;

    for (int k = 0; k < count; k++)
        asked += iov[k].iov_len;
    return crypt->out_room - crypt->out_len >= tci_min(asked, crypt->payload_max) + TCI_RECORD_OVER;
}

ssize_t tci_crypt_writev(struct tci_crypt *crypt, int fd, const struct iovec *iov, int count)
{
    size_t taken = 0;

    TC_ASSERT(count > 0 && iov[0].iov_len > 0);
    if (tci_crypt_flush(crypt, fd) != 0 && errno != EAGAIN && errno != ENOBUFS)
        return -1;
    if (has_room(crypt, iov, count))
        taken = seal_next(crypt, iov, count);
    if (taken == 0) {
        errno = EAGAIN;
        return -1;
    }
    if (tci_crypt_flush(crypt, fd) != 0 && errno != EAGAIN && errno != ENOBUFS)
        return -1;
    return (ssize_t)taken;
}

/* ---- In -------------------------------------------------------------------------------------- */

/* Bytes of the record that is due: 0 while its head is not whole, SIZE_MAX when it is none. */
static size_t due(const struct tci_crypt *crypt)
{
    size_t bytes;

    if (crypt->in_len - crypt->in_at < TCI_RECORD_HEAD)
        return 0;
    bytes = tci_record_bytes(crypt->in + crypt->in_at, crypt->payload_max);
    return bytes == 0 ? SIZE_MAX : bytes;
}

static bool is_whole(const struct tci_crypt *crypt)
{
    size_t bytes = due(crypt);

    return bytes != 0 && (bytes == SIZE_MAX || crypt->in_len - crypt->in_at >= bytes);
}

bool tci_crypt_has_input(const struct tci_crypt *crypt)
{
    return crypt->plain_len > 0 || crypt->is_broken || is_whole(crypt);
}

/* One read from the socket; as read(2). */
static ssize_t read_more(struct tci_crypt *crypt, int fd)
{
    size_t have = crypt->in_len - crypt->in_at, want = crypt->in_room;
    ssize_t got;

    if (crypt->in_at > 0) {
        memmove(crypt->in, crypt->in + crypt->in_at, have);
        crypt->in_at = 0;
        crypt->in_len = have;
    }
    if (crypt->is_small) /* what follows the record may be somebody else's */
        want = have < TCI_RECORD_HEAD ? TCI_RECORD_HEAD : due(crypt);
    TC_ASSERT(want > have && want <= crypt->in_room);
    do
        got = recv(fd, crypt->in + have, want - have, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        crypt->in_len += (size_t)got;
    return got;
}

/* Open the record that is due: to its place where it fits there, else where it lies.  The bytes
 * that have come to their place; -1: it is none. */
static ssize_t open_next(struct tci_crypt *crypt, uint8_t *place, size_t room)
{
    uint8_t *record = crypt->in + crypt->in_at, *in_place = record + TCI_RECORD_HEAD;
    size_t bytes = due(crypt), len = bytes - TCI_RECORD_OVER;
    bool fits = bytes != SIZE_MAX && len <= room;

    if (bytes == SIZE_MAX ||
        !tci_seal_open(&crypt->receive, record, bytes, fits ? place : in_place)) {
        crypt->is_broken = true;
        return -1;
    }
    crypt->in_at += bytes;
    if (fits)
        return (ssize_t)len;
    crypt->plain = in_place;
    crypt->plain_len = len;
    return 0;
}

static size_t take_plain(struct tci_crypt *crypt, uint8_t *place, size_t room)
{
    size_t part = tci_min(room, crypt->plain_len);

    memcpy(place, crypt->plain, part);
    crypt->plain += part;
    crypt->plain_len -= part;
    return part;
}

/* Fill one place from what has come; how far that went. */
static size_t fill(struct tci_crypt *crypt, uint8_t *place, size_t room)
{
    size_t done = 0;

    while (done < room && !crypt->is_broken) {
        ssize_t opened;

        if (crypt->plain_len > 0) {
            done += take_plain(crypt, place + done, room - done);
            continue;
        }
        if (!is_whole(crypt))
            break;
        opened = open_next(crypt, place + done, room - done);
        if (opened > 0)
            done += (size_t)opened;
    }
    return done;
}

ssize_t tci_crypt_readv(struct tci_crypt *crypt, int fd, const struct iovec *iov, int count)
{
    size_t total = 0;

    while (!tci_crypt_has_input(crypt)) {
        ssize_t got = read_more(crypt, fd);

        if (got <= 0)
            return got;
    }
    for (int k = 0; k < count && tci_crypt_has_input(crypt) && !crypt->is_broken; k++)
        total += fill(crypt, iov[k].iov_base, iov[k].iov_len);
    if (total > 0)
        return (ssize_t)total;
    TC_ASSERT(crypt->is_broken);
    errno = EBADMSG;
    return -1;
}
