/* job.c - what the traces of all ranks say together: groups, calls, transfers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "core/transport.h"
#include "tcdist/dtype.h"

/* More ranks than anyone forms a group of; a larger number is damage. */
enum { GROUP_SIZE_MAX = 1 << 20 };

/* ---- Groups --------------------------------------------------------------------------------- */

static struct group *find_group(struct job *job, const struct tci_trace_seen_group *seen)
{
    for (uint32_t g = 0; g < job->group_count; g++)
        if (memcmp(job->groups[g].job, seen->job, sizeof(seen->job)) == 0 &&
            job->groups[g].number == seen->number && job->groups[g].size == seen->size)
            return &job->groups[g];
    return NULL;
}

static struct group *add_group(struct job *job, const struct tci_trace_seen_group *seen)
{
    struct group *groups = realloc(job->groups, (job->group_count + 1) * sizeof(*groups));
    struct group group = {.number = seen->number, .size = seen->size};

    if (groups == NULL)
        return NULL;
    job->groups = groups;
    memcpy(group.job, seen->job, sizeof(group.job));
    group.process_of = malloc(seen->size * sizeof(*group.process_of));
    if (group.process_of == NULL)
        return NULL;
    for (uint32_t r = 0; r < seen->size; r++)
        group.process_of[r] = -1;
    groups[job->group_count] = group;
    return &groups[job->group_count++];
}

static bool read_groups(struct job *job, uint32_t process)
{
    const struct tci_trace_view *view = &job->processes[process].file->view;
    struct tci_trace_seen_group seen;

    for (uint32_t i = 0; i < view->tables[TCI_TRACE_GROUPS].count; i++) {
        struct group *group;

        if (!tci_trace_view_group(view, i, &seen) || seen.size > GROUP_SIZE_MAX)
            continue;
        group = find_group(job, &seen);
        if (group == NULL)
            group = add_group(job, &seen);
        if (group == NULL)
            return false;
        group->process_of[seen.rank] = (int32_t)process;
    }
    return true;
}

/* Which group an event of a process belongs to: numbers come again when a process forms first
 * groups one after the other.  -1: not known. */
static int64_t group_of(const struct job *job, uint32_t process, uint64_t number, uint64_t at_ns)
{
    const struct tci_trace_view *view = &job->processes[process].file->view;
    struct tci_trace_seen_group seen, best = {0};
    bool has_best = false;
    const struct group *group;

    for (uint32_t i = 0; i < view->tables[TCI_TRACE_GROUPS].count; i++) {
        bool is_left;

        if (!tci_trace_view_group(view, i, &seen) || seen.number != number)
            continue;
        is_left = seen.state == TCI_TRACE_GROUP_LEFT;
        if (is_left && seen.since_ns < at_ns)
            continue; /* it was left before */
        if (has_best && is_left && best.state == TCI_TRACE_GROUP_LEFT &&
            best.since_ns < seen.since_ns)
            continue;
        if (has_best && !is_left && best.state == TCI_TRACE_GROUP_LEFT)
            continue;
        best = seen;
        has_best = true;
    }
    group = has_best ? find_group((struct job *)(uintptr_t)job, &best) : NULL;
    return group == NULL ? -1 : group - job->groups;
}

int32_t job_process_of(const struct job *job, uint32_t group, int64_t rank)
{
    if (rank < 0 || rank >= job->groups[group].size)
        return -1;
    return job->groups[group].process_of[rank];
}

