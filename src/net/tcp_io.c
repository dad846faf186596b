/* tcp_io.c - bytes from the socket to headers and to the places of payloads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "core/assert.h"

/* One poll of a link ends after so many, or as much as a turn carries. */
enum { READS_MAX = 8 };

/* More than the peer writes in a short turn, so that nothing piles up between the two. */
static size_t read_max(const struct tci_tcp *tcp)
{
    size_t most = tci_tcp_turn_bytes(tcp);

    return most < TCI_TCP_TURN ? 2 * most : most;
}

/* Payloads that are at least so long are read to their place, shorter ones with their
 * neighbours into the input buffer: the copy costs less than another system call. */
enum { DIRECT_MIN = 4096 };

/* One system call: where its bytes go. */
struct reading {
    struct iovec iov[2];
    int count;
};

/* The input comes last.  While a large message is expected no more than a header is read ahead,
 * so that no byte of its payload has to be copied. */
static void add_input(const struct tci_link *link, struct reading *reading, bool is_head)
{
    size_t len = TCI_TCP_INPUT;

    if (link->main->large > 0)
        len = TCI_HEAD_BYTES - (is_head ? link->rx.have : 0);
    reading->iov[reading->count++] = (struct iovec){link->tcp->input, len};
}

static void prepare(struct tci_link *link, struct reading *reading)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_rx *rx = &link->rx;
    size_t left = (size_t)rx->left, most = tci_tcp_turn_bytes(tcp);
    struct tci_xfer *xfer = rx->xfer;

    *reading = (struct reading){0};
    if (rx->mode == TCI_RX_HEAD || rx->mode == TCI_RX_NOTICE ||
        (left < DIRECT_MIN && link->main->large == 0)) {
        add_input(link, reading, rx->mode == TCI_RX_HEAD);
        return;
    }
    if (rx->mode == TCI_RX_XFER && xfer->fold == NULL) {
        reading->iov[0].iov_base = (uint8_t *)xfer->data + rx->place.at;
        reading->iov[0].iov_len = tci_min(left, most);
    } else if (rx->mode == TCI_RX_EARLY) {
        reading->iov[0] = (struct iovec){rx->early->payload + rx->early->filled, left};
    } else {
        reading->iov[0] =
            (struct iovec){tcp->staging, tci_min(tci_min(left, TCI_TCP_STAGING), most)};
    }
    reading->count = 1;
    if (reading->iov[0].iov_len == left)
        add_input(link, reading, false);
}

/* Bytes that were read to where prepare() said. */
static void placed(struct tci_link *link, size_t len)
{
    struct tci_tcp *tcp = link->tcp;
    struct tci_rx *rx = &link->rx;

    rx->left -= len;
    link->received += len;
    if (rx->mode == TCI_RX_EARLY) {
        rx->early->filled += len;
    } else if (rx->mode == TCI_RX_XFER && rx->xfer->fold == NULL) {
        rx->xfer->room[TCI_ROOM_DONE] += len;
        rx->place.at += len;
    } else if (rx->mode == TCI_RX_XFER) {
        tci_xfer_deliver(tcp, rx->xfer, &rx->place, tcp->staging, len);
    }
}

/* A part of the payload that lies in the input. */
static void copy_payload(struct tci_link *link, const uint8_t *from, size_t len)
{
    struct tci_rx *rx = &link->rx;

    rx->left -= len;
    if (rx->mode == TCI_RX_XFER) {
        tci_xfer_deliver(link->tcp, rx->xfer, &rx->place, from, len);
    } else if (rx->mode == TCI_RX_EARLY) {
        memcpy(rx->early->payload + rx->early->filled, from, len);
        rx->early->filled += len;
        link->tcp->stats.bytes_copied += len;
    } else if (rx->mode == TCI_RX_NOTICE) {
        memcpy(rx->notice + rx->have, from, len);
        rx->have += (unsigned)len;
    }
}

static const char *take_head(struct tci_link *link, const uint8_t *wire)
{
    const char *wrong = tci_frame_decode(wire, &link->rx.frame);

    link->rx.have = 0;
    if (wrong == NULL)
        wrong = tci_link_on_frame(link);
    if (wrong == NULL && link->rx.left == 0)
        wrong = tci_link_on_payload(link);
    return wrong;
}

/* Take the input apart.  NULL, or what is wrong with it. */
static const char *take_input(struct tci_link *link, const uint8_t *at, size_t len)
{
    struct tci_rx *rx = &link->rx;
    const char *wrong = NULL;

    while (len > 0 && wrong == NULL) {
        size_t part;

        if (rx->mode == TCI_RX_HEAD) {
            part = tci_min(len, TCI_HEAD_BYTES - rx->have);
            link->received += part;
            if (part == TCI_HEAD_BYTES) {
                wrong = take_head(link, at);
            } else {
                memcpy(rx->head + rx->have, at, part);
                rx->have += (unsigned)part;
                /* A stranger's few bytes are not waited for to become a header. */
                wrong = rx->have == TCI_HEAD_BYTES ? take_head(link, rx->head)
                                                   : tci_frame_begins(rx->head, rx->have);
            }
        } else {
            part = tci_min(len, (size_t)rx->left);
            link->received += part;
            copy_payload(link, at, part);
            if (rx->left == 0)
                wrong = tci_link_on_payload(link);
        }
        at += part;
        len -= part;
    }
    return wrong;
}

/* What was read; NULL, or what is wrong with it. */
static const char *take(struct tci_link *link, const struct reading *reading, size_t len)
{
    const char *wrong = NULL;

    link->tcp->stats.bytes_received += len;
    if (reading->iov[0].iov_base != link->tcp->input) {
        size_t part = tci_min(len, reading->iov[0].iov_len);

        placed(link, part);
        len -= part;
        if (link->rx.left == 0)
            wrong = tci_link_on_payload(link);
    }
    if (wrong == NULL && len > 0)
        wrong = take_input(link, link->tcp->input, len);
    return wrong;
}

/* The place of the payload is not there: its receive ends, and the rest of it goes nowhere. */
static bool leave_place(struct tci_link *link)
{
    struct tci_rx *rx = &link->rx;

    if (rx->mode != TCI_RX_XFER || rx->xfer->fold != NULL)
        return false;
    tci_link_end_recv(link->main, rx->xfer, TC_ERR_INVALID_ARG);
    TC_ASSERT(rx->mode == TCI_RX_DISCARD);
    return true;
}

unsigned tci_link_read(struct tci_link *link)
{
    size_t bytes = 0, most = read_max(link->tcp);
    unsigned reads;

    for (reads = 0; (reads < READS_MAX && bytes < most) || tci_link_has_input(link); reads++) {
        struct reading reading;
        size_t asked = 0;
        const char *wrong;
        ssize_t got;

        prepare(link, &reading);
        for (int i = 0; i < reading.count; i++)
            asked += reading.iov[i].iov_len;
        got = tci_link_readv(link, reading.iov, reading.count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            break;
        if (got < 0 && errno == EFAULT && leave_place(link))
            continue;
        if (got <= 0) {
            tci_link_break(link, got == 0 ? 0 : errno);
            return reads + 1;
        }
        bytes += (size_t)got;
        wrong = take(link, &reading, (size_t)got);
        if (wrong == tci_tcp_no_memory) {
            tci_link_starve(link);
            return reads + 1;
        }
        if (wrong != NULL) {
            tci_link_lose(link, TC_REASON_NONE, "broke the protocol: it sent %s", wrong);
            return reads + 1;
        }
        if ((size_t)got < asked && !tci_link_has_input(link))
            return reads + 1;
    }
    return reads;
}
