/* shrink_wire.c - what the survivors of a group tell each other, and what they make of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "group/shrink.h"

/* ---- Sending -------------------------------------------------------------------------------- */

struct say {
    uint32_t peer, use;
    enum tci_shrink_step step;
    tc_status_t status;
    int culprit;
    uint64_t number;
    const char *text; /* NULL: none */
};

static void put(const struct tci_comm *comm, const struct say *say, uint32_t word, uint64_t bits)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_SHRINK,
                                .status = say->status,
                                .culprit = say->culprit,
                                .arg = bits,
                                .key = {.tag = say->number,
                                        .lane = word,
                                        .step = say->step,
                                        .use = say->use,
                                        .space = TCI_SPACE_INTERNAL}};

    if (say->text != NULL)
        snprintf(notice.text, sizeof(notice.text), "%s", say->text);
    comm->transport->ops->notify(comm->transport, say->peer, &notice, true);
}

/* The parts of a set, and the message that completes it. */
static void send_set(const struct tci_comm *comm, struct say *say, const struct tci_set *set,
                     enum tci_shrink_step part)
{
    enum tci_shrink_step last = say->step;

    say->step = part;
    for (uint32_t w = 0; w < tci_set_words(set); w++)
        if (set->words[w] != 0)
            put(comm, say, w, set->words[w]);
    say->step = last;
    put(comm, say, 0, 0);
}

static struct say new_say(const tc_dist_ctx *group, uint32_t peer, enum tci_shrink_step step)
{
    return (struct say){
        .peer = peer, .use = group->shrunk_count, .step = step, .status = TC_OK, .culprit = -1};
}

void tci_shrink_say(struct tci_shrink *shrink, uint32_t peer, enum tci_shrink_step step,
                    const char *text)
{
    struct say say = new_say(shrink->group, peer, step);

    say.text = text;
    if (step == TCI_SHRINK_INVITE && shrink->is_late)
        say.status = TC_ERR_TIMEOUT;
    if (step == TCI_SHRINK_ACK)
        say.number = shrink->kept.number;
    put(&shrink->group->comm, &say, 0, 0);
}

void tci_shrink_say_suspect(struct tci_shrink *shrink, uint32_t suspect)
{
    struct say say = new_say(shrink->group, shrink->leader, TCI_SHRINK_SUSPECT);

    say.culprit = (int)suspect;
    put(&shrink->group->comm, &say, 0, 0);
}

void tci_shrink_join(struct tci_shrink *shrink)
{
    struct say say = new_say(shrink->group, shrink->leader, TCI_SHRINK_JOIN);

    if (shrink->kept.is_whole)
        say.number = shrink->kept.number;
    send_set(&shrink->group->comm, &say, &shrink->gone, TCI_SHRINK_JOIN_PART);
}

void tci_shrink_send_members(struct tci_shrink *shrink, uint32_t peer, enum tci_shrink_step step,
                             const struct tci_members *members)
{
    struct say say = new_say(shrink->group, peer, step);

    say.number = members->number;
    send_set(&shrink->group->comm, &say, &members->out,
             step == TCI_SHRINK_DONE ? TCI_SHRINK_DONE_PART : TCI_SHRINK_PROPOSE_PART);
}

