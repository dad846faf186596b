/* tunnel.h - many pipes over one stream: what ssh carries between tcrun and an agent. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   relay (beside tcrun)                                     agent (on the other host)
 *     pipes of each rank  <->  tunnel == ssh == tunnel  <->  pipes of each rank
 *
 * A frame is 8 bytes (type, kind, rank, length; little-endian) and so many bytes.  What a pipe may
 * send is what the other side has room for: a reader that sleeps holds up its own pipe alone, never
 * the beats, by which each side knows that the other one lives. */
#ifndef TCRUN_TUNNEL_H
#define TCRUN_TUNNEL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TUNNEL_VERSION = 2,
    TUNNEL_WINDOW = 65536,      /* of a pipe: as STREAM_BYTES */
    TUNNEL_FRAME_MAX = 32 << 20 /* an order with long lists of hosts and variables */
};

/* What an agent says first. */
#define TUNNEL_START "\ntcrun-agent\n"

enum tunnel_type {
    TUNNEL_HELLO = 1, /* agent: version of the protocol, 4 bytes; version of tcrun; zero byte */
    TUNNEL_LISTEN,    /* relay: an address, as text: be the place where the ranks meet */
    TUNNEL_LISTENING, /* agent: errno, 4 bytes; port, 4 bytes */
    TUNNEL_ORDER,     /* relay: order.h */
    TUNNEL_DATA,      /* both: bytes of a pipe */
    TUNNEL_CREDIT,    /* both: so many more bytes of a pipe may come, 4 bytes */
    TUNNEL_CLOSE,     /* both: a pipe has ended at its writer, or has no reader */
    TUNNEL_BEAT,      /* both: clock of the sender, 8 bytes; clock of the last beat heard, 8 bytes;
                         clock of the sender when it came, 8 bytes */
    TUNNEL_GUARD,     /* agent: event, value, 4 bytes each; clock, 8 bytes: guard.h */
    TUNNEL_GONE,      /* agent: the guard of the rank is gone */
    TUNNEL_SIGNAL,    /* relay: a signal to the rank, 4 bytes */
    TUNNEL_KILL,      /* relay: the rank is to be killed */
    TUNNEL_SAY,       /* agent: text for people */
    TUNNEL_FILE,      /* agent: a name, a zero byte, bytes to append to a file of traces */
    TUNNEL_DONE       /* agent: nothing follows */
};

enum tunnel_kind { TUNNEL_OUT, TUNNEL_ERR, TUNNEL_IN, TUNNEL_KINDS };

struct channel {
    int fd; /* owned; -1: closed here */
    bool is_source;
    bool has_ended;   /* a sink: the other side sends no more */
    bool is_last;     /* a source: every writer is known to be dead */
    size_t left;      /* with is_last: bytes that the pipe may still hold */
    uint32_t credit;  /* a source: bytes that may be sent */
    uint32_t written; /* a sink: bytes that are not yet given back as credit */
    char *buf;        /* a sink: owned; TUNNEL_WINDOW bytes, filled from head to head + len */
    size_t head, len;
    int at; /* its place among the descriptors of poll(); -1: none */
};

struct tunnel;
/* A frame for the owner; false: it is not as it must be, and the tunnel breaks. */
typedef bool tunnel_heard_fn(void *owner, const struct tunnel *tunnel, enum tunnel_type type,
                             unsigned rank, const char *bytes, size_t len);

struct bytes {
    char *data; /* owned */
    size_t head, len, room;
};

struct tunnel {
    int in, out; /* owned; non-blocking */
    struct bytes heard, said;
    struct channel *channels; /* owned; TUNNEL_KINDS a rank */
    unsigned ranks;
    tunnel_heard_fn *heard_fn;
    void *owner;
    bool is_over;       /* set by the side that has heard all there is */
    bool awaits_start;  /* set by the side that listens for TUNNEL_START */
    const char *broken; /* why nothing more comes; NULL: it stands */
    int64_t silence_ms; /* the other side must be heard within; 0: need not */
    int64_t quiet_ms;   /* time without a word from it, as far as this process ran */
    int64_t turned_ms, beat_ms;
    int64_t peer_clock_ns, peer_heard_ns; /* of the last beat that was heard: its clock, and ours */
    int64_t ahead_ns, round_ns;           /* the other clock, less ours; known within round_ns */
    int at_in, at_out;
};

/* Takes both descriptors over, and makes them non-blocking. */
void tunnel_init(struct tunnel *tunnel, int in, int out, tunnel_heard_fn *heard_fn, void *owner);
void tunnel_fini(struct tunnel *tunnel);

/* Room for the pipes of so many ranks; false: out of memory. */
bool tunnel_set_ranks(struct tunnel *tunnel, unsigned ranks);
/* Takes the end of a pipe over: a source is read and sent, a sink is written from what comes. */
void tunnel_attach(struct tunnel *tunnel, unsigned rank, enum tunnel_kind kind, int fd);
/* What the pipe still holds is all that comes of it, whoever may hold it open. */
void tunnel_expect_end(struct tunnel *tunnel, unsigned rank);
/* Every source has sent its end, every sink has written what came. */
bool tunnel_is_drained(const struct tunnel *tunnel);

void tunnel_say(struct tunnel *tunnel, enum tunnel_type type, unsigned kind, unsigned rank,
                const void *bytes, size_t len);
/* Whether bytes are there that have not been heard. */
bool tunnel_is_readable(const struct tunnel *tunnel);
/* So many bytes wait to be sent. */
size_t tunnel_backlog(const struct tunnel *tunnel);

size_t tunnel_poll_max(const struct tunnel *tunnel);
size_t tunnel_poll(struct tunnel *tunnel, struct pollfd *fds, size_t n);
/* Does what poll() has found, and beats; until `broken`.  What has come is heard all the same. */
void tunnel_turn(struct tunnel *tunnel, const struct pollfd *fds);

int64_t tunnel_now_ns(void);

/* Numbers as they lie in frames. */
void tunnel_put32(char *bytes, uint32_t value);
void tunnel_put64(char *bytes, uint64_t value);
uint32_t tunnel_get32(const char *bytes);
uint64_t tunnel_get64(const char *bytes);

#endif
