/* wire.c - records to bytes, and back after every check. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/wire.h"

#include <assert.h>

#include "core/assert.h"
#include "core/bytes.h"
#include "core/notice.h"
#include "core/plan.h"

enum {
    AT_KIND = 0,
    AT_SPACE = 1,
    AT_PRIORITY = 2,
    AT_COLL = 3,
    AT_LEN = 4,
    AT_TAG = 8,
    AT_GROUP = 16,
    AT_LANE = 24,
    AT_STEP = 28,
    AT_USE = 32,
    AT_ROOT = 36,
    AT_COUNT = 40,
    AT_DTYPE = 48,
    AT_OP = 49,
    AT_PLAN = 50,
    AT_SEQ = 52,
    AT_ACK = 56,
    AT_NUMBER = 60,
    AT_TOTAL = 64,
    AT_CONSUMED = 72,
    AT_END = 80
};

static_assert((int)AT_END == (int)TCI_RDMA_HEAD, "the header has the size that docs/rdma.md says");
static_assert(TCI_RDMA_PAYLOAD % 16 == 0, "a part of a message is whole elements");

void tci_rdma_head_encode(const struct tci_rdma_head *head, uint8_t *wire)
{
    TC_ASSERT(head->kind > 0 && head->kind < TCI_RDMA_KINDS && head->len <= TCI_RDMA_PAYLOAD);

    wire[AT_KIND] = head->kind;
    wire[AT_SPACE] = head->key.space;
    wire[AT_PRIORITY] = (uint8_t)head->priority;
    wire[AT_COLL] = head->call.coll;
    tci_put32(wire + AT_LEN, head->len);
    tci_put64(wire + AT_TAG, head->key.tag);
    tci_put64(wire + AT_GROUP, head->key.group);
    tci_put32(wire + AT_LANE, head->key.lane);
    tci_put32(wire + AT_STEP, head->key.step);
    tci_put32(wire + AT_USE, head->key.use);
    tci_put32(wire + AT_ROOT, (uint32_t)head->call.root);
    tci_put64(wire + AT_COUNT, head->call.count);
    wire[AT_DTYPE] = head->call.dtype;
    wire[AT_OP] = head->call.op;
    wire[AT_PLAN] = head->call.plan;
    wire[AT_PLAN + 1] = 0;
    tci_put32(wire + AT_SEQ, head->seq);
    tci_put32(wire + AT_ACK, head->ack);
    tci_put32(wire + AT_NUMBER, head->number);
    tci_put64(wire + AT_TOTAL, head->total);
    tci_put64(wire + AT_CONSUMED, head->consumed);
}

/* Whether the payload is one of its kind. */
static const char *check(const struct tci_rdma_head *head)
{
    uint32_t len = head->len;

    if (head->total > INT64_MAX)
        return "a message of an impossible length";
    switch (head->kind) {
    case TCI_RDMA_DATA:
        return len <= head->total && (len == head->total || len == TCI_RDMA_PAYLOAD)
                   ? NULL
                   : "a message that does not fill its record";
    case TCI_RDMA_PART:
        return len > 0 ? NULL : "an empty part of a message";
    case TCI_RDMA_CREDIT:
        return len <= TCI_RDMA_RANGES * TCI_RDMA_RANGE_BYTES && len % TCI_RDMA_RANGE_BYTES == 0
                   ? NULL
                   : "a credit of the wrong length";
    case TCI_RDMA_FURTHER:
        return len == TCI_RDMA_RANGE_BYTES ? NULL : "a credit of the wrong length";
    case TCI_RDMA_HELLO: /* as long as a packet can be */
        return NULL;
    case TCI_RDMA_NOTICE:
        return len == TCI_NOTICE_BYTES ? NULL : "a notice of the wrong length";
    default:
        return len == 0 ? NULL : "a record with a payload that none has";
    }
}

const char *tci_rdma_head_decode(const uint8_t *wire, size_t bytes, struct tci_rdma_head *head_out)
{
    struct tci_rdma_head head;

    if (bytes < TCI_RDMA_HEAD || bytes > TCI_RDMA_HEAD + TCI_RDMA_PAYLOAD)
        return "a record of the wrong length";
    head.kind = wire[AT_KIND];
    head.priority = (int8_t)wire[AT_PRIORITY];
    head.key = (struct tci_key){.tag = tci_get64(wire + AT_TAG),
                                .group = tci_get64(wire + AT_GROUP),
                                .lane = tci_get32(wire + AT_LANE),
                                .step = tci_get32(wire + AT_STEP),
                                .use = tci_get32(wire + AT_USE),
                                .space = wire[AT_SPACE]};
    head.call = (struct tci_call){.count = tci_get64(wire + AT_COUNT),
                                  .root = (int32_t)tci_get32(wire + AT_ROOT),
                                  .coll = wire[AT_COLL],
                                  .dtype = wire[AT_DTYPE],
                                  .op = wire[AT_OP],
                                  .plan = wire[AT_PLAN]};
    head.len = tci_get32(wire + AT_LEN);
    head.seq = tci_get32(wire + AT_SEQ);
    head.ack = tci_get32(wire + AT_ACK);
    head.number = tci_get32(wire + AT_NUMBER);
    head.total = tci_get64(wire + AT_TOTAL);
    head.consumed = tci_get64(wire + AT_CONSUMED);
    if (head.kind == 0 || head.kind >= TCI_RDMA_KINDS)
        return "a record of an unknown kind";
    if (head.len != bytes - TCI_RDMA_HEAD)
        return "a record of another length than it says";
    if (head.key.space >= TCI_SPACE_COUNT || head.call.coll >= TCI_COLL_COUNT)
        return "a record of an unknown collective or space";
    *head_out = head;
    return check(&head);
}

void tci_rdma_range_encode(const struct tci_rdma_range *range, uint8_t *wire)
{
    tci_put64(wire, range->at);
    tci_put64(wire + 8, range->len);
    tci_put64(wire + 16, range->addr);
    tci_put32(wire + 24, range->rkey);
    tci_put32(wire + 28, range->place);
}

void tci_rdma_range_decode(const uint8_t *wire, struct tci_rdma_range *range_out)
{
    *range_out = (struct tci_rdma_range){.at = tci_get64(wire),
                                         .len = tci_get64(wire + 8),
                                         .addr = tci_get64(wire + 16),
                                         .rkey = tci_get32(wire + 24),
                                         .place = tci_get32(wire + 28)};
}
