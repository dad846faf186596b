/* report_flight.c - what is in flight, in words: who waits for whom. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* Operations, kinds of waits of one, and ranks that are listed; the rest is counted. */
enum { LISTED_MAX = 20 };

struct line {
    char text[1024];
    size_t len; /* what does not fit is left out */
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line->text + line->len, sizeof(line->text) - line->len, format, args);
    va_end(args);
    if (len > 0)
        line->len += (size_t)len;
    if (line->len >= sizeof(line->text))
        line->len = sizeof(line->text) - 1;
}

/* ---- Whom a call waits for ------------------------------------------------------------------- */

enum wait_kind { WAIT_ABSENT, WAIT_RECEIVE, WAIT_SEND };

/* Whether a call waits for a process that has not entered it. */
static bool lacks(const struct found *found, size_t call, int64_t process)
{
    for (size_t e = 0; e < found->edge_count; e++)
        if (found->edges[e].call == call && found->edges[e].to == process)
            return true;
    return false;
}

static enum wait_kind kind_of(const struct found *found, size_t i, uint32_t wait)
{
    const struct call *call = &found->job->calls[i];

    if (call->live.is_send[wait])
        return WAIT_SEND;
    return lacks(found, i, job_process_of(found->job, call->group, call->live.waits[wait]))
               ? WAIT_ABSENT
               : WAIT_RECEIVE;
}

/* The least rank above one that a call waits for in this way; -1: there is none. */
static int64_t next_rank(const struct found *found, size_t i, enum wait_kind kind, int64_t above)
{
    const struct tci_trace_seen_live *live = &found->job->calls[i].live;
    int64_t next = -1;

    for (uint32_t w = 0; w < live->waits_count; w++)
        if (live->waits[w] > above && (next < 0 || live->waits[w] < next) &&
            kind_of(found, i, w) == kind)
            next = live->waits[w];
    return next;
}

/* "for ranks 0, 1, 2, which have not entered it"; each rank once. */
static void add_kind(const struct found *found, size_t i, enum wait_kind kind, struct line *line)
{
    const struct job *job = found->job;
    int64_t first = next_rank(found, i, kind, -1);
    bool is_one = first >= 0 && next_rank(found, i, kind, first) < 0;

    if (first < 0)
        return;
    add(line, "%s%s rank%s ", line->len > 0 ? ", " : "", kind == WAIT_SEND ? "to send to" : "for",
        is_one ? "" : "s");
    for (int64_t r = first; r >= 0; r = next_rank(found, i, kind, r)) {
        char rank[JOB_TEXT];

        job_rank_text(job, job->calls[i].group, (int32_t)r, rank);
        add(line, "%s%s", r == first ? "" : ", ", rank + strlen("rank "));
    }
    if (kind == WAIT_ABSENT)
        add(line, ", which %s not entered it", is_one ? "has" : "have");
}

/* Those that it does not wait for itself, so that another one does. */
static void add_other_absent(const struct found *found, size_t i, struct line *line)
{
    const struct job *job = found->job;
    const struct call *call = &job->calls[i];
    struct line ranks = {.len = 0};
    size_t count = 0;

    for (size_t e = 0; e < found->edge_count; e++) {
        const struct edge *edge = &found->edges[e];
        bool is_told = edge->call != i;

        for (uint32_t w = 0; w < call->live.waits_count && !is_told; w++)
            is_told = !call->live.is_send[w] &&
                      job_process_of(job, call->group, call->live.waits[w]) == (int32_t)edge->to;
        if (is_told)
            continue;
        if (count < LISTED_MAX)
            add(&ranks, "%s%" PRIu32, count == 0 ? "" : ", ", job->processes[edge->to].rank);
        count++;
    }
    if (count > LISTED_MAX)
        add(&ranks, " and %zu more", count - LISTED_MAX);
    if (count > 0)
        add(line, "; rank%s %s %s not entered it", count == 1 ? "" : "s", ranks.text,
            count == 1 ? "has" : "have");
}

