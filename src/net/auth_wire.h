/* auth_wire.h - the messages of the proof as bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_AUTH_WIRE_H
#define TCI_AUTH_WIRE_H

#include "core/error.h"
#include "core/seal.h"
#include "net/boot_wire.h"
#include "net/keyring.h"

/* Pure functions between structs and bytes; docs/security.md has the table.  Their heads are those
 * of the rendezvous, with types of their own, also where a link is dialed. */
enum {
    TCI_AUTH_HELLO_LEN = TCI_BOOT_OFFER_LEN, /* what OFFER and ANSWER have in common */
    TCI_AUTH_MAC = 32,                       /* HMAC-SHA256 */
    TCI_AUTH_PROOF_FIXED = 8,                /* before the code of PROOF */
    TCI_AUTH_NONCE = 32,
    TCI_AUTH_POINT = 32 /* of X25519 */
};

enum tci_auth_place {
    TCI_AUTH_AT_RENDEZVOUS = 1,
    TCI_AUTH_AT_LINK = 2,
    TCI_AUTH_AT_DESCRIPTOR = 3 /* that both ranks were given */
};
enum tci_auth_kind { TCI_AUTH_SHARED = 1, TCI_AUTH_IDENTITIES = 2 };

struct tci_auth_hello {
    uint8_t place;    /* enum tci_auth_place */
    uint8_t kind;     /* enum tci_auth_kind */
    uint8_t encrypts; /* 1: everything, 0: until the link stands */
    uint8_t ciphers;
    uint32_t from, to;
    uint8_t group_id[TCI_GROUP_ID]; /* zero in an offer at the rendezvous, and at descriptors */
    uint64_t key_id;                /* 0 with a shared key */
    uint8_t nonce[TCI_AUTH_NONCE];
    uint8_t point[TCI_AUTH_POINT];
    char identity[TCI_IDENTITY_BYTES]; /* "" with a shared key */
};
void tci_auth_hello_encode(const struct tci_auth_hello *hello, uint8_t *bytes);
/* TC_OK, or TC_ERR_TRANSPORT for what no rank writes. */
tc_status_t tci_auth_hello_decode(const uint8_t *bytes, struct tci_auth_hello *hello_out);

/* Why one side does not go on; a number of the wire. */
enum tci_auth_reason {
    TCI_AUTH_FINE = 0,
    TCI_AUTH_GARBLED = 1,      /* what came is none of this protocol */
    TCI_AUTH_NO_KEY = 2,       /* who says so has no key, the other one has */
    TCI_AUTH_PLAIN = 3,        /* who says so has a key, the other one shows none */
    TCI_AUTH_VERSION = 4,      /* another version of the protocol */
    TCI_AUTH_KIND = 5,         /* a key of all here, keys of identities there */
    TCI_AUTH_ENCRYPTION = 6,   /* one encrypts, the other does not */
    TCI_AUTH_ELSEWHERE = 7,    /* meant for another rank, group or place */
    TCI_AUTH_IDENTITY = 8,     /* the identity is not that of the rank */
    TCI_AUTH_KEY_ID = 9,       /* a key that is not known */
    TCI_AUTH_PROOF_WRONG = 10, /* another key, or changed on the way */
    TCI_AUTH_REASONS           /* one past the last */
};
struct tci_auth_deny {
    uint8_t reason; /* enum tci_auth_reason */
    uint32_t from;
};
void tci_auth_deny_encode(const struct tci_auth_deny *deny, uint8_t *bytes);
tc_status_t tci_auth_deny_decode(const uint8_t *bytes, struct tci_auth_deny *deny_out);

#endif
