/* shm_send.c - messages on their way out: copied into the ring, or lent to the reader. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/copy.h"
#include "core/memories.h"
#include "core/plan.h"
#include "core/reach.h"
#include "net/shm_link.h"

/* What a send has in its room. */
enum { ROOM_LOAN = TCI_ROOM_DONE + 1 };

enum { LOANS_FIRST = 64 };

static uint64_t cost_of(const struct tci_xfer *xfer)
{
    return xfer->len + TCI_SHM_EAGER_COST;
}

static void end_send(struct tci_shm_link *link, struct tci_xfer *xfer, tc_status_t status)
{
    TC_ASSERT(link->sends_live > 0);
    link->sends_live--;
    if (status == TC_OK)
        link->shm->stats.messages_sent++;
    tci_shm_complete(link, xfer, status);
}

/* ---- Loans ---- */

static struct tci_shm_loan *find_loan(struct tci_shm_link *link, uint64_t id)
{
    uint32_t place = (uint32_t)id;
    struct tci_shm_loan *loan = place < link->loan_count ? &link->loans[place] : NULL;

    return loan != NULL && loan->use == (uint32_t)(id >> 32) && loan->xfer != NULL ? loan : NULL;
}

/* NULL: no memory. */
static struct tci_shm_loan *new_loan(struct tci_shm_link *link, uint64_t *id_out)
{
    struct tci_shm_loan *loan;
    uint32_t place;

    if (link->loan_free == 0 && link->loan_count == link->loan_room) {
        uint32_t room = link->loan_room == 0 ? LOANS_FIRST : 2 * link->loan_room;
        struct tci_shm_loan *loans = tci_realloc_array(link->loans, room, sizeof(*loans));

        if (loans == NULL)
            return NULL;
        link->loans = loans;
        link->loan_room = room;
    }
    place = link->loan_free != 0 ? link->loan_free - 1 : link->loan_count;
    loan = &link->loans[place];
    if (link->loan_free != 0) {
        link->loan_free = loan->next_free;
    } else {
        link->loan_count++;
        loan->use = 0;
    }
    loan->use++;
    *id_out = (uint64_t)loan->use << 32 | place;
    return loan;
}

static struct tci_shm_sending *find_sending(struct tci_shm_link *link, const struct tci_xfer *xfer)
{
    struct tci_list *at;

    for (at = link->asked.next; at != &link->asked; at = at->next) {
        struct tci_shm_sending *sending = tci_container_of(at, struct tci_shm_sending, link);

        if (sending->xfer == xfer)
            return sending;
    }
    return NULL;
}

static void end_loan(struct tci_shm_link *link, struct tci_shm_loan *loan, tc_status_t status)
{
    struct tci_xfer *xfer = loan->xfer;
    struct tci_shm_sending *sending = find_sending(link, xfer);

    if (sending != NULL) {
        tci_list_del(&sending->link);
        tci_pool_put(&link->shm->sendings, sending);
    }
    loan->xfer = NULL;
    loan->next_free = link->loan_free;
    link->loan_free = (uint32_t)(loan - link->loans) + 1;
    end_send(link, xfer, status);
}

void tci_shm_on_taken(struct tci_shm_link *link, uint64_t id)
{
    struct tci_shm_loan *loan = find_loan(link, id);

    if (loan != NULL)
        end_loan(link, loan, TC_OK);
}

void tci_shm_on_ask(struct tci_shm_link *link, uint64_t id)
{
    struct tci_shm_head head = {.kind = TCI_SHM_GOOD, .tag = id};

    if (find_loan(link, id) == NULL)
        return; /* it has ended: whoever asks finds out by a notice, or has given up by now */
    head.step = atomic_load_explicit(&link->writer.way->epoch, memory_order_relaxed);
    tci_shm_control(link, &head, NULL, 0);
}

const char *tci_shm_on_pull(struct tci_shm_link *link, const struct tci_shm_head *head)
{
    struct tci_shm_loan *loan = find_loan(link, head->tag);
    struct tci_shm_sending *sending;
    struct tci_list *at;

    if (loan == NULL)
        return NULL;
    if (head->word > loan->xfer->len || find_sending(link, loan->xfer) != NULL)
        return "a request for what lies behind a message";
    /* What the peer could not read may be memory that is not there: that must not end us. */
    if (head->root == EFAULT && !tci_reach_all((const uint8_t *)loan->xfer->data + head->word,
                                               loan->xfer->len - (size_t)head->word)) {
        end_loan(link, loan, TC_ERR_INVALID_ARG);
        return NULL;
    }
    sending = tci_pool_get(&link->shm->sendings);
    if (sending == NULL)
        return "a request that there is no memory for here";
    *sending = (struct tci_shm_sending){.id = head->tag, .xfer = loan->xfer, .done = head->word};
    at = link->asked.prev;
    while (at != &link->asked &&
           tci_container_of(at, struct tci_shm_sending, link)->xfer->priority <
               loan->xfer->priority)
        at = at->prev;
    tci_list_add(at->next, &sending->link);
    return NULL;
}

