/* waiting.c - for whom an operation waits, in numbers and in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "core/comm.h"
#include "core/log.h"
#include "core/match.h"
#include "core/self.h"

enum { WARN_RANKS = 8, WARN_TEXT = 112 }; /* named in a line, and the room of so many */

static uint64_t now(const struct tci_comm *comm)
{
    return comm->exec->ops->now_ns(comm->exec);
}

/* Each once, behind those that are there. */
static uint32_t add_rank(uint32_t *ranks, uint32_t count, uint32_t room, uint32_t rank)
{
    uint32_t i = 0;

    while (i < count && ranks[i] != rank)
        i++;
    if (i < count || count == room)
        return count;
    ranks[count] = rank;
    return count + 1;
}

/* The peers of messages that have not ended: those that are received, or those that are sent. */
static uint32_t add_peers(const struct tci_op *op, bool are_sent, uint32_t *ranks, uint32_t count,
                          uint32_t room)
{
    struct tci_step step;

    for (size_t l = 0; l < TCI_LANES_ALL; l++) {
        const struct tci_lane *lane = &op->lanes[l];
        uint64_t left = lane->op == NULL ? 0 : lane->open & ~lane->ended;

        for (; left != 0; left &= left - 1) {
            memset(&step, 0, sizeof(step));
            lane->plan->step(&op->args.shape, lane->base + (uint32_t)__builtin_ctzll(left), &step);
            if (tci_step_is_message(step.kind) && (step.kind == TCI_STEP_SEND) == are_sent)
                count = add_rank(ranks, count, room, step.peer);
        }
    }
    return count;
}

uint32_t tci_waiting_senders(const struct tci_op *op, uint32_t *ranks, uint32_t room)
{
    return add_peers(op, false, ranks, 0, room);
}

/* The ranks that messages are still to come from; where there are none, to go to. */
static uint32_t waited_for(const struct tci_op *op, uint32_t *ranks, uint32_t room)
{
    uint32_t count = tci_waiting_senders(op, ranks, room);

    return count > 0 ? count : add_peers(op, true, ranks, 0, room);
}

uint32_t tci_waiting_peers(const struct tci_comm *comm, uint32_t *ranks, uint32_t room)
{
    uint32_t count = 0;

    for (const struct tci_list *at = comm->ops.next; at != &comm->ops; at = at->next) {
        const struct tci_op *op = tci_container_of(at, struct tci_op, link);

        if (op->state != TCI_OP_RUNNING)
            continue;
        count = add_peers(op, false, ranks, count, room);
        count = add_peers(op, true, ranks, count, room);
        if (op->args.peer >= 0)
            count = add_rank(ranks, count, room, (uint32_t)op->args.peer);
    }
    return count;
}

int tci_waits_for(const struct tci_op *op)
{
    uint32_t rank;

    return waited_for(op, &rank, 1) == 1 ? (int)rank : op->args.peer;
}

