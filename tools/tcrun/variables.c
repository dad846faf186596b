/* variables.c - what the environment tells each rank, as several kinds of programs ask for it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "variables.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Variables of these kinds that tcrun itself has also hold on other hosts. */
static const char *const carried[] = {"TCDIST_", "TC_GLOO_", "TC_MESH_", "NUVEC_", "MLX_"};

struct list {
    char **at;
    size_t count, room;
    bool has_failed;
};

static void add_text(struct list *list, char *text)
{
    if (text != NULL && list->count + 1 < list->room) {
        list->at[list->count++] = text;
        return;
    }
    free(text);
    list->has_failed = true;
}

__attribute__((format(printf, 2, 3))) static void add(struct list *list, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    add_text(list, n < 0 ? NULL : text);
}

static void carry(struct list *list)
{
    for (char **at = environ; at != NULL && *at != NULL; at++)
        for (size_t i = 0; i < sizeof carried / sizeof *carried; i++)
            if (strncmp(*at, carried[i], strlen(carried[i])) == 0)
                add_text(list, strdup(*at));
}

/* tcdist's own. */
static void add_place(struct list *list, const struct options *options, unsigned rank,
                      const char *url)
{
    const struct world *world = &options->world;
    const struct place *place = &world->places[rank];

    add(list, ENV_RANK "=%u", rank);
    add(list, ENV_WORLD_SIZE "=%u", world->ranks);
    add(list, ENV_LOCAL_RANK "=%u", place->local_rank);
    add(list, ENV_LOCAL_SIZE "=%u", world->machines[place->machine].ranks);
    add(list, ENV_RENDEZVOUS "=%s", url);
    add(list, ENV_RENDEZVOUS_UP "=%s", options->rendezvous == NULL ? url : "");
    if (options->key[0] != '\0')
        add(list, ENV_KEY "=%s", options->key);
    if (options->encrypts)
        add(list, ENV_ENCRYPTION "=on");
    if (!world_is_local(world) && world->hosts->at[place->entry].ip_count > 0 &&
        getenv(ENV_ADVERTISE) == NULL)
        add(list, ENV_ADVERTISE "=%s", world_address(world, rank, 0));
    if (options->connections > 1 || world_address_count(world, rank) > 1) {
        size_t connections = options->connections * world_address_count(world, rank);

        add(list, ENV_CONNECTIONS "=%zu",
            connections > CONNECTIONS_MAX ? (size_t)CONNECTIONS_MAX : connections);
    }
}

/* What torchrun sets. */
static void add_torch(struct list *list, const struct options *options, unsigned rank)
{
    const struct world *world = &options->world;
    const char *address = world_address(world, 0, 0);

    add(list, "RANK=%u", rank);
    add(list, "WORLD_SIZE=%u", world->ranks);
    add(list, "LOCAL_RANK=%u", world->places[rank].local_rank);
    add(list, "LOCAL_WORLD_SIZE=%u", world->machines[world->places[rank].machine].ranks);
    if (address != NULL) {
        add(list, "MASTER_ADDR=%s", address);
        add(list, "MASTER_PORT=%u", options_master_port(options));
    }
}

/* Each rank of a host has a device of its own, unless an option or the host file say which.  Of
 * those that tcrun itself was given each has the one of its number; none, where there are fewer. */
static void add_device(struct list *list, const struct options *options, unsigned rank)
{
    static const char name[] = "CUDA_VISIBLE_DEVICES";
    const struct place *place = &options->world.places[rank];
    const char *mine = options->world.machines[place->machine].is_local ? getenv(name) : NULL;

    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->at[i], name, strlen(name)) == 0 && list->at[i][strlen(name)] == '=')
            return;
    if (mine == NULL) {
        add(list, "%s=%u", name, place->local_rank);
        return;
    }
    for (unsigned i = 0; i < place->local_rank && *mine != '\0'; i++) {
        mine += strcspn(mine, ",");
        mine += *mine == ',';
    }
    add(list, "%s=%.*s", name, (int)strcspn(mine, ","), mine);
}

/* What mlx.launch sets, beside files. */
static void add_mlx(struct list *list, const struct options *options, unsigned rank)
{
    const char *address = world_address(&options->world, 0, 0);
    bool is_six = address != NULL && strchr(address, ':') != NULL;

    add(list, "MLX_RANK=%u", rank);
    if (options->backend == NULL || address == NULL)
        return;
    if (options_is_jaccl(options)) {
        add(list, "MLX_JACCL_COORDINATOR=%s%s%s:%u", is_six ? "[" : "", address, is_six ? "]" : "",
            options->starting_port);
        add(list, "MLX_DISTRIBUTED_BACKEND=%s", options->backend);
        if (strcmp(options->backend, "jaccl-ring") == 0)
            add(list, "MLX_JACCL_RING=1");
    } else if (strcmp(options->backend, "nccl") == 0) {
        add(list, "MLX_WORLD_SIZE=%u", options->world.ranks);
        add(list, "NCCL_HOST_IP=%s", address);
        add(list, "NCCL_PORT=%u",
            options->nccl_port != 0 ? options->nccl_port : options->starting_port);
        add_device(list, options, rank);
    }
}

