/* addr.h - addresses of the network: parsed, printed, compared, put on the wire. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ADDR_H
#define TCI_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"

/* A union, since a compiler may take for granted that what is stored in one structure is not read
 * by a pointer to another. */
struct tci_addr {
    socklen_t len; /* 0: none */
    union {
        struct sockaddr_storage sa;
        struct sockaddr_in v4;  /* where sa.ss_family is AF_INET */
        struct sockaddr_in6 v6; /* AF_INET6 */
    };
};

/* A rendezvous URL, cut in its parts: "tcp://host:port", "gloo+tcp://…", "rdma://…", "single://…",
 * or "tb5://host/cluster", whose port is made of the cluster's name. */
enum tci_scheme { TCI_SCHEME_SINGLE, TCI_SCHEME_TCP };
struct tci_url {
    enum tci_scheme scheme;
    char host[256]; /* name, IPv4 or IPv6 without brackets, "%scope" kept */
    uint16_t port;
    bool wants_rdma; /* rdma:// */
    char
        cluster[64]; /* of tb5://: ranks of that cluster meet at one of TCI_CLUSTER_PORTS ports from
                       * that one on; else "" */
};
enum { TCI_CLUSTER_PORTS = 8 };
tc_status_t tci_url_parse(const char *text, struct tci_url *url_out, struct tci_error *error);
/* As tci_addr_print writes it, or with a name for the address: no percent sign stands for another.
 * False for anything else. */
bool tci_url_from_print(const char *text, struct tci_url *url_out);

/* A literal address, "10.0.0.7", "::1" or "fe80::1%eth0"; false for anything else, as a name. */
bool tci_addr_from_text(const char *host, uint16_t port, struct tci_addr *addr_out);
/* What the kernel gave; an IPv4 address in IPv6 clothes (::ffff:10.0.0.7) becomes IPv4, another
 * family none. */
void tci_addr_from_system(const struct sockaddr *sa, socklen_t len, struct tci_addr *addr_out);

enum { TCI_ADDR_TEXT = 96, TCI_ADDR_WIRE = 32 };

/* "10.0.0.7:4100" or "[fe80::1%eth0]:4100" into text (TCI_ADDR_TEXT bytes); gives text. */
const char *tci_addr_print(const struct tci_addr *addr, char *text);
bool tci_addr_is_equal(const struct tci_addr *a, const struct tci_addr *b);
/* Whether it stands for every address of a host: 0.0.0.0 or ::. */
bool tci_addr_is_any(const struct tci_addr *addr);
/* Whether a connection to it cannot leave this host (loopback). */
bool tci_addr_is_loopback(const struct tci_addr *addr);
/* Whether two ends of a connection are certainly on one host: the same address, or loopback. */
bool tci_addr_is_same_host(const struct tci_addr *a, const struct tci_addr *b);

uint16_t tci_addr_port(const struct tci_addr *addr); /* 0: none */
void tci_addr_set_port(struct tci_addr *addr, uint16_t port);
/* A scope is an index of an interface, and means nothing on another host: an address that came
 * with one takes that of this host's end of the connection it came by. */
void tci_addr_adopt_scope(struct tci_addr *addr, const struct tci_addr *seen_from);

/* TCI_ADDR_WIRE bytes: family, port, address, scope; decode refuses what encode never made. */
void tci_addr_encode(const struct tci_addr *addr, uint8_t *wire);
tc_status_t tci_addr_decode(const uint8_t *wire, struct tci_addr *addr_out);

#endif
