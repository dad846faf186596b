/* text.c - ranks, calls and times in words. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "core/transport.h"
#include "job.h"
#include "tcdist/dtype.h"

enum { FIRST_GROUP = 1 };

const char *job_time_text(int64_t ns, char text[32])
{
    double us = (double)ns / 1e3;

    if (us >= 9.995e5)
        snprintf(text, 32, "%.2f s", us / 1e6);
    else if (us >= 9995)
        snprintf(text, 32, "%.0f ms", us / 1e3);
    else if (us >= 999.5)
        snprintf(text, 32, "%.1f ms", us / 1e3);
    else
        snprintf(text, 32, "%.0f us", us);
    return text;
}

const char *job_rank_text(const struct job *job, uint32_t group, int32_t rank, char *text)
{
    int32_t process = job_process_of(job, group, rank);

    if (process >= 0)
        snprintf(text, JOB_TEXT, "rank %" PRIu32, job->processes[process].rank);
    else if (job->groups[group].number == FIRST_GROUP)
        snprintf(text, JOB_TEXT, "rank %" PRId32, rank);
    else
        snprintf(text, JOB_TEXT, "rank %" PRId32 " of group %" PRIu64, rank,
                 job->groups[group].number);
    return text;
}

static void print_tag(const struct job *job, const struct call *call, char *text, size_t room)
{
    char group[48] = "", use[24] = "";

    if (job->groups[call->group].number != FIRST_GROUP)
        snprintf(group, sizeof(group), " of group %" PRIu64, job->groups[call->group].number);
    if (call->use > 1)
        snprintf(use, sizeof(use), ", use %" PRIu32, call->use);
    if (call->space == TCI_SPACE_INTERNAL)
        snprintf(text, room, "%s", group);
    else if (call->space == TCI_SPACE_ORDERED || call->space >= TCI_SPACE_P2P_ORDERED_UP)
        snprintf(text, room, ", ordered call %" PRIu64 "%s", call->tag, group);
    else
        snprintf(text, room, " tag %" PRIu64 "%s%s", call->tag, use, group);
}

const char *job_call_name(const struct job *job, const struct call *call, char *text)
{
    char tag[128];

    print_tag(job, call, tag, sizeof(tag));
    snprintf(text, JOB_TEXT, "%s%s", call->name, tag);
    return text;
}

const char *job_call_text(const struct job *job, const struct call *call, char *text)
{
    struct tci_trace_seen_call seen = tci_trace_unpack_call(call->word);
    char root[24] = "", op[24] = "", tag[128];

    print_tag(job, call, tag, sizeof(tag));
    if (!call->has_word || seen.dtype == 255) {
        snprintf(text, JOB_TEXT, "%s%s", call->name, tag);
        return text;
    }
    if (seen.root >= 0)
        snprintf(root, sizeof(root), ", root %" PRId32, seen.root);
    if (seen.op != 255)
        snprintf(op, sizeof(op), ", %s", tc_reduce_op_name((tc_reduce_op_t)seen.op));
    snprintf(text, JOB_TEXT, "%s%s (%" PRIu64 " x %s%s%s)", call->name, tag, call->count,
             tc_dtype_name((tc_dtype_t)seen.dtype), op, root);
    return text;
}
