/* fake.h - a stand-in for libibverbs inside the process: true to its order, fails by a script. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FAKE_VERBS_H
#define TEST_FAKE_VERBS_H

#include <pthread.h>

#include "rdma/verbs.h"

/* What is posted is carried out when somebody polls or arms a completion queue, some at a time, so
 * that memory which is touched too early shows.  All queue pairs of the process reach each other.
 * Any thread: there is one lock. */
extern const struct tci_verbs fake_verbs;

/* An entry of a port's table of addresses. */
struct fake_gid {
    int type;            /* enum ibv_gid_type */
    const char *address; /* IPv6, or IPv4 as ::ffff:10.0.0.1 */
};

/* One device of the machine. */
struct fake_device {
    const char *name;
    bool is_software, opens_not;
    bool is_uc_only; /* it refuses queue pairs of kind RC */
    unsigned ports;
    enum ibv_port_state state;
    uint8_t link_layer; /* 0: ethernet */
    enum ibv_mtu mtu;   /* 0: 4096 bytes */
    uint32_t address;   /* IPv4 of its GID 1, as 0x0a4d0001; 0: it has none */
    int gid_type;       /* of it; 0: RoCE v2 */
    const struct fake_gid
        *gids; /* all that it has, borrowed; NULL: that one, and a link-local one */
    unsigned gid_count;
    uint32_t max_msg_bytes; /* 0: 1 GiB */
    int max_qp_wr, max_cqe; /* 0: many */
};

/* The devices from now on, `count` of them (at most 4; 0: the kernel has no RDMA), copied; all
 * scripts are forgotten.  Nothing may be open. */
void fake_setup(const struct fake_device *devices, unsigned count);
/* One card with one port that is active, and an IPv4 address. */
void fake_setup_usual(void);
/* The same, of a card that has queue pairs of kind UC alone. */
void fake_setup_uc(void);

/* ---- Scripts ---- */

enum fake_fate {
    FAKE_FAILS,      /* with a status */
    FAKE_IS_LOST,    /* its sender believes that it has arrived */
    FAKE_IS_UNSURE,  /* it arrives, and its sender is told that it failed */
    FAKE_IS_CHANGED, /* a bit of it */
    FAKE_GOES_ASTRAY /* a write, with a remote key that nobody has given out */
};
/* What becomes of the n-th (1: the next) work request of a kind (-1: any) that is carried out. */
void fake_fate(int opcode, unsigned nth, enum fake_fate fate, enum ibv_wc_status status);
/* The n-th arrives with a bit changed, in its byte `at` counted round and round. */
void fake_change(int opcode, unsigned nth, size_t at);
/* Count, in `marked`, what passes with these bytes in it; NULL: not. */
void fake_look_for(const void *bytes, size_t len);
/* Nothing is carried out while held, as on a network that is slow. */
void fake_hold(bool is_held);
/* Whether packets find their way. */
void fake_path(bool stands);
/* Packets with more bytes of data than this get nowhere; 0: all that ports can send. */
void fake_switch(unsigned mtu);
/* The first device's port, or another one's, goes down (or up): packets get nowhere, and an event
 * tells. */
void fake_port(bool is_up);
void fake_port_of(unsigned device, bool is_up);
/* The devices are taken out: everything is flushed, every call fails. */
void fake_remove(void);
/* Registrations that are possible at once, in number and bytes; 0: no limit. */
void fake_limit_regions(unsigned count, size_t bytes);
/* Queue pairs and growth of completion queues are refused from now on. */
void fake_refuse(bool queue_pairs, bool growth);

/* ---- What was seen ---- */

struct fake_counts {
    unsigned contexts, pds, regions, channels, cqs, qps; /* that are there now */
    unsigned regions_most;                               /* that were there at once */
    size_t region_bytes;
    uint64_t sends, writes, registered; /* ever */
    uint64_t posts, arms;               /* calls that a device is rung by */
    uint64_t carried_ns;                /* time of processors that devices would not have taken */
    uint64_t marked;                    /* sends and writes with what is looked for */
    uint64_t waits_for_receive;         /* receiver not ready: credits were wrong */
    uint64_t overruns;                  /* a completion queue was too short */
    uint64_t mistakes;                  /* calls that no device would allow */
};
struct fake_counts fake_counts(void);

/* ---- Between its files ---- */

enum { FAKE_SGES = 4, FAKE_INLINE = 256, FAKE_DEVICES = 4, FAKE_EVENTS = 64 };

struct fake_context {
    struct ibv_context base; /* first */
    const struct fake_device *device;
    struct fake_context *next;
    unsigned children;
    struct ibv_async_event events[FAKE_EVENTS];
    unsigned events_first, events_count;
};
struct fake_mr {
    struct ibv_mr base; /* first */
    struct fake_mr *next;
    int access;
};
struct fake_channel {
    struct ibv_comp_channel base; /* first */
    struct fake_cq *first;        /* with an event that nobody has taken */
};
struct fake_entry {
    struct ibv_wc wc;
    struct fake_qp *qp; /* NULL: gone */
    unsigned retires;   /* work requests of its send queue */
};
struct fake_cq {
    struct ibv_cq base; /* first */
    struct fake_cq *next, *next_event;
    struct fake_entry *entries;
    unsigned first, count, room;
    bool is_armed, has_event;
    unsigned unacked, users;
};
struct fake_work {
    struct fake_work *next;
    uint64_t id, remote_addr;
    enum ibv_wr_opcode opcode;
    unsigned flags;
    uint32_t rkey;
    __be32 imm;
    int sge_count;
    struct ibv_sge sges[FAKE_SGES];
    uint8_t inlined[FAKE_INLINE];
};
struct fake_queue {
    struct fake_work *head, **tail;
    unsigned count;
};
struct fake_qp {
    struct ibv_qp base; /* first */
    struct fake_qp *next;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr;
    struct fake_queue sends, recvs;
    unsigned sq_used, unsignaled;
    bool signals_all;
};

struct fake_world {
    pthread_mutex_t lock;
    struct fake_device devices[FAKE_DEVICES];
    struct ibv_device listed[FAKE_DEVICES];
    unsigned device_count;
    struct fake_context *contexts;
    struct fake_mr *mrs;
    struct fake_cq *cqs;
    struct fake_qp *qps;
    uint32_t next_key, next_qpn;
    struct {
        int opcode;
        unsigned nth;
        enum fake_fate fate;
        enum ibv_wc_status status;
        size_t at;
    } script;
    const void *marker;
    size_t marker_len;
    bool is_held, is_cut, is_removed, refuses_qps, refuses_growth;
    unsigned regions_max, switch_mtu;
    size_t region_bytes_max;
    struct fake_counts counts;
};
extern struct fake_world fake_world;

/* Carry out up to `most` requests of each queue pair.  The lock is held, as in all below. */
void fake_progress(unsigned most);
void fake_flush(struct fake_qp *qp);
void fake_tell(struct fake_context *context, enum ibv_event_type type, uint8_t port);
void fake_ring(struct fake_cq *cq);
/* Verbs that are not in objects.c. */
int fake_query_gid(struct ibv_context *base, uint8_t port, uint32_t index,
                   struct ibv_gid_entry *entry_out);
int fake_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc_out);
int fake_req_notify_cq(struct ibv_cq *cq);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr);

#endif
