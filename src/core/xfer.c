/* xfer.c - what arrives for a transfer is copied, or folded, to its place. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/assert.h"
#include "core/match.h"
#include "core/reduce.h"

void tci_xfer_fold(const struct tci_xfer *xfer, size_t at, const void *incoming, size_t count)
{
    const struct tci_fold *fold = xfer->fold;
    const void *own = (const uint8_t *)xfer->operand + at;
    const void *pair[2] = {xfer->incoming_first ? incoming : own,
                           xfer->incoming_first ? own : incoming};
    uint8_t *out = (uint8_t *)xfer->data + at;

    if (xfer->use_many)
        fold->many(out, pair, 2, count);
    else
        fold->pair(out, pair[0], pair[1], count);
    if (xfer->divide != 0 && fold->divide != NULL)
        fold->divide(out, xfer->divide, count);
}

void tci_xfer_append(struct tci_xfer *xfer, const void *from, size_t len)
{
    size_t done = (size_t)xfer->room[TCI_ROOM_DONE];

    TC_ASSERT(len <= xfer->len - done);
    if (len == 0)
        return;
    if (xfer->fold != NULL)
        tci_xfer_fold(xfer, done, from, len / xfer->fold->size);
    else
        memcpy((uint8_t *)xfer->data + done, from, len);
    xfer->room[TCI_ROOM_DONE] += len;
}
