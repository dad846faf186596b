/* json.c - the facts for programs, where cJSON is there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "facts.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

#ifdef HAS_CJSON

#include <cjson/cJSON.h>

#include "core/reduce.h"
#include "tcdist/version.h"

static void add_build(cJSON *document, const struct build_facts *build)
{
    cJSON *features = cJSON_AddObjectToObject(document, "features");
    cJSON *protocol = cJSON_AddObjectToObject(document, "protocol");
    cJSON *kernels = cJSON_AddArrayToObject(document, "kernels");

    cJSON_AddStringToObject(document, "tcdist", tc_version());
    for (size_t f = 0; f < build->feature_count; f++)
        cJSON_AddBoolToObject(features, build->features[f].name, build->features[f].is_built);
    cJSON_AddNumberToObject(protocol, "rendezvous", build->rendezvous_version);
    cJSON_AddNumberToObject(protocol, "frames", build->frame_version);
    for (int isa = 0; isa < build->kernel_count; isa++)
        if (build->is_usable[isa])
            cJSON_AddItemToArray(kernels, cJSON_CreateString(tci_isa_name((enum tci_isa)isa)));
    cJSON_AddStringToObject(document, "kernels_used", tci_isa_name((enum tci_isa)build->best));
}

static void add_interfaces(cJSON *document, const struct interface_facts *interfaces)
{
    cJSON *list = cJSON_AddArrayToObject(document, "interfaces");

    for (size_t i = 0; i < interfaces->count; i++) {
        const struct interface *interface = &interfaces->at[i];
        cJSON *item = cJSON_CreateObject();

        cJSON_AddStringToObject(item, "name", interface->name);
        cJSON_AddStringToObject(item, "address", interface->address);
        cJSON_AddBoolToObject(item, "up", interface->is_up);
        cJSON_AddBoolToObject(item, "loopback", interface->is_loopback);
        cJSON_AddBoolToObject(item, "listed", interface->is_listed);
        cJSON_AddNumberToObject(item, "mtu", interface->mtu);
        cJSON_AddItemToArray(list, item);
    }
}

static cJSON *new_port(const struct tci_rdma_port_info *port)
{
    cJSON *item = cJSON_CreateObject();

    cJSON_AddStringToObject(item, "device", port->device);
    cJSON_AddNumberToObject(item, "port", port->port);
    cJSON_AddStringToObject(item, "state", port->state);
    cJSON_AddStringToObject(item, "layer", port->layer);
    cJSON_AddStringToObject(item, "transport", port->transport);
    cJSON_AddBoolToObject(item, "rc", port->has_rc);
    cJSON_AddBoolToObject(item, "uc", port->has_uc);
    cJSON_AddNumberToObject(item, "mtu", port->mtu);
    cJSON_AddNumberToObject(item, "gid_index", port->gid_index);
    cJSON_AddStringToObject(item, "gid_kind", port->gid_kind);
    cJSON_AddStringToObject(item, "address", port->address);
    cJSON_AddBoolToObject(item, "software", port->is_software);
    cJSON_AddBoolToObject(item, "usable", port->is_usable);
    cJSON_AddBoolToObject(item, "used", port->is_chosen);
    cJSON_AddStringToObject(item, "lacks", port->lacks);
    return item;
}

/* An entry a rank to which cables lead. */
static void add_cables(cJSON *object, const struct environment_facts *environment)
{
    const struct tci_jaccl *jaccl = &environment->cables;
    cJSON *list = cJSON_AddArrayToObject(object, "cables");

    cJSON_AddStringToObject(object, "device_file",
                            environment->device_file != NULL ? environment->device_file : "");
    cJSON_AddBoolToObject(object, "ring", jaccl->is_ring);
    for (uint32_t rank = 0; rank < jaccl->size; rank++) {
        const struct tci_cables *cables = &jaccl->cables[rank];
        cJSON *item, *devices;

        if (cables->count == 0)
            continue;
        item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "rank", rank);
        devices = cJSON_AddArrayToObject(item, "devices");
        for (int i = 0; i < cables->count; i++)
            cJSON_AddItemToArray(devices, cJSON_CreateString(cables->device[i]));
        cJSON_AddItemToArray(list, item);
    }
}

