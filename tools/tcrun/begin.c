/* begin.c - how a job begins: other hosts are reached, then all ranks are started. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect.h"
#include "job.h"
#include "variables.h"

/* ---- Other hosts ----------------------------------------------------------------------------- */

static int open_link(struct job *job, struct link *link, struct launched **places)
{
    int error;

    link->options = job->options;
    link->inherited = job->inherited;
    link->traces = job->traces;
    error = link_open(link, places);
    if (error != 0)
        return error;
    for (unsigned i = 0; i < link->rank_count; i++) {
        struct rank *rank = &job->ranks[link->ranks[i]];

        rank->link = link;
        job->running++;
        job->guarded++;
        output_attach(&job->output, link->ranks[i], OUTPUT_STDOUT, rank->at.out);
        output_attach(&job->output, link->ranks[i], OUTPUT_STDERR, rank->at.err);
        if (rank->at.in >= 0)
            input_attach(&job->input, link->ranks[i], rank->at.in);
    }
    return 0;
}

int job_open_links(struct job *job)
{
    const struct world *world = &job->options->world;
    struct launched **places;
    int error = 0;

    job->links = calloc(world->machine_count, sizeof *job->links);
    places = calloc(world->ranks, sizeof *places);
    if (job->links == NULL || places == NULL)
        error = ENOMEM;
    for (unsigned rank = 0; error == 0 && rank < world->ranks; rank++)
        places[rank] = &job->ranks[rank].at;
    for (unsigned i = 0; error == 0 && i < world->machine_count; i++) {
        if (world->machines[i].is_local)
            continue;
        job->links[job->link_count].machine = i;
        error = open_link(job, &job->links[job->link_count++], places);
    }
    free(places);
    return error;
}

static const char *name_of(const struct job *job, const struct link *link)
{
    return job->options->world.machines[link->machine].name;
}

static void hear(struct job *job, struct link *link, const struct link_message *message)
{
    switch (message->event) {
    case LINK_READY:
        link->is_ready = true;
        if (job->options->is_verbose)
            output_say(&job->output, "%s is reached", name_of(job, link));
        break;
    case LINK_LISTENING:
        if (message->value == 0) {
            rendezvous_set(&job->rendezvous, world_address(&job->options->world, 0, 0),
                           message->port);
            break;
        }
        output_say(&job->output, "%s cannot listen at %s, where the ranks are to meet: %s",
                   name_of(job, link), world_address(&job->options->world, 0, 0),
                   strerror(message->value));
        job_conclude(job, job->options->trouble_exit);
        job_end(job, SIGTERM);
        break;
    case LINK_SAID:
        output_say(&job->output, "%s: %s", name_of(job, link), message->text);
        break;
    case LINK_LOST:
        (void)snprintf(link->lost, sizeof link->lost, "%s", message->text);
        break;
    default:
        break;
    }
}

void job_hear_links(struct job *job)
{
    struct link_message message;

    for (unsigned i = 0; i < job->link_count; i++) {
        while (link_hear(&job->links[i], &message))
            hear(job, &job->links[i], &message);
    }
}

/* ---- Ranks of this host ---------------------------------------------------------------------- */

static enum launch_input input_of(const struct job *job, unsigned rank)
{
    enum input_mode mode = job->options->input;

    if (mode == INPUT_NONE || (mode == INPUT_FIRST && rank > 0))
        return LAUNCH_NO_INPUT;
    /* A terminal it could not read: its process group is not the foreground one. */
    if (!job->input.is_terminal && (mode == INPUT_FIRST || job->options->ranks == 1))
        return LAUNCH_OWN_INPUT;
    return LAUNCH_PIPE;
}

/* Who binds wants a place of its own for each rank: that there are not enough is worth a line. */
static void tell_shortage(struct job *job)
{
    unsigned ranks = 0;
    char text[PROCESSORS_TEXT];

    for (unsigned i = 0; i < job->options->ranks; i++)
        ranks += job->ranks[i].link == NULL;
    if (processors_are_short(&job->processors, ranks, text))
        output_say(&job->output, "%s", text);
}

static void tell_share(struct job *job, unsigned rank, struct share share)
{
    char *text = processors_text(&job->processors, share);

    output_say(&job->output, "rank %u is bound to processors %s", rank,
               text != NULL ? text : "of its own");
    free(text);
}

