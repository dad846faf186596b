/* fuzz_url.c - feeds texts to the readers of URLs, addresses, descriptors and layouts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "context/layout.h"
#include "core/alloc.h"
#include "fuzz/fuzz.h"
#include "net/addr.h"
#include "net/row.h"

enum { TEXT_ROOM = 2048, RANKS_MAX = 8 };

static void want(bool holds)
{
    if (!holds)
        abort();
}

/* A refusal is a whole sentence, and an answer has no cause. */
static void check_error(tc_status_t status, const struct tci_error *error)
{
    want(status == error->pub.status);
    want(status == TC_OK || error->text[0] != '\0');
    want(memchr(error->text, 0, sizeof(error->text)) != NULL);
}

/* What was read can be written, and is read again as the same. */
static void try_url(const char *text)
{
    struct tci_url url, again;
    struct tci_error error = {0};
    char printed[sizeof(url.host) + 64];
    const char *scope;
    int len;

    check_error(tci_url_parse(text, &url, &error), &error);
    if (error.pub.status != TC_OK || url.scheme != TCI_SCHEME_TCP)
        return;
    want(memchr(url.host, 0, sizeof(url.host)) != NULL && url.host[0] != '\0' && url.port != 0);
    scope = strchr(url.host, '%'); /* "%25" where it is written */
    len = scope != NULL ? (int)(scope - url.host) : (int)strlen(url.host);
    (void)snprintf(printed, sizeof(printed),
                   strchr(url.host, ':') != NULL ? "tcp://[%.*s%s%s]:%u" : "tcp://%.*s%s%s:%u", len,
                   url.host, scope != NULL ? "%25" : "", scope != NULL ? scope + 1 : "", url.port);
    want(tci_url_parse(printed, &again, &error) == TC_OK);
    want(strcmp(url.host, again.host) == 0 && url.port == again.port);
}

static void try_addr(const char *text, uint16_t port)
{
    struct tci_addr addr, again;
    char printed[TCI_ADDR_TEXT];
    uint8_t wire[TCI_ADDR_WIRE];

    if (!tci_addr_from_text(text, port, &addr))
        return;
    want(memchr(tci_addr_print(&addr, printed), 0, sizeof(printed)) != NULL);
    want(tci_addr_port(&addr) == port);
    tci_addr_encode(&addr, wire);
    want(tci_addr_decode(wire, &again) == TC_OK && tci_addr_is_equal(&addr, &again));
}

/* An address as it travels, from anyone: what is taken is as encode makes it. */
static void try_wire(const uint8_t *data, size_t size)
{
    uint8_t wire[TCI_ADDR_WIRE] = {0}, again[TCI_ADDR_WIRE];
    char printed[TCI_ADDR_TEXT];
    struct tci_addr addr;

    memcpy(wire, data, size < sizeof(wire) ? size : sizeof(wire));
    if (tci_addr_decode(wire, &addr) != TC_OK)
        return;
    (void)tci_addr_print(&addr, printed);
    tci_addr_encode(&addr, again);
    want(memcmp(wire, again, sizeof(wire)) == 0);
}

/* Descriptors 0 to 9 are looked at, not touched. */
static void try_row(const char *text, int size, int rank)
{
    struct tci_row row;
    struct tci_error error = {0};

    if (!tci_row_is_meant(text))
        return;
    check_error(tci_row_parse(text, size, rank, &row, &error), &error);
    if (error.pub.status != TC_OK)
        return;
    want(row.size == size && row.fds[rank] == -1);
    tci_row_forget(&row);
}

static void try_layout(const char *text, uint32_t size)
{
    struct tci_error error = {0};
    uint64_t *labels = NULL;

    if (!tci_layout_is_one(text))
        return;
    check_error(tci_layout_labels(text, size, &labels, &error), &error);
    tci_free(labels);
}

/* Two bytes say of which group, the rest is text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int pairs[2][2];
    char text[TEXT_ROOM];
    int ranks, rank;

    if (pairs[0][1] == 0)
        for (int i = 0; i < 2; i++)
            want(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]) == 0);
    if (size < 2)
        return 0;
    ranks = 1 + data[0] % RANKS_MAX;
    rank = data[1] % ranks;
    fuzz_text(data + 2, size - 2, text, sizeof(text));
    try_url(text);
    try_addr(text, data[0]);
    try_wire(data + 2, size - 2);
    try_row(text, ranks, rank);
    try_layout(text, (uint32_t)ranks);
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    static const char *const texts[] = {"11tcp://127.0.0.1:29500",
                                        "11tcp://[fe80::1%25eth0]:4100",
                                        "11tcp://[fd00::10%3]:29500",
                                        "11tcp://node-7.cluster.example:65535",
                                        "11gloo+tcp://host0:1",
                                        "11single://",
                                        "11tb5://192.0.2.0/cluster",
                                        "11file:///tmp/meet",
                                        "11env://",
                                        "11::ffff:10.0.0.7",
                                        "11fe80::1%lo",
                                        "11192.0.2.7",
                                        "11fd://4",
                                        "22fd://3,5",
                                        "30fd://-,3,4,5",
                                        "11auto",
                                        "724,2*2",
                                        "72=0,1,0,1,0,1,0,1",
                                        "71\2\0\20\4\177\0\0\1",
                                        NULL};

    return fuzz_seed_text(texts, i, data, room);
}