static void add_rdma(cJSON *document, const struct rdma_facts *rdma,
                     const struct environment_facts *environment)
{
    cJSON *object = cJSON_AddObjectToObject(document, "rdma");
    cJSON *ports = cJSON_AddArrayToObject(object, "ports");

    cJSON_AddStringToObject(object, "settings", rdma->settings);
    cJSON_AddStringToObject(object, "why_none", rdma->why != NULL ? rdma->why : "");
    for (size_t p = 0; p < rdma->count; p++)
        cJSON_AddItemToArray(ports, new_port(&rdma->ports[p]));
    add_cables(object, environment);
}

/* No limit is null. */
static void add_limit(cJSON *object, const char *name, uint64_t limit)
{
    if (limit == UINT64_MAX)
        cJSON_AddNullToObject(object, name);
    else
        cJSON_AddNumberToObject(object, name, (double)limit);
}

static void add_memory(cJSON *document, const struct memory_facts *memory)
{
    cJSON *object = cJSON_AddObjectToObject(document, "host");

    cJSON_AddNumberToObject(object, "processors", memory->cores);
    cJSON_AddBoolToObject(object, "memory_can_be_shared", memory->has_memfd);
    cJSON_AddBoolToObject(object, "memory_can_be_read", memory->may_read);
    cJSON_AddStringToObject(object, "memory_cannot_be_read_why", memory->read_why);
    cJSON_AddNumberToObject(object, "shm_free_bytes", (double)memory->shm_free_bytes);
    cJSON_AddNumberToObject(object, "huge_page_bytes", (double)memory->huge_page_bytes);
    cJSON_AddNumberToObject(object, "huge_pages", (double)memory->huge_pages);
    cJSON_AddNumberToObject(object, "huge_pages_free", (double)memory->huge_pages_free);
    cJSON_AddStringToObject(object, "transparent_huge_pages", memory->transparent);
    cJSON_AddStringToObject(object, "shmem_transparent_huge_pages", memory->shmem_transparent);
    add_limit(object, "memlock_bytes", memory->memlock_bytes);
    add_limit(object, "descriptors", memory->files);
}

static void add_environment(cJSON *document, const struct environment_facts *environment)
{
    cJSON *object = cJSON_AddObjectToObject(document, "environment");
    cJSON *variables = cJSON_AddArrayToObject(object, "variables");

    for (size_t v = 0; v < environment->count; v++) {
        const struct variable *variable = &environment->at[v];
        cJSON *item = cJSON_CreateObject();

        cJSON_AddStringToObject(item, "name", variable->name);
        if (variable->value != NULL)
            cJSON_AddStringToObject(item, "value", variable->value);
        cJSON_AddBoolToObject(item, "read", variable->nearest == NULL && variable->idle == NULL);
        if (variable->idle != NULL)
            cJSON_AddStringToObject(item, "idle", variable->idle);
        if (variable->nearest != NULL && variable->nearest[0] != '\0')
            cJSON_AddStringToObject(item, "nearest", variable->nearest);
        cJSON_AddItemToArray(variables, item);
    }
    cJSON_AddStringToObject(object, "error", environment->error);
    cJSON_AddStringToObject(object, "launcher", environment->launcher);
    cJSON_AddStringToObject(object, "launcher_variables", environment->launcher_variables);
    cJSON_AddStringToObject(object, "others", environment->others);
    cJSON_AddNumberToObject(object, "rank", environment->rank);
    cJSON_AddNumberToObject(object, "size", environment->size);
    cJSON_AddStringToObject(object, "rendezvous", environment->rendezvous);
}

bool print_json(const struct facts *facts)
{
    cJSON *document = cJSON_CreateObject();
    char *text;

    add_build(document, &facts->build);
    add_interfaces(document, &facts->interfaces);
    add_rdma(document, &facts->rdma, &facts->environment);
    add_memory(document, &facts->memory);
    add_environment(document, &facts->environment);
    text = cJSON_Print(document);
    cJSON_Delete(document);
    if (text == NULL) {
        fprintf(stderr, "tcinfo: no memory left\n");
        return false;
    }
    printf("%s\n", text);
    cJSON_free(text);
    return true;
}

#else

bool print_json(const struct facts *facts)
{
    (void)facts;
    fprintf(stderr, "tcinfo: it was built without cJSON, and cannot print JSON\n");
    return false;
}

#endif
