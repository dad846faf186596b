/* shm_link.c - a link over shared memory: its life, its records, and what the loop polls. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shm_link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/plan.h"
#include "net/frame.h"

/* ---- The life of a link ---- */

struct tci_shm_link *tci_shm_link_get(struct tci_shm *shm, uint32_t peer)
{
    struct tci_shm_link *link = shm->links[peer];

    if (link != NULL)
        return link;
    link = tci_alloc(sizeof(*link));
    if (link == NULL)
        return NULL;
    link->shm = shm;
    link->peer = peer;
    link->region_fd = link->pidfd = link->bell = -1;
    tci_list_init(&link->near_link);
    tci_list_init(&link->asked);
    tci_list_init(&link->pulls);
    tci_list_init(&link->waiting);
    shm->links[peer] = link;
    return link;
}

int tci_shm_link_up(struct tci_shm_link *link, bool is_maker)
{
    struct tci_shm *shm = link->shm;
    uint8_t *rings = (uint8_t *)link->region + TCI_SHM_RINGS_AT;
    int out = is_maker ? 0 : 1;

    if (shm->match == NULL) {
        shm->match = tci_alloc_raw(sizeof(*shm->match));
        if (shm->match == NULL)
            return -1;
        tci_match_init(shm->match);
    }
    if (shm->staging == NULL && (shm->staging = tci_alloc_raw(TCI_SHM_READ_MAX)) == NULL)
        return -1;
    link->writer = (struct tci_shm_writer){.way = &link->region->ways[out],
                                           .ring = rings + (size_t)out * TCI_SHM_RING};
    link->reader = (struct tci_shm_reader){.way = &link->region->ways[1 - out],
                                           .ring = rings + (size_t)(1 - out) * TCI_SHM_RING};
    /* what is tried first is never much dearer: past the caches it takes twice the time at most,
     * through them five times */
    tci_shm_trial_init(&link->store, TCI_SHM_PAST_CACHES, TCI_SHM_RING);
    link->state = TCI_SHM_NEAR;
    tci_list_add(&shm->near, &link->near_link);
    return 0;
}

/* What the link holds of the system. */
static void release(struct tci_shm_link *link)
{
    tci_shm_unmap_all(link);
    if (link->region != NULL)
        munmap(link->region, tci_shm_region_bytes());
    link->region = NULL;
    if (link->region_fd >= 0)
        close(link->region_fd);
    if (link->bell >= 0)
        close(link->bell);
    if (link->pidfd >= 0)
        close(link->pidfd);
    link->region_fd = link->bell = link->pidfd = -1;
}

static void end_pending(struct tci_shm_link *link, tc_status_t status)
{
    struct tci_xfer *xfer;

    while ((xfer = link->pending.head) != NULL) {
        tci_xfers_del(&link->pending, xfer);
        tci_shm_complete(link, xfer, status);
    }
}

void tci_shm_link_end(struct tci_shm_link *link, tc_status_t status)
{
    if (link->state == TCI_SHM_FAR || link->state == TCI_SHM_GONE)
        return;
    if (link->has_put)
        tci_shm_ring_all(link->shm);
    link->state = TCI_SHM_GONE;
    end_pending(link, status);
    tci_shm_abort_sends(link, NULL, status);
    if (link->live > 0 || link->held > 0 || link->early_held > 0)
        tci_match_end(link->shm->match, &tci_shm_ends, link->shm, NULL, (int)link->peer, status);
    TC_ASSERT(link->live == 0);
    tci_list_del(&link->near_link);
    tci_free(link->queue.data);
    tci_free(link->loans);
    link->queue = (struct tci_shm_queue){0};
    link->loans = NULL;
    link->loan_count = link->loan_room = link->loan_free = 0;
    release(link);
    tci_shm_check_left(link->shm);
}

void tci_shm_link_lose(struct tci_shm_link *link, const char *how)
{
    struct tci_shm *shm = link->shm;
    char text[256];

    if (link->state == TCI_SHM_GONE)
        return;
    snprintf(text, sizeof(text), "%.230s (shared memory)", how);
    link->is_lost = true;
    tci_shm_link_end(link, TC_ERR_PEER_LOST);
    shm->base.sink->lost(shm->base.sink, link->peer, TC_REASON_LINK_DEAD, text);
}

