/* addr.c - addresses of the network: parsed, printed, compared, put on the wire. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/addr.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/base.h"

enum { PORT_MAX = 65535, PORT_DIGITS_MAX = 5 };

/* Characters of a host name, of an IPv4 address, and of an interface name in a scope. */
#define DIGITS "0123456789"
#define NAME   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-._"

/* ---- URLs ------------------------------------------------------------------------------------ */

/* All refusals of an URL: "rendezvous URL "tcp://": there is no host; ...". */
#define REFUSE(error, text, ...)                                                                   \
    (tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",                                  \
                   "rendezvous URL \"%.80s\": " __VA_ARGS__),                                      \
     TC_ERR_INVALID_ARG)

static tc_status_t parse_port(const char *text, const char *port, uint16_t *port_out,
                              struct tci_error *error)
{
    size_t digits = strspn(port, DIGITS);
    unsigned long value;

    if (*port == '\0')
        return REFUSE(error, text, "there is no port after the colon", text);
    if (digits == 0)
        return REFUSE(error, text, "the port \"%.20s\" is not a number", text, port);
    if (port[digits] != '\0')
        return REFUSE(error, text, "\"%.20s\" follows the port; nothing may", text, port + digits);
    if (digits > PORT_DIGITS_MAX)
        return REFUSE(error, text, "the port %.20s is beyond 65535", text, port);

    value = strtoul(port, NULL, 10);
    if (value == 0)
        return REFUSE(error, text, "port 0 cannot be reached; choose one from 1 to 65535", text);
    if (value > PORT_MAX)
        return REFUSE(error, text, "the port %lu is beyond 65535", text, value);
    *port_out = (uint16_t)value;
    return TC_OK;
}

/* "[fe80::1%25eth0]:4100": RFC 6874 writes the percent sign of a scope as "%25"; both are read. */
static tc_status_t parse_bracketed(const char *text, const char *rest, struct tci_url *url,
                                   struct tci_error *error)
{
    const char *end = strchr(rest, ']');
    const char *scope;
    struct in6_addr bits;
    char digits[INET6_ADDRSTRLEN];
    size_t len;

    if (end == NULL)
        return REFUSE(error, text, "the bracket after the IPv6 address is missing", text);
    scope = memchr(rest, '%', (size_t)(end - rest));
    len = (size_t)((scope != NULL ? scope : end) - rest);
    if (len == 0)
        return REFUSE(error, text, "there is no address between the brackets", text);
    if (len >= sizeof digits)
        return REFUSE(error, text, "the brackets do not hold an IPv6 address", text);
    memcpy(digits, rest, len);
    digits[len] = '\0';
    if (inet_pton(AF_INET6, digits, &bits) != 1)
        return REFUSE(error, text, "\"%s\" is not an IPv6 address", text, digits);

    url->host[0] = '\0';
    if (scope != NULL) {
        scope += strncmp(scope, "%25", 3) == 0 && scope + 3 < end ? 3 : 1;
        if (scope == end)
            return REFUSE(error, text, "there is no interface after the %% sign", text);
        if (end - scope >= IF_NAMESIZE || strspn(scope, NAME) < (size_t)(end - scope))
            return REFUSE(error, text, "\"%.*s\" is not the name of an interface", text,
                          (int)tci_min((size_t)(end - scope), 40), scope);
        (void)snprintf(url->host, sizeof url->host, "%s%%%.*s", digits, (int)(end - scope), scope);
    } else {
        (void)snprintf(url->host, sizeof url->host, "%s", digits);
    }

    if (end[1] != ':')
        return REFUSE(error, text, "the port is missing: write [address]:port", text);
    return parse_port(text, end + 2, &url->port, error);
}

static tc_status_t parse_host(const char *text, const char *rest, struct tci_url *url,
                              struct tci_error *error)
{
    const char *colon = strchr(rest, ':');
    size_t len = colon != NULL ? (size_t)(colon - rest) : strlen(rest);
    struct in_addr bits;

    if (colon != NULL && strchr(colon + 1, ':') != NULL)
        return REFUSE(error, text, "an IPv6 address stands in brackets: tcp://[::1]:4100", text);
    if (len == 0)
        return REFUSE(error, text, "there is no host; write host:port", text);
    if (strspn(rest, NAME) < len)
        return REFUSE(error, text, "'%c' cannot be part of a host name", text,
                      rest[strspn(rest, NAME)]);
    if (len >= sizeof url->host)
        return REFUSE(error, text, "the host is longer than 255 characters", text);
    memcpy(url->host, rest, len);
    url->host[len] = '\0';
    if (strspn(url->host, DIGITS ".") == len && inet_pton(AF_INET, url->host, &bits) != 1)
        return REFUSE(error, text, "\"%.40s\" is not an IPv4 address", text, url->host);
    if (colon == NULL)
        return REFUSE(error, text, "the port is missing; write host:port", text);
    return parse_port(text, colon + 1, &url->port, error);
}