/* ---- One record ---- */

/* What the peer says that it has read of what is measured. */
static void see_read(const struct tci_shm_link *link, uint64_t ns_out[2], uint64_t bytes_out[2])
{
    struct tci_shm_way *way = link->writer.way;

    for (int i = 0; i < 2; i++) { /* relaxed: numbers alone, of which none has to be true */
        ns_out[i] = atomic_load_explicit(&way->read_ns[i], memory_order_relaxed);
        bytes_out[i] = atomic_load_explicit(&way->read_bytes[i], memory_order_relaxed);
    }
}

/* Once the peer has read what both ways have stored: it pays for the way that this side takes. */
static void judge_store(struct tci_shm_link *link)
{
    uint64_t ns[2], bytes[2];

    see_read(link, ns, bytes);
    for (int i = 0; i < 2; i++) {
        ns[i] -= link->read_ns_before[i];
        bytes[i] -= link->read_bytes_before[i];
        if (bytes[i] < link->store.lap / 2)
            return;
    }
    tci_shm_trial_judge(&link->store, ns, bytes);
}

/* Where ranks share cores, the reader may be on this very one: what it reads is to be in the
 * caches (64 KiB all-reduced by four ranks on two cores: 24 us, and 35 past the caches). */
static void copy_out(struct tci_shm_link *link, struct tci_shm_head *head, const void *from,
                     size_t len)
{
    void *to = tci_shm_payload(head);
    struct tci_shm_try next;
    uint64_t begun;

    if (tci_loop_shares_cores(link->shm->loop)) {
        memcpy(to, from, len);
        return;
    }
    if (len < TCI_COPY_AWAY_MIN) {
        tci_copy_over(to, from, len);
        return;
    }
    if (tci_shm_trial_is_due(&link->store))
        judge_store(link);
    next = tci_shm_trial_take(&link->store, len);
    if (next.begins)
        see_read(link, link->read_ns_before, link->read_bytes_before);
    begun = next.is_told ? tci_exec_clock(link->shm->exec) : 0;
    link->writer.is_past_caches = next.way == TCI_SHM_PAST_CACHES;
    if (link->writer.is_past_caches)
        tci_copy_away(to, from, len);
    else
        memcpy(to, from, len);
    if (!next.is_told)
        return;
    (void)tci_shm_trial_tell(&link->store, next.way, len, tci_exec_clock(link->shm->exec) - begun);
    if (next.is_measured)
        head->measured = next.way + 1;
}

void tci_shm_head_of(struct tci_shm_head *head, enum tci_shm_kind kind, const struct tci_key *key,
                     const struct tci_call *call)
{
    head->kind = (uint8_t)kind;
    head->space = key->space;
    head->priority = 0;
    head->coll = call->coll;
    head->tag = key->tag;
    head->group = key->group;
    head->lane = key->lane;
    head->step = key->step;
    head->use = key->use;
    head->root = call->root;
    head->count = call->count;
    head->dtype = call->dtype;
    head->op = call->op;
    head->plan = call->plan;
    head->measured = 0;
}

/* The peer is to be rung for.  False: there is no room. */
static bool put_data(struct tci_shm_link *link, const struct tci_xfer *xfer)
{
    bool is_inline = xfer->len <= sizeof(((struct tci_shm_head *)0)->word);
    struct tci_shm_head *head = tci_shm_room(&link->writer, is_inline ? 0 : xfer->len);

    if (head == NULL)
        return false;
    tci_shm_head_of(head, TCI_SHM_DATA, &xfer->key, xfer->call);
    head->priority = xfer->priority;
    if (xfer->len > 0 && is_inline)
        memcpy(&head->word, xfer->data, xfer->len);
    else if (xfer->len > 0)
        copy_out(link, head, xfer->data, xfer->len);
    tci_shm_put(&link->writer, head, xfer->len);
    link->framed += cost_of(xfer);
    link->shm->stats.bytes_sent += xfer->len;
    link->shm->stats.bytes_copied += xfer->len;
    return true;
}

