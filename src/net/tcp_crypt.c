/* tcp_crypt.c - links with keys: what is written and read below their frames, and refusals. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "net/tcp_link.h"

ssize_t tci_link_writev(struct tci_link *link, struct iovec *iov, int count)
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    ssize_t sent;

    if (link->crypt != NULL)
        return count > 0 ? tci_crypt_writev(link->crypt, link->fd, iov, count)
                         : tci_crypt_flush(link->crypt, link->fd);
    if (count == 0)
        return 0;
    do
        sent = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
}

ssize_t tci_link_readv(struct tci_link *link, struct iovec *iov, int count)
{
    if (link->crypt != NULL)
        return tci_crypt_readv(link->crypt, link->fd, iov, count);
    /* Most reads have one place, and by readv() one of a few bytes takes the kernel 0.4 us more. */
    if (count == 1)
        return recv(link->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);
    return readv(link->fd, iov, count);
}

void tci_link_auth_config(const struct tci_tcp *tcp, uint32_t peer, bool is_dialer,
                          struct tci_auth_config *config_out)
{
    *config_out = (struct tci_auth_config){.keyring = tcp->keyring,
                                           .place = TCI_AUTH_AT_LINK,
                                           .is_dialer = is_dialer,
                                           .self = tcp->rank,
                                           .size = tcp->size,
                                           .peer = peer};
    memcpy(config_out->group_id, tcp->group_id, TCI_GROUP_ID);
}

void tci_link_lose_denied(struct tci_link *link)
{
    struct tci_auth auth = {
        .peer = link->peer, .reason = link->denied, .by_peer = link->is_denied_by_peer};
    char text[256];

    tci_link_auth_config(link->tcp, link->peer, true, &auth.config);
    tci_link_lose(link, tci_auth_class(link->denied), "cannot be linked with: %s",
                  tci_auth_explain(&auth, text, sizeof(text)));
}
