/* match.c - hash tables of posted transfers and of what came before them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/match.h"

#include <assert.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"

static_assert((TCI_MATCH_BUCKETS & (TCI_MATCH_BUCKETS - 1)) == 0, "a power of two");
static_assert(sizeof(struct tci_call) == 16, "calls are compared as bytes: no padding");

void tci_match_init(struct tci_match *match)
{
    memset(match, 0, sizeof(*match));
    for (size_t i = 0; i < TCI_MATCH_BUCKETS; i++) {
        tci_list_init(&match->early[i]);
        tci_list_init(&match->credits[i]);
    }
}

bool tci_key_is_same_tag(const struct tci_key *a, const struct tci_key *b)
{
    return a->tag == b->tag && a->group == b->group && a->space == b->space;
}

bool tci_key_is_same_use(const struct tci_key *a, const struct tci_key *b)
{
    return a->use == b->use || a->use == 0 || b->use == 0;
}

bool tci_key_is_later(const struct tci_key *a, const struct tci_key *b)
{
    return !tci_key_is_same_use(a, b) && (int32_t)(a->use - b->use) > 0;
}

bool tci_key_is_equal(const struct tci_key *a, const struct tci_key *b)
{
    return a->step == b->step && a->lane == b->lane && tci_key_is_same_tag(a, b);
}

bool tci_key_is_same_call(const struct tci_call *a, const struct tci_call *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static size_t bucket_of(uint32_t peer, const struct tci_key *key)
{
    uint64_t hash = key->tag * UINT64_C(0x9e3779b97f4a7c15);

    hash ^= ((uint64_t)key->lane << 32 | key->step) * UINT64_C(0xc2b2ae3d27d4eb4f);
    hash ^= ((uint64_t)peer << 32 | key->space) * UINT64_C(0x165667b19e3779f9);
    hash ^= key->group * UINT64_C(0xd6e8feb86659fd93);
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 40) & (TCI_MATCH_BUCKETS - 1);
}

void tci_xfers_add(struct tci_xfers *xfers, struct tci_xfer *xfer)
{
    tci_xfers_add_behind(xfers, xfers->tail, xfer);
}

void tci_xfers_add_behind(struct tci_xfers *xfers, struct tci_xfer *before, struct tci_xfer *xfer)
{
    struct tci_xfer *next = before != NULL ? before->room_next : xfers->head;

    xfer->room_prev = before;
    xfer->room_next = next;
    if (before != NULL)
        before->room_next = xfer;
    else
        xfers->head = xfer;
    if (next != NULL)
        next->room_prev = xfer;
    else
        xfers->tail = xfer;
}

void tci_xfers_del(struct tci_xfers *xfers, struct tci_xfer *xfer)
{
    TC_ASSERT(xfer->room_prev != NULL || xfers->head == xfer);

    if (xfer->room_prev != NULL)
        xfer->room_prev->room_next = xfer->room_next;
    else
        xfers->head = xfer->room_next;
    if (xfer->room_next != NULL)
        xfer->room_next->room_prev = xfer->room_prev;
    else
        xfers->tail = xfer->room_prev;
    xfer->room_prev = xfer->room_next = NULL;
}

static struct tci_xfers *list_of(struct tci_match *match, const struct tci_xfer *xfer)
{
    size_t at = bucket_of(xfer->peer, &xfer->key);

    return xfer->is_send ? &match->sends[at] : &match->recvs[at];
}

void tci_match_add(struct tci_match *match, struct tci_xfer *xfer)
{
    if (xfer->is_send)
        match->sends_count++;
    else if (match->recvs_count++ == 0)
        match->sole = xfer;
    if (xfer != match->sole)
        tci_xfers_add(list_of(match, xfer), xfer);
}

void tci_match_del(struct tci_match *match, struct tci_xfer *xfer)
{
    if (xfer->is_send)
        match->sends_count--;
    else
        match->recvs_count--;
    if (xfer == match->sole)
        match->sole = NULL;
    else
        tci_xfers_del(list_of(match, xfer), xfer);
}

static bool is_meant_for(const struct tci_xfer *xfer, uint32_t peer, const struct tci_key *key)
{
    return xfer->peer == peer && tci_key_is_equal(&xfer->key, key);
}

struct tci_xfer *tci_match_recv(const struct tci_match *match, uint32_t peer,
                                const struct tci_key *key, uint64_t mask, uint64_t flags)
{
    struct tci_xfer *xfer = match->sole;

    if (xfer != NULL && (xfer->room[TCI_ROOM_FLAGS] & mask) == flags &&
        is_meant_for(xfer, peer, key))
        return xfer; /* the oldest */
    if (match->recvs_count <= (xfer != NULL))
        return NULL;
    for (xfer = match->recvs[bucket_of(peer, key)].head; xfer != NULL; xfer = xfer->room_next)
        if ((xfer->room[TCI_ROOM_FLAGS] & mask) == flags && is_meant_for(xfer, peer, key))
            return xfer;
    return NULL;
}