char **variables_make(const struct options *options, unsigned rank, const char *url)
{
    const struct machine *machine = &options->world.machines[options->world.places[rank].machine];
    struct list list = {.room = 64 + options->hosts.env_count + options->env_count};

    for (char **at = environ; at != NULL && *at != NULL; at++)
        list.room++;
    list.at = calloc(list.room, sizeof *list.at);
    if (list.at == NULL)
        return NULL;
    if (!machine->is_local)
        carry(&list);
    for (size_t i = 0; i < options->hosts.env_count; i++)
        add_text(&list, strdup(options->hosts.envs[i]));
    for (size_t i = 0; i < options->env_count; i++)
        add_text(&list, strdup(options->env[i]));
    add_torch(&list, options, rank);
    add_mlx(&list, options, rank);
    add_place(&list, options, rank, url);
    if (options->library_backend != NULL)
        add(&list, ENV_BACKEND "=%s", options->library_backend);
    if (list.has_failed) {
        variables_free(list.at);
        return NULL;
    }
    return list.at;
}

void variables_free(char **variables)
{
    for (char **at = variables; at != NULL && *at != NULL; at++)
        free(*at);
    free(variables);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* MLX_HOSTFILE: each rank's addresses, so many connections each, all with ports of their own. */
static void write_ring(FILE *file, const struct options *options)
{
    unsigned port = options->starting_port;

    (void)fputc('[', file);
    for (unsigned rank = 0; rank < options->world.ranks; rank++) {
        size_t count = world_address_count(&options->world, rank);

        (void)fputs(rank > 0 ? ", [" : "[", file);
        for (size_t i = 0; i < count * options->connections; i++) {
            const char *address = world_address(&options->world, rank, i / options->connections);
            bool is_six = strchr(address, ':') != NULL;

            (void)fprintf(file, "%s\"%s%s%s:%u\"", i > 0 ? ", " : "", is_six ? "[" : "", address,
                          is_six ? "]" : "", port++);
        }
        (void)fputc(']', file);
    }
    (void)fputs("]\n", file);
}

/* MLX_IBV_DEVICES: for each rank the devices by which it reaches each other one. */
static void write_devices(FILE *file, const struct options *options)
{
    const struct world *world = &options->world;

    (void)fputc('[', file);
    for (unsigned a = 0; a < world->ranks; a++) {
        (void)fputs(a > 0 ? ", [" : "[", file);
        for (unsigned b = 0; b < world->ranks; b++) {
            const struct host *host = &world->hosts->at[world->places[a].entry];
            const struct host_devices *cell = &host->rdma[world->places[b].entry];

            (void)fputs(b > 0 ? ", " : "", file);
            if (cell->count == 0)
                (void)fputs("null", file);
            for (size_t i = 0; i < cell->count; i++)
                (void)fprintf(file, "%s\"%s\"",
                              i > 0             ? ", "
                              : cell->count > 1 ? "["
                                                : "",
                              cell->names[i]);
            if (cell->count > 1)
                (void)fputc(']', file);
        }
        (void)fputc(']', file);
    }
    (void)fputs("]\n", file);
}

static bool has_addresses(const struct world *world)
{
    for (unsigned rank = 0; rank < world->ranks; rank++)
        if (world_address(world, rank, 0) == NULL)
            return false;
    return true;
}

int variables_files(const struct options *options, struct order_file files[ORDER_FILES_MAX])
{
    bool is_jaccl = options_is_jaccl(options);
    char *text = NULL;
    size_t len;
    FILE *file;

    if (!is_jaccl && !has_addresses(&options->world))
        return 0;
    file = open_memstream(&text, &len);
    if (file == NULL)
        return -1;
    if (is_jaccl)
        write_devices(file, options);
    else
        write_ring(file, options);
    if (fclose(file) != 0) {
        free(text);
        return -1;
    }
    files[0] = (struct order_file){is_jaccl ? "MLX_IBV_DEVICES" : "MLX_HOSTFILE", text};
    return 1;
}

void variables_free_files(struct order_file *files, int count)
{
    for (int i = 0; i < count; i++)
        free((char *)files[i].text);
}