/* Its part of what all ranks of this host have. */
static void give_share(struct job *job, unsigned index, struct launch *launch)
{
    const struct world *world = &job->options->world;
    const struct place *place = &world->places[index];

    launch->processors = &job->processors;
    launch->share = processors_share(&job->processors, place->local_rank,
                                     world->machines[place->machine].ranks);
    if (job->options->is_verbose)
        tell_share(job, index, launch->share);
}

static int start_rank(struct job *job, unsigned index)
{
    struct rank *rank = &job->ranks[index];
    char **env = variables_make(job->options, index, job->rendezvous.url);
    struct launch launch = {
        .inherited = job->inherited,
        .command = job->options->command,
        .env = env,
        .more_env = job->files,
        .listener = index == 0 ? job->rendezvous.fd : -1,
        .input = input_of(job, index),
    };
    int error;

    if (job->options->bind == BIND_CORES)
        give_share(job, index, &launch);
    error = env == NULL ? ENOMEM : launch_rank(&launch, &rank->at);
    variables_free(env);
    if (error != 0)
        return error;
    job->running++;
    job->guarded++;
    output_attach(&job->output, index, OUTPUT_STDOUT, rank->at.out);
    output_attach(&job->output, index, OUTPUT_STDERR, rank->at.err);
    if (rank->at.in >= 0)
        input_attach(&job->input, index, rank->at.in);
    return 0;
}

static int make_files(struct job *job)
{
    struct order_file files[ORDER_FILES_MAX];
    int count = variables_files(job->options, files), error = count < 0 ? ENOMEM : 0, n = 0;

    for (; n < count && error == 0; n++) {
        int fd;

        job->files[n] = launch_file(files[n].variable, files[n].text, &fd);
        error = job->files[n] == NULL ? errno : 0;
    }
    if (error == 0 && job->traces != NULL &&
        asprintf(&job->files[n], ENV_TRACE_DIR "=%s", job->traces) < 0)
        error = ENOMEM;
    variables_free_files(files, count > 0 ? count : 0);
    return error;
}

static void start_ranks(struct job *job)
{
    int error = make_files(job);

    if (error == 0 && job->options->bind == BIND_CORES)
        error = processors_read(&job->processors);
    if (error == 0 && job->options->bind == BIND_CORES)
        tell_shortage(job);
    for (unsigned i = 0; i < job->options->ranks; i++) {
        struct guard_message message = {.event = GUARD_FORK_FAILED};

        if (job->ranks[i].link != NULL)
            continue;
        if (error == 0)
            error = start_rank(job, i);
        if (error == 0)
            continue;
        message.value = error;
        job->ranks[i].at.sock = -1;
        job_fail(job, &(struct failure){&job->ranks[i], message});
        return;
    }
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* Whether it is known where the ranks meet; asked for if not. */
static bool is_meeting_known(struct job *job)
{
    const char *address = world_address(&job->options->world, 0, 0);
    unsigned port;
    int error;

    if (job->rendezvous.url != NULL)
        return true;
    if (job->ranks[0].link != NULL) {
        if (!job->is_asked)
            link_tell(job->ranks[0].link, LINK_LISTEN, address);
        job->is_asked = true;
        return false;
    }
    error = rendezvous_listen(&job->rendezvous, address, &port);
    if (error == 0) {
        rendezvous_set(&job->rendezvous, address, port);
        return true;
    }
    output_say(&job->output, "cannot listen at %s, where the ranks are to meet: %s", address,
               strerror(error));
    job_conclude(job, job->options->trouble_exit);
    job_end(job, SIGTERM);
    return false;
}

void job_begin(struct job *job)
{
    if (job->is_begun || job->has_result || job->phase != JOB_RUNNING)
        return;
    for (unsigned i = 0; i < job->link_count; i++)
        if (!job->links[i].is_ready)
            return;
    if (!is_meeting_known(job))
        return;
    job->is_begun = true;
    if (job->options->is_verbose)
        output_say(&job->output, "%u ranks meet at %s", job->options->ranks, job->rendezvous.url);
    for (unsigned i = 0; i < job->link_count; i++)
        link_tell(&job->links[i], LINK_START, job->rendezvous.url);
    start_ranks(job);
    input_begin(&job->input);

    /* Rank 0 has it; when rank 0 is gone nobody shall wait at a socket that no one answers. */
    rendezvous_close(&job->rendezvous);
}
