/* describe.c - what tcrun would run, for a person to read and to run by hand. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "describe.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link.h"
#include "processors.h"
#include "quote.h"
#include "remote.h"
#include "rendezvous.h"
#include "variables.h"

static bool print_word(const char *word)
{
    char *quoted = quote(word);

    if (quoted != NULL)
        printf(" %s", quoted);
    free(quoted);
    return quoted != NULL;
}

static bool is_secret(const char *setting)
{
    size_t len = strcspn(setting, "=");

    return len >= 4 && strncmp(setting + len - 4, "_KEY", 4) == 0;
}

/* What is bound here can be bound by hand, too; how others' processors lie is known there alone. */
static bool print_share(const struct options *options, const struct place *place)
{
    unsigned of = options->world.machines[place->machine].ranks;
    struct processors processors;
    char *text;

    if (options->bind == BIND_NONE || !options->world.machines[place->machine].is_local)
        return true;
    if (processors_read(&processors) != 0)
        return false;
    text = processors_text(&processors, processors_share(&processors, place->local_rank, of));
    if (text != NULL)
        printf(" taskset --cpu-list %s", text);
    free(text);
    processors_fini(&processors);
    return text != NULL;
}

static bool print_rank(const struct options *options, unsigned rank, const char *url,
                       const char *cwd)
{
    char **env = variables_make(options, rank, url);
    bool is_good = env != NULL;

    printf("rank %u on %s: cd", rank,
           options->world.machines[options->world.places[rank].machine].name);
    is_good = is_good && print_word(cwd);
    printf(" && env");
    for (char **at = env; is_good && *at != NULL; at++) {
        if (is_secret(*at))
            printf(" %.*s=***", (int)strcspn(*at, "="), *at);
        else
            is_good = print_word(*at);
    }
    variables_free(env);
    is_good = is_good && print_share(options, &options->world.places[rank]);
    for (char **at = options->command; is_good && *at != NULL; at++)
        is_good = print_word(*at);
    printf("\n");
    return is_good;
}

static bool print_machine(const struct options *options, const struct machine *machine)
{
    char **command;
    bool is_good = true;

    if (machine->is_local)
        return true;
    command = relay_command(options, machine->name);
    if (command == NULL)
        return false;
    printf("host %s:", machine->name);
    for (char **at = command; is_good && *at != NULL; at++)
        is_good = print_word(*at);
    if (options->bind == BIND_CORES)
        printf(" # which binds each rank to its share of the cores there");
    printf("\n");
    remote_free_command(command);
    return is_good;
}

static bool print_files(const struct options *options)
{
    struct order_file files[ORDER_FILES_MAX];
    int count = variables_files(options, files);

    for (int i = 0; i < count; i++)
        printf("file %s: %s", files[i].variable, files[i].text);
    variables_free_files(files, count > 0 ? count : 0);
    return count >= 0;
}

bool describe(const struct options *options)
{
    struct rendezvous rendezvous = {.fd = -1, .url = options->rendezvous};
    char cwd[PATH_MAX];
    bool is_good = true;

    if (getcwd(cwd, sizeof cwd) == NULL)
        (void)snprintf(cwd, sizeof cwd, ".");
    if (rendezvous.url == NULL)
        rendezvous_set(&rendezvous, world_address(&options->world, 0, 0), 0);
    for (unsigned i = 0; i < options->world.machine_count && is_good; i++)
        is_good = print_machine(options, &options->world.machines[i]);
    is_good = is_good && print_files(options);
    if (options->rendezvous == NULL)
        printf("rendezvous %s: port 0 stands for a free one, which is chosen at the start\n",
               rendezvous.url);
    for (unsigned rank = 0; rank < options->world.ranks && is_good; rank++)
        is_good = print_rank(options, rank, rendezvous.url,
                             options->cwd != NULL && *options->cwd == '/' ? options->cwd : cwd);
    return is_good;
}