void tci_shm_link_free(struct tci_shm_link *link)
{
    if (link == NULL)
        return;
    if (link->state == TCI_SHM_NEAR)
        (void)tci_shm_flush(link); /* why it ends, above all */
    tci_shm_link_end(link, TC_ERR_CLOSED);
    release(link);
    tci_free(link);
}

/* ---- Records out ---- */

static void wake_peer(struct tci_shm_link *link)
{
    struct tci_shm_way *way = link->writer.way;

    /* seq_cst: behind tci_shm_fence */
    if (atomic_load_explicit(&way->is_asleep, memory_order_seq_cst) == 0 ||
        atomic_exchange_explicit(&way->is_asleep, 0, memory_order_relaxed) == 0)
        return;
    while (write(link->bell, "", 1) < 0 && errno == EINTR) {
    } /* EAGAIN: it has been rung before */
}

void tci_shm_ring(struct tci_shm_link *link)
{
    tci_shm_fence();
    wake_peer(link);
}

void tci_shm_ring_later(struct tci_shm_link *link)
{
    if (link->has_put)
        return;
    link->has_put = true;
    link->next_put = link->shm->put;
    link->shm->put = link;
}

void tci_shm_ring_all(struct tci_shm *shm)
{
    struct tci_shm_link *link = shm->put;

    if (link == NULL)
        return;
    tci_shm_fence();
    shm->put = NULL;
    for (; link != NULL; link = link->next_put) {
        link->has_put = false;
        wake_peer(link);
    }
}

bool tci_shm_is_clear(const struct tci_shm_link *link)
{
    return link->queue.len == 0 && link->sends.head == NULL && tci_list_is_empty(&link->asked);
}

static bool queue_record(struct tci_shm_link *link, const struct tci_shm_head *head,
                         const void *payload, size_t len)
{
    struct tci_shm_queue *queue = &link->queue;
    size_t more = sizeof(*head) + len;

    if (queue->room - queue->len < more) {
        size_t room = tci_max(2 * queue->room, queue->len + tci_max(more, 2048));
        uint8_t *data = tci_realloc_array(queue->data, room, 1);

        if (data == NULL)
            return false;
        queue->data = data;
        queue->room = room;
    }
    memcpy(queue->data + queue->len, head, sizeof(*head));
    ((struct tci_shm_head *)(void *)(queue->data + queue->len))->len = (uint32_t)len;
    if (len > 0)
        memcpy(queue->data + queue->len + sizeof(*head), payload, len);
    queue->len += more;
    return true;
}

void tci_shm_control(struct tci_shm_link *link, const struct tci_shm_head *head,
                     const void *payload, size_t len)
{
    struct tci_shm_head *at;

    if (link->state != TCI_SHM_NEAR)
        return;
    at = link->queue.len == 0 ? tci_shm_room(&link->writer, len) : NULL;
    if (at == NULL) {
        if (!queue_record(link, head, payload, len))
            link->writer.is_broken = true; /* without memory: lost at the next poll */
        return;
    }
    *at = *head;
    if (len > 0)
        memcpy(tci_shm_payload(at), payload, len);
    tci_shm_put(&link->writer, at, len);
    tci_shm_ring(link);
}

/* ---- Records in ---- */

static const char *on_notice(struct tci_shm_link *link, const struct tci_shm_head *head,
                             const uint8_t *payload)
{
    struct tci_shm *shm = link->shm;
    uint8_t copy[TCI_NOTICE_BYTES];
    struct tci_frame frame = {.key = tci_shm_key_of(head), .call = tci_shm_call_of(head)};
    struct tci_notice notice;
    const char *wrong;

    if (head->len != TCI_NOTICE_BYTES || head->space >= TCI_SPACE_COUNT ||
        head->coll >= TCI_COLL_COUNT)
        return "a notice that is none";
    memcpy(copy, payload, sizeof(copy));
    wrong = tci_notice_decode(&frame, copy, &notice);
    if (wrong == NULL && notice.culprit >= (int32_t)shm->size)
        wrong = "a notice that blames no rank there is";
    if (wrong == NULL)
        shm->base.sink->notice(shm->base.sink, link->peer, &notice);
    return wrong;
}