struct tci_xfer *tci_match_send(const struct tci_match *match, uint32_t peer,
                                const struct tci_key *key)
{
    struct tci_xfer *xfer;

    if (match->sends_count == 0)
        return NULL;
    for (xfer = match->sends[bucket_of(peer, key)].head; xfer != NULL; xfer = xfer->room_next)
        if (is_meant_for(xfer, peer, key))
            return xfer;
    return NULL;
}

void tci_match_add_early(struct tci_match *match, struct tci_early *early)
{
    size_t at = bucket_of(early->peer, &early->key);
    bool is_credit = early->kind == TCI_EARLY_CREDIT;

    tci_list_add(is_credit ? &match->credits[at] : &match->early[at], &early->link);
    if (is_credit)
        match->credits_count++;
    else
        match->early_count++;
}

void tci_match_del_early(struct tci_match *match, struct tci_early *early)
{
    tci_list_del(&early->link);
    if (early->kind == TCI_EARLY_CREDIT)
        match->credits_count--;
    else
        match->early_count--;
}

struct tci_early *tci_match_early(const struct tci_match *match, uint32_t peer,
                                  const struct tci_key *key, enum tci_early_kind kind)
{
    bool is_credit = kind == TCI_EARLY_CREDIT;
    const struct tci_list *head, *at;

    if ((is_credit ? match->credits_count : match->early_count) == 0)
        return NULL;
    head = is_credit ? &match->credits[bucket_of(peer, key)] : &match->early[bucket_of(peer, key)];
    for (at = head->next; at != head; at = at->next) {
        struct tci_early *early = tci_container_of(at, struct tci_early, link);

        if (early->kind == kind && early->peer == peer && tci_key_is_equal(&early->key, key))
            return early;
    }
    return NULL;
}

void tci_match_each_xfer(struct tci_match *match, void (*fn)(void *arg, struct tci_xfer *xfer),
                         void *arg)
{
    struct tci_xfer *xfer, *next;

    if (match->sole != NULL)
        fn(arg, match->sole);
    for (size_t i = 0; i < TCI_MATCH_BUCKETS; i++) {
        for (xfer = match->recvs[i].head; xfer != NULL; xfer = next) {
            next = xfer->room_next;
            fn(arg, xfer);
        }
        for (xfer = match->sends[i].head; xfer != NULL; xfer = next) {
            next = xfer->room_next;
            fn(arg, xfer);
        }
    }
}

static void each_early(struct tci_list *head, void (*fn)(void *arg, struct tci_early *early),
                       void *arg)
{
    struct tci_list *at, *next;

    for (at = head->next; at != head; at = next) {
        next = at->next;
        fn(arg, tci_container_of(at, struct tci_early, link));
    }
}

void tci_match_each_early(struct tci_match *match, void (*fn)(void *arg, struct tci_early *early),
                          void *arg)
{
    for (size_t i = 0; i < TCI_MATCH_BUCKETS; i++) {
        each_early(&match->early[i], fn, arg);
        each_early(&match->credits[i], fn, arg);
    }
}

/* ---- Ends ---- */

struct ending {
    const struct tci_match_ends *ends;
    void *arg;
    const struct tci_key *key;
    int peer;
    tc_status_t status;
};

static bool is_meant(const struct ending *ending, uint32_t peer, const struct tci_key *key)
{
    return (ending->peer == TCI_ALL_PEERS || (uint32_t)ending->peer == peer) &&
           (ending->key == NULL || tci_key_is_same_tag(ending->key, key));
}

static void end_xfer(void *arg, struct tci_xfer *xfer)
{
    const struct ending *ending = arg;

    if (is_meant(ending, xfer->peer, &xfer->key))
        ending->ends->end(ending->arg, xfer, ending->status);
}

static void end_early(void *arg, struct tci_early *early)
{
    const struct ending *ending = arg;

    if (is_meant(ending, early->peer, &early->key) &&
        (ending->key == NULL || !tci_key_is_later(&early->key, ending->key)))
        ending->ends->drop(ending->arg, early);
}

void tci_match_end(struct tci_match *match, const struct tci_match_ends *ends, void *arg,
                   const struct tci_key *key, int peer, tc_status_t status)
{
    struct ending ending = {ends, arg, key, peer, status};

    tci_match_each_xfer(match, end_xfer, &ending);
    if (match->early_count + match->credits_count > 0)
        tci_match_each_early(match, end_early, &ending);
}

struct reviewing {
    const struct tci_match_ends *ends;
    void *arg;
    tci_review_fn *keep;
    void *keep_arg;
};

static void review_early(void *arg, struct tci_early *early)
{
    const struct reviewing *reviewing = arg;

    if (!reviewing->keep(reviewing->keep_arg, early->peer, &early->key, &early->call))
        reviewing->ends->drop(reviewing->arg, early);
}

void tci_match_review(struct tci_match *match, const struct tci_match_ends *ends, void *arg,
                      tci_review_fn *keep, void *keep_arg)
{
    struct reviewing reviewing = {ends, arg, keep, keep_arg};

    if (match->early_count + match->credits_count > 0)
        tci_match_each_early(match, review_early, &reviewing);
}