/* Eight ports of its own, more or less, below those that systems choose from: 21000 … 29191. */
static unsigned cluster_port(const char *cluster)
{
    uint32_t hash = UINT32_C(2166136261);

    for (; *cluster != '\0'; cluster++)
        hash = (hash ^ (unsigned char)*cluster) * UINT32_C(16777619);
    return 21000 + hash % 1024 * TCI_CLUSTER_PORTS;
}

static tc_status_t parse_place(const char *text, const char *rest, struct tci_url *url,
                               struct tci_error *error)
{
    return *rest == '[' ? parse_bracketed(text, rest + 1, url, error)
                        : parse_host(text, rest, url, error);
}

/* "host/cluster" as "host:port". */
static tc_status_t parse_cluster(const char *text, const char *rest, struct tci_url *url,
                                 struct tci_error *error)
{
    const char *slash = strchr(rest, '/');
    size_t len = slash != NULL ? (size_t)(slash - rest) : 0;
    const char *cluster = slash != NULL ? slash + 1 : "";
    char place[sizeof url->host + 64];

    if (slash == NULL || *cluster == '\0')
        return REFUSE(error, text, "the name of the cluster is missing: write host/cluster", text);
    if (strlen(cluster) >= sizeof url->cluster || cluster[strspn(cluster, NAME)] != '\0')
        return REFUSE(error, text, "the name of a cluster is 1 to 63 letters, digits and - . _",
                      text);
    if (len >= sizeof url->host)
        return REFUSE(error, text, "the host is longer than 255 characters", text);
    (void)snprintf(place, sizeof place, "%.*s:%u", (int)len, rest, cluster_port(cluster));
    (void)snprintf(url->cluster, sizeof url->cluster, "%s", cluster);
    if (rest[0] != '[' && memchr(rest, ':', len) != NULL)
        return REFUSE(error, text, "the cluster has a name, and no port: write host/cluster", text);
    return parse_place(text, place, url, error);
}

tc_status_t tci_url_parse(const char *text, struct tci_url *url_out, struct tci_error *error)
{
    static const struct {
        const char *text;
        enum tci_scheme scheme;
    } schemes[] = {
        {"tcp://", TCI_SCHEME_TCP}, {"gloo+tcp://", TCI_SCHEME_TCP},  {"rdma://", TCI_SCHEME_TCP},
        {"tb5://", TCI_SCHEME_TCP}, {"single://", TCI_SCHEME_SINGLE},
    };
    static const struct {
        const char *scheme, *instead;
    } others[] = {
        {"env://", "call tc_dist_init_env"},
    };
    struct tci_url url = {.scheme = TCI_SCHEME_SINGLE};
    const char *rest = NULL;
    tc_status_t status;

    for (size_t k = 0; k < TCI_LEN(schemes); k++) {
        size_t len = strlen(schemes[k].text);

        if (strncmp(text, schemes[k].text, len) == 0) {
            url.scheme = schemes[k].scheme;
            rest = text + len;
            break;
        }
    }
    for (size_t k = 0; k < TCI_LEN(others); k++)
        if (strncmp(text, others[k].scheme, strlen(others[k].scheme)) == 0) {
            tci_error_set(error, TC_ERR_UNSUPPORTED_FAMILY, -1, 0, "dist_init",
                          "rendezvous URL \"%.80s\": %s is not carried: %s", text, others[k].scheme,
                          others[k].instead);
            return TC_ERR_UNSUPPORTED_FAMILY;
        }
    if (rest == NULL)
        return REFUSE(
            error, text,
            "it begins with no known scheme; there are tcp://, rdma://, tb5://, gloo+tcp://, "
            "file://, redis://, etcd://, etcds://, pmi://, pmix://, env://, fd:// and single://",
            text);

    if (url.scheme == TCI_SCHEME_TCP) {
        url.wants_rdma = strncmp(text, "rdma://", 7) == 0;
        status = strncmp(text, "tb5://", 6) == 0 ? parse_cluster(text, rest, &url, error)
                                                 : parse_place(text, rest, &url, error);
        if (status != TC_OK)
            return status;
    }
    *url_out = url;
    return TC_OK;
}

