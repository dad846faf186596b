/* greet.h - the first words of a connection between two ranks, after the proof of a key. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_GREET_H
#define TCI_GREET_H

#include "net/auth.h"
#include "net/crypt.h"

/* Of a connection that has been made; all zero: of none.  Without a key nothing is proven, and
 * words go as they are.  With one the proof comes first, and words are sealed; each time that a
 * connection is made, anew or again. */
struct tci_greet {
    struct tci_auth *auth;   /* owned; NULL: there is no key */
    struct tci_crypt *crypt; /* owned; once both have proven it */
};

enum tci_greet_state {
    TCI_GREET_MORE,  /* wait until it is readable, and go on */
    TCI_GREET_READY, /* words may be said */
    TCI_GREET_FAILED /* errno says why: EKEYREJECTED where auth->reason does */
};

/* A connection stands: the proof begins.  The first that is known to be readable gives READY or
 * FAILED only where nothing has to be waited for. */
enum tci_greet_state tci_greet_begin(struct tci_greet *greet, const struct tci_auth_config *config,
                                     int fd);
enum tci_greet_state tci_greet_go_on(struct tci_greet *greet, int fd);
static inline bool tci_greet_is_ready(const struct tci_greet *greet)
{
    return greet->auth == NULL || greet->crypt != NULL;
}

/* Words of at most TCI_RECORD_SMALL bytes, all at once: the connection is new, so that its buffer
 * takes them, or nothing can be done with it. */
bool tci_greet_send(struct tci_greet *greet, int fd, const uint8_t *bytes, size_t len);
/* As recv(2), and no further than the words that were sent at once. */
ssize_t tci_greet_receive(struct tci_greet *greet, int fd, uint8_t *bytes, size_t len);

/* All has been said: what follows is sealed by *crypt_out, which is the caller's, or by nothing
 * (NULL).  -1 with errno: no memory. */
int tci_greet_end(struct tci_greet *greet, struct tci_crypt **crypt_out);
/* The connection is closed, or a link: nothing is left of its greeting. */
void tci_greet_fini(struct tci_greet *greet);

#endif
