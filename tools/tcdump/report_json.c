/* report_json.c - what was found, as JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#if __has_include(<cjson/cJSON.h>)
#include <cjson/cJSON.h>
#include <inttypes.h>

bool report_has_json(void)
{
    return true;
}

/* Numbers of 64 bits that name something are texts: readers keep 53 bits of a number. */
static bool add_u64_text(cJSON *object, const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    return cJSON_AddStringToObject(object, name, text) != NULL;
}

static bool add_number(cJSON *object, const char *name, double value)
{
    return cJSON_AddNumberToObject(object, name, value) != NULL;
}

/* A new object at the end of an array; NULL without memory. */
static cJSON *append(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();

    if (cJSON_AddItemToArray(array, object))
        return object;
    cJSON_Delete(object);
    return NULL;
}

static bool add_rank(cJSON *array, const struct found *found, uint32_t p)
{
    const struct process *process = &found->job->processes[p];
    const struct tci_trace_view *view = &process->file->view;
    const struct lateness *late = &found->lateness[p];
    cJSON *rank = append(array);

    return rank != NULL && add_number(rank, "rank", process->rank) &&
           add_number(rank, "pid", (double)view->pid) &&
           cJSON_AddStringToObject(rank, "host", view->host) != NULL &&
           cJSON_AddStringToObject(rank, "process", report_state(process->file)) != NULL &&
           cJSON_AddStringToObject(rank, "file", process->file->path) != NULL &&
           add_number(rank, "last_sign_ns", (double)(found->job->seen_ns - process->seen_ns)) &&
           add_number(rank, "clock_shift_ns", (double)process->shift_ns) &&
           add_number(rank, "clock_doubt_ns", (double)process->doubt_ns) &&
           cJSON_AddBoolToObject(rank, "forgetful", process->is_forgetful) != NULL &&
           add_number(rank, "begun", (double)view->counters[TCI_COUNT_BEGUN]) &&
           add_number(rank, "finished", (double)view->counters[TCI_COUNT_FINISHED]) &&
           add_number(rank, "failed", (double)view->counters[TCI_COUNT_FAILED]) &&
           add_number(rank, "left_out", (double)view->counters[TCI_COUNT_LEFT_OUT]) &&
           add_number(rank, "collectives_compared", late->calls) &&
           add_number(rank, "last_in", late->lasts) &&
           add_number(rank, "late_ns", (double)late->total_ns) &&
           add_number(rank, "late_most_ns", (double)late->most_ns);
}

static bool add_call(cJSON *object, const struct job *job, const struct call *call)
{
    char name[JOB_TEXT];

    return cJSON_AddStringToObject(object, "operation", call->name) != NULL &&
           add_u64_text(object, "tag", call->tag) &&
           add_u64_text(object, "group", job->groups[call->group].number) &&
           cJSON_AddStringToObject(object, "call", job_call_text(job, call, name)) != NULL;
}

static bool add_waits(cJSON *waiting, const struct job *job, const struct call *call)
{
    cJSON *list = cJSON_AddArrayToObject(waiting, "for");
    bool is_well = list != NULL;

    for (uint32_t w = 0; w < call->live.waits_count && is_well; w++) {
        int32_t process = job_process_of(job, call->group, call->live.waits[w]);
        cJSON *wait = append(list);

        is_well = wait != NULL &&
                  add_number(wait, "rank",
                             process >= 0 ? (double)job->processes[process].rank
                                          : (double)call->live.waits[w]) &&
                  cJSON_AddBoolToObject(wait, "to_send", call->live.is_send[w]) != NULL;
    }
    return is_well;
}

static bool add_in_flight(cJSON *array, const struct job *job)
{
    for (size_t i = 0; i < job->call_count; i++) {
        const struct call *call = &job->calls[i];
        const struct process *process = &job->processes[call->process];
        cJSON *waiting = call->state == CALL_ENDED ? NULL : append(array);

        if (call->state == CALL_ENDED)
            continue;
        if (waiting == NULL || !add_number(waiting, "rank", process->rank) ||
            !add_call(waiting, job, call) ||
            !add_number(waiting, "age_ns", (double)(process->seen_ns - call->begin_ns)) ||
            !add_waits(waiting, job, call))
            return false;
    }
    return true;
}

static bool add_finding(cJSON *array, const struct job *job, const struct finding *finding)
{
    cJSON *object = append(array);

    return object != NULL &&
           cJSON_AddStringToObject(object, "kind", report_kind(finding->kind)) != NULL &&
           add_number(object, "rank",
                      finding->process < 0 ? -1.0 : job->processes[finding->process].rank) &&
           add_number(object, "peer",
                      finding->peer < 0 ? -1.0 : job->processes[finding->peer].rank) &&
           add_number(object, "ns", (double)finding->ns) &&
           (finding->call == SIZE_MAX || add_call(object, job, &job->calls[finding->call])) &&
           cJSON_AddStringToObject(object, "text", finding->text) != NULL;
}

static bool add_path(cJSON *array, const struct job *job, const struct path *path)
{
    cJSON *object = append(array);

    return object != NULL && add_number(object, "from", job->processes[path->from].rank) &&
           add_number(object, "to", job->processes[path->to].rank) &&
           add_number(object, "messages", path->messages) &&
           add_number(object, "bytes", (double)path->bytes) &&
           add_number(object, "median_ns", (double)path->median_ns) &&
           add_number(object, "ratio", path->ratio);
}

static bool fill(cJSON *root, const struct found *found)
{
    const struct job *job = found->job;
    cJSON *ranks = cJSON_AddArrayToObject(root, "ranks");
    cJSON *in_flight = cJSON_AddArrayToObject(root, "in_flight");
    cJSON *links = cJSON_AddArrayToObject(root, "links");
    cJSON *findings = cJSON_AddArrayToObject(root, "findings");
    bool is_well = ranks != NULL && in_flight != NULL && links != NULL && findings != NULL;

    for (uint32_t p = 0; p < job->process_count && is_well; p++)
        is_well = add_rank(ranks, found, p);
    is_well = is_well && add_number(root, "collectives_not_compared", (double)found->not_compared);
    is_well = is_well && add_number(root, "failed_without_finding", (double)found->failed_more);
    is_well = is_well && add_in_flight(in_flight, job);
    for (size_t i = 0; i < found->path_count && is_well; i++)
        is_well = add_path(links, job, &found->paths[i]);
    for (size_t i = 0; i < found->finding_count && is_well; i++)
        is_well = add_finding(findings, job, &found->findings[i]);
    return is_well;
}

bool report_json(const struct found *found, FILE *file)
{
    cJSON *root = cJSON_CreateObject();
    char *text = root != NULL && fill(root, found) ? cJSON_Print(root) : NULL;

    cJSON_Delete(root);
    if (text == NULL)
        return false;
    fprintf(file, "%s\n", text);
    cJSON_free(text);
    return true;
}

#else

bool report_has_json(void)
{
    return false;
}

bool report_json(const struct found *found, FILE *file)
{
    (void)found;
    (void)file;
    return false;
}

#endif
