/* tcp_side.c - further connections of a link, which pieces of large messages are striped over. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp_link.h"

#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/log.h"
#include "core/reduce.h"

/*   NONE --lower rank dials, higher takes--> UP --failed--> HEALING --both have told--> NONE
 *
 * Each connection takes the next piece of a large message when its socket takes bytes, so that a
 * fast one carries more.  Pieces say to which grant they belong and where, so that their order
 * does not matter.  All else goes over the main one.
 *
 * A side that fails is not healed.  Each end tells the other over the main connection how many
 * bytes had come; what had not goes over the main one, from the middle of a piece if it must be,
 * and the side is made anew, empty.  The main connection is the one that heals: it carries all
 * that has an order.
 */
enum { RETRY_MIN_MS = 50, RETRY_MAX_MS = 5000, TRY_MS = 5000 };

static void wake_after(struct tci_link *side, uint64_t ms)
{
    struct tci_exec *exec = side->tcp->exec;

    tci_link_wake_at(side, exec->ops->now_ns(exec) + ms * TCI_NS_PER_MS);
}

static bool is_dialer(const struct tci_link *side)
{
    return side->tcp->rank < side->peer;
}

/* Once the link is about to end, or before it has a token, there is nothing to make. */
static bool may_make(const struct tci_link *main)
{
    return (main->state == TCI_LINK_UP || main->state == TCI_LINK_HEALING) &&
           main->heal.token != 0 && !main->has_left && !main->bye_queued;
}

static struct tci_link *side_get(struct tci_link *main, uint32_t index)
{
    struct tci_link *side = main->sides[index - 1];

    if (side != NULL)
        return side;
    side = tci_alloc(sizeof(*side));
    if (side == NULL)
        return NULL;
    tci_link_init(side, main->tcp, main->peer);
    side->main = main;
    side->index = index;
    side->backoff_ms = RETRY_MIN_MS;
    main->sides[index - 1] = side;
    main->side_count++;
    return side;
}

/* Whether this rank makes them. */
static bool makes_sides(const struct tci_link *main)
{
    const struct tci_tcp *tcp = main->tcp;

    return tcp->rank < main->peer && !tcp->is_ring && !main->is_piped &&
           tcp->addrs[main->peer].len != 0;
}

void tci_sides_start(struct tci_link *main)
{
    struct tci_tcp *tcp = main->tcp;

    if (!makes_sides(main))
        return;
    for (uint32_t index = 1; index < tcp->connections; index++) {
        struct tci_link *side = side_get(main, index);

        if (side != NULL)
            wake_after(side, 0);
    }
}

/* It stays: where urgent messages and large ones go at the same time they will do so again. */
void tci_sides_want(struct tci_link *main)
{
    struct tci_link *side;

    if (main->tcp->short_for == 0 || main->sides[TCI_TCP_ASIDE - 1] != NULL ||
        main->tcp->connections > 1 || !makes_sides(main))
        return;
    side = side_get(main, TCI_TCP_ASIDE);
    if (side != NULL)
        wake_after(side, 0);
}

bool tci_side_carries(const struct tci_link *side)
{
    return side->state == TCI_LINK_UP && (side->index != TCI_TCP_ASIDE || side->tcp->short_for > 0);
}

bool tci_sides_carry(const struct tci_link *main)
{
    for (int i = 0; i < TCI_TCP_SIDES && main->side_count > 0; i++)
        if (main->sides[i] != NULL && tci_side_carries(main->sides[i]))
            return true;
    return false;
}

void tci_sides_end(struct tci_link *main)
{
    for (int i = 0; i < TCI_TCP_SIDES; i++) {
        struct tci_link *side = main->sides[i];

        if (side == NULL)
            continue;
        tci_link_dial_end(side);
        side->tcp->exec->ops->timer_clear(side->tcp->exec, &side->timer);
        tci_link_drop_fd(side);
        tci_log_fini(&side->log);
        side->state = TCI_LINK_DOWN;
    }
}

void tci_sides_free(struct tci_link *main)
{
    for (int i = 0; i < TCI_TCP_SIDES; i++)
        tci_free(main->sides[i]);
}

void tci_sides_wake(struct tci_link *main)
{
    for (int i = 0; i < TCI_TCP_SIDES && main->side_count > 0; i++) {
        struct tci_link *side = main->sides[i];

        if (side != NULL && tci_side_carries(side) && tci_list_is_empty(&side->sending_link))
            tci_list_add(&side->tcp->sending, &side->sending_link);
    }
}

void tci_sides_forget(struct tci_link *main, const struct tci_xfer *xfer)
{
    for (int i = -1; i < TCI_TCP_SIDES && (i < 0 || main->side_count > 0); i++) {
        struct tci_link *link = i < 0 ? main : main->sides[i];

        if (link == NULL || link->rx.xfer != xfer)
            continue;
        link->rx.xfer = NULL;
        link->rx.mode = TCI_RX_DISCARD;
    }
}

/* ---- Made ----------------------------------------------------------------------------------- */

static void dial(struct tci_link *side)
{
    struct tci_exec *exec = side->tcp->exec;

    side->state = TCI_LINK_DIALING;
    side->made++;
    side->addr = *tci_tcp_path(side->tcp, side->peer, side->index);
    side->deadline_ns = exec->ops->now_ns(exec) + TRY_MS * TCI_NS_PER_MS;
    tci_link_dial_once(side);
}