static void describe(const struct found *found, size_t i, struct line *line)
{
    const struct call *call = &found->job->calls[i];
    const struct tci_trace_seen_live *live = &call->live;
    uint32_t open = live->receives + live->sends;

    if (call->state == CALL_WAITS) {
        add(line, "waits for the futures to start after");
        return;
    }
    for (int kind = WAIT_ABSENT; kind <= WAIT_SEND; kind++)
        add_kind(found, i, (enum wait_kind)kind, line);
    if (line->len == 0)
        add(line, "%s", open == 0 ? "at its own work" : "with transfers open");
    else if (open > live->waits_count)
        add(line, ", and %" PRIu32 " transfer%s more", open - live->waits_count,
            open - live->waits_count == 1 ? "" : "s");
    add_other_absent(found, i, line);
    if (call->state == CALL_DRAINS)
        add(line, "; it has failed, and ends");
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* Ranks that wait alike. */
struct block {
    struct line waits, ranks;
    size_t count;
    int64_t least_ns, most_ns; /* for so long */
};

static void add_rank(struct block *block, uint32_t rank, int64_t age_ns)
{
    if (block->count < LISTED_MAX)
        add(&block->ranks, "%s%" PRIu32, block->count == 0 ? "" : ", ", rank);
    if (block->count == 0 || age_ns < block->least_ns)
        block->least_ns = age_ns;
    if (block->count == 0 || age_ns > block->most_ns)
        block->most_ns = age_ns;
    block->count++;
}

/* "ranks 0, 1, 2". */
static void add_ranks(const struct block *block, struct line *line)
{
    add(line, "rank%s %s", block->count == 1 ? "" : "s", block->ranks.text);
    if (block->count > LISTED_MAX)
        add(line, " and %zu more", block->count - LISTED_MAX);
}

static void print_block(const struct block *block, FILE *file)
{
    char least[32], most[32];
    struct line line = {.len = 0};

    add(&line, "    ");
    add_ranks(block, &line);
    job_time_text(block->least_ns, least);
    job_time_text(block->most_ns, most);
    if (strcmp(least, most) == 0)
        add(&line, " for %s: ", most);
    else
        add(&line, " for %s to %s: ", least, most);
    add(&line, "%s", block->waits.text);
    report_wrapped(line.text, 6, file);
}

/* The block that a call belongs to, of those that there are or a new one; NULL: there are many. */
static struct block *block_of(struct block *blocks, size_t *count, const struct line *waits)
{
    for (size_t b = 0; b < *count; b++)
        if (strcmp(blocks[b].waits.text, waits->text) == 0)
            return &blocks[b];
    if (*count == LISTED_MAX)
        return NULL;
    blocks[*count] = (struct block){.waits = *waits};
    return &blocks[(*count)++];
}

static void print_operation(const struct found *found, size_t begin, size_t end, FILE *file)
{
    const struct job *job = found->job;
    struct block blocks[LISTED_MAX], all = {.count = 0};
    size_t count = 0, more = 0;
    struct line head = {.len = 0};
    char name[JOB_TEXT];

    for (size_t i = begin; i < end; i++) {
        const struct call *call = &job->calls[i];
        const struct process *process = &job->processes[call->process];
        struct line waits = {.len = 0};
        struct block *block;

        if (call->state == CALL_ENDED)
            continue;
        describe(found, i, &waits);
        block = block_of(blocks, &count, &waits);
        if (block == NULL)
            more++;
        else
            add_rank(block, process->rank, process->seen_ns - call->begin_ns);
        add_rank(&all, process->rank, 0);
    }
    add(&head, "  %s: in it ", job_call_text(job, &job->calls[begin], name));
    add_ranks(&all, &head);
    report_wrapped(head.text, 4, file);
    for (size_t b = 0; b < count; b++)
        print_block(&blocks[b], file);
    if (more > 0)
        fprintf(file, "    and %zu rank%s more\n", more, more == 1 ? "" : "s");
}

static bool is_open(const struct job *job, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (job->calls[i].state != CALL_ENDED)
            return true;
    return false;
}

void report_flight(const struct found *found, FILE *file)
{
    const struct job *job = found->job;
    size_t told = 0;

    for (size_t begin = 0, end; begin < job->call_count; begin = end) {
        end = job_operation_end(job, begin);
        if (!is_open(job, begin, end))
            continue;
        if (told == 0)
            fprintf(file, "\nin flight\n");
        if (told++ < LISTED_MAX)
            print_operation(found, begin, end, file);
    }
    if (told > LISTED_MAX)
        fprintf(file, "  and %zu operation%s more\n", told - LISTED_MAX,
                told - LISTED_MAX == 1 ? "" : "s");
}