static bool put_loan(struct tci_shm_link *link, struct tci_xfer *xfer)
{
    struct tci_shm_head *head = tci_shm_room(&link->writer, sizeof(struct tci_shm_lend));
    struct tci_shm_lend *lend;
    struct tci_memory memory = {.fd = -1};
    struct tci_shm_loan *loan;
    uint64_t id;

    if (head == NULL)
        return false;
    loan = new_loan(link, &id);
    if (loan == NULL) {
        end_send(link, xfer, TC_ERR_ALLOC);
        return true;
    }
    loan->xfer = xfer;
    xfer->room[ROOM_LOAN] = id;
    tci_shm_head_of(head, TCI_SHM_LEND, &xfer->key, xfer->call);
    head->priority = xfer->priority;
    if (!tci_memories_find(xfer->data, xfer->len, &memory))
        memory.number = 0;
    lend = tci_shm_payload(head);
    *lend = (struct tci_shm_lend){
        .total = xfer->len,
        .id = id,
        .addr = (uint64_t)(uintptr_t)xfer->data,
        .memory = memory.number,
        .offset = memory.number == 0 ? 0 : (uint64_t)((uint8_t *)xfer->data - memory.data),
        .fd = memory.fd,
        .bytes = memory.bytes,
        .epoch = atomic_load_explicit(&link->writer.way->epoch, memory_order_relaxed),
        .priority = xfer->priority};
    tci_shm_put(&link->writer, head, sizeof(*lend));
    tci_shm_ring(link);
    link->shm->stats.bytes_sent += xfer->len;
    return true;
}

/* Calls that only move what they are given. */
static bool is_move(const struct tci_call *call)
{
    switch (call->coll) {
    case TCI_COLL_BROADCAST:
    case TCI_COLL_ALLGATHER:
    case TCI_COLL_ALLGATHERV:
    case TCI_COLL_ALLTOALL:
    case TCI_COLL_ALLTOALLV:
    case TCI_COLL_GATHER:
    case TCI_COLL_SCATTER:
        return true;
    default:
        return false;
    }
}

/* One copy by the reader instead of two by way of the ring: it costs a record more, and the system
 * where the memory is not mapped. */
static bool is_better_lent(const struct tci_shm_link *link, const struct tci_xfer *xfer)
{
    struct tci_memory memory;

    if (xfer->len < TCI_SHM_MAPPED_MIN || !is_move(xfer->call))
        return false;
    return (link->may_read && xfer->len >= TCI_SHM_MOVED_MIN) ||
           tci_memories_find(xfer->data, xfer->len, &memory);
}

/* Whether it may be copied: a small one, within the window. */
static bool is_eager(struct tci_shm_link *link, const struct tci_xfer *xfer)
{
    uint64_t consumed;

    if (xfer->len > link->shm->eager_max || is_better_lent(link, xfer))
        return false;
    if (link->framed - link->acked + cost_of(xfer) <= TCI_SHM_WINDOW)
        return true;
    /* acquire: pairs with the release of the reader, for form's sake: a number alone */
    consumed = atomic_load_explicit(&link->writer.way->consumed, memory_order_acquire);
    if (consumed > link->framed)
        link->writer.is_broken = true;
    else
        link->acked = consumed;
    return link->framed - link->acked + cost_of(xfer) <= TCI_SHM_WINDOW;
}

/* What is not copied waits in the sender's memory. */
static bool put_message(struct tci_shm_link *link, struct tci_xfer *xfer)
{
    bool may_copy = is_eager(link, xfer);

    if (link->writer.is_broken)
        return false;
    if (!may_copy)
        return put_loan(link, xfer);
    if (!put_data(link, xfer))
        return false;
    tci_shm_ring(link);
    end_send(link, xfer, TC_OK);
    return true;
}

/* ---- Posting ---- */

/* Behind all that are as urgent; or, of one that was the first, before them. */
static void queue_send(struct tci_shm_link *link, struct tci_xfer *xfer, bool is_first)
{
    struct tci_xfer *before = is_first ? NULL : link->sends.tail;

    while (before != NULL && before->priority < xfer->priority)
        before = before->room_prev;
    tci_xfers_add_behind(&link->sends, before, xfer);
}

static bool has_to_queue(const struct tci_shm_link *link)
{
    return link->sends.head != NULL || link->queue.len > 0;
}

