/* clocks.c - sets the clocks of machines right by the messages between them. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   a sends at s, b receives by r:      s + shift(a) <= r + shift(b)
 *
 * So a message from a to b bounds shift(a) - shift(b) from above by r - s, and one from b to a
 * from below.  The fastest of each direction bound it best; the middle is taken, and it is wrong
 * by half of what is between the bounds at most: half the fastest round trip.  From the first
 * process on, each other one is reached by the way on which the doubts add up to least.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "job.h"

/* Of two machines: shift(low) - shift(high) lies between the two. */
struct bound {
    int64_t least, most;
    bool has_least, has_most;
};

struct clocks {
    uint32_t count;         /* of machines */
    uint32_t *of;           /* owned; of each process */
    struct bound *pair;     /* owned; [a * count + b], of shift(a) - shift(b) */
    int64_t *shift, *doubt; /* owned; of each machine; doubt -1: not reached */
    bool *is_done;          /* owned */
};

static void clocks_fini(struct clocks *clocks)
{
    free(clocks->of);
    free(clocks->pair);
    free(clocks->shift);
    free(clocks->doubt);
    free(clocks->is_done);
}

/* Processes of one boot have one clock. */
static bool number_machines(const struct job *job, struct clocks *clocks)
{
    clocks->of = calloc(job->process_count + 1, sizeof(*clocks->of));
    if (clocks->of == NULL)
        return false;
    for (uint32_t p = 0; p < job->process_count; p++) {
        const char *boot = job->processes[p].file->view.boot_id;
        uint32_t like = 0;

        while (like < p &&
               (boot[0] == '\0' || strcmp(job->processes[like].file->view.boot_id, boot) != 0))
            like++;
        clocks->of[p] = like < p ? clocks->of[like] : clocks->count++;
    }
    return true;
}

static bool clocks_init(const struct job *job, struct clocks *clocks)
{
    size_t cells;

    *clocks = (struct clocks){.count = 0};
    if (!number_machines(job, clocks) || !tci_array_bytes(clocks->count, clocks->count, &cells))
        return false;
    clocks->pair = calloc(cells + 1, sizeof(*clocks->pair));
    clocks->shift = calloc(clocks->count + 1, sizeof(*clocks->shift));
    clocks->doubt = calloc(clocks->count + 1, sizeof(*clocks->doubt));
    clocks->is_done = calloc(clocks->count + 1, sizeof(*clocks->is_done));
    return clocks->pair != NULL && clocks->shift != NULL && clocks->doubt != NULL &&
           clocks->is_done != NULL;
}

static void bound_by(struct clocks *clocks, uint32_t from, uint32_t to, int64_t most)
{
    struct bound *there = &clocks->pair[(size_t)from * clocks->count + to];
    struct bound *back = &clocks->pair[(size_t)to * clocks->count + from];

    if (there->has_most && there->most <= most)
        return;
    there->has_most = back->has_least = true;
    there->most = most;
    back->least = -most;
}

static void bound_by_messages(const struct job *job, struct clocks *clocks)
{
    for (size_t i = 0; i < job->transfer_count; i++) {
        const struct transfer *send = &job->transfers[i], *recv = send + 1;

        if (job_is_pair(job, i) && clocks->of[send->process] != clocks->of[recv->process])
            bound_by(clocks, clocks->of[send->process], clocks->of[recv->process],
                     recv->end_ns - send->begin_ns);
    }
}

static int64_t doubt_between(const struct clocks *clocks, uint32_t a, uint32_t b)
{
    const struct bound *bound = &clocks->pair[(size_t)a * clocks->count + b];

    if (!bound->has_least || !bound->has_most)
        return -1;
    return bound->most > bound->least ? (bound->most - bound->least + 1) / 2 : 0;
}

/* The machine that is reached with the least doubt and not done; count: none. */
static uint32_t nearest(const struct clocks *clocks)
{
    uint32_t best = clocks->count;

    for (uint32_t m = 0; m < clocks->count; m++)
        if (!clocks->is_done[m] && clocks->doubt[m] >= 0 &&
            (best == clocks->count || clocks->doubt[m] < clocks->doubt[best]))
            best = m;
    return best;
}

static void reach(struct clocks *clocks)
{
    uint32_t at;

    for (uint32_t m = 1; m < clocks->count; m++)
        clocks->doubt[m] = -1;
    while ((at = nearest(clocks)) < clocks->count) {
        clocks->is_done[at] = true;
        for (uint32_t m = 0; m < clocks->count; m++) {
            const struct bound *bound = &clocks->pair[(size_t)m * clocks->count + at];
            int64_t doubt = doubt_between(clocks, m, at);

            if (clocks->is_done[m] || doubt < 0 ||
                (clocks->doubt[m] >= 0 && clocks->doubt[m] <= clocks->doubt[at] + doubt))
                continue;
            clocks->doubt[m] = clocks->doubt[at] + doubt;
            clocks->shift[m] = clocks->shift[at] + bound->least + (bound->most - bound->least) / 2;
        }
    }
}

/* Without messages both ways there is the time of day, which machines agree on more or less. */
static int64_t shift_by_wall(const struct process *first, const struct process *process)
{
    const struct tci_trace_view *a = &first->file->view, *b = &process->file->view;

    if (a->clock_ns == 0 || b->clock_ns == 0)
        return 0;
    return (int64_t)(b->clock_wall_ns - b->clock_ns) - (int64_t)(a->clock_wall_ns - a->clock_ns);
}

static void shift_rows(struct job *job)
{
    for (size_t i = 0; i < job->call_count; i++) {
        struct call *call = &job->calls[i];
        int64_t shift = job->processes[call->process].shift_ns;

        call->begin_ns += shift;
        call->entered_ns += shift;
        call->end_ns += shift;
        call->ran_ns += call->ran_ns == 0 ? 0 : shift;
    }
    for (size_t i = 0; i < job->transfer_count; i++) {
        job->transfers[i].begin_ns += job->processes[job->transfers[i].process].shift_ns;
        job->transfers[i].end_ns += job->processes[job->transfers[i].process].shift_ns;
    }
}

void job_align(struct job *job)
{
    struct clocks clocks = {.count = 0};
    bool is_known = job->process_count > 0 && clocks_init(job, &clocks);

    if (is_known) {
        bound_by_messages(job, &clocks);
        reach(&clocks);
    }
    for (uint32_t p = 0; p < job->process_count; p++) {
        struct process *process = &job->processes[p];
        uint32_t machine = is_known ? clocks.of[p] : 0;

        process->doubt_ns = is_known ? clocks.doubt[machine] : -1;
        process->shift_ns = process->doubt_ns >= 0 ? clocks.shift[machine]
                                                   : shift_by_wall(&job->processes[0], process);
        process->first_ns += process->shift_ns;
        process->seen_ns += process->shift_ns;
        if (process->marked_ns != INT64_MIN && process->marked_ns != INT64_MAX)
            process->marked_ns += process->shift_ns;
    }
    shift_rows(job);
    clocks_fini(&clocks);
}
