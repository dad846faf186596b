/* boot_wire.h - the messages of the rendezvous as bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_WIRE_H
#define TCI_BOOT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/boot.h"
#include "tcdist/version.h"

/* Changes with every change of a body.  The head, the bodies of REFUSE and DENY, and where JOIN has
 * the release, never change. */
enum { TCI_BOOT_VERSION = 4 };

/* Of the library: those of one major and minor number work together. */
#define TCI_RELEASE                                                                                \
    ((uint32_t)TC_VERSION_MAJOR << 24 | (uint32_t)TC_VERSION_MINOR << 16 | TC_VERSION_PATCH)
static inline bool tci_release_fits(uint32_t release)
{
    return release >> 16 == TCI_RELEASE >> 16;
}

enum tci_boot_type {
    TCI_BOOT_JOIN = 1,    /* member: who I am, and where I listen */
    TCI_BOOT_WELCOME = 2, /* rank 0: you are in; wait for the others */
    TCI_BOOT_TABLE = 3,   /* rank 0: who all are */
    TCI_BOOT_READY = 4,   /* member: I have the table */
    TCI_BOOT_GO = 5,      /* rank 0: all have it; the group stands */
    TCI_BOOT_REFUSE = 6,  /* there will be no group, for this reason */
    TCI_BOOT_ROW = 7,     /* who I am, where descriptors are given; passed on */
    /* The proof of a key (auth.h), before all others, and where a link is dialed. */
    TCI_BOOT_OFFER = 8,   /* who dials: who I am, and what I bring */
    TCI_BOOT_ANSWER = 9,  /* who was dialed: the same, and the proof of it */
    TCI_BOOT_PROOF = 10,  /* who dials: the proof */
    TCI_BOOT_DENY = 11,   /* either: I do not go on, for this reason */
    TCI_BOOT_FINISH = 12, /* who was dialed: I believe you */
    TCI_BOOT_PING = 13    /* either, before a deadline: I am here; rank 0 answers with the same */
};

enum {
    TCI_BOOT_HEAD = 16,
    TCI_BOOT_JOIN_LEN = 72 + TCI_CPUS / 8,
    TCI_BOOT_TABLE_FIXED = 64,
    TCI_BOOT_TABLE_EACH = TCI_ADDR_WIRE + 16,
    TCI_BOOT_ROW_LEN = 80 + TCI_CPUS / 8,
    TCI_BOOT_OFFER_LEN = 232,
    TCI_BOOT_ANSWER_LEN = 296,
    TCI_BOOT_PROOF_LEN = 40,
    TCI_BOOT_DENY_LEN = 8,
    TCI_BOOT_FINISH_LEN = 32,
    TCI_BOOT_REFUSE_FIXED = 8,
    TCI_BOOT_TEXT_MAX = 383, /* as long as the sentence of a tci_error */
    TCI_BOOT_REFUSE_MAX = TCI_BOOT_REFUSE_FIXED + TCI_BOOT_TEXT_MAX
};

struct tci_boot_head {
    uint16_t version;
    uint8_t type; /* enum tci_boot_type, when the version is ours */
    uint32_t len; /* bytes of the body */
};

struct tci_boot_join {
    uint32_t size, rank;
    struct tci_addr addr; /* where the member listens */
    uint64_t host;
    uint32_t release;          /* TCI_RELEASE */
    uint8_t job[TCI_GROUP_ID]; /* that it means to be of; zero: none is named */
    struct tci_cpus cpus;      /* where it may run; none: not known */
};

struct tci_boot_row {
    uint32_t size, rank;
    uint64_t host;
    uint8_t group_id[TCI_GROUP_ID]; /* of rank 0; zero elsewhere */
    struct tci_agreed agreed;       /* that of rank 0 counts */
    bool is_ring;                   /* it has descriptors to its neighbours alone */
    struct tci_cpus cpus;           /* as in a JOIN */
};

/* A head and no body, for WELCOME, READY, GO and PING; or the head of what follows. */
void tci_boot_head_encode(enum tci_boot_type type, size_t len, uint8_t *bytes);
/* Whether `len` (up to TCI_BOOT_HEAD) bytes can be the beginning of a head. */
bool tci_boot_head_begins(const uint8_t *bytes, size_t len);
/* A whole head.  Refused: what is not of the rendezvous; of our version, a type that is none, or a
 * length that the type cannot have; of another version, a length beyond TCI_BOOT_REFUSE_MAX. */
tc_status_t tci_boot_head_decode(const uint8_t *bytes, struct tci_boot_head *head_out);

/* Bodies.  `bytes` has room for, or holds, the length that the type says. */
void tci_boot_join_encode(const struct tci_boot_join *join, uint8_t *bytes);
tc_status_t tci_boot_join_decode(const uint8_t *bytes, struct tci_boot_join *join_out);
/* "tcdist 0.2.0" of a JOIN of any version, or what is known of it; into text, of 64 bytes. */
const char *tci_boot_join_release(const struct tci_boot_head *head, const uint8_t *bytes,
                                  char *text);

void tci_boot_row_encode(const struct tci_boot_row *row, uint8_t *bytes);
tc_status_t tci_boot_row_decode(const uint8_t *bytes, struct tci_boot_row *row_out);

static inline size_t tci_boot_table_len(int size)
{
    return TCI_BOOT_TABLE_FIXED + (size_t)size * TCI_BOOT_TABLE_EACH;
}
/* group_id, agreed, addrs, hosts and labels of a result of `size` ranks, and nothing else of it. */
void tci_boot_table_encode(const struct tci_boot_result *result, uint8_t *bytes);
tc_status_t tci_boot_table_decode(const uint8_t *bytes, struct tci_boot_result *result);

/* Gives the length, at most TCI_BOOT_REFUSE_MAX. */
size_t tci_boot_refuse_encode(const struct tci_error *error, uint8_t *bytes);
/* Any bytes give an error: what cannot be printed becomes '?', an unknown status RENDEZVOUS. */
void tci_boot_refuse_decode(const uint8_t *bytes, size_t len, struct tci_error *error);

#endif
