/* boot.h - the meeting point: everyone comes to rank 0 and learns everyone's address. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_H
#define TCI_BOOT_H

#include "loop/loop.h"
#include "loop/sched.h"
#include "meet/meet.h"
#include "net/addr.h"
#include "net/keyring.h"
#include "net/paths.h"
#include "net/row.h"

enum { TCI_GROUP_ID = 16 };

/* More ranks would make the table larger than anyone should send: refused by done. */
enum { TCI_BOOT_SIZE_MAX = 65536 };

/* Settings that all ranks must share: rank 0's count. */
struct tci_agreed {
    uint64_t segment_bytes, eager_bytes;
    uint8_t numerics;   /* tc_numerics_t, resolved */
    uint8_t check;      /* tc_check_t, resolved */
    uint8_t tune;       /* enum tci_tune of algo/measure.h */
    uint16_t cores;     /* that ranks of rank 0's host have together; 0: not known */
    char algorithm[23]; /* "" : choose */
};

/* What a launcher knows of the place where its job meets, beside the URL.  All zero: nothing. */
struct tci_meeting {
    uint8_t job[TCI_GROUP_ID]; /* who comes to rank 0 with another is sent away, and looks on */
    int ports; /* rank 0 takes the first that is free of so many, from the URL's on; 0: 1 */
    bool
        is_local; /* all ranks are on this host: they meet on loopback, where no address is given */
    bool is_up;   /* rank 0's socket has listened since before this process began */
    bool is_loose;        /* without any address of the URL's host, rank 0 listens on all it has */
    struct tci_side side; /* for side:// */
};

struct tci_boot_config {
    int rank, size;  /* size >= 2 */
    const char *url; /* copied */
    int listen_fd;   /* rank 0: taken over, closed if all fails; -1: make one */
    /* Where another rank listens; copied.  Both NULL: beside, at the address by which it reached
     * rank 0. */
    const char *listen_url; /* exactly here */
    struct tci_row *row;    /* descriptors instead of a meeting point, taken over: the row is empty
                             * then; or NULL */
    const char *advertise;  /* host where the others reach it, of this host or in front of it */
    const char *interfaces; /* a choice of those to be reached by (iface.h); copied; NULL: none */
    uint64_t deadline_ns;   /* TCI_NEVER: none */
    bool is_patient;        /* others may come that late: what waiting seldom mends is borne, too */
    struct tci_agreed mine;
    struct tci_cpus cpus; /* where this rank may run */
    struct tci_meeting meeting;
    struct tci_keyring *keyring; /* shared; NULL: nobody has to prove anything */
    const uint64_t
        *labels; /* as of the result; copied; NULL: hosts are found out.  Rank 0's count */
};

/* What everyone knows when the group stands.  Arrays of `size`, owned by the receiver. */
struct tci_boot_result {
    int rank, size;
    int *fds;                       /* rank 0: its connection to each other rank; others: only [0];
                                  * -1 elsewhere.  They go on as links of the transport. */
    struct tci_addr *addrs;         /* where each rank listens */
    uint64_t *hosts;                /* equal numbers: same host (boot id and network namespace) */
    uint64_t *labels;               /* equal numbers: same host, for algorithms; as rank 0 was told,
                                     * or as hosts */
    int listener;                   /* this rank's listening socket, for later links */
    uint8_t group_id[TCI_GROUP_ID]; /* by rank 0; connections without it are strays */
    struct tci_agreed agreed;
    unsigned local_ranks;        /* on this host, this one included */
    int connections;             /* of each link; 0: of the context */
    struct tci_paths paths;      /* of further connections; none by the rendezvous */
    bool is_apart;               /* ranks of one host share no memory, as they were told */
    bool is_plain;               /* and use no RDMA */
    bool is_ring;                /* links between neighbours are all there will ever be */
    struct tci_keyring *keyring; /* shared; or NULL */
    struct tci_crypt **crypts;   /* by what fds[] are sealed; an entry, or all, NULL: by nothing */
};
void tci_boot_result_fini(struct tci_boot_result *result); /* closes what is still there */

struct tci_boot;
/* Begin; done(arg, …) is called once, on the loop, never from within this call: TC_OK and a
 * result that is the callee's from then on, or the cause.  NULL without memory.  Loop thread. */
typedef void (*tci_boot_fn)(void *arg, tc_status_t status, const struct tci_error *error,
                            struct tci_boot_result *result);
struct tci_boot *tci_boot_start(struct tci_loop *loop, const struct tci_boot_config *config,
                                tci_boot_fn done, void *arg);
/* Give up before done was called; it will not be.  Loop thread. */
void tci_boot_cancel(struct tci_boot *boot);

#endif
