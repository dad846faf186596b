/* auth.h - two ranks prove to each other that they hold the key: a machine without a socket. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_NET_AUTH_H
#define TCI_NET_AUTH_H

#include "net/auth_wire.h"

/*   who dials                       who was dialed
 *   OFFER   --------------------->  checked
 *           <---------------------  ANSWER, with a proof
 *   PROOF   --------------------->  checked
 *           <---------------------  FINISH: from here on both know, and have the same keys
 *           <---- DENY, from either side: there will be nothing, and why
 *
 * docs/security.md says what is proven, by what, and what is not.
 */
enum tci_auth_state {
    TCI_AUTH_WAITING, /* for a message of the other side */
    TCI_AUTH_PROVEN,  /* `session` is there */
    TCI_AUTH_FAILED,  /* `reason` is there; a DENY may be in `out` */
    TCI_AUTH_FOREIGN  /* the first head is of another protocol: `in` holds it, for who knows it */
};

/* What a connection is sealed with. */
struct tci_session {
    uint8_t cipher;      /* TCI_CIPHER_…: one of them */
    bool encrypts;       /* all of the connection */
    uint8_t send[32];    /* secret of what we send */
    uint8_t receive[32]; /* secret of what we receive */
};

struct tci_auth_config {
    const struct tci_keyring *keyring; /* borrowed until the end; NULL: has no key, denies */
    enum tci_auth_place place;
    bool is_dialer;
    uint32_t self, size;
    uint32_t peer;                  /* whom we dial */
    uint8_t group_id[TCI_GROUP_ID]; /* zero for who dials the rendezvous */
};

struct tci_auth {
    struct tci_auth_config config;
    enum tci_auth_state state;
    uint8_t expects;                /* enum tci_boot_type */
    uint32_t peer;                  /* who was dialed: claimed by an OFFER that came, size before */
    uint8_t group_id[TCI_GROUP_ID]; /* once the state is PROVEN */
    struct tci_session session;     /* likewise */

    enum tci_auth_reason reason; /* with FAILED */
    bool by_peer;                /* it is the other side that does not go on */
    uint16_t peer_version;

    uint8_t in[TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN];
    size_t have;
    struct tci_boot_head head;
    const uint8_t *out; /* to be sent, in this struct; NULL: nothing new */
    size_t out_len;

    /* Both, as they went over the wire. */
    uint8_t offer[TCI_BOOT_HEAD + TCI_BOOT_OFFER_LEN];
    uint8_t answer[TCI_BOOT_HEAD + TCI_BOOT_ANSWER_LEN];
    uint8_t last[TCI_BOOT_HEAD + TCI_BOOT_PROOF_LEN]; /* PROOF, FINISH or DENY */
    uint8_t finish[TCI_AUTH_MAC];                     /* what who dials expects in the end */
    struct tci_auth_hello theirs;
    uint8_t secret[32]; /* of the exchange: ours, then the one shared */
};

/* Begin: who dials has an OFFER in `out` then.  Draws random numbers. */
void tci_auth_init(struct tci_auth *auth, const struct tci_auth_config *config);
/* Wipe. */
void tci_auth_fini(struct tci_auth *auth);

/* How many bytes may be read for it now: not one of what follows.  0 once it has ended. */
size_t tci_auth_wants(const struct tci_auth *auth);
/* Up to that many bytes have come.  Sets `out` when there is something to be sent, which stays
 * where it is.  Call it again while it wants more. */
void tci_auth_feed(struct tci_auth *auth, const uint8_t *bytes, size_t len);

/* Why it has failed: a sentence about the two ranks, and what to do; never a key. */
const char *tci_auth_explain(const struct tci_auth *auth, char *text, size_t room);

/* The class of it. */
tc_reason_t tci_auth_class(enum tci_auth_reason reason);

#endif
