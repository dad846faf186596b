/* fuzz_jaccl.c - feeds texts to the reader of JACCL's device files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "launch/jaccl.h"

static void want(bool holds)
{
    if (!holds)
        abort();
}

static void check_cables(const struct tci_cables *cables)
{
    want(cables->count <= TCI_CABLES_MAX);
    for (unsigned c = 0; c < cables->count; c++) {
        want(cables->device[c][0] != '\0');
        want(memchr(cables->device[c], '\0', TCI_DEVICE_ROOM) != NULL);
    }
}

static void check(const struct tci_jaccl *jaccl, uint32_t rank)
{
    want(rank < jaccl->size && jaccl->size >= 2);
    want(jaccl->size <= (jaccl->is_ring ? (uint32_t)TCI_RING_MAX : (uint32_t)TCI_MESH_MAX));
    for (uint32_t peer = 0; peer < jaccl->size; peer++) {
        check_cables(&jaccl->cables[peer]);
        if (!jaccl->is_ring)
            want((jaccl->cables[peer].count > 0) == (peer != rank));
    }
    want(jaccl->cables[(rank + 1) % jaccl->size].count > 0);
}

/* The first byte has the rank and the preference, the rest is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tci_error error = {0};
    struct tci_jaccl jaccl;
    int rank = size > 0 ? data[0] >> 4 & 7 : 0;
    struct tci_jaccl_asked asked = {"it", rank, size > 0 && (data[0] & 1) != 0};

    if (size == 0)
        return 0;
    if (tci_jaccl_parse((const char *)data + 1, size - 1, &asked, &jaccl, &error) == TC_OK) {
        check(&jaccl, (uint32_t)rank);
        tci_jaccl_fini(&jaccl);
    } else {
        want(error.text[0] != '\0' && memchr(error.text, 0, sizeof(error.text)) != NULL);
    }
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    static const char *const texts[] = {
        " [[null, \"rdma_en5\"], [\"rdma_en3\", null]]",
        "![[null, [\"a\", \"b\"]], [[\"c\", \"d\"], null]]",
        "0[[null, \"r\", null, \"l\"], [\"l\", null, \"r\", null], [null, \"l\", null, \"r\"], "
        "[\"r\", null, \"l\", null]]",
        "1[[[], \"a\", \"b\"], [\"a\", [], \"b\"], [\"a\", \"b\", []]]", NULL};

    return fuzz_seed_text(texts, i, data, room);
}