/* After its goodbye a peer sends nothing of its own, but still takes what it is sent. */
static bool is_answer(const struct tci_shm_head *head)
{
    return head->kind == TCI_SHM_TAKEN || head->kind == TCI_SHM_PULL || head->kind == TCI_SHM_ASK;
}

static const char *on_record(struct tci_shm_link *link, const struct tci_shm_head *head,
                             const uint8_t *payload)
{
    if (link->has_left && !is_answer(head))
        return "a record after its goodbye";
    switch (head->kind) {
    case TCI_SHM_DATA:
    case TCI_SHM_LEND:
        return tci_shm_on_message(link, head, payload);
    case TCI_SHM_TAKEN:
        tci_shm_on_taken(link, head->tag);
        return NULL;
    case TCI_SHM_PULL:
        return tci_shm_on_pull(link, head);
    case TCI_SHM_PIECE:
        return tci_shm_on_piece(link, head, payload);
    case TCI_SHM_ASK:
        tci_shm_on_ask(link, head->tag);
        return NULL;
    case TCI_SHM_GOOD:
        tci_shm_on_good(link, head);
        return NULL;
    case TCI_SHM_NOTICE:
        return on_notice(link, head, payload);
    default:
        link->has_left = true;
        return NULL;
    }
}

static void lose_for(struct tci_shm_link *link, const char *wrong)
{
    char how[200];

    snprintf(how, sizeof(how), "sent %s", wrong);
    tci_shm_link_lose(link, how);
}

void tci_shm_link_tell(struct tci_shm_link *link, bool is_due)
{
    struct tci_shm_reader *reader = &link->reader;

    if (!is_due && reader->at - reader->told < TCI_SHM_RING / 4 &&
        atomic_load_explicit(&reader->way->wants_room, memory_order_relaxed) == 0)
        return;
    /* relaxed: a number alone */
    atomic_store_explicit(&reader->way->consumed, link->consumed, memory_order_relaxed);
    for (int i = 0; i < 2; i++) {
        atomic_store_explicit(&reader->way->read_ns[i], reader->read_ns[i], memory_order_relaxed);
        atomic_store_explicit(&reader->way->read_bytes[i], reader->read_bytes[i],
                              memory_order_relaxed);
    }
    if (tci_shm_tell(reader))
        while (write(link->bell, "", 1) < 0 && errno == EINTR) {
        }
}

/* Whether the peer is reading what we lend: it will soon have done, and not to be asleep by then
 * saves it the bell, and us the time to wake up. */
static bool is_being_read(struct tci_shm_link *link)
{
    uint32_t before = link->pieces_seen;

    if (link->sends_live == 0)
        return false;
    /* relaxed: a hint */
    link->pieces_seen = atomic_load_explicit(&link->writer.way->pieces, memory_order_relaxed);
    return link->pieces_seen != before;
}

unsigned tci_shm_link_poll(struct tci_shm_link *link, unsigned budget)
{
    struct tci_shm_head head;
    const uint8_t *payload;
    const char *wrong = NULL;
    unsigned count = 0;

    /* What comes when nothing is awaited any more would only be kept: it can lie where it is. */
    while (count < budget && (count == 0 || link->live > 0) &&
           tci_shm_next(&link->reader, &head, &payload, &wrong)) {
        wrong = on_record(link, &head, payload);
        if (link->state != TCI_SHM_NEAR)
            return count + 1;
        if (wrong != NULL)
            break;
        tci_shm_skip(&link->reader, &head);
        count++;
    }
    if (wrong == NULL && link->writer.is_broken)
        wrong = "nonsense about what it has read, or there was no memory to answer it";
    if (wrong != NULL) {
        lose_for(link, wrong);
        return count + 1;
    }
    /* Of what was read just now the time is told when there is time. */
    if (count == 0 && link->is_fresh)
        link->read_ns = link->shm->exec->ops->now_ns(link->shm->exec);
    link->is_fresh = count > 0;
    tci_shm_link_tell(link, false);
    return count > 0 || !is_being_read(link) ? count : 1;
}

/* ---- The source ---- */

