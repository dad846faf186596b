/* facts.h - what tcinfo tells: of the build, of this machine, and of the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCINFO_FACTS_H
#define TCINFO_FACTS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/jaccl.h"
#include "net/addr.h"
#include "rdma/rdma.h"

enum { EXIT_WRONG = 1, EXIT_TROUBLE = 2 };

/* ---- The build ---- */

struct feature {
    const char *name;
    bool is_built;
    const char *without; /* what is missing then */
};

struct build_facts {
    struct feature features[7];
    size_t feature_count;
    int rendezvous_version, frame_version;
    bool is_usable[8]; /* enum tci_isa */
    int kernel_count, best;
};

void find_build(struct build_facts *build);

/* ---- Interfaces ---- */

struct interface {
    char name[IF_NAMESIZE];
    char address[TCI_ADDR_TEXT]; /* without a port */
    bool is_up, is_loopback;
    bool is_listed; /* by TCDIST_INTERFACE, or since it is none of loopback */
    int mtu;        /* 0: not known */
};

struct interface_facts {
    struct interface *at; /* owned */
    size_t count;
};

bool find_interfaces(struct interface_facts *interfaces);

/* ---- RDMA ---- */

struct rdma_facts {
    struct tci_rdma_port_info *ports; /* owned, by tci_free() */
    size_t count;
    const char *why; /* there is none; NULL */
    char settings[160];
};

void find_rdma(struct rdma_facts *rdma);

/* ---- Shared memory ---- */

struct memory_facts {
    int cores;
    bool has_memfd;
    char memfd_why[80];
    bool may_read; /* a process the memory of another one of the same user */
    char read_why[120];
    uint64_t shm_free_bytes; /* of /dev/shm */
    uint64_t huge_page_bytes;
    long huge_pages, huge_pages_free; /* -1: not known */
    char transparent[32], shmem_transparent[32];
    uint64_t memlock_bytes; /* UINT64_MAX: no limit */
    uint64_t files;         /* descriptors that a process may have */
};

void find_memory(struct memory_facts *memory);

/* ---- The environment ---- */

struct variable {
    char name[64];
    const char *value;   /* borrowed; NULL: not shown */
    const char *nearest; /* of one that nothing reads: what is meant, or ""; else NULL */
    const char *idle;    /* of one that has no effect here: why; else NULL */
};

struct environment_facts {
    struct variable *at; /* owned */
    size_t count;
    char error[600]; /* why tc_init() or tc_dist_init_env() would fail; "" */
    char launcher[64], launcher_variables[256], others[256];
    int rank, size;
    char rendezvous[512];
    const char *device_file; /* of the launcher: which devices lead where; NULL: none */
    struct tci_jaccl cables; /* owned: by that file */
};

bool find_environment(struct environment_facts *environment);
/* The part that a launcher has set. */
void find_launcher(struct environment_facts *environment);

/* ---- All ---- */

struct facts {
    struct build_facts build;
    struct interface_facts interfaces;
    struct rdma_facts rdma;
    struct memory_facts memory;
    struct environment_facts environment;
};

bool find_facts(struct facts *facts); /* false: no memory */
void free_facts(struct facts *facts);

void print_text(const struct facts *facts);
/* False after having said why not. */
bool print_json(const struct facts *facts);

#endif
