/* trace_state.c - what is so now: the loop's signs of life, groups, links, clocks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "core/base.h"
#include "core/trace.h"

/* How old counters of transports may be while the loop is busy, and how far apart the two clocks
 * are compared. */
#define SAMPLE_NS (50 * TCI_NS_PER_MS)
#define CLOCK_NS  (1000 * TCI_NS_PER_MS)

/* ---- The loop ------------------------------------------------------------------------------- */

/* Two readings of the one clock around that of the other; the closest of three. */
static void compare_clocks(struct tci_trace_head *head)
{
    uint64_t number = tci_word_get(&head->clock_count), best_ns = UINT64_MAX;
    tci_word *pair = head->clocks[number % TCI_TRACE_CLOCKS];
    uint64_t at = 0, wall = 0;

    for (int i = 0; i < 3; i++) {
        uint64_t before = tci_trace_now(), after;
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        after = tci_trace_now();
        if (after - before >= best_ns)
            continue;
        best_ns = after - before;
        at = before + best_ns / 2;
        wall = (uint64_t)now.tv_sec * TCI_NS_PER_S + (uint64_t)now.tv_nsec;
    }
    tci_word_set(&pair[0], at);
    tci_word_set(&pair[1], wall);
    tci_word_set(&head->clock_count, number + 1);
}

static void sample(struct tci_trace *trace, uint64_t now_ns, uint64_t next)
{
    trace->sampled_ns = now_ns;
    trace->sampled_next = next;
    if (now_ns - trace->clocked_ns >= CLOCK_NS) {
        trace->clocked_ns = now_ns;
        compare_clocks(trace->head);
    }
    if (trace->sample != NULL)
        trace->sample(trace->sample_arg);
}

/* What has changed since: events, or marks. */
static uint64_t news_of(const struct tci_trace_head *head)
{
    return tci_word_get(&head->next) + tci_word_get(&head->marks);
}

void tci_trace_tick(struct tci_trace *trace, uint64_t now_ns)
{
    tci_trace_flood_tick(trace, now_ns);
    if (now_ns - trace->sampled_ns >= SAMPLE_NS)
        sample(trace, now_ns, news_of(trace->head));
}

/* A loop that rests for long leaves the truth behind, but for what it did in the last moment. */
void tci_trace_rest(struct tci_trace *trace)
{
    uint64_t now = tci_word_get(&trace->head->loop_ns);

    if (news_of(trace->head) != trace->sampled_next)
        sample(trace, now, news_of(trace->head));
}

void tci_trace_pause(struct tci_trace *trace)
{
    if (trace->flood.limit_before_pause != 0)
        return;
    trace->flood.limit_before_pause = trace->flood.limit;
    tci_trace_flood_limit(&trace->flood, UINT64_MAX);
    trace->flood.due_ns = 0;
}

/* When what has stood still for a tick is kept whole; and when counters are brought up to date that
 * were left behind when the loop went to rest. */
uint64_t tci_trace_due_ns(const struct tci_trace *trace)
{
    if (trace == NULL || tci_trace_is_paused(trace))
        return UINT64_MAX;
    if (trace->live_used < trace->head->tables[TCI_TRACE_LIVE].count && tci_trace_marked(trace) > 0)
        return trace->flood.due_ns;
    if (news_of(trace->head) != trace->sampled_next)
        return tci_max(trace->sampled_ns + SAMPLE_NS, trace->flood.due_ns);
    return UINT64_MAX;
}

void tci_trace_stall(struct tci_trace *trace, const char *what, uint64_t begin_ns, uint64_t end_ns)
{
    if (trace == NULL)
        return;
    tci_trace_count(trace, TCI_COUNT_STALLS, 1);
    tci_trace_add(trace, &(struct tci_trace_record){.kind = TCI_TRACE_STALL,
                                                    .rank = -1,
                                                    .peer = -1,
                                                    .name = what,
                                                    .begin_ns = begin_ns,
                                                    .end_ns = end_ns});
}

/* ---- Groups --------------------------------------------------------------------------------- */

static enum tci_trace_group_state state_of(const struct tci_trace_group *group)
{
    return (enum tci_trace_group_state)(tci_word_get(&group->shown) & UINT32_MAX);
}

static void set_state(struct tci_trace_group *group, enum tci_trace_group_state state)
{
    tci_word_set(&group->since_ns, tci_trace_now());
    tci_word_set(&group->shown,
                 (tci_word_get(&group->shown) & ~(uint64_t)UINT32_MAX) | (uint64_t)state);
}

/* The latest entry of a number: several first groups of one context have the same. */
static struct tci_trace_group *find_group(struct tci_trace *trace, uint64_t number,
                                          const uint64_t *job)
{
    uint32_t count = trace->head->tables[TCI_TRACE_GROUPS].count;
    struct tci_trace_group *found = NULL;

    for (uint32_t g = 0; g < count; g++) {
        struct tci_trace_group *group = &trace->groups[g];

        if (state_of(group) == TCI_TRACE_GROUP_FREE || tci_word_get(&group->number) != number ||
            (job != NULL &&
             (tci_word_get(&group->job[0]) != job[0] || tci_word_get(&group->job[1]) != job[1])))
            continue;
        if (found == NULL || (state_of(found) == TCI_TRACE_GROUP_LEFT) ||
            tci_word_get(&group->since_ns) > tci_word_get(&found->since_ns))
            found = group;
    }
    return found;
}