/* At most a line a second, however many operations wait. */
static bool may_warn(struct tci_comm *comm)
{
    uint64_t at = now(comm);

    if (comm->warned_ns != 0 && at - comm->warned_ns < 1000 * TCI_NS_PER_MS) {
        comm->unwarned++;
        return false;
    }
    comm->warned_ns = at;
    return true;
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

/* "rank 3", "ranks 1, 3": at most WARN_RANKS of them, in order. */
static const char *print_ranks(uint32_t *ranks, uint32_t count, char text[WARN_TEXT])
{
    int used = snprintf(text, WARN_TEXT, "%s", count == 1 ? "rank" : "ranks");

    qsort(ranks, count, sizeof(ranks[0]), compare_ranks);
    for (uint32_t i = 0; i < count && i < WARN_RANKS; i++)
        used +=
            snprintf(text + used, WARN_TEXT - (size_t)used, "%s%u", i == 0 ? " " : ", ", ranks[i]);
    (void)snprintf(text + used, WARN_TEXT - (size_t)used, "%s",
                   count > WARN_RANKS ? " and more" : "");
    return text;
}

/* Whom a call waits for: "rank 0", "ranks 0, 2, and to send to rank 1".  A rank that takes nothing
 * may be the one that holds up all. */
static void print_waits(const struct tci_op *op, char *text, size_t text_bytes)
{
    uint32_t ranks[2 * (WARN_RANKS + 1)], count, all;
    char from[WARN_TEXT], to[WARN_TEXT];

    if (op->state == TCI_OP_WAITING) {
        (void)snprintf(text, text_bytes, "the futures to start after");
        return;
    }
    if (tci_self_is_meant(op)) {
        (void)tci_self_print(op, text, text_bytes);
        return;
    }
    count = waited_for(op, ranks, WARN_RANKS + 1);
    if (count == 0 && op->args.peer >= 0)
        ranks[count++] = (uint32_t)op->args.peer;
    all = add_peers(op, true, ranks, count, TCI_LEN(ranks));
    (void)print_ranks(ranks, count, from);
    if (all == 0)
        (void)snprintf(text, text_bytes, "its own computations");
    else if (all == count)
        (void)snprintf(text, text_bytes, "%s", from);
    else
        (void)snprintf(text, text_bytes, "%s, and to send to %s", from,
                       print_ranks(ranks + count, all - count, to));
}

void tci_waiting_warn(struct tci_op *op)
{
    struct tci_comm *comm = op->comm;
    char tag[48], text[2 * WARN_TEXT + 32], more[48] = "";

    if (!may_warn(comm))
        return;
    print_waits(op, text, sizeof(text));
    if (comm->unwarned > 0)
        snprintf(more, sizeof(more), " (so do %u others)", comm->unwarned);
    comm->unwarned = 0;
    tci_log(TC_LOG_WARN, "rank %d: %s, %s: waiting %.0f s for %s%s", comm->rank, op->args.name,
            tci_tag_print(op->args.space, op->args.tag, tag, sizeof(tag)),
            (double)(now(comm) - op->begin_ns) * 1e-9, text, more);
}

/* What it does, a sentence without its end. */
static void describe(const struct tci_op *op, char *text, size_t text_bytes)
{
    double s = (double)(now(op->comm) - op->begin_ns) * 1e-9;
    int peer = tci_waits_for(op);

    if (op->state == TCI_OP_WAITING)
        snprintf(text, text_bytes, "it has called it %.1f s ago, and waits for the futures before",
                 s);
    else if (tci_self_is_meant(op))
        snprintf(text, text_bytes, "it has entered it %.1f s ago, and waits for its own %s", s,
                 op->args.is_from_self ? "send" : "recv");
    else if (peer >= 0)
        snprintf(text, text_bytes, "it has entered it %.1f s ago, and waits for rank %d", s, peer);
    else
        snprintf(text, text_bytes, "it has entered it %.1f s ago, and computes", s);
}

static bool has_finalized(const struct tci_comm *comm)
{
    return comm->last.space == TCI_SPACE_INTERNAL && strcmp(comm->last.name, "finalize") == 0;
}

/* What this rank has entered last, a sentence without its end. */
static void describe_last(const struct tci_comm *comm, char *text, size_t text_bytes)
{
    char tag[48];

    if (comm->last.name == NULL)
        snprintf(text, text_bytes, "it has not entered anything yet");
    else if (has_finalized(comm))
        snprintf(text, text_bytes, "it has finalized the group %.1f s before the others asked",
                 (double)(now(comm) - comm->last.at_ns) * 1e-9);
    else
        snprintf(text, text_bytes, "what it entered last is %s, %s, %.1f s before the others asked",
                 comm->last.name, tci_tag_print(comm->last.space, comm->last.tag, tag, sizeof(tag)),
                 (double)(now(comm) - comm->last.at_ns) * 1e-9);
}

/* The oldest of this rank's calls that waits for another one; NULL: none. */
static const struct tci_op *waits_elsewhere(const struct tci_comm *comm)
{
    for (const struct tci_list *at = comm->ops.next; at != &comm->ops; at = at->next) {
        const struct tci_op *op = tci_container_of(at, struct tci_op, link);
        int peer = op->state == TCI_OP_RUNNING ? tci_waits_for(op) : -1;

        if (peer >= 0 && peer != comm->rank)
            return op;
    }
    return NULL;
}

/* Why this rank has not entered what it is asked about. */
static void describe_absence(const struct tci_comm *comm, struct tci_notice *answer)
{
    const struct tci_op *op = waits_elsewhere(comm);
    char tag[48];

    if (op == NULL)
        return;
    answer->number = tci_waits_for(op);
    if (has_finalized(comm))
        return; /* that says more */
    snprintf(answer->text, sizeof(answer->text), "it waits for rank %d in %s, %s", answer->number,
             op->args.name, tci_tag_print(op->args.space, op->args.tag, tag, sizeof(tag)));
}

enum { PACKED_BITS = 21 };

uint64_t tci_waits_pack(const int32_t ranks[3])
{
    uint64_t packed = 0;

    for (int i = 0; i < 3; i++)
        if (ranks[i] >= 0 && ranks[i] < (1 << PACKED_BITS) - 1)
            packed |= ((uint64_t)ranks[i] + 1) << (i * PACKED_BITS);
    return packed;
}

void tci_waits_unpack(uint64_t packed, int32_t ranks_out[3])
{
    for (int i = 0; i < 3; i++)
        ranks_out[i] = (int32_t)((packed >> (i * PACKED_BITS)) & ((1u << PACKED_BITS) - 1)) - 1;
}

/* For whom it waits besides the first. */
static uint64_t more_waits(const struct tci_op *op)
{
    uint32_t ranks[4], count = waited_for(op, ranks, 4);
    int32_t more[3] = {-1, -1, -1};

    for (uint32_t i = 1; i < count; i++)
        more[i - 1] = (int32_t)ranks[i];
    return tci_waits_pack(more);
}

void tci_waiting_answer(struct tci_comm *comm, uint32_t from, const struct tci_notice *asked,
                        enum tci_notice_kind kind, struct tci_notice *answer_out)
{
    struct tci_tag_name name = tci_comm_tag_name(&asked->key, from);
    struct tci_tag *tag = tci_tags_find(&comm->tags, &name);
    const struct tci_done *done = tci_tags_done(&comm->tags, &name, asked->key.use);
    struct tci_notice answer = {.kind = (uint8_t)kind,
                                .status = TC_ERR_NOT_INITIALIZED,
                                .culprit = comm->rank,
                                .number = -1,
                                .key = asked->key,
                                .call = asked->call};

    if (tag != NULL && tag->op != NULL && tci_key_is_same_use(&tag->op->key, &asked->key)) {
        answer.status = TC_PENDING;
        answer.call = tag->op->args.call;
        answer.number =
            tag->op->state == TCI_OP_WAITING ? TCI_WAITS_FOR_FUTURES : tci_waits_for(tag->op);
        answer.arg = more_waits(tag->op);
        describe(tag->op, answer.text, sizeof(answer.text));
        tag->op->is_held = tag->op->is_held || asked->status == TC_ERR_MISMATCH;
    } else if (done != NULL) {
        answer.status = TC_OK;
        answer.call = done->call;
    } else if (tci_tags_uses(&comm->tags, &name) >=
                   tci_max(asked->key.use, 1) + (tag != NULL && tag->op != NULL) ||
               tci_tags_is_forgotten(&comm->tags, &name)) {
        answer.status = TC_ERR_CLOSED;
    }
    if (answer.status == TC_ERR_NOT_INITIALIZED)
        describe_absence(comm, &answer);
    if (answer.text[0] == 0)
        describe_last(comm, answer.text, sizeof(answer.text));
    *answer_out = answer;
}