void tci_side_dial_failed(struct tci_link *side)
{
    tci_watch_del(&side->watch);
    if (side->fd >= 0)
        close(side->fd);
    side->fd = -1;
    tci_greet_fini(&side->greet);
    tci_crypt_free(side->crypt);
    side->crypt = NULL;
    side->state = TCI_LINK_NONE;
    wake_after(side, side->backoff_ms);
    side->backoff_ms = (uint32_t)tci_min(2 * (size_t)side->backoff_ms, RETRY_MAX_MS);
}

void tci_side_on_timer(struct tci_link *side)
{
    if (side->state == TCI_LINK_DIALING) {
        tci_side_dial_failed(side);
        return;
    }
    if (side->state != TCI_LINK_NONE || !is_dialer(side))
        return;
    if (may_make(side->main) && side->log.first == side->log.last)
        dial(side);
    else if (!side->main->has_left && !side->main->bye_queued)
        wake_after(side, side->backoff_ms);
}

struct tci_link *tci_side_wanted(struct tci_link *main, const struct tci_hello *hello)
{
    struct tci_link *side;

    if (!may_make(main) || !tci_link_has_token(main, hello->token) ||
        hello->index > TCI_TCP_SIDES || hello->from > main->tcp->rank)
        return NULL;
    side = side_get(main, hello->index);
    if (side == NULL || side->state != TCI_LINK_NONE || side->log.first != side->log.last ||
        hello->attempt <= side->made)
        return NULL;
    side->made = hello->attempt;
    return side;
}

/* ---- Broken --------------------------------------------------------------------------------- */

static void tell(struct tci_link *side, uint32_t made, uint64_t received)
{
    struct tci_frame frame = {
        .kind = TCI_FRAME_SIDE, .key = {.tag = side->index, .use = made}, .total = received};

    tci_link_control(side->main, &frame, NULL);
}

/* The rest of a piece comes again, from its next element on. */
static void drop_piece(struct tci_link *side)
{
    struct tci_rx *rx = &side->rx;
    struct tci_xfer *xfer = rx->xfer;
    uint64_t have;

    if (rx->mode == TCI_RX_XFER) {
        have = xfer->fold == NULL ? 0 : rx->place.at % xfer->fold->size;
        xfer->room[TCI_ROOM_SURE] -= rx->left + have;
        xfer->room[TCI_ROOM_DONE] -= have;
        side->received -= have;
    }
    *rx = (struct tci_rx){.mode = TCI_RX_HEAD};
}

void tci_side_break(struct tci_link *side)
{
    tci_link_drop_fd(side);
    side->state = TCI_LINK_HEALING;
    side->send_errno = 0;
    side->tcp->stats.breaks++;
    drop_piece(side);
    tci_log(TC_LOG_INFO, "connection %u with rank %u broke: the others carry on", side->index,
            side->peer);
    tell(side, side->made, side->received);
}

const char *tci_side_on_told(struct tci_link *main, const struct tci_frame *frame)
{
    struct tci_link *side;

    if (frame->key.tag == 0 || frame->key.tag > TCI_TCP_SIDES)
        return "the end of a connection that there cannot be";
    side = main->sides[frame->key.tag - 1];
    if (side != NULL && side->state == TCI_LINK_UP && side->made == frame->key.use)
        tci_side_break(side);
    if (side == NULL || side->state != TCI_LINK_HEALING || side->made != frame->key.use) {
        if (side != NULL && is_dialer(side)) /* it never stood here */
            tell(side, frame->key.use, 0);
        return NULL;
    }
    if (!tci_log_rewind(&side->log, frame->total))
        return "an acknowledgement of what was never sent";
    side->state = TCI_LINK_NONE;
    side->seq_in = side->seq_out = 0;
    side->received = side->received_told = 0;
    side->backoff_ms = RETRY_MIN_MS;
    if (side->log.first == side->log.last)
        tci_log_fini(&side->log);
    if (main->state == TCI_LINK_UP && tci_list_is_empty(&main->sending_link))
        tci_list_add(&main->tcp->sending, &main->sending_link);
    if (is_dialer(side))
        wake_after(side, side->backoff_ms);
    return NULL;
}

/* ---- What a side that has ended had to send -------------------------------------------------- */

static struct tci_link *with_rest(const struct tci_link *main)
{
    for (int i = 0; i < TCI_TCP_SIDES && main->side_count > 0; i++) {
        struct tci_link *side = main->sides[i];

        if (side != NULL && side->state == TCI_LINK_NONE && side->log.first != side->log.last)
            return side;
    }
    return NULL;
}

bool tci_sides_have_rest(const struct tci_link *main)
{
    return with_rest(main) != NULL;
}

bool tci_sides_put_rest(struct tci_link *main)
{
    struct tci_link *side = with_rest(main);
    struct tci_log *log = &side->log;
    bool has_put = false;

    while (log->first != log->last && !has_put) {
        struct tci_span *span = tci_log_span(log, log->first);
        struct tci_xfer *xfer = span->xfer;
        uint64_t done = log->acked > span->begin ? log->acked - span->begin : 0;

        if (xfer != NULL) {
            uint64_t offset = (uint64_t)(span->data - (const uint8_t *)xfer->data) + done;

            if (!tci_link_put_piece(main, xfer, offset, (size_t)(span->len - done)))
                return false;
            xfer->room[TCI_ROOM_SURE] += done;
            span->xfer = NULL;
            has_put = true;
        }
        tci_log_drop(log);
    }
    if (log->first == log->last)
        tci_log_fini(log);
    return has_put;
}
