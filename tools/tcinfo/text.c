/* text.c - the facts for people. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/reduce.h"
#include "facts.h"
#include "tcdist/version.h"

static void print_build(const struct build_facts *build)
{
    printf("tcdist %s\n  built with:", tc_version());
    for (size_t f = 0; f < build->feature_count; f++)
        if (build->features[f].is_built)
            printf("%s %s", f > 0 ? "," : "", build->features[f].name);
    printf("\n");
    for (size_t f = 0; f < build->feature_count; f++)
        if (!build->features[f].is_built)
            printf("  %s\n", build->features[f].without);
    printf("  protocol: rendezvous %d, frames %d\n  kernels:", build->rendezvous_version,
           build->frame_version);
    for (int isa = 0; isa < build->kernel_count; isa++)
        if (build->is_usable[isa])
            printf(" %s%s", tci_isa_name((enum tci_isa)isa), isa == build->best ? " (used)" : "");
    printf("\n");
}

static void print_interfaces(const struct interface_facts *interfaces)
{
    printf("\ninterfaces\n");
    for (size_t i = 0; i < interfaces->count; i++) {
        const struct interface *interface = &interfaces->at[i];

        printf("  %-12s %-32s %s, MTU %d%s\n", interface->name,
               interface->address[0] != '\0' ? interface->address : "no address",
               interface->is_up ? "up" : "down", interface->mtu,
               interface->is_loopback ? ", loopback"
               : interface->is_listed ? ""
                                      : ", left out by TCDIST_INTERFACE");
    }
    if (interfaces->count == 0)
        printf("  none\n");
}

static void print_port(const struct tci_rdma_port_info *port)
{
    printf("  %s port %u: %s", port->device, port->port, port->state[0] ? port->state : "unknown");
    if (port->layer[0] != '\0')
        printf(", %s, %s, MTU %" PRIu32, port->layer, port->transport, port->mtu);
    printf("%s%s\n", port->is_software ? ", software" : "", port->is_chosen ? " (used)" : "");
    if (port->has_rc || port->has_uc)
        printf("    queue pairs: %s%s%s\n", port->has_rc ? "RC" : "",
               port->has_rc && port->has_uc ? ", " : "", port->has_uc ? "UC" : "");
    if (port->gid_index >= 0)
        printf("    GID %d, %s, %s\n", port->gid_index, port->gid_kind, port->address);
    if (port->lacks[0] != '\0')
        printf("    not used: %s\n", port->lacks);
}

/* Its first port, which is the one that a device file means. */
static const struct tci_rdma_port_info *find_device(const struct rdma_facts *rdma, const char *name)
{
    for (size_t p = 0; p < rdma->count; p++)
        if (strcmp(rdma->ports[p].device, name) == 0)
            return &rdma->ports[p];
    return NULL;
}

static void print_cable(const struct rdma_facts *rdma, const char *device)
{
    const struct tci_rdma_port_info *port = find_device(rdma, device);

    printf(" %s", device);
    if (port == NULL)
        printf(" (not there)");
    else if (strncmp(port->state, "active", strlen("active")) != 0)
        printf(" (%s)", port->state[0] != '\0' ? port->state : "unknown");
}

static void print_cables(const struct rdma_facts *rdma, const struct environment_facts *environment)
{
    const struct tci_jaccl *jaccl = &environment->cables;

    if (environment->device_file == NULL)
        return;
    printf("  cables of rank %d, in a %s of %" PRIu32 " ranks, by %s\n", environment->rank,
           jaccl->is_ring ? "ring" : "mesh", jaccl->size, environment->device_file);
    for (uint32_t rank = 0; rank < jaccl->size; rank++) {
        const struct tci_cables *cables = &jaccl->cables[rank];

        if (cables->count == 0)
            continue;
        printf("    to rank %" PRIu32 ":", rank);
        for (int i = 0; i < cables->count; i++) {
            printf("%s", i > 0 ? "," : "");
            print_cable(rdma, cables->device[i]);
        }
        printf("\n");
    }
}

static void print_rdma(const struct rdma_facts *rdma, const struct environment_facts *environment)
{
    printf("\nRDMA (TCDIST_RDMA: %s)\n", rdma->settings);
    for (size_t p = 0; p < rdma->count; p++)
        print_port(&rdma->ports[p]);
    if (rdma->why != NULL)
        printf("  %s\n", rdma->why);
    print_cables(rdma, environment);
}

static void print_limit(const char *name, uint64_t limit, const char *unit)
{
    if (limit == UINT64_MAX)
        printf("  %s: no limit\n", name);
    else
        printf("  %s: %" PRIu64 "%s\n", name, limit, unit);
}

static void print_memory(const struct memory_facts *memory)
{
    printf("\nthis host\n  processors: %d\n", memory->cores);
    if (memory->has_memfd)
        printf("  memory can be shared\n");
    else
        printf("  memory cannot be shared: %s\n", memory->memfd_why);
    if (memory->may_read)
        printf("  processes may read each other's memory (CMA)\n");
    else
        printf("  processes may not read each other's memory (CMA): %s\n", memory->read_why);
    printf("  /dev/shm: %" PRIu64 " MiB free\n", memory->shm_free_bytes >> 20);
    if (memory->huge_pages >= 0)
        printf("  huge pages: %ld of %ld free, of %" PRIu64 " KiB\n", memory->huge_pages_free,
               memory->huge_pages, memory->huge_page_bytes >> 10);
    printf("  transparent huge pages: %s, of shared memory %s\n", memory->transparent,
           memory->shmem_transparent);
    print_limit("memory that may be locked", memory->memlock_bytes, " bytes");
    print_limit("descriptors", memory->files, "");
}

static void print_variable(const struct variable *variable)
{
    printf("  %s=%s", variable->name, variable->value != NULL ? variable->value : "(not shown)");
    if (variable->nearest != NULL && variable->nearest[0] != '\0')
        printf("   nothing reads it: is %s meant?", variable->nearest);
    else if (variable->nearest != NULL)
        printf("   nothing reads it");
    else if (variable->idle != NULL)
        printf("   no effect here: %s", variable->idle);
    printf("\n");
}

static void print_environment(const struct environment_facts *environment)
{
    printf("\nenvironment\n");
    for (size_t v = 0; v < environment->count; v++)
        print_variable(&environment->at[v]);
    if (environment->error[0] != '\0') {
        printf("  wrong: %s\n", environment->error);
        return;
    }
    if (environment->size == 1) {
        printf("  a group is formed of this process alone\n");
    } else {
        printf("  a group is formed of %d ranks, this is rank %d\n", environment->size,
               environment->rank);
        printf("  they meet at %s\n",
               environment->rendezvous[0] != '\0' ? environment->rendezvous : "(not said)");
    }
    if (environment->launcher_variables[0] != '\0')
        printf("  as %s says: %s\n", environment->launcher, environment->launcher_variables);
    if (environment->others[0] != '\0')
        printf("  launchers whose variables are there too, and not used: %s\n",
               environment->others);
}

void print_text(const struct facts *facts)
{
    print_build(&facts->build);
    print_interfaces(&facts->interfaces);
    print_rdma(&facts->rdma, &facts->environment);
    print_memory(&facts->memory);
    print_environment(&facts->environment);
}
