/* seal.h - one direction of a link: encrypted, authenticated, counted. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SEAL_H
#define TCI_SEAL_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*   record    0 length of the rest, 4 bytes   4 sealed bytes   then a tag of 16
 *
 * The length is authenticated with the rest.  The nonce is the number of the record, so that one
 * that is left out, repeated or moved does not open.  Pure functions; docs/security.md.
 */
enum {
    TCI_RECORD_HEAD = 4,
    TCI_RECORD_TAG = 16,
    TCI_RECORD_OVER = TCI_RECORD_HEAD + TCI_RECORD_TAG, /* bytes of a record besides its payload */
    TCI_RECORD_SMALL = 4096,                            /* payload of one until the link stands */
    TCI_RECORD_MAX = 32 * 1024, /* and afterwards: what is sealed stays in the cache */
    TCI_RECORDS_A_KEY = 1 << 16 /* then both go on to the next: 2 GiB at most by one key */
};

/* Ciphers, as bits of an offer; an answer has one of them. */
enum { TCI_CIPHER_AES256GCM = 1, TCI_CIPHER_CHACHA20POLY1305 = 2, TCI_CIPHERS = 3 };

struct tci_seal {
    crypto_aead_aes256gcm_state aes; /* of `key` */
    uint8_t key[32];
    uint8_t secret[32]; /* of this key and of those that follow */
    uint64_t count;     /* records so far */
    uint8_t cipher;     /* TCI_CIPHER_… */
};

/* The ciphers of this machine. */
uint8_t tci_seal_ciphers(void);

/* A direction begins, with a cipher that this machine has. */
void tci_seal_init(struct tci_seal *seal, uint8_t cipher, const uint8_t secret[32]);
void tci_seal_fini(struct tci_seal *seal); /* wipes */

/* Write a record of `len` bytes, 1 to TCI_RECORD_MAX, with TCI_RECORD_OVER more.  The payload may
 * lie where it goes, at record + TCI_RECORD_HEAD, and must not overlap with the record else. */
void tci_seal_close(struct tci_seal *seal, const uint8_t *payload, size_t len, uint8_t *record);

/* The whole length of a record whose head is this; 0: none can be so, with a payload of at most
 * payload_max. */
size_t tci_record_bytes(const uint8_t head[TCI_RECORD_HEAD], size_t payload_max);
/* Open a record of that length, to payload, which may be record + TCI_RECORD_HEAD; false: it is not
 * the next that was sealed, and what is at payload is of no use. */
bool tci_seal_open(struct tci_seal *seal, const uint8_t *record, size_t bytes, uint8_t *payload);

/* What is authenticated with a record, and not sent with it: both sides know it. */
struct tci_bound {
    const uint8_t *bytes;
    size_t len;
};

/* The same where the medium keeps lengths: `len` bytes become TCI_RECORD_TAG more, and back, maybe
 * in place. */
void tci_seal_put(struct tci_seal *seal, struct tci_bound bound, const uint8_t *payload, size_t len,
                  uint8_t *sealed);
bool tci_seal_get(struct tci_seal *seal, struct tci_bound bound, const uint8_t *sealed, size_t len,
                  uint8_t *payload);

#endif