void tci_shrink_tell(struct tci_shrink *shrink)
{
    uint32_t me = (uint32_t)shrink->group->comm.rank;

    if (!shrink->is_leading) {
        tci_shrink_join(shrink);
        return;
    }
    for (uint32_t r = 0; r < shrink->gone.size; r++) {
        if (r == me || tci_set_has(&shrink->gone, r))
            continue;
        if (!shrink->is_proposing && !tci_set_has(&shrink->joined, r))
            tci_shrink_say(shrink, r, TCI_SHRINK_INVITE, NULL);
        if (shrink->is_proposing && !tci_set_has(&shrink->acked, r) &&
            !tci_set_has(&shrink->kept.out, r))
            tci_shrink_send_members(shrink, r, TCI_SHRINK_PROPOSE, &shrink->kept);
    }
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static void on_invite(struct tci_shrink *shrink, uint32_t from, bool is_late)
{
    uint32_t me = (uint32_t)shrink->group->comm.rank;

    if (from == shrink->leader) {
        if (!shrink->is_invited)
            tci_shrink_begin_phase(shrink);
        shrink->is_invited = true;
        tci_shrink_join(shrink);
        return;
    }
    /* All before it are gone for it: that the leader has not come in time is true for all. */
    if (is_late && !shrink->is_leading && !shrink->is_invited && from < me) {
        for (uint32_t r = shrink->leader; r < from; r++)
            tci_shrink_miss(shrink, r);
        shrink->is_late = true;
        tci_shrink_step(shrink);
        return;
    }
    if (shrink->is_leading) {
        tci_shrink_miss(shrink, from);
        tci_shrink_say(shrink, from, TCI_SHRINK_EXCLUDED, "it takes the lowest survivor for gone");
        tci_shrink_step(shrink);
        return;
    }
    tci_shrink_say_suspect(shrink, from);
}

static void on_join(struct tci_shrink *shrink, uint32_t from, uint64_t number)
{
    if (!shrink->is_leading) {
        if (shrink->leader != from)
            tci_shrink_say_suspect(shrink, from);
        return;
    }
    (void)tci_set_add(&shrink->joined, from);
    if (!shrink->is_own && number != 0 && number != shrink->kept.number)
        shrink->is_behind = true;
    tci_shrink_step(shrink);
}

static void take_part(struct tci_members *members, const struct tci_notice *notice, bool is_last)
{
    /* Another one, or the same told again. */
    if (members->number != notice->key.tag || (members->is_whole && !is_last)) {
        tci_set_clear(&members->out);
        members->number = notice->key.tag;
        members->is_whole = false;
    }
    if (is_last)
        members->is_whole = true;
    else
        tci_set_add_word(&members->out, notice->key.lane, notice->arg);
}

static void on_propose(struct tci_shrink *shrink, uint32_t from, const struct tci_notice *notice)
{
    bool is_last = notice->key.step == TCI_SHRINK_PROPOSE;

    if (from != shrink->leader)
        return;
    take_part(&shrink->coming, notice, is_last);
    if (!is_last)
        return; /* what was kept before counts until all of this one is here */
    tci_set_copy(&shrink->kept.out, &shrink->coming.out);
    shrink->kept.number = shrink->coming.number;
    shrink->kept.is_whole = true;
    tci_shrink_begin_phase(shrink);
    tci_shrink_say(shrink, from, TCI_SHRINK_ACK, NULL);
}

static void on_done(struct tci_shrink *shrink, const struct tci_notice *notice)
{
    bool is_last = notice->key.step == TCI_SHRINK_DONE;

    take_part(&shrink->told, notice, is_last);
    if (!is_last)
        return;
    if (tci_set_has(&shrink->told.out, (uint32_t)shrink->group->comm.rank))
        tci_shrink_leave_behind(shrink, "others have agreed without it");
    else
        tci_shrink_settle(shrink, &shrink->told);
}

static void on_ack(struct tci_shrink *shrink, uint32_t from, uint64_t number)
{
    if (!shrink->is_proposing || number != shrink->kept.number)
        return;
    (void)tci_set_add(&shrink->acked, from);
    tci_shrink_step(shrink);
}

/* A rank for which this one, or its leader, is gone. */
static void on_suspect(struct tci_shrink *shrink, uint32_t suspect)
{
    if (shrink->is_leading && suspect < shrink->gone.size && !tci_set_has(&shrink->joined, suspect))
        tci_shrink_miss(shrink, suspect);
    tci_shrink_step(shrink);
}

static void on_suspected(struct tci_shrink *shrink, uint32_t from)
{
    if (!tci_set_has(&shrink->gone, from)) {
        shrink->suspected_by++;
        tci_shrink_miss(shrink, from);
    }
    tci_shrink_step(shrink);
}

static void on_gone(struct tci_shrink *shrink, uint32_t from)
{
    tci_shrink_miss(shrink, from);
    tci_shrink_step(shrink);
}

/* Someone asks who is gone here. */
static void answer_the_gone(struct tci_shrink *shrink, uint32_t from)
{
    if (shrink->is_leading && from > shrink->leader)
        tci_shrink_say(shrink, from, TCI_SHRINK_EXCLUDED, "it is taken for gone");
    else
        tci_shrink_say(shrink, from, TCI_SHRINK_SUSPECTED, NULL);
}

static void receive(struct tci_shrink *shrink, uint32_t from, const struct tci_notice *notice)
{
    bool is_decision =
        notice->key.step == TCI_SHRINK_DONE || notice->key.step == TCI_SHRINK_DONE_PART;

    /* What a leader decides after this rank has gone over to another one may be overtaken. */
    if (tci_set_has(&shrink->gone, from) && is_decision)
        return;
    if (tci_set_has(&shrink->gone, from) && tci_shrink_is_question(notice->key.step)) {
        answer_the_gone(shrink, from);
        return;
    }
    switch (notice->key.step) {
    case TCI_SHRINK_INVITE:
        on_invite(shrink, from, notice->status == TC_ERR_TIMEOUT);
        break;
    case TCI_SHRINK_JOIN_PART:
        if (shrink->is_leading)
            tci_shrink_note_rift(shrink, from, notice->key.lane, notice->arg);
        break;
    case TCI_SHRINK_JOIN:
        on_join(shrink, from, notice->key.tag);
        break;
    case TCI_SHRINK_PROPOSE_PART:
    case TCI_SHRINK_PROPOSE:
        on_propose(shrink, from, notice);
        break;
    case TCI_SHRINK_ACK:
        on_ack(shrink, from, notice->key.tag);
        break;
    case TCI_SHRINK_DONE_PART:
    case TCI_SHRINK_DONE:
        on_done(shrink, notice);
        break;
    case TCI_SHRINK_SUSPECT:
        on_suspect(shrink, (uint32_t)notice->culprit);
        break;
    case TCI_SHRINK_SUSPECTED:
        on_suspected(shrink, from);
        break;
    case TCI_SHRINK_EXCLUDED:
        if (notice->status == TC_ERR_CLOSED)
            tci_shrink_leave_behind(shrink, notice->text);
        else
            tci_shrink_exclude(shrink, notice->text);
        break;
    case TCI_SHRINK_GONE:
        on_gone(shrink, from);
        break;
    default:
        break;
    }
}

static struct say new_exclusion(const tc_dist_ctx *group, uint32_t peer, uint32_t use)
{
    struct say say = new_say(group, peer, TCI_SHRINK_EXCLUDED);

    say.use = use;
    say.status = TC_ERR_CLOSED;
    say.text = "the others have gone on without it";
    return say;
}

/* Who comes to shrink the group later must not take those that have closed it for gone. */
void tci_shrink_tell_left_out(tc_dist_ctx *group)
{
    struct tci_comm *comm = &group->comm;

    if (group->shrunk_count == 0 || comm->transport == NULL)
        return;
    for (uint32_t r = 0; r < group->shrunk.out.size; r++) {
        struct say say = new_exclusion(group, r, group->shrunk_count - 1);
        enum tci_bond bond = TCI_BOND_NONE;

        if (r != (uint32_t)comm->rank && tci_set_has(&group->shrunk.out, r) &&
            comm->transport->ops->bond != NULL)
            bond = comm->transport->ops->bond(comm->transport, r);
        if (bond == TCI_BOND_STANDS || bond == TCI_BOND_MENDING)
            put(comm, &say, 0, 0);
    }
}

/* Someone asks about what is over here: it may have missed the end of it. */
static void answer_the_late(tc_dist_ctx *group, uint32_t from, uint32_t use)
{
    struct say say = new_exclusion(group, from, use);

    if (use + 1 != group->shrunk_count || tci_set_has(&group->shrunk.out, from)) {
        put(&group->comm, &say, 0, 0);
        return;
    }
    say.text = NULL;
    say.status = TC_OK;
    say.step = TCI_SHRINK_DONE;
    say.number = group->shrunk.number;
    send_set(&group->comm, &say, &group->shrunk.out, TCI_SHRINK_DONE_PART);
}

void tci_shrink_noticed(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice)
{
    tc_dist_ctx *group = (tc_dist_ctx *)comm;
    bool is_question = tci_shrink_is_question(notice->key.step);
    struct say gone = new_say(group, from, TCI_SHRINK_GONE);

    gone.use = notice->key.use;
    gone.status = TC_ERR_CLOSED;
    if (from == (uint32_t)comm->rank)
        return;
    if (notice->key.use < group->shrunk_count) {
        if (is_question)
            answer_the_late(group, from, notice->key.use);
    } else if (group->shrink == NULL && group->state != TCI_GROUP_STANDS) {
        if (is_question)
            put(comm, &gone, 0, 0);
    } else if (group->shrink == NULL) {
        if (notice->key.step == TCI_SHRINK_INVITE)
            group->inviter = (int)from;
        if (notice->key.step == TCI_SHRINK_EXCLUDED && notice->status == TC_ERR_CLOSED)
            group->is_left_behind = true;
        if (group->is_left_behind && is_question)
            put(comm, &gone, 0, 0);
    } else if (notice->key.use == group->shrunk_count) {
        receive(group->shrink, from, notice);
    }
}
