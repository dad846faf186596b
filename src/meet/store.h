/* store.h - inside of the meeting places: what each kind of them can do. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_STORE_H
#define TCI_STORE_H

#include <stdatomic.h>

#include "meet/meet.h"

/* One place while it is used, by one thread. */
struct tci_store {
    const char *url; /* borrowed */
    int rank, size;
    uint64_t host;
    struct tci_side side;          /* of one that needs it */
    bool is_nowhere;               /* get: waiting seldom mends that there is nothing */
    const atomic_bool *is_stopped; /* borrowed: who waits looks at it every slice */
    void *own;                     /* of the kind */
};
enum { TCI_STORE_SLICE_MS = 200 };

/* TC_OK and TC_PENDING apart, INVALID_ARG, UNSUPPORTED, AUTH and BUSY are for good; all else is
 * tried again.  All may block, but for check.  A kind whose library was not there when this one was
 * built has check alone, which says so. */
struct tci_store_ops {
    const char *scheme; /* "file" */
    const char *to;     /* a scheme for the same, over a sealed connection; or NULL */
    bool is_once;       /* one exchange in a process */
    tc_status_t (*check)(const char *url, struct tci_error *error);
    tc_status_t (*open)(struct tci_store *store, struct tci_error *error);
    void (*close)(struct tci_store *store); /* of one that was opened */
    /* Leave a card, in place of any other. */
    tc_status_t (*put)(struct tci_store *store, const char *card, struct tci_error *error);
    /* The card that is there, TCI_CARD_TEXT bytes at most; TC_PENDING: there is none yet. */
    tc_status_t (*get)(struct tci_store *store, char *card, struct tci_error *error);
    /* Take the card away, if it is still this one; NULL: it stays. */
    tc_status_t (*del)(struct tci_store *store, const char *card, struct tci_error *error);
    /* Of one that is_once: what was exchanged. */
    bool (*again)(char *card);
};

extern const struct tci_store_ops tci_store_file, tci_store_redis, tci_store_etcd, tci_store_pmi,
    tci_store_pmix, tci_store_side;

/* What stands behind "scheme://"; NULL where the URL has another scheme. */
const char *tci_store_rest(const char *url, const char *scheme);

/* "host:port/key" of such an URL, the port and the key with defaults. */
struct tci_store_where {
    char host[256]; /* an IPv6 address without brackets */
    int port;
    char key[256];
};
tc_status_t tci_store_parse(const char *url, const char *scheme, int port,
                            struct tci_store_where *out, struct tci_error *error);
/* TC_ERR_INVALID_ARG: "rendezvous URL "…": why". */
tc_status_t tci_store_refuse(struct tci_error *error, const char *url, const char *why);

#endif
