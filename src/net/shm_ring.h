/* shm_ring.h - a ring of records in shared memory, with one writer and one reader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SHM_RING_H
#define TCI_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/transport.h"

/*   writer                                              reader
 *      |   +------+------+---------+------+- - - - -+      |
 *      +-> | head | head | payload | head |    0    | <----+  polls the first word of the next head
 *          +------+------+---------+------+- - - - -+
 *
 * A record is a head of one cache line, and its payload in the lines that follow.  The first word
 * of a head says how long the record is; the writer clears that word of the next place before it
 * sets this one, so the reader needs no other line to see that something has come: a small message
 * costs one transfer of a line from core to core.  A record lies in one piece; what is left at the
 * end of the ring is filled with one that means nothing.
 *
 * The other process may write anything at any time.  The reader copies a head before it looks at
 * it, and checks every number in it; its own place it keeps in memory of its own, as does the
 * writer. */
enum {
    TCI_SHM_LINE = 64,
    TCI_SHM_RING = 256 * 1024, /* of one direction; the second-level cache holds it */
    TCI_SHM_LINES = TCI_SHM_RING / TCI_SHM_LINE,
    TCI_SHM_PAYLOAD_MAX = TCI_SHM_RING / 4 /* of one record */
};

enum tci_shm_kind {
    TCI_SHM_PAD = 1, /* nothing: the ring goes on at its beginning */
    TCI_SHM_DATA,    /* a message; up to 8 bytes lie in `word` */
    TCI_SHM_LEND,    /* a message that lies in its sender's memory: struct tci_shm_lend */
    TCI_SHM_TAKEN,   /* the loan `tag` has been read, or is not wanted: it ends */
    TCI_SHM_PULL,    /* the loan `tag` cannot be read here (root: errno): send it from `word` on */
    TCI_SHM_PIECE,   /* of the loan `tag`, at offset `word` */
    TCI_SHM_ASK,     /* is the loan `tag` still good? */
    TCI_SHM_GOOD,    /* the loan `tag` is; step: the epoch now */
    TCI_SHM_NOTICE,  /* as the payload of a NOTICE frame */
    TCI_SHM_BYE,     /* nothing follows */
    TCI_SHM_KINDS
};

/* As it lies in the ring.  The call and the key are those of a frame on the wire. */
struct tci_shm_head {
    uint32_t bytes; /* of the record, a multiple of TCI_SHM_LINE; in the ring with tci_shm_time() */
    uint8_t kind;   /* enum tci_shm_kind */
    uint8_t space;
    int8_t priority;
    uint8_t coll;
    uint64_t tag, group;
    uint32_t lane, step, use;
    int32_t root;
    uint64_t count;
    uint8_t dtype, op, plan;
    uint8_t measured; /* how the payload was stored, and one: to be told what it takes to read */
    uint32_t len;     /* of the payload */
    uint64_t word;
};

/* What the two ends of a ring tell each other; each line has one writer. */
struct tci_shm_way {
    /* of the ring's writer */
    _Alignas(TCI_SHM_LINE) _Atomic uint32_t epoch; /* counts loans that ended before their time */
    _Atomic uint32_t wants_room;                   /* ring the writer's bell when there is room */
    /* of the ring's reader */
    _Alignas(TCI_SHM_LINE) _Atomic uint64_t tail;      /* bytes read since the beginning */
    _Atomic uint64_t consumed;                         /* of early messages, with what they cost */
    _Atomic uint64_t read_ns[2];                       /* of payload that is measured, by how … */
    _Atomic uint64_t read_bytes[2];                    /* … it was stored */
    _Alignas(TCI_SHM_LINE) _Atomic uint32_t is_asleep; /* ring the reader's bell */
    _Atomic uint32_t pieces; /* counts those read of loans that have not ended by that */
};

struct tci_shm_writer {
    struct tci_shm_way *way; /* borrowed, as all that lies in the region */
    uint8_t *ring;
    uint64_t head;      /* bytes written since the beginning */
    uint64_t tail_seen; /* of the reader, at most TCI_SHM_RING behind */
    uint32_t bytes;     /* of the record that there is room for */
    bool is_broken;     /* the reader has written nonsense */
    /* The payload of the record that is put next was stored past the caches: so will others be. */
    bool is_past_caches;
    uint64_t heads[TCI_SHM_LINES / 64]; /* a bit for each line: what was written there last is … */
};                                      /* … the head of a record */

struct tci_shm_reader {
    struct tci_shm_way *way;
    uint8_t *ring;
    uint64_t at;                        /* bytes read since the beginning */
    uint64_t told;                      /* the tail that the writer knows of */
    uint64_t read_ns[2], read_bytes[2]; /* as in the way */
};

/* Room for a record with `len` bytes of payload, at most TCI_SHM_PAYLOAD_MAX; NULL: the ring is
 * full.  The head is to be filled but for its length; then the record is put. */
struct tci_shm_head *tci_shm_room(struct tci_shm_writer *writer, size_t len);
/* Of the room that was given last; `len` as it was then, or less. */
void tci_shm_put(struct tci_shm_writer *writer, struct tci_shm_head *head, size_t len);
/* A reader that says that it sleeps, and then looks for a record, finds what was put before, or has
 * said so for whoever asks behind this. */
void tci_shm_fence(void);

/* The next record: its head, copied and checked, and where its payload lies (NULL: there is none).
 * False: nothing has come, or *wrong_out says what is wrong with it. */
bool tci_shm_next(struct tci_shm_reader *reader, struct tci_shm_head *head_out,
                  const uint8_t **payload_out, const char **wrong_out);
/* Whether a record is there. */
bool tci_shm_has_next(const struct tci_shm_reader *reader);
/* The record has been used up. */
void tci_shm_skip(struct tci_shm_reader *reader, const struct tci_shm_head *head);
/* Tell the writer how far we are; true when it waits for that and its bell is to be rung. */
bool tci_shm_tell(struct tci_shm_reader *reader);

/* What the first word of a head at a place has besides its length: never 0, and other than that of
 * the last time round. */
static inline uint32_t tci_shm_time(uint64_t at)
{
    return 1 + (at / TCI_SHM_RING & 1);
}

static inline void *tci_shm_payload(struct tci_shm_head *head)
{
    return head + 1;
}

#endif