int32_t job_rank_in(const struct job *job, uint32_t group, uint32_t process)
{
    for (uint32_t r = 0; r < job->groups[group].size; r++)
        if (job->groups[group].process_of[r] == (int32_t)process)
            return (int32_t)r;
    return -1;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* Growing arrays of calls and transfers. */
static void *add_row(void *rows, size_t count, size_t each)
{
    /* Room grows at powers of two. */
    if ((count & (count - 1)) != 0)
        return rows;
    return realloc(rows, (count == 0 ? 1 : 2 * count) * each);
}

static bool add_call(struct job *job, const struct call *call)
{
    struct call *calls = add_row(job->calls, job->call_count, sizeof(*calls));

    if (calls == NULL)
        return false;
    job->calls = calls;
    calls[job->call_count++] = *call;
    return true;
}

static bool add_transfer(struct job *job, const struct transfer *transfer)
{
    struct transfer *transfers = add_row(job->transfers, job->transfer_count, sizeof(*transfers));

    if (transfers == NULL)
        return false;
    job->transfers = transfers;
    transfers[job->transfer_count++] = *transfer;
    return true;
}

static bool is_p2p(uint32_t space)
{
    return space >= TCI_SPACE_P2P_UP && space < TCI_SPACE_COUNT;
}

/* Who sends to whom is in the space: see enum tci_space. */
static void set_pair(const struct job *job, int32_t peer, struct call *call)
{
    int32_t rank = job_rank_in(job, call->group, call->process);

    call->low = call->high = -1;
    if (!is_p2p(call->space) || peer < 0)
        return;
    call->low = rank < peer ? rank : peer;
    call->high = rank < peer ? peer : rank;
}

/* Elements of so many bytes of a call. */
static uint64_t count_of(uint64_t bytes, uint64_t word)
{
    size_t each = tc_dtype_size((tc_dtype_t)tci_trace_unpack_call(word).dtype);

    return each == 0 ? 0 : bytes / each;
}

static bool add_event(struct job *job, uint32_t process, const struct tci_trace_seen *event,
                      uint32_t group)
{
    const struct tci_trace_view *view = &job->processes[process].file->view;
    struct call call = {.group = group,
                        .space = event->space,
                        .use = event->use,
                        .tag = event->tag,
                        .process = process,
                        .begin_ns = (int64_t)event->begin_ns,
                        .entered_ns = (int64_t)event->end_ns,
                        .culprit = -1,
                        .thread = event->thread,
                        .state = CALL_RUNS};
    int32_t peer = event->peer;

    if (event->kind == TCI_TRACE_CALL) {
        call.count = event->a;
        call.word = event->b;
        call.has_word = true;
    } else if (event->kind == TCI_TRACE_OP) {
        call.bytes = event->a;
        call.status = (int32_t)(int64_t)event->b;
        call.end_ns = (int64_t)event->end_ns;
        call.entered_ns = (int64_t)event->begin_ns;
        call.state = CALL_ENDED;
    } else if (event->kind == TCI_TRACE_DONE) {
        call.bytes = event->a;
        call.count = count_of(event->a, event->b);
        call.word = event->b;
        call.has_word = true;
        call.end_ns = (int64_t)event->end_ns;
        call.entered_ns = (int64_t)tci_min(event->begin_ns + event->step, event->end_ns);
        call.state = CALL_ENDED;
    } else if (event->kind == TCI_TRACE_RUN) {
        call.ran_ns = (int64_t)event->begin_ns;
    } else {
        call.status = (int32_t)(int64_t)event->a;
        call.culprit = job_process_of(job, group, peer);
        peer = event->step == 0 ? -1 : (int32_t)event->step - 1;
    }
    tci_trace_view_name(view, event->name, call.name);
    tci_trace_view_name(view, event->algorithm, call.algorithm);
    set_pair(job, peer, &call);
    return add_call(job, &call);
}

static bool add_message(struct job *job, uint32_t process, const struct tci_trace_seen *event,
                        uint32_t group)
{
    bool is_send = (event->b & 1) != 0;
    int32_t rank = job_rank_in(job, group, process);
    struct transfer transfer = {.group = group,
                                .space = event->space,
                                .use = event->use,
                                .step = event->step,
                                .lane = (uint32_t)(event->b >> 1),
                                .tag = event->tag,
                                .from = is_send ? rank : event->peer,
                                .to = is_send ? event->peer : rank,
                                .is_send = is_send,
                                .process = process,
                                .begin_ns = (int64_t)event->begin_ns,
                                .end_ns = (int64_t)event->end_ns,
                                .bytes = event->a};

    return rank < 0 || event->peer < 0 || event->peer == rank || add_transfer(job, &transfer);
}

static bool is_of_interest(uint32_t kind)
{
    return kind == TCI_TRACE_CALL || kind == TCI_TRACE_OP || kind == TCI_TRACE_DONE ||
           kind == TCI_TRACE_XFER_END || kind == TCI_TRACE_RUN || kind == TCI_TRACE_OP_FAIL;
}

static int64_t marked_ns(const struct tci_trace_view *view)
{
    uint64_t ns = tci_trace_view_marked_ns(view);

    return ns == 0 ? INT64_MIN : ns > UINT64_MAX >> 1 ? INT64_MAX : (int64_t)ns;
}

static bool read_events(struct job *job, uint32_t process)
{
    struct process *self = &job->processes[process];
    const struct tci_trace_view *view = &self->file->view;
    uint64_t first = tci_trace_view_first(view);
    struct tci_trace_seen event;

    self->first_ns = (int64_t)(first == 0 ? view->opened_ns : UINT64_MAX >> 1);
    self->is_forgetful = first > 0;
    self->marked_ns = marked_ns(view);
    for (uint64_t n = first; n < view->next; n++) {
        int64_t group;

        if (!tci_trace_view_event(view, n, &event) || event.end_ns > UINT64_MAX >> 1)
            continue;
        if (first > 0 && (int64_t)event.end_ns < self->first_ns)
            self->first_ns = (int64_t)event.end_ns;
        if (!is_of_interest(event.kind))
            continue;
        group = group_of(job, process, event.group, event.end_ns);
        if (group < 0)
            continue;
        if (!(event.kind == TCI_TRACE_XFER_END ? add_message : add_event)(job, process, &event,
                                                                          (uint32_t)group))
            return false;
    }
    return true;
}

static bool read_live(struct job *job, uint32_t process)
{
    const struct process *self = &job->processes[process];
    const struct tci_trace_view *view = &self->file->view;
    struct tci_trace_seen_live live;

    for (uint32_t i = 0; i < view->tables[TCI_TRACE_LIVE].count; i++) {
        struct call call = {.process = process, .culprit = -1, .has_word = true};
        int64_t group;

        if (!tci_trace_view_live(view, i, &live) || live.entered_ns > UINT64_MAX >> 1)
            continue;
        group = group_of(job, process, live.group, live.entered_ns);
        if (group < 0)
            continue;
        call.group = (uint32_t)group;
        call.space = live.space;
        call.use = live.use;
        call.tag = live.tag;
        call.begin_ns = (int64_t)tci_min(live.called_ns, live.entered_ns);
        call.entered_ns = (int64_t)live.entered_ns;
        call.count = live.count;
        call.word = live.call;
        call.thread = live.thread;
        call.live = live;
        call.state = live.state == TCI_TRACE_LIVE_WAITING    ? CALL_WAITS
                     : live.state == TCI_TRACE_LIVE_DRAINING ? CALL_DRAINS
                                                             : CALL_RUNS;
        tci_trace_view_name(view, live.name, call.name);
        tci_trace_view_name(view, live.algorithm, call.algorithm);
        set_pair(job, live.peer, &call);
        if (!add_call(job, &call))
            return false;
    }
    return true;
}

/* ---- Order ---------------------------------------------------------------------------------- */

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_operations(const struct call *a, const struct call *b)
{
    int order = ORDER(a->group, b->group);

    if (order == 0)
        order = ORDER(a->space, b->space);
    if (order == 0)
        order = ORDER(a->low, b->low);
    if (order == 0)
        order = ORDER(a->high, b->high);
    if (order == 0)
        order = ORDER(a->tag, b->tag);
    return order != 0 ? order : ORDER(a->use, b->use);
}

/* What is known of one call side by side: its beginning, its end, and what is in flight. */
static int compare_calls(const void *left, const void *right)
{
    const struct call *a = left, *b = right;
    int order = compare_operations(a, b);

    if (order == 0)
        order = ORDER(a->process, b->process);
    if (order == 0)
        order = ORDER(a->begin_ns, b->begin_ns);
    return order != 0 ? order : ORDER(a->state, b->state);
}

static bool is_same_call(const struct call *a, const struct call *b)
{
    /* A tag whose uses are not counted: the time of the call tells. */
    return compare_operations(a, b) == 0 && a->process == b->process &&
           (a->use != 0 || a->begin_ns == b->begin_ns);
}

/* b is of the same call as a, which takes in what b knows better. */
static void merge(struct call *a, const struct call *b)
{
    if (b->state == CALL_ENDED) {
        a->state = CALL_ENDED;
        a->end_ns = b->end_ns;
        a->bytes = b->bytes;
        a->status = b->status;
    } else if (a->state != CALL_ENDED && b->live.state != 0) {
        a->state = b->state;
        a->live = b->live;
    }
    if (b->ran_ns != 0)
        a->ran_ns = b->ran_ns;
    if (b->status != 0)
        a->status = b->status;
    if (b->culprit >= 0)
        a->culprit = b->culprit;
    if (!a->has_word && b->has_word) {
        a->word = b->word;
        a->count = b->count;
        a->entered_ns = b->entered_ns;
        a->has_word = true;
    }
}

static void order_calls(struct job *job)
{
    size_t kept = 0;

    qsort(job->calls, job->call_count, sizeof(*job->calls), compare_calls);
    for (size_t i = 0; i < job->call_count; i++) {
        if (kept > 0 && is_same_call(&job->calls[kept - 1], &job->calls[i]))
            merge(&job->calls[kept - 1], &job->calls[i]);
        else
            job->calls[kept++] = job->calls[i];
    }
    job->call_count = kept;
}

/* A call without an end whose entry in the table is gone has ended in events that are gone. */
static void end_the_forgotten(struct job *job)
{
    size_t kept = 0;

    for (size_t i = 0; i < job->call_count; i++) {
        const struct call *call = &job->calls[i];
        uint64_t unseen = job->processes[call->process].file->view.counters[TCI_COUNT_UNSEEN];

        if (call->state == CALL_ENDED || call->live.state != 0 || unseen > 0)
            job->calls[kept++] = *call;
    }
    job->call_count = kept;
}

static int compare_messages(const struct transfer *a, const struct transfer *b)
{
    const int orders[] = {ORDER(a->group, b->group), ORDER(a->space, b->space),
                          ORDER(a->tag, b->tag),     ORDER(a->use, b->use),
                          ORDER(a->from, b->from),   ORDER(a->to, b->to),
                          ORDER(a->lane, b->lane),   ORDER(a->step, b->step)};

    for (size_t i = 0; i < TCI_LEN(orders); i++)
        if (orders[i] != 0)
            return orders[i];
    return 0;
}

static int compare_transfers(const void *left, const void *right)
{
    const struct transfer *a = left, *b = right;
    int order = compare_messages(a, b);

    if (order == 0)
        order = ORDER(b->is_send, a->is_send);
    return order != 0 ? order : ORDER(a->begin_ns, b->begin_ns);
}

bool job_is_pair(const struct job *job, size_t i)
{
    const struct transfer *at = &job->transfers[i];
    size_t end = job->transfer_count;

    /* Alone with its like: a name that comes twice says nothing. */
    return i + 1 < end && at[0].is_send && !at[1].is_send && at[0].process != at[1].process &&
           compare_messages(&at[0], &at[1]) == 0 &&
           (i == 0 || compare_messages(&at[-1], &at[0]) != 0) &&
           (i + 2 >= end || compare_messages(&at[1], &at[2]) != 0);
}

bool job_has_mark(const struct job *job, const struct call *call, uint32_t process)
{
    uint64_t mark =
        tci_trace_mark_of(job->groups[call->group].number, call->space, call->tag, call->use);

    return tci_trace_view_has_mark(&job->processes[process].file->view, mark);
}

size_t job_operation_end(const struct job *job, size_t begin)
{
    size_t end = begin + 1;

    while (end < job->call_count && compare_operations(&job->calls[begin], &job->calls[end]) == 0)
        end++;
    return end;
}

size_t job_operation_begin(const struct job *job, size_t call)
{
    size_t begin = call;

    while (begin > 0 && compare_operations(&job->calls[begin - 1], &job->calls[call]) == 0)
        begin--;
    return begin;
}

/* ---- All of it ------------------------------------------------------------------------------ */

static void set_range(struct job *job)
{
    job->first_ns = INT64_MAX;
    job->seen_ns = INT64_MIN;
    for (uint32_t p = 0; p < job->process_count; p++) {
        if (job->processes[p].first_ns < job->first_ns)
            job->first_ns = job->processes[p].first_ns;
        if (job->processes[p].seen_ns > job->seen_ns)
            job->seen_ns = job->processes[p].seen_ns;
    }
}

bool job_build(struct job *job, const struct trace_files *files)
{
    *job = (struct job){.process_count = (uint32_t)files->count};
    job->processes = calloc(files->count + 1, sizeof(*job->processes));
    if (job->processes == NULL)
        return false;
    for (uint32_t p = 0; p < job->process_count; p++) {
        job->processes[p].file = &files->at[p];
        job->processes[p].seen_ns = (int64_t)files->at[p].seen_ns;
        job->processes[p].rank = files->at[p].rank < 0 ? p : (uint32_t)files->at[p].rank;
        if (!read_groups(job, p))
            return false;
    }
    for (uint32_t p = 0; p < job->process_count; p++)
        if (!read_events(job, p) || !read_live(job, p))
            return false;
    if (job->call_count > 0)
        order_calls(job);
    end_the_forgotten(job);
    if (job->transfer_count > 0)
        qsort(job->transfers, job->transfer_count, sizeof(*job->transfers), compare_transfers);
    job_align(job);
    set_range(job);
    return true;
}

void job_fini(struct job *job)
{
    for (uint32_t g = 0; g < job->group_count; g++)
        free(job->groups[g].process_of);
    free(job->groups);
    free(job->processes);
    free(job->calls);
    free(job->transfers);
    *job = (struct job){.process_count = 0};
}