bool tci_url_from_print(const char *text, struct tci_url *url_out)
{
    struct tci_error unused = {.pub = {.status = TC_OK}};
    const char *scope = strchr(text, '%'); /* "%25" in an URL */
    int len = scope != NULL ? (int)(scope - text) : (int)strlen(text);
    char whole[TCI_ADDR_TEXT + sizeof url_out->host];

    (void)snprintf(whole, sizeof whole, "tcp://%.*s%s%s", len, text, scope != NULL ? "%25" : "",
                   scope != NULL ? scope + 1 : "");
    return tci_url_parse(whole, url_out, &unused) == TC_OK;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

bool tci_addr_from_text(const char *host, uint16_t port, struct tci_addr *addr_out)
{
    struct tci_addr addr = {.len = 0};
    const char *scope = strchr(host, '%');
    char digits[INET6_ADDRSTRLEN];
    size_t len = scope != NULL ? (size_t)(scope - host) : strlen(host);

    if (len >= sizeof digits)
        return false;
    memcpy(digits, host, len);
    digits[len] = '\0';

    if (scope == NULL && inet_pton(AF_INET, digits, &addr.v4.sin_addr) == 1) {
        addr.v4.sin_family = AF_INET;
        addr.v4.sin_port = htons(port);
        addr.len = sizeof addr.v4;
    } else if (inet_pton(AF_INET6, digits, &addr.v6.sin6_addr) == 1) {
        addr.v6.sin6_family = AF_INET6;
        addr.v6.sin6_port = htons(port);
        if (scope != NULL)
            addr.v6.sin6_scope_id = if_nametoindex(scope + 1);
        if (scope != NULL && addr.v6.sin6_scope_id == 0)
            addr.v6.sin6_scope_id = (uint32_t)strtoul(scope + 1, NULL, 10);
        addr.len = scope == NULL || addr.v6.sin6_scope_id != 0 ? sizeof addr.v6 : 0;
    }
    if (addr.len == 0)
        return false;
    tci_addr_from_system((const struct sockaddr *)&addr.sa, addr.len, addr_out);
    return true;
}

void tci_addr_from_system(const struct sockaddr *sa, socklen_t len, struct tci_addr *addr_out)
{
    struct tci_addr given = {.len = 0}, addr = {.len = 0};

    memcpy(&given.sa, sa, tci_min(len, sizeof given.sa));
    if (given.sa.ss_family == AF_INET6 && len >= sizeof given.v6 &&
        IN6_IS_ADDR_V4MAPPED(&given.v6.sin6_addr)) {
        addr.v4.sin_family = AF_INET;
        addr.v4.sin_port = given.v6.sin6_port;
        memcpy(&addr.v4.sin_addr, &given.v6.sin6_addr.s6_addr[12], sizeof addr.v4.sin_addr);
        addr.len = sizeof addr.v4;
    } else if (given.sa.ss_family == AF_INET6 && len >= sizeof given.v6) {
        addr.v6 = given.v6;
        addr.len = sizeof addr.v6;
    } else if (given.sa.ss_family == AF_INET && len >= sizeof given.v4) {
        addr.v4 = given.v4;
        addr.len = sizeof addr.v4;
    }
    *addr_out = addr;
}

const char *tci_addr_print(const struct tci_addr *addr, char *text)
{
    char digits[INET6_ADDRSTRLEN];
    char name[IF_NAMESIZE];

    if (addr->len == 0) {
        (void)snprintf(text, TCI_ADDR_TEXT, "(no address)");
    } else if (addr->sa.ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, &addr->v4.sin_addr, digits, sizeof digits);
        (void)snprintf(text, TCI_ADDR_TEXT, "%s:%u", digits, (unsigned)ntohs(addr->v4.sin_port));
    } else {
        (void)inet_ntop(AF_INET6, &addr->v6.sin6_addr, digits, sizeof digits);
        if (addr->v6.sin6_scope_id == 0)
            (void)snprintf(text, TCI_ADDR_TEXT, "[%s]:%u", digits,
                           (unsigned)ntohs(addr->v6.sin6_port));
        else if (if_indextoname(addr->v6.sin6_scope_id, name) != NULL)
            (void)snprintf(text, TCI_ADDR_TEXT, "[%s%%%s]:%u", digits, name,
                           (unsigned)ntohs(addr->v6.sin6_port));
        else
            (void)snprintf(text, TCI_ADDR_TEXT, "[%s%%%u]:%u", digits,
                           (unsigned)addr->v6.sin6_scope_id, (unsigned)ntohs(addr->v6.sin6_port));
    }
    return text;
}

