/* shm_pull.c - loans of a peer are read from its memory, piece by piece, or sent by it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"
#include "core/copy.h"
#include "core/plan.h"
#include "core/reach.h"
#include "core/reduce.h"
#include "net/shm_link.h"

/* So long reading stands still for a receive that is more urgent than what is read: its message is
 * on its way if the other rank is as punctual.  To read and fold a piece of 64 KiB takes about as
 * long. */
#define GIVE_WAY_NS (20 * TCI_NS_PER_US)

/* So long a number that was seen to be the peer's cannot be another process's: the system gives a
 * number out again when it has given out all others. */
#define STILL_ITS_NUMBER_NS TCI_NS_PER_MS

/* What a receive has in its room. */
enum { ROOM_PULL = TCI_ROOM_DONE + 1 };

static struct tci_shm_pull *pull_of(const struct tci_xfer *xfer)
{
    return (struct tci_shm_pull *)(uintptr_t)xfer->room[ROOM_PULL];
}

void tci_shm_end_loan(struct tci_shm_link *link, uint64_t id)
{
    struct tci_shm_head head = {.kind = TCI_SHM_TAKEN, .tag = id};

    tci_shm_control(link, &head, NULL, 0);
}

/* Behind all that are as urgent. */
static void queue_pull(struct tci_shm_link *link, struct tci_shm_pull *pull)
{
    struct tci_list *at = link->pulls.prev;

    while (at != &link->pulls &&
           tci_container_of(at, struct tci_shm_pull, link)->priority < pull->priority)
        at = at->prev;
    tci_list_add(at->next, &pull->link);
}

void tci_shm_pull_end(struct tci_shm_link *link, struct tci_xfer *xfer, bool tell)
{
    struct tci_shm_pull *pull = pull_of(xfer);

    if (pull == NULL)
        return;
    xfer->room[ROOM_PULL] = 0;
    if (tell)
        tci_shm_end_loan(link, pull->lend.id);
    if (pull->mapped != NULL)
        pull->mapped->pulls--;
    tci_list_del(&pull->link);
    tci_pool_put(&link->shm->pulls, pull);
}

/* ---- By the peer's help ---- */

static void wait_for_peer(struct tci_shm_link *link, struct tci_shm_pull *pull,
                          const struct tci_shm_head *head)
{
    tci_list_del(&pull->link);
    tci_list_add(&link->waiting, &pull->link);
    tci_shm_control(link, head, NULL, 0);
}

static void have_sent(struct tci_shm_link *link, struct tci_shm_pull *pull, int error)
{
    struct tci_shm_head head = {.kind = TCI_SHM_PULL,
                                .tag = pull->lend.id,
                                .root = error,
                                .word = pull->xfer->room[TCI_ROOM_DONE]};

    pull->is_sent = true;
    wait_for_peer(link, pull, &head);
}

static struct tci_shm_pull *find_waiting(struct tci_shm_link *link, uint64_t id)
{
    struct tci_list *at;

    for (at = link->waiting.next; at != &link->waiting; at = at->next) {
        struct tci_shm_pull *pull = tci_container_of(at, struct tci_shm_pull, link);

        if (pull->lend.id == id)
            return pull;
    }
    return NULL;
}

const char *tci_shm_on_piece(struct tci_shm_link *link, const struct tci_shm_head *head,
                             const uint8_t *payload)
{
    struct tci_shm_pull *pull = find_waiting(link, head->tag);
    struct tci_xfer *xfer;

    if (pull == NULL) {
        link->shm->stats.strays++;
        return NULL;
    }
    xfer = pull->xfer;
    if (!pull->is_sent || head->word != xfer->room[TCI_ROOM_DONE] ||
        head->len > xfer->len - head->word ||
        (xfer->fold != NULL && head->len % xfer->fold->size != 0))
        return "a piece of a message that does not go on where the last one ended";
    tci_shm_append(link, xfer, payload, head->len, head->measured);
    link->shm->stats.bytes_received += head->len;
    if (xfer->room[TCI_ROOM_DONE] == xfer->len)
        tci_shm_end_recv(link, xfer, TC_OK);
    return NULL;
}

/* ---- Reading ---- */

/* Behind what was read: its number may be another process's by now, whose memory is not the
 * message.  To ask the system each time is a tenth of what 64 KiB take in all. */
static bool is_alive(struct tci_shm_link *link)
{
    struct tci_exec *exec = link->shm->exec;
    struct pollfd ended = {.fd = link->pidfd, .events = POLLIN};
    uint64_t now_ns = exec->ops->now_ns(exec);

    if (link->alive_ns != 0 && now_ns - link->alive_ns < STILL_ITS_NUMBER_NS)
        return true;
    if (link->pidfd >= 0 && poll(&ended, 1, 0) != 0)
        return false;
    link->alive_ns = now_ns;
    return true;
}

