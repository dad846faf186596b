/* auth_proof.h - the arithmetic of the proof: exchange, codes, keys. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_AUTH_PROOF_H
#define TCI_AUTH_PROOF_H

#include "net/auth.h"

/* A fresh secret and its point.  */
void tci_proof_begin(uint8_t secret[32], uint8_t point[TCI_AUTH_POINT]);
/* The secret becomes the one that both sides have; false for a point that is none. */
bool tci_proof_exchange(uint8_t secret[32], const uint8_t point[TCI_AUTH_POINT]);

/* The code in place `slot` of an ANSWER, by the key of who was dialed. */
void tci_proof_of_answer(const struct tci_auth *auth, const struct tci_secret *key, unsigned slot,
                         uint8_t code[TCI_AUTH_MAC]);
/* The code of a PROOF, by the key of who dials. */
void tci_proof_of_dialer(const struct tci_auth *auth, const struct tci_secret *key, unsigned slot,
                         uint8_t code[TCI_AUTH_MAC]);
/* The code of a FINISH, by the key of who was dialed. */
void tci_proof_of_finish(const struct tci_auth *auth, const struct tci_secret *key, unsigned slot,
                         uint8_t code[TCI_AUTH_MAC]);
/* The secrets of both directions, by both keys. */
void tci_proof_session(const struct tci_auth *auth, const struct tci_secret *dialer,
                       const struct tci_secret *dialed, unsigned slot, struct tci_session *out);

bool tci_proof_is_same(const uint8_t a[TCI_AUTH_MAC], const uint8_t b[TCI_AUTH_MAC]);
void tci_proof_random(void *bytes, size_t len);
void tci_proof_wipe(void *bytes, size_t len);

#endif
