/* match.h - finds the receive of a message, and the send of a credit, by key. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_MATCH_H
#define TCI_MATCH_H

#include "core/list.h"
#include "core/transport.h"

/* What a transport writes into xfer.room. */
enum {
    TCI_ROOM_FLAGS, /* of a receive the number of its grant is above the flags */
    TCI_ROOM_DONE,  /* bytes that were received, or are framed */
    TCI_ROOM_SURE,  /* bytes that are here or in a frame that is being read; or that the peer has */
    TCI_ROOM_GRANT  /* of a send: the number that came with its credit */
};
enum {
    TCI_XFER_BEGUN = 1,   /* a receive: its first piece has come */
    TCI_XFER_GRANTED = 2, /* a receive: its credit has been sent */
    TCI_XFER_GRANT_SHIFT = 8,
    TCI_XFER_SEEN = 4 /* a send: was waiting when the probe timer looked last */
};

/* Transfers in the order in which they were added, linked through their room. */
struct tci_xfers {
    struct tci_xfer *head, *tail;
};
void tci_xfers_add(struct tci_xfers *xfers, struct tci_xfer *xfer);
/* The same behind another one; NULL: before all. */
void tci_xfers_add_behind(struct tci_xfers *xfers, struct tci_xfer *before, struct tci_xfer *xfer);
void tci_xfers_del(struct tci_xfers *xfers, struct tci_xfer *xfer);

/* The next bytes of a receive, whole elements where it folds, to their place. */
void tci_xfer_append(struct tci_xfer *xfer, const void *from, size_t len);

/* Something that came before its transfer was posted. */
enum tci_early_kind { TCI_EARLY_DATA, TCI_EARLY_WANT, TCI_EARLY_CREDIT };
enum { TCI_EARLY_ROOM = 384 };
struct tci_early {
    struct tci_list link;
    struct tci_key key;
    struct tci_call call;
    uint32_t peer;
    uint8_t kind;
    uint64_t total, filled; /* of the payload; equal once it is all here */
    uint8_t *payload;       /* in `room`, or owned */
    uint8_t room[TCI_EARLY_ROOM];
};

/* Everything of one transport that waits for its other half.  Equal keys of one peer are found
 * in the order in which they were added.  Adding allocates nothing. */
enum { TCI_MATCH_BUCKETS = 1024 };
struct tci_match {
    struct tci_xfers recvs[TCI_MATCH_BUCKETS];  /* posted, from post to completion */
    struct tci_xfers sends[TCI_MATCH_BUCKETS];  /* waiting for credit */
    struct tci_list early[TCI_MATCH_BUCKETS];   /* messages and wants without their receive */
    struct tci_list credits[TCI_MATCH_BUCKETS]; /* without their send */
    struct tci_xfer *sole; /* a receive that was added when there was no other: not in the table */
    size_t recvs_count, sends_count, early_count, credits_count; /* `sole` is among the first */
};

void tci_match_init(struct tci_match *match);

bool tci_key_is_equal(const struct tci_key *a, const struct tci_key *b);
/* Whether both are of one operation's tag: group, space, tag. */
bool tci_key_is_same_tag(const struct tci_key *a, const struct tci_key *b);
/* Whether two uses of a tag are the same one, and whether a is a later one; 0 goes with any. */
bool tci_key_is_same_use(const struct tci_key *a, const struct tci_key *b);
bool tci_key_is_later(const struct tci_key *a, const struct tci_key *b);
bool tci_key_is_same_call(const struct tci_call *a, const struct tci_call *b);

void tci_match_add(struct tci_match *match, struct tci_xfer *xfer);
void tci_match_del(struct tci_match *match, struct tci_xfer *xfer);
/* The first receive whose flags, within mask, are `flags`; NULL: none. */
struct tci_xfer *tci_match_recv(const struct tci_match *match, uint32_t peer,
                                const struct tci_key *key, uint64_t mask, uint64_t flags);
struct tci_xfer *tci_match_send(const struct tci_match *match, uint32_t peer,
                                const struct tci_key *key);

void tci_match_add_early(struct tci_match *match, struct tci_early *early);
void tci_match_del_early(struct tci_match *match, struct tci_early *early);
/* The first of a kind and a key; NULL: none. */
struct tci_early *tci_match_early(const struct tci_match *match, uint32_t peer,
                                  const struct tci_key *key, enum tci_early_kind kind);

/* All of something, for the rare walk over everything: fn may take out what it is given. */
void tci_match_each_xfer(struct tci_match *match, void (*fn)(void *arg, struct tci_xfer *xfer),
                         void *arg);
void tci_match_each_early(struct tci_match *match, void (*fn)(void *arg, struct tci_early *early),
                          void *arg);

/* How the arg, a transport or a link of it, ends what it has here: both take it out. */
struct tci_match_ends {
    void (*end)(void *arg, struct tci_xfer *xfer, tc_status_t status);
    void (*drop)(void *arg, struct tci_early *early);
};
/* Ends all transfers of the key's tag with a peer, or with TCI_ALL_PEERS, and drops what came early
 * of uses up to the key's, or of all if that is not counted.  key NULL: of every tag. */
void tci_match_end(struct tci_match *match, const struct tci_match_ends *ends, void *arg,
                   const struct tci_key *key, int peer, tc_status_t status);
/* Drops what came early and is not to be kept. */
void tci_match_review(struct tci_match *match, const struct tci_match_ends *ends, void *arg,
                      tci_review_fn *keep, void *keep_arg);

#endif