static void finish(struct tci_shm_link *link, struct tci_shm_pull *pull)
{
    struct tci_xfer *xfer = pull->xfer;

    if (pull->mapped == NULL && !is_alive(link)) {
        wait_for_peer(link, pull,
                      &(struct tci_shm_head){.kind = TCI_SHM_ASK, .tag = pull->lend.id});
        return; /* the end of its connection ends this, too */
    }
    tci_shm_pull_end(link, xfer, true);
    tci_shm_end_recv(link, xfer, TC_OK);
}

/* Whether the sender has ended a loan meanwhile: its memory may have changed before we read it. */
static bool is_in_doubt(const struct tci_shm_link *link, const struct tci_shm_pull *pull)
{
    /* acq_rel, and a write: behind all that was read; pairs with the end of a loan in shm_send.c */
    return atomic_fetch_add_explicit(&link->reader.way->epoch, 0, memory_order_acq_rel) !=
           pull->lend.epoch;
}

void tci_shm_on_good(struct tci_shm_link *link, const struct tci_shm_head *head)
{
    struct tci_shm_pull *pull = find_waiting(link, head->tag);

    if (pull == NULL || pull->is_sent)
        return;
    pull->lend.epoch = head->step;
    tci_list_del(&pull->link);
    queue_pull(link, pull);
}

static void append_mapped(struct tci_xfer *xfer, const void *from, size_t len)
{
    const struct tci_call *call = xfer->call;
    size_t whole = (size_t)call->count * tc_dtype_size((tc_dtype_t)call->dtype);

    if (xfer->fold != NULL) {
        tci_xfer_append(xfer, from, len);
        return;
    }
    tci_copy_part((uint8_t *)xfer->data + xfer->room[TCI_ROOM_DONE], from, len, whole);
    xfer->room[TCI_ROOM_DONE] += len;
}

/* A piece to its place; false with errno. */
static bool read_piece(struct tci_shm_link *link, struct tci_shm_pull *pull, size_t len_max)
{
    struct tci_xfer *xfer = pull->xfer;
    size_t done = (size_t)xfer->room[TCI_ROOM_DONE];
    size_t len = tci_min(xfer->len - done, len_max);
    uint8_t *to = xfer->fold != NULL ? link->shm->staging : (uint8_t *)xfer->data + done;
    ssize_t got;

    if (pull->mapped != NULL) {
        append_mapped(xfer, pull->mapped->data + pull->lend.offset + done, len);
        return true;
    }
    got = tci_shm_read(link->pid, pull->lend.addr + done, to, len);
    if (got != (ssize_t)len) {
        errno = got >= 0 ? EFAULT : errno;
        return false;
    }
    if (xfer->fold != NULL)
        tci_xfer_append(xfer, to, len);
    else
        xfer->room[TCI_ROOM_DONE] += len;
    return true;
}

/* The sender finds out whether its memory is not there.  Where ours is not, its loan goes on until
 * it hears that the operation has failed: it is not to end well meanwhile. */
static void have_failed(struct tci_shm_link *link, struct tci_shm_pull *pull, int error)
{
    struct tci_xfer *xfer = pull->xfer;
    size_t done = (size_t)xfer->room[TCI_ROOM_DONE];
    bool is_staged = xfer->fold != NULL;

    if (error != EFAULT || is_staged ||
        tci_reach_all((const uint8_t *)xfer->data + done, xfer->len - done)) {
        have_sent(link, pull, error == EFAULT ? EFAULT : 0);
        return;
    }
    tci_shm_pull_end(link, xfer, false);
    tci_shm_end_recv(link, xfer, TC_ERR_INVALID_ARG);
}

/* More is to be read: the sender may see that we are at it, and it is the turn of the next loan
 * that is as urgent. */
