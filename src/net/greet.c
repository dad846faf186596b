/* greet.c - the first words of a connection between two ranks, after the proof of a key. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/greet.h"

#include <errno.h>
#include <sys/socket.h>

#include "core/alloc.h"
#include "core/assert.h"

static bool send_whole(int fd, const uint8_t *bytes, size_t len)
{
    return send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

static bool send_out(struct tci_auth *auth, int fd)
{
    const uint8_t *bytes = auth->out;

    auth->out = NULL;
    return bytes == NULL || send_whole(fd, bytes, auth->out_len);
}

static enum tci_greet_state fail(int error)
{
    errno = error;
    return TCI_GREET_FAILED;
}

enum tci_greet_state tci_greet_begin(struct tci_greet *greet, const struct tci_auth_config *config,
                                     int fd)
{
    TC_ASSERT(greet->auth == NULL && greet->crypt == NULL);
    if (config->keyring == NULL)
        return TCI_GREET_READY;
    greet->auth = tci_alloc(sizeof *greet->auth);
    if (greet->auth == NULL)
        return fail(ENOMEM);
    tci_auth_init(greet->auth, config);
    return send_out(greet->auth, fd) ? TCI_GREET_MORE : fail(ECONNRESET);
}

static enum tci_greet_state end_proof(struct tci_greet *greet)
{
    struct tci_auth *auth = greet->auth;

    if (auth->state != TCI_AUTH_PROVEN)
        return fail(EKEYREJECTED);
    greet->crypt = tci_crypt_new(&auth->session);
    return greet->crypt != NULL ? TCI_GREET_READY : fail(ENOMEM);
}

enum tci_greet_state tci_greet_go_on(struct tci_greet *greet, int fd)
{
    struct tci_auth *auth = greet->auth;
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN];

    if (tci_greet_is_ready(greet))
        return TCI_GREET_READY;
    /* Bounded by what the proof takes. */
    while (auth->state == TCI_AUTH_WAITING) {
        ssize_t got = recv(fd, bytes, tci_auth_wants(auth), MSG_DONTWAIT);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return TCI_GREET_MORE;
        if (got <= 0)
            return fail(got == 0 ? ECONNRESET : errno);
        tci_auth_feed(auth, bytes, (size_t)got);
        if (!send_out(auth, fd))
            return fail(ECONNRESET);
    }
    return end_proof(greet);
}

bool tci_greet_send(struct tci_greet *greet, int fd, const uint8_t *bytes, size_t len)
{
    const struct iovec iov = {(void *)(uintptr_t)bytes, len};

    TC_ASSERT(tci_greet_is_ready(greet) && len <= TCI_RECORD_SMALL);
    if (greet->crypt == NULL)
        return send_whole(fd, bytes, len);
    return tci_crypt_writev(greet->crypt, fd, &iov, 1) == (ssize_t)len &&
           tci_crypt_is_flushed(greet->crypt);
}

ssize_t tci_greet_receive(struct tci_greet *greet, int fd, uint8_t *bytes, size_t len)
{
    const struct iovec iov = {bytes, len};

    if (greet->crypt == NULL)
        return recv(fd, bytes, len, MSG_DONTWAIT);
    return tci_crypt_readv(greet->crypt, fd, &iov, 1);
}

int tci_greet_end(struct tci_greet *greet, struct tci_crypt **crypt_out)
{
    struct tci_crypt *crypt = NULL;

    if (greet->crypt != NULL && greet->auth->session.encrypts) {
        if (!tci_crypt_grow(greet->crypt)) {
            errno = ENOMEM;
            return -1;
        }
        crypt = greet->crypt;
        greet->crypt = NULL;
    }
    tci_greet_fini(greet);
    *crypt_out = crypt;
    return 0;
}

void tci_greet_fini(struct tci_greet *greet)
{
    tci_crypt_free(greet->crypt);
    greet->crypt = NULL;
    if (greet->auth != NULL)
        tci_auth_fini(greet->auth);
    tci_free(greet->auth);
    greet->auth = NULL;
}