/* A free entry, or that of the group that was left first; NULL: all stand. */
static struct tci_trace_group *get_group(struct tci_trace *trace)
{
    uint32_t count = trace->head->tables[TCI_TRACE_GROUPS].count;
    struct tci_trace_group *oldest = NULL;

    for (uint32_t g = 0; g < count; g++) {
        struct tci_trace_group *group = &trace->groups[g];

        if (state_of(group) == TCI_TRACE_GROUP_FREE)
            return group;
        if (state_of(group) == TCI_TRACE_GROUP_LEFT &&
            (oldest == NULL || tci_word_get(&group->since_ns) < tci_word_get(&oldest->since_ns)))
            oldest = group;
    }
    return oldest;
}

void tci_trace_group_set(struct tci_trace *trace, const struct tci_trace_group_facts *facts)
{
    struct tci_trace_group *group;

    if (trace == NULL)
        return;
    group = find_group(trace, facts->number, facts->job);
    if (group == NULL)
        group = get_group(trace);
    if (group == NULL)
        return; /* its events are there, its ranks are not known */
    tci_word_set(&group->shown, 0);
    tci_word_set(&group->number, facts->number);
    tci_word_set(&group->job[0], facts->job[0]);
    tci_word_set(&group->job[1], facts->job[1]);
    tci_word_set(&group->rank_size, (uint64_t)(uint32_t)facts->rank << 32 | (uint32_t)facts->size);
    tci_word_set(&group->broken, 0);
    tci_word_set(&group->reason[0], 0);
    tci_word_set(&group->shown, (uint64_t)(uint32_t)facts->shown_rank << 32);
    set_state(group, TCI_TRACE_GROUP_STANDS);
}

/* What there is no room for goes by whole clauses. */
static size_t fitting(const char *text, size_t room)
{
    size_t bytes = strlen(text), at = room;

    if (bytes <= room)
        return bytes;
    while (at > 0 && text[at] != ';' && text[at] != ':')
        at--;
    return at > 0 ? at : room;
}

void tci_trace_group_broken(struct tci_trace *trace, uint64_t number, tc_status_t status,
                            int culprit, const char *reason)
{
    char text[TCI_TRACE_REASON_WORDS * sizeof(uint64_t)] = {0};
    uint64_t words[TCI_TRACE_REASON_WORDS];
    struct tci_trace_group *group = trace == NULL ? NULL : find_group(trace, number, NULL);
    struct tci_trace_record record = {
        .kind = TCI_TRACE_BREAK, .peer = culprit, .group = number, .a = (uint64_t)(int64_t)status};

    if (group == NULL)
        return;
    memcpy(text, reason, fitting(reason, sizeof(text) - 1));
    memcpy(words, text, sizeof(words));
    for (size_t w = 0; w < TCI_TRACE_REASON_WORDS; w++)
        tci_word_set(&group->reason[w], words[w]);
    tci_word_set(&group->broken, (uint64_t)(uint32_t)(culprit + 1) << 32 | (uint32_t)status);
    set_state(group, TCI_TRACE_GROUP_BROKEN);
    record.begin_ns = record.end_ns = tci_word_get(&group->since_ns);
    record.rank = (int)(tci_word_get(&group->shown) >> 32);
    tci_trace_add(trace, &record);
    if (trace->on_failure != NULL)
        trace->on_failure(trace->failure_arg, status);
}

void tci_trace_group_left(struct tci_trace *trace, uint64_t number)
{
    struct tci_trace_group *group = trace == NULL ? NULL : find_group(trace, number, NULL);

    if (group != NULL)
        set_state(group, TCI_TRACE_GROUP_LEFT);
}

/* ---- Links ---------------------------------------------------------------------------------- */

static struct tci_trace_link *find_link(struct tci_trace *trace, uint64_t job, uint32_t peer)
{
    uint32_t count = trace->head->tables[TCI_TRACE_LINKS].count;
    struct tci_trace_link *spare = NULL;

    for (uint32_t i = 0; i < count; i++) {
        struct tci_trace_link *link = &trace->links[i];
        uint64_t peer_state = tci_word_get(&link->peer_state);

        if (peer_state >> 32 == (uint64_t)peer + 1 && tci_word_get(&link->job) == job)
            return link;
        if (peer_state == 0)
            return spare != NULL ? spare : link;
        if (spare == NULL && (peer_state & UINT32_MAX) == TCI_TRACE_LINK_DOWN)
            spare = link;
    }
    return spare;
}

void tci_trace_link_set(struct tci_trace *trace, uint64_t job, uint32_t peer,
                        enum tci_trace_link_state state)
{
    struct tci_trace_link *link;
    uint64_t now;

    if (trace == NULL)
        return;
    now = tci_trace_now();
    link = find_link(trace, job, peer);
    if (link != NULL) {
        tci_word_set(&link->job, job);
        tci_word_set(&link->since_ns, now);
        tci_word_set(&link->peer_state, ((uint64_t)peer + 1) << 32 | (uint64_t)state);
    }
    tci_trace_add(trace, &(struct tci_trace_record){.kind = TCI_TRACE_LINK,
                                                    .rank = -1,
                                                    .peer = (int)peer,
                                                    .begin_ns = now,
                                                    .end_ns = now,
                                                    .b = job,
                                                    .a = (uint64_t)state});
}