/* Address and scope, without the port. */
static bool has_same_host(const struct tci_addr *a, const struct tci_addr *b)
{
    if (a->len == 0 || b->len == 0 || a->sa.ss_family != b->sa.ss_family)
        return false;
    if (a->sa.ss_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0 &&
           a->v6.sin6_scope_id == b->v6.sin6_scope_id;
}

bool tci_addr_is_equal(const struct tci_addr *a, const struct tci_addr *b)
{
    if (a->len == 0 || b->len == 0)
        return a->len == b->len;
    return has_same_host(a, b) && tci_addr_port(a) == tci_addr_port(b);
}

bool tci_addr_is_same_host(const struct tci_addr *a, const struct tci_addr *b)
{
    return has_same_host(a, b) || (tci_addr_is_loopback(a) && tci_addr_is_loopback(b));
}

bool tci_addr_is_any(const struct tci_addr *addr)
{
    if (addr->len == 0)
        return false;
    if (addr->sa.ss_family == AF_INET)
        return addr->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&addr->v6.sin6_addr);
}

bool tci_addr_is_loopback(const struct tci_addr *addr)
{
    if (addr->len == 0)
        return false;
    if (addr->sa.ss_family == AF_INET)
        return ntohl(addr->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&addr->v6.sin6_addr);
}

uint16_t tci_addr_port(const struct tci_addr *addr)
{
    if (addr->len == 0)
        return 0;
    if (addr->sa.ss_family == AF_INET)
        return ntohs(addr->v4.sin_port);
    return ntohs(addr->v6.sin6_port);
}

void tci_addr_set_port(struct tci_addr *addr, uint16_t port)
{
    TC_ASSERT(addr->len != 0);
    if (addr->sa.ss_family == AF_INET)
        addr->v4.sin_port = htons(port);
    else
        addr->v6.sin6_port = htons(port);
}

void tci_addr_adopt_scope(struct tci_addr *addr, const struct tci_addr *seen_from)
{
    if (addr->len == 0 || addr->sa.ss_family != AF_INET6 || addr->v6.sin6_scope_id == 0)
        return;
    addr->v6.sin6_scope_id = seen_from->len != 0 && seen_from->sa.ss_family == AF_INET6
                                 ? seen_from->v6.sin6_scope_id
                                 : 0;
}

/* ---- The wire ---------------------------------------------------------------------------------
 *
 *   0      1     2     4              20      24        32
 *   | 4, 6 |  0  | port | address      | scope |    0    |     numbers in network order;
 *   | or 0 |     |      | (IPv4: 4 B)  |       |         |     all zero: no address
 */
enum { WIRE_PORT = 2, WIRE_BITS = 4, WIRE_SCOPE = 20 };

void tci_addr_encode(const struct tci_addr *addr, uint8_t *wire)
{
    uint32_t scope;

    memset(wire, 0, TCI_ADDR_WIRE);
    if (addr->len == 0)
        return;
    if (addr->sa.ss_family == AF_INET) {
        wire[0] = 4;
        memcpy(wire + WIRE_PORT, &addr->v4.sin_port, 2);
        memcpy(wire + WIRE_BITS, &addr->v4.sin_addr, 4);
        return;
    }
    TC_ASSERT(addr->sa.ss_family == AF_INET6);
    wire[0] = 6;
    scope = htonl(addr->v6.sin6_scope_id);
    memcpy(wire + WIRE_PORT, &addr->v6.sin6_port, 2);
    memcpy(wire + WIRE_BITS, &addr->v6.sin6_addr, 16);
    memcpy(wire + WIRE_SCOPE, &scope, 4);
}

tc_status_t tci_addr_decode(const uint8_t *wire, struct tci_addr *addr_out)
{
    struct tci_addr addr = {.len = 0};
    uint8_t again[TCI_ADDR_WIRE];
    uint32_t scope;

    if (wire[0] == 4) {
        addr.v4.sin_family = AF_INET;
        memcpy(&addr.v4.sin_port, wire + WIRE_PORT, 2);
        memcpy(&addr.v4.sin_addr, wire + WIRE_BITS, 4);
        addr.len = sizeof addr.v4;
    } else if (wire[0] == 6) {
        addr.v6.sin6_family = AF_INET6;
        memcpy(&addr.v6.sin6_port, wire + WIRE_PORT, 2);
        memcpy(&addr.v6.sin6_addr, wire + WIRE_BITS, 16);
        memcpy(&scope, wire + WIRE_SCOPE, 4);
        addr.v6.sin6_scope_id = ntohl(scope);
        addr.len = sizeof addr.v6;
    }

    /* Whatever encode would have written otherwise is not its work. */
    tci_addr_encode(&addr, again);
    if (memcmp(again, wire, TCI_ADDR_WIRE) != 0)
        return TC_ERR_TRANSPORT;
    *addr_out = addr;
    return TC_OK;
}
