/* facts.h - what the ranks tell each other about themselves, and what they found out by trying. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_FACTS_H
#define TOOLS_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ADDRESSES_MAX = 16, /* of one host */
    LINKS_MAX = 16,
    DEVICES_MAX = 8,
    RANKS_MAX = 1024,
    ADDRESS_ROOM = 64,
    NAME_ROOM = 64,
    LINK_ROOM = 16,
    TEXT_ROOM = 400
};

enum link_kind {
    LINK_LOOPBACK,
    LINK_ETHERNET,
    LINK_THUNDERBOLT,
    LINK_WIRELESS,
    LINK_INFINIBAND,
    LINK_BRIDGE, /* docker0 and the like */
    LINK_OTHER,
    LINK_KINDS
};

/* An interface of the network. */
struct link_facts {
    char name[LINK_ROOM];
    char master[LINK_ROOM]; /* the bridge that it belongs to; "" */
    uint8_t kind;           /* enum link_kind */
    uint8_t is_up, has_carrier;
    uint32_t mtu, speed_mbit; /* 0: not known */
};

struct address_facts {
    char text[ADDRESS_ROOM]; /* "10.0.0.7", without a scope */
    uint8_t link;            /* its place among the links */
    uint8_t prefix_len;
    uint8_t is_loopback;
    uint8_t is_scoped; /* fe80::…: means something on the links that lead there alone */
};

/* An RDMA device. */
struct device_facts {
    char name[NAME_ROOM];
    char link[LINK_ROOM]; /* the interface that shares its port; "" */
    uint8_t is_active;
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
    uint32_t address_count, link_count, device_count;
    struct address_facts addresses[ADDRESSES_MAX];
    struct link_facts links[LINKS_MAX];
    struct device_facts devices[DEVICES_MAX];
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
    int8_t via;      /* of REACHED: the own link by which it went; -1: not known */
    float rtt_us;    /* of REACHED: the shortest there and back */
    float mb_per_s;  /* 0: not measured */
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
/* The same of what it tried, `count` peers of it. */
void facts_check_tried(struct tried *tried, size_t count);
/* And of how the library did at `count` ranks. */
void facts_check_worked(struct worked *worked, size_t count);

/* "ethernet" */
const char *facts_kind_name(unsigned kind);

#endif
