/* boot_text.c - the ranks that are missing, in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/boot_text.h"

#include <stdio.h>

#include "core/assert.h"

/* Room for the longest run, "65534-65535, ", and for " and 65535 more". */
enum { RESERVE = 40 };

static void write_run(struct tci_boot_missing *missing)
{
    const char *comma = missing->listed > 0 ? ", " : "";
    int ranks = missing->to - missing->from + 1;
    char *at = missing->text + missing->len;
    size_t room = sizeof missing->text - (size_t)missing->len;

    if (room < RESERVE)
        return;
    if (ranks == 1)
        missing->len += snprintf(at, room, "%s%d", comma, missing->from);
    else if (ranks == 2)
        missing->len += snprintf(at, room, "%s%d, %d", comma, missing->from, missing->to);
    else
        missing->len += snprintf(at, room, "%s%d-%d", comma, missing->from, missing->to);
    missing->listed += ranks;
}

void tci_boot_missing_add(struct tci_boot_missing *missing, int rank)
{
    TC_ASSERT(missing->count == 0 || rank > missing->to);
    missing->count++;
    if (missing->count > 1 && rank == missing->to + 1) {
        missing->to = rank;
        return;
    }
    if (missing->count == 1) {
        missing->first = rank;
        missing->len = snprintf(missing->text, sizeof missing->text, "ranks ");
    } else {
        write_run(missing);
    }
    missing->from = missing->to = rank;
}

void tci_boot_missing_end(struct tci_boot_missing *missing)
{
    if (missing->count == 0)
        return;
    if (missing->count == 1) {
        (void)snprintf(missing->text, sizeof missing->text, "rank %d", missing->first);
        return;
    }
    write_run(missing);
    if (missing->listed < missing->count)
        (void)snprintf(missing->text + missing->len, sizeof missing->text - (size_t)missing->len,
                       " and %d more", missing->count - missing->listed);
}