void tci_shm_send(struct tci_shm_link *link, struct tci_xfer *xfer)
{
    link->sends_live++;
    if (link->bye_put) {
        end_send(link, xfer, TC_ERR_PEER_LOST);
        return;
    }
    if (has_to_queue(link) || !put_message(link, xfer))
        queue_send(link, xfer, false);
}

bool tci_shm_send_now(struct tci_shm_link *link, const struct tci_xfer *xfer)
{
    if (link->bye_put || has_to_queue(link) || !is_eager(link, xfer) || !put_data(link, xfer))
        return false;
    tci_shm_ring_later(link);
    link->shm->stats.messages_sent++;
    return true;
}

/* ---- What waits ---- */

static bool put_piece(struct tci_shm_link *link, struct tci_shm_sending *sending)
{
    struct tci_xfer *xfer = sending->xfer;
    size_t len = tci_min(xfer->len - (size_t)sending->done, TCI_SHM_SENT_PIECE);
    struct tci_shm_head *head = tci_shm_room(&link->writer, len);

    if (head == NULL)
        return false;
    *head = (struct tci_shm_head){.kind = TCI_SHM_PIECE, .tag = sending->id, .word = sending->done};
    copy_out(link, head, (const uint8_t *)xfer->data + sending->done, len);
    tci_shm_put(&link->writer, head, len);
    link->shm->stats.bytes_copied += len;
    sending->done += len;
    if (sending->done == xfer->len)
        end_loan(link, find_loan(link, sending->id), TC_OK);
    return true;
}

/* A quarter of the ring is left for what is small or urgent. */
static bool has_room_for_bulk(const struct tci_shm_link *link)
{
    uint64_t tail = atomic_load_explicit(&link->writer.way->tail, memory_order_relaxed);

    return link->writer.head - tail <= TCI_SHM_RING / 2;
}

static unsigned flush_queue(struct tci_shm_link *link)
{
    struct tci_shm_queue *queue = &link->queue;
    unsigned done = 0;

    while (queue->done < queue->len) {
        struct tci_shm_head wanted, *head;

        memcpy(&wanted, queue->data + queue->done, sizeof(wanted));
        head = tci_shm_room(&link->writer, wanted.len);
        if (head == NULL)
            return done;
        *head = wanted;
        memcpy(tci_shm_payload(head), queue->data + queue->done + sizeof(wanted), wanted.len);
        tci_shm_put(&link->writer, head, wanted.len);
        queue->done += sizeof(wanted) + wanted.len;
        done++;
    }
    queue->len = queue->done = 0;
    return done;
}

unsigned tci_shm_flush(struct tci_shm_link *link)
{
    unsigned done = link->queue.len > 0 ? flush_queue(link) : 0;

    while (link->queue.len == 0 && link->sends.head != NULL) {
        struct tci_xfer *xfer = link->sends.head;

        tci_xfers_del(&link->sends, xfer);
        if (!put_message(link, xfer)) {
            queue_send(link, xfer, true);
            break;
        }
        done++;
    }
    while (link->queue.len == 0 && !tci_list_is_empty(&link->asked) && has_room_for_bulk(link)) {
        struct tci_list *first = tci_list_first(&link->asked);

        if (!put_piece(link, tci_container_of(first, struct tci_shm_sending, link)))
            break;
        done++;
    }
    if (done > 0)
        tci_shm_ring(link);
    return done;
}

/* ---- Abort ---- */

void tci_shm_abort_sends(struct tci_shm_link *link, const struct tci_key *key, tc_status_t status)
{
    struct tci_xfer *xfer, *next;
    bool has_told = false;

    for (xfer = link->sends.head; xfer != NULL; xfer = next) {
        next = xfer->room_next;
        if (key != NULL && !tci_key_is_same_tag(&xfer->key, key))
            continue;
        tci_xfers_del(&link->sends, xfer);
        end_send(link, xfer, status);
    }
    for (uint32_t i = 0; i < link->loan_count; i++) {
        xfer = link->loans[i].xfer;
        if (xfer == NULL || (key != NULL && !tci_key_is_same_tag(&xfer->key, key)))
            continue;
        /* seq_cst: before anything that the application does to the memory; a reader that has read
         * later than this sees it, and asks whether what it has read was still good */
        if (!has_told && link->region != NULL)
            atomic_fetch_add_explicit(&link->writer.way->epoch, 1, memory_order_seq_cst);
        has_told = true;
        end_loan(link, &link->loans[i], status);
    }
}