static void wake_up(struct tci_shm *shm)
{
    struct tci_list *at;

    shm->is_armed = false;
    for (at = shm->near.next; at != &shm->near; at = at->next) {
        struct tci_shm_link *link = tci_container_of(at, struct tci_shm_link, near_link);

        atomic_store_explicit(&link->reader.way->is_asleep, 0, memory_order_relaxed);
    }
}

static bool has_output(const struct tci_shm_link *link)
{
    return !tci_shm_is_clear(link) || (link->is_leaving && !link->bye_put);
}

void tci_shm_say_bye(struct tci_shm_link *link)
{
    struct tci_shm_head head = {.kind = TCI_SHM_BYE};

    if (link->bye_put || link->sends_live > 0 || !tci_shm_is_clear(link))
        return;
    tci_shm_control(link, &head, NULL, 0);
    link->bye_put = true;
}

static unsigned poll_link(struct tci_shm_link *link, unsigned budget)
{
    unsigned work = tci_shm_link_poll(link, tci_min(budget, TCI_SHM_BATCH));

    if (link->state == TCI_SHM_NEAR && has_output(link))
        work += tci_shm_flush(link);
    if (link->state == TCI_SHM_NEAR && (link->is_leaving || link->shm->is_leaving)) {
        tci_shm_say_bye(link);
        tci_shm_check_left(link->shm);
    }
    return work;
}

unsigned tci_shm_poll(struct tci_source *source, unsigned budget)
{
    struct tci_shm *shm = tci_container_of(source, struct tci_shm, source);
    struct tci_list *at, *next;
    unsigned work = 0;
    bool is_reading = false;

    if (shm->is_armed)
        wake_up(shm);
    shm->awaited.ended = INT_MIN;
    for (at = shm->near.next; at != &shm->near; at = next) {
        struct tci_shm_link *link = tci_container_of(at, struct tci_shm_link, near_link);

        next = at->next;
        if (work < budget)
            work += poll_link(link, budget);
        is_reading = is_reading || !tci_list_is_empty(&link->pulls);
    }
    /* What has come goes first, once: to read a piece takes long. */
    shm->has_put_off = is_reading && work > 0 && !shm->has_put_off;
    if (is_reading && !shm->has_put_off)
        work += tci_shm_pull_some(shm);
    /* Nobody is always the first. */
    at = tci_list_first(&shm->near);
    if (at != NULL && at->next != &shm->near) {
        tci_list_del(at);
        tci_list_add(&shm->near, at);
    }
    return work;
}

static bool arm_link(struct tci_shm_link *link)
{
    /* seq_cst: each pairs with the other side's writing and then looking */
    atomic_store_explicit(&link->reader.way->is_asleep, 1, memory_order_seq_cst);
    if (tci_shm_has_next(&link->reader) || !tci_list_is_empty(&link->pulls))
        return false;
    tci_shm_link_tell(link, true);
    if (tci_shm_is_clear(link))
        return true;
    atomic_store_explicit(&link->writer.way->wants_room, 1, memory_order_seq_cst);
    return tci_shm_flush(link) == 0;
}

bool tci_shm_arm(struct tci_source *source)
{
    struct tci_shm *shm = tci_container_of(source, struct tci_shm, source);
    struct tci_list *at;

    shm->is_armed = true;
    for (at = shm->near.next; at != &shm->near; at = at->next)
        if (!arm_link(tci_container_of(at, struct tci_shm_link, near_link)))
            return false;
    return true;
}

bool tci_shm_expects(struct tci_source *source)
{
    return tci_container_of(source, struct tci_shm, source)->live > 0;
}

/* ---- The bell ---- */

static void on_bell(struct tci_watch *watch, uint32_t ready)
{
    char rung[256];

    (void)ready;
    while (read(watch->fd, rung, sizeof(rung)) == (ssize_t)sizeof(rung)) {
    } /* what it was rung for is found by the next poll */
}

int tci_shm_bell_open(struct tci_shm *shm)
{
    if (shm->bell[0] >= 0)
        return 0;
    if (tci_shm_make_bell(shm->bell) != 0)
        return -1;
    shm->bell_watch.fn = on_bell;
    if (tci_watch_add(shm->loop, &shm->bell_watch, shm->bell[0], TC_READABLE) == 0)
        return 0;
    close(shm->bell[0]);
    close(shm->bell[1]);
    shm->bell[0] = shm->bell[1] = -1;
    return -1;
}
