/* facts.h - what the ranks tell each other about themselves, and what they found out by trying. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDOCTOR_FACTS_H
#define TCDOCTOR_FACTS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    ADDRESSES_MAX = 16, /* of one rank */
    RANKS_MAX = 1024,
    ADDRESS_ROOM = 64,
    NAME_ROOM = 64,
    TEXT_ROOM = 400
};

/* One rank, as it describes itself.  It comes from another process: facts_check() first. */
struct facts {
    uint32_t magic;
    int32_t rank, size, pid;
    char host[NAME_ROOM], version[16], launcher[16];
    char transports[NAME_ROOM]; /* "tcp shm rdma" */
    uint64_t nonce;             /* no other process has it: who answers to it is this one */
    uint64_t machine;           /* the same where loopback leads from one to the other */
    uint32_t probe_port;        /* where it answers those who try it */
    uint32_t address_count;
    struct {
        char text[ADDRESS_ROOM]; /* "10.0.0.7" */
        char interface[16];
        bool is_loopback;
    } addresses[ADDRESSES_MAX];
};

/* What came of trying one address of a peer. */
enum outcome {
    NOT_TRIED,
    REACHED,
    TIMED_OUT, /* nothing came back */
    REFUSED,
    UNREACHABLE, /* another error of the network */
    STRANGER     /* somebody else answered */
};

struct attempt {
    uint8_t outcome; /* enum outcome */
    uint8_t error;   /* errno of UNREACHABLE */
    float rtt_us;    /* of REACHED: the shortest there and back */
};

/* What a rank found out about one peer. */
struct tried {
    struct attempt attempts[ADDRESSES_MAX];
    int8_t best;       /* the address that answered fastest; -1: none */
    uint8_t is_large;  /* large messages were tried over it */
    uint8_t has_stuck; /* … and did not pass */
    float mb_per_s;
};

/* How the library did. */
struct worked {
    int32_t status;     /* of forming the group and of the collective: tc_status_t */
    uint8_t has_formed; /* the group */
    uint8_t is_right;   /* the collective had the known result */
    float form_ms, collective_us;
    char error[TEXT_ROOM];
};

/* Describes this rank, but for its probe's port. */
void facts_gather(struct facts *facts, int rank, int size, const char *launcher);
/* Whether it can be taken as it is: numbers in their ranges, texts that end; texts are made
 * printable. */
bool facts_check(struct facts *facts, int rank, int size);

#endif