static void let_next_read(struct tci_shm_link *link, struct tci_shm_pull *pull)
{
    _Atomic uint32_t *pieces = &link->reader.way->pieces;

    /* relaxed: we alone write it, and it is a hint */
    atomic_store_explicit(pieces, atomic_load_explicit(pieces, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (link->pulls.next != link->pulls.prev) {
        tci_list_del(&pull->link);
        queue_pull(link, pull);
    }
}

static void go_on_reading(struct tci_shm_link *link, struct tci_shm_pull *pull, size_t len_max)
{
    uint64_t before = pull->xfer->room[TCI_ROOM_DONE];
    bool is_read = before == pull->xfer->len || read_piece(link, pull, len_max);

    link->shm->stats.bytes_received += pull->xfer->room[TCI_ROOM_DONE] - before;
    if (is_in_doubt(link, pull))
        wait_for_peer(link, pull,
                      &(struct tci_shm_head){.kind = TCI_SHM_ASK, .tag = pull->lend.id});
    else if (!is_read)
        have_failed(link, pull, errno);
    else if (pull->xfer->room[TCI_ROOM_DONE] == pull->xfer->len)
        finish(link, pull);
    else
        let_next_read(link, pull);
}

/* ---- Whose turn it is ---- */

void tci_shm_await(struct tci_shm *shm, int8_t priority, bool is_posted)
{
    struct tci_shm_awaited *awaited = &shm->awaited;
    unsigned at = (unsigned)(priority - INT8_MIN);
    uint32_t before = awaited->counts[at];

    TC_ASSERT(is_posted || before > 0);
    awaited->counts[at] = is_posted ? before + 1 : before - 1;
    if (!is_posted && priority > awaited->ended)
        awaited->ended = priority;
    if (before != 0 && awaited->counts[at] != 0)
        return;
    awaited->any[at / 64] ^= UINT64_C(1) << at % 64;
    awaited->since_ns = 0;
}

static bool is_awaited_above(const struct tci_shm_awaited *awaited, int8_t priority)
{
    unsigned at = (unsigned)(priority - INT8_MIN), word = at / 64;
    uint64_t above = awaited->any[word] >> at % 64 >> 1;

    while (above == 0 && ++word < TCI_LEN(awaited->any))
        above = awaited->any[word];
    return above != 0;
}

/* Of links whose loans are as urgent the first one: they take turns at that. */
static struct tci_shm_pull *most_urgent(const struct tci_shm *shm, struct tci_shm_link **link_out)
{
    struct tci_shm_pull *most = NULL;

    for (struct tci_list *at = shm->near.next; at != &shm->near; at = at->next) {
        struct tci_shm_link *link = tci_container_of(at, struct tci_shm_link, near_link);
        struct tci_shm_pull *pull;

        if (tci_list_is_empty(&link->pulls))
            continue;
        pull = tci_container_of(tci_list_first(&link->pulls), struct tci_shm_pull, link);
        if (most != NULL && most->priority >= pull->priority)
            continue;
        most = pull;
        *link_out = link;
    }
    return most;
}

/* What is more urgent and has just come is carried on with first; what is expected is waited for,
 * for a while: if it comes much later it finds short pieces. */
static bool gives_way(struct tci_shm *shm, const struct tci_shm_pull *pull, bool is_beside)
{
    struct tci_shm_awaited *awaited = &shm->awaited;
    uint64_t now_ns;

    if (awaited->ended > pull->priority)
        return true;
    if (!is_beside)
        return false;
    now_ns = shm->exec->ops->now_ns(shm->exec);
    if (awaited->since_ns == 0)
        awaited->since_ns = now_ns;
    return now_ns - awaited->since_ns < GIVE_WAY_NS;
}

unsigned tci_shm_pull_some(struct tci_shm *shm)
{
    struct tci_shm_link *link = NULL;
    struct tci_shm_pull *pull = most_urgent(shm, &link);
    bool is_beside = pull != NULL && is_awaited_above(&shm->awaited, pull->priority);
    size_t len_max = TCI_SHM_READ_BESIDE;

    if (pull == NULL || gives_way(shm, pull, is_beside))
        return 0;
    if (!is_beside)
        len_max = pull->xfer->fold != NULL ? TCI_SHM_READ_MAX : TCI_SHM_MOVE_MAX;
    go_on_reading(link, pull, len_max);
    return 1;
}

/* ---- A loan comes in ---- */

/* Of memory that is not mapped.  What an all-reduce hands out it has just written, and the next one
 * may well write there again: lines that were read here meanwhile would have to be taken back one
 * by one, while those of the ring change hands anyway.  Where ranks share cores there may be none
 * to take back, and a peer that is to send has to have its turn first. */
static bool is_better_read(const struct tci_shm_link *link, const struct tci_xfer *xfer,
                           uint64_t total)
{
    return total >= TCI_SHM_STREAM_MAX ||
           (xfer->fold == NULL &&
            (xfer->call->coll != TCI_COLL_ALLREDUCE || tci_loop_shares_cores(link->shm->loop)));
}

static int8_t urgency(const struct tci_shm_lend *lend)
{
    int64_t priority = lend->priority;

    return (int8_t)(priority < INT8_MIN ? INT8_MIN : priority > INT8_MAX ? INT8_MAX : priority);
}

void tci_shm_pull_start(struct tci_shm_link *link, struct tci_xfer *xfer,
                        const struct tci_shm_lend *lend)
{
    struct tci_shm_pull *pull = tci_pool_get(&link->shm->pulls);

    if (pull == NULL) {
        tci_shm_end_loan(link, lend->id);
        tci_shm_end_recv(link, xfer, TC_ERR_ALLOC);
        return;
    }
    *pull = (struct tci_shm_pull){.xfer = xfer, .lend = *lend, .priority = urgency(lend)};
    tci_list_init(&pull->link);
    xfer->room[ROOM_PULL] = (uint64_t)(uintptr_t)pull;
    pull->mapped = lend->memory != 0 ? tci_shm_map_loan(link, lend) : NULL;
    if (pull->mapped != NULL && xfer->fold != NULL && lend->offset % xfer->fold->size != 0)
        pull->mapped = NULL; /* elements are read where they are aligned */
    if (pull->mapped != NULL)
        pull->mapped->pulls++;
    if (pull->mapped != NULL || (link->may_read && is_better_read(link, xfer, lend->total)))
        queue_pull(link, pull);
    else
        have_sent(link, pull, 0);
}
