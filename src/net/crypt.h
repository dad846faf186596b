/* crypt.h - a sealed connection: the calls of a socket, with records below them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_CRYPT_H
#define TCI_CRYPT_H

#include <sys/types.h>
#include <sys/uio.h>

#include "core/seal.h"
#include "net/auth.h"

/* Bytes that are written are sealed into `out` and leave from there, record by record: while the
 * socket takes the earlier ones the next are sealed.  Bytes that are read come into `in`, and open
 * to where they go where a record fits there whole. */
struct tci_crypt {
    struct tci_seal send, receive;
    bool is_small;      /* until it is grown: short records, and none is read before it is due */
    bool is_broken;     /* a record did not open: nothing comes any more */
    size_t payload_max; /* of a record, either way */
    uint8_t *out;       /* owned */
    size_t out_room, out_len, out_done;
    uint8_t *in; /* owned */
    size_t in_room, in_len, in_at;
    uint8_t *plain; /* opened in place, and not taken yet */
    size_t plain_len;
};

/* By what both sides have proven; NULL: no memory. */
struct tci_crypt *tci_crypt_new(const struct tci_session *session);
/* The link stands: as large records as there are, read ahead.  false: no memory. */
bool tci_crypt_grow(struct tci_crypt *crypt);
void tci_crypt_free(struct tci_crypt *crypt); /* wipes; NULL is fine */

/* As sendmsg(2): the bytes that were taken, which are sealed and maybe not sent yet; -1 with errno,
 * EAGAIN where there is no room. */
ssize_t tci_crypt_writev(struct tci_crypt *crypt, int fd, const struct iovec *iov, int count);
/* Go on with what was taken: 0, -1 with errno as above. */
int tci_crypt_flush(struct tci_crypt *crypt, int fd);
static inline bool tci_crypt_is_flushed(const struct tci_crypt *crypt)
{
    return crypt->out_done == crypt->out_len;
}

/* As readv(2); EBADMSG for a record that does not open, also for those who try again. */
ssize_t tci_crypt_readv(struct tci_crypt *crypt, int fd, const struct iovec *iov, int count);
/* Whether all that came in records has been read. */
static inline bool tci_crypt_is_between(const struct tci_crypt *crypt)
{
    return crypt->plain_len == 0 && crypt->in_at == crypt->in_len;
}
/* Whether reading gives something, or fails, without a look at the socket. */
bool tci_crypt_has_input(const struct tci_crypt *crypt);

#endif
