/* tcp_cut.c - messages out of memory that is not there leave the stream, which goes on. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/assert.h"
#include "core/reach.h"
#include "net/tcp_link.h"

/* The system refuses a write when a part of it cannot be read.  Who wrote a header before has
 * promised the payload; so the two leave together, while nothing of them has left. */

static struct tci_link *link_of(struct tci_link *main, int i)
{
    return i < 0 ? main : main->sides[i];
}

static bool is_missing(const struct tci_span *span)
{
    return span->xfer != NULL && span->data != NULL &&
           !tci_reach_all(span->data, (size_t)span->len);
}

static bool find_missing(struct tci_link *main, struct tci_key *key_out)
{
    for (int i = -1; i < TCI_TCP_SIDES; i++) {
        struct tci_link *link = link_of(main, i);

        for (uint64_t at = link != NULL ? link->log.first : 0; link != NULL && at != link->log.last;
             at++) {
            const struct tci_span *span = tci_log_span(&link->log, at);

            if (!is_missing(span))
                continue;
            *key_out = span->xfer->key;
            return true;
        }
    }
    return false;
}

/* The number of the frame is taken: it becomes an acknowledgement of nothing.  False: it has
 * begun. */
static bool cut(struct tci_link *link, uint64_t at)
{
    struct tci_span *span = tci_log_span(&link->log, at);
    struct tci_xfer *xfer = span->xfer;
    struct tci_link *main = link->main;
    struct tci_frame frame;
    uint8_t *head;

    if (at == link->log.first || span->begin < link->log.most + TCI_HEAD_BYTES)
        return false;
    head = tci_log_before(&link->log, at, TCI_HEAD_BYTES);
    if (tci_frame_decode(head, &frame) != NULL)
        return false;
    TC_ASSERT(frame.kind == TCI_FRAME_DATA && frame.length == span->len);
    if (frame.total <= link->tcp->eager_max)
        main->eager_framed -= xfer->len + TCI_TCP_EAGER_COST;
    frame = (struct tci_frame){.kind = TCI_FRAME_ACK, .seq = frame.seq};
    tci_frame_encode(&frame, head);
    xfer->room[TCI_ROOM_SURE] += span->len;
    tci_log_cut(&link->log, at);
    if (xfer->room[TCI_ROOM_SURE] == xfer->len)
        tci_link_end_send(main, xfer, TC_ERR_INVALID_ARG);
    return true;
}

static bool cut_tag(struct tci_link *main, const struct tci_key *key)
{
    for (int i = -1; i < TCI_TCP_SIDES; i++) {
        struct tci_link *link = link_of(main, i);

        for (uint64_t at = link != NULL ? link->log.first : 0; link != NULL && at != link->log.last;
             at++) {
            const struct tci_span *span = tci_log_span(&link->log, at);

            if (is_missing(span) && tci_key_is_same_tag(&span->xfer->key, key) && !cut(link, at))
                return false;
        }
    }
    return true;
}

bool tci_link_cut_missing(struct tci_link *main)
{
    struct tci_key key;
    bool has_cut = false;

    while (find_missing(main, &key)) {
        if (!cut_tag(main, &key))
            return false;
        tci_link_abort_sends(main, &key, TC_ERR_INVALID_ARG);
        has_cut = true;
    }
    return has_cut;
}
