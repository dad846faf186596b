/* wire.h - records between two ranks over RDMA: a header, and a little payload. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_RDMA_WIRE_H
#define TCI_RDMA_WIRE_H

#include "core/transport.h"

/* docs/rdma.md has the tables. */

enum tci_rdma_kind {
    TCI_RDMA_DATA = 1, /* a message of up to eager_max bytes, or its first part */
    TCI_RDMA_PART,     /* the next part of it */
    TCI_RDMA_CUT,      /* no more parts come: it was aborted */
    TCI_RDMA_WANT,     /* a small message waits: the window is used up */
    TCI_RDMA_PROBE,    /* a large one has waited long: compare the calls */
    TCI_RDMA_CREDIT,   /* the receive of this key is posted: write to these ranges */
    TCI_RDMA_FURTHER,  /* and then to this one */
    TCI_RDMA_REVOKE,   /* write nothing more for the receive of this number */
    TCI_RDMA_REVOKED,  /* nothing more comes for it */
    TCI_RDMA_NOTICE,
    TCI_RDMA_ACK, /* nothing but its acknowledgements */
    TCI_RDMA_BYE,
    TCI_RDMA_HELLO, /* of the two ends of a new queue pair */
    TCI_RDMA_ASK,   /* say what has come: queue pairs of kind UC do not */
    TCI_RDMA_KINDS  /* one past the last */
};

enum {
    TCI_RDMA_SLOTS = 32, /* records on their way in one direction */
    TCI_RDMA_SLOT = 8192,
    TCI_RDMA_HEAD = 80, /* bytes of a header */
    TCI_RDMA_SEAL = 32, /* room for the tag of one that is sealed */
    TCI_RDMA_PAYLOAD = TCI_RDMA_SLOT - TCI_RDMA_HEAD - TCI_RDMA_SEAL, /* whole elements */
    TCI_RDMA_RANGES = 4,                                              /* in one record */
    TCI_RDMA_RANGE_BYTES = 32
};

struct tci_rdma_head {
    uint8_t kind;
    int8_t priority;
    struct tci_key key;
    struct tci_call call;
    uint32_t len;      /* of this record's payload */
    uint32_t seq;      /* records and writes of this direction, from 0 */
    uint32_t ack;      /* of the other direction: that were taken in, ever */
    uint32_t number;   /* of a receive, by whoever has posted it */
    uint64_t total;    /* of the message */
    uint64_t consumed; /* early bytes of the other direction that were used up, ever */
};

/* Where the receiver has room for a part of a message. */
struct tci_rdma_range {
    uint64_t at, len; /* of the message */
    uint64_t addr;
    uint32_t rkey;
    uint32_t place; /* the writer's immediate value names it */
};

void tci_rdma_head_encode(const struct tci_rdma_head *head, uint8_t *wire);
/* Of a record of `bytes` bytes; NULL, or what is wrong with it, after "sent ". */
const char *tci_rdma_head_decode(const uint8_t *wire, size_t bytes, struct tci_rdma_head *head_out);

void tci_rdma_range_encode(const struct tci_rdma_range *range, uint8_t *wire);
void tci_rdma_range_decode(const uint8_t *wire, struct tci_rdma_range *range_out);

/* The immediate value of a write: the place of its range, and the low bits of its number. */
enum { TCI_RDMA_PLACE_BITS = 12, TCI_RDMA_SEQ_BITS = 20 };
static inline uint32_t tci_rdma_imm(uint32_t place, uint32_t seq)
{
    return place << TCI_RDMA_SEQ_BITS | (seq & ((1u << TCI_RDMA_SEQ_BITS) - 1));
}

#endif
