/* fuzz_table.c - feeds files to the reader of tables of choices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context/table.h"
#include "fuzz/fuzz.h"

static void want(bool holds)
{
    if (!holds)
        abort();
}

static void check_table(const struct tci_table *table)
{
    want(table->ranks > 0 && table->count <= TCI_TOLD_MAX);
    for (uint32_t l = 0; l < table->count; l++) {
        const struct tci_told *told = &table->told[l];

        want(told->coll < TCI_COLL_COUNT);
        want(told->numerics > 0 && told->numerics < TCI_NUMERICS_COUNT);
        want(told->plan == NULL || told->plan->is_used);
        for (uint32_t k = 0; k < l; k++)
            want(table->told[k].coll != told->coll || table->told[k].numerics != told->numerics ||
                 table->told[k].bytes < told->bytes);
    }
}

/* The input is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct tci_error error = {0};
    struct tci_table table;
    char path[64];

    if (fd < 0)
        fd = memfd_create("table", MFD_CLOEXEC);
    want(fd >= 0 && ftruncate(fd, 0) == 0);
    want(pwrite(fd, data, size, 0) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (tci_table_load(path, &table, &error) == TC_OK) {
        check_table(&table);
        tci_table_fini(&table);
    } else {
        want(error.text[0] != '\0' && memchr(error.text, 0, sizeof(error.text)) != NULL);
    }
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data, size_t room)
{
    static const char *const texts[] = {
        "{\"tcdist_choices\": 1, \"ranks\": 4, \"choices\": []}",
        "{\"tcdist_choices\": 1, \"ranks\": 2, \"figures\": {\"local\": {\"latency_ps\": 5000000, "
        "\"overhead_ps\": 500000, \"byte_fs\": 200000}}, \"choices\": ["
        "{\"collective\": \"allreduce\", \"numerics\": \"canonical\", \"bytes\": 0, "
        "\"algorithm\": \"oneshot\"}, {\"collective\": \"allreduce\", \"numerics\": \"canonical\", "
        "\"bytes\": 65536, \"algorithm\": \"direct\"}]}",
        "{\"tcdist_choices\": 1, \"ranks\": 8, \"choices\": [{\"collective\": \"broadcast\", "
        "\"numerics\": \"fast\", \"bytes\": 9007199254740992, \"algorithm\": \"model\"}, "
        "{\"collective\": \"alltoall\", \"numerics\": \"exact\", \"bytes\": 1e3, "
        "\"algorithm\": \"bruck\"}]}",
        "{\"tcdist_choices\": 1, \"ranks\": 3, \"figures\": {\"remote\": {\"latency_ps\": 1e12, "
        "\"overhead_ps\": 0, \"byte_fs\": 1}, \"local\": {}}, \"choices\": [{}]}",
        NULL};

    return fuzz_seed_text(texts, i, data, room);
}
