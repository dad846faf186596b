/* fuzz_boot.c - feeds bytes to the decoders of the rendezvous. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "fuzz/fuzz.h"
#include "net/boot_wire.h"

enum { RANKS = 3 };

static void free_result(struct tci_boot_result *result)
{
    tci_free(result->addrs);
    tci_free(result->hosts);
    tci_free(result->labels);
}

/* Room for a table of RANKS. */
static void make_result(struct tci_boot_result *result)
{
    memset(result, 0, sizeof(*result));
    result->size = RANKS;
    result->addrs = tci_alloc_array(RANKS, sizeof(*result->addrs));
    result->hosts = tci_alloc_array(RANKS, sizeof(*result->hosts));
    result->labels = tci_alloc_array(RANKS, sizeof(*result->labels));
    if (result->addrs == NULL || result->hosts == NULL || result->labels == NULL)
        abort();
}

static void try_table(const uint8_t *body)
{
    struct tci_boot_result result;

    make_result(&result);
    (void)tci_boot_table_decode(body, &result);
    free_result(&result);
}

/* A head, and a body for each of the types. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t wire[TCI_BOOT_HEAD + TCI_BOOT_TABLE_FIXED + RANKS * TCI_BOOT_TABLE_EACH +
                 TCI_BOOT_REFUSE_MAX] = {0};
    struct tci_error error = {0};
    struct tci_boot_head head;
    struct tci_boot_join join;

    memcpy(wire, data, size < sizeof(wire) ? size : sizeof(wire));
    if (tci_boot_head_decode(wire, &head) != TC_OK)
        return 0;
    if (!tci_boot_head_begins(wire, TCI_BOOT_HEAD))
        abort();
    (void)tci_boot_join_decode(wire + TCI_BOOT_HEAD, &join);
    try_table(wire + TCI_BOOT_HEAD);
    if (head.len >= TCI_BOOT_REFUSE_FIXED && head.len <= TCI_BOOT_REFUSE_MAX) {
        tci_boot_refuse_decode(wire + TCI_BOOT_HEAD, head.len, &error);
        if (error.pub.status == TC_OK || memchr(error.text, 0, sizeof(error.text)) == NULL)
            abort();
    }
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    struct tci_boot_join join = {.size = RANKS, .rank = 1, .host = 77, .release = TCI_RELEASE};
    struct tci_boot_result result;
    struct tci_error error = {0};
    uint8_t *body = data + TCI_BOOT_HEAD;
    size_t len = 0;

    if (i >= TCI_BOOT_REFUSE || room < TCI_BOOT_HEAD + 2 * TCI_BOOT_REFUSE_MAX)
        return 0;
    memset(data, 0, room);
    switch (i + 1) {
    case TCI_BOOT_JOIN:
        len = TCI_BOOT_JOIN_LEN;
        tci_boot_join_encode(&join, body);
        break;
    case TCI_BOOT_TABLE:
        len = tci_boot_table_len(RANKS);
        make_result(&result);
        tci_boot_table_encode(&result, body);
        free_result(&result);
        break;
    case TCI_BOOT_REFUSE:
        tci_error_set(&error, TC_ERR_TIMEOUT, 2, 0, "dist_init", "rank 2 has not come");
        len = tci_boot_refuse_encode(&error, body);
        break;
    default:
        break;
    }
    tci_boot_head_encode((enum tci_boot_type)(i + 1), len, data);
    return TCI_BOOT_HEAD + len;
}
