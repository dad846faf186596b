/* device.c - every port of every device: what it is, what it lacks, and which one is used. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rdma/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"

enum { GIDS_MAX = 256, PORTS_MAX = 256 };

static const char *state_name(enum ibv_port_state state)
{
    static const char *const names[] = {
        [IBV_PORT_NOP] = "unknown",       [IBV_PORT_DOWN] = "down",
        [IBV_PORT_INIT] = "initializing", [IBV_PORT_ARMED] = "armed",
        [IBV_PORT_ACTIVE] = "active",     [IBV_PORT_ACTIVE_DEFER] = "active, deferred"};

    return (size_t)state < TCI_LEN(names) ? names[state] : "unknown";
}

/* ---- Addresses ---- */

static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

/* 169.254.0.0/16, or fe80::/10. */
static bool is_link_local(const union ibv_gid *gid)
{
    if (is_ipv4(gid))
        return gid->raw[12] == 169 && gid->raw[13] == 254;
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* How gladly a GID is used: packets with an IPv4 header pass every router, those of version 1, and
 * from link-local addresses, none. */
static int rank_gid(const struct ibv_gid_entry *entry)
{
    if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
        return 1;
    return 2 + is_ipv4(&entry->gid) + (is_link_local(&entry->gid) ? 0 : 2);
}

static void print_address(const union ibv_gid *gid, char *text, socklen_t room)
{
    if (is_ipv4(gid))
        (void)inet_ntop(AF_INET, gid->raw + 12, text, room);
    else
        (void)inet_ntop(AF_INET6, gid->raw, text, room);
}

static const char *kind_name(uint32_t type)
{
    return type == IBV_GID_TYPE_ROCE_V2   ? "RoCE v2"
           : type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
                                          : "IB";
}

/* The best one, or the one that was asked for; false: there is none. */
static bool find_gid(struct tci_rdma_choice *choice, int wanted)
{
    const struct tci_verbs *verbs = tci_verbs();
    int best = 0, last = (int)tci_min((size_t)choice->port.gid_tbl_len, GIDS_MAX);

    for (int i = 0; i < last; i++) {
        struct ibv_gid_entry entry = {.gid_index = (uint32_t)i};

        if ((wanted >= 0 && i != wanted) ||
            verbs->query_gid(choice->context, choice->info.port, (uint32_t)i, &entry) != 0 ||
            (entry.gid.global.subnet_prefix == 0 && entry.gid.global.interface_id == 0) ||
            rank_gid(&entry) <= best)
            continue;
        best = rank_gid(&entry);
        choice->gid = entry;
        choice->gid.gid_index = (uint32_t)i;
    }
    return best > 0;
}

/* ---- One port ---- */

static void __attribute__((format(printf, 2, 3)))
lack(struct tci_rdma_port_info *info, const char *format, ...)
{
    va_list arguments;

    info->is_usable = false;
    if (info->lacks[0] != '\0')
        return; /* the first reason is the one to begin with */
    va_start(arguments, format);
    vsnprintf(info->lacks, sizeof(info->lacks), format, arguments);
    va_end(arguments);
}

static void look_at_address(struct tci_rdma_choice *choice, const struct tci_rdma_options *options)
{
    struct tci_rdma_port_info *info = &choice->info;

    info->gid_index = -1;
    if (find_gid(choice, options->gid_index)) {
        info->gid_index = (int)choice->gid.gid_index;
        snprintf(info->gid_kind, sizeof(info->gid_kind), "%s", kind_name(choice->gid.gid_type));
        print_address(&choice->gid.gid, info->address, sizeof(info->address));
    } else if (options->gid_index >= 0) {
        lack(info, "it has no GID %d: leave out gid=, or give one that it has", options->gid_index);
    } else if (choice->port.link_layer == IBV_LINK_LAYER_ETHERNET || choice->port.lid == 0) {
        lack(info, "it has no GID: give its network interface an IP address, one of 169.254.0.0/16 "
                   "will do");
    }
}

static bool is_asked_for(const struct tci_rdma_port_info *info,
                         const struct tci_rdma_options *options)
{
    return (options->device[0] == '\0' || strcmp(options->device, info->device) == 0) &&
           (options->port < 0 || options->port == info->port);
}

static void look_at_port(struct tci_rdma_choice *choice, const struct tci_rdma_options *options)
{
    struct tci_rdma_port_info *info = &choice->info;
    bool is_ethernet = choice->port.link_layer == IBV_LINK_LAYER_ETHERNET;

    info->is_usable = true;
    if (!is_asked_for(info, options))
        lack(info, "another one was asked for");
    info->mtu = 128u << choice->port.active_mtu;
    snprintf(info->state, sizeof(info->state), "%s", state_name(choice->port.state));
    snprintf(info->layer, sizeof(info->layer), "%s", is_ethernet ? "ethernet" : "infiniband");
    snprintf(info->transport, sizeof(info->transport), "RC");
    if (choice->port.state != IBV_PORT_ACTIVE && choice->port.state != IBV_PORT_ACTIVE_DEFER)
        lack(info, "its port is %s: set the link up, and look at its cable", info->state);
    look_at_address(choice, options);
    if (options->mode == TCI_RDMA_OFF)
        lack(info, "RDMA is switched off: TCDIST_RDMA=0");
    else if (info->is_software && options->mode == TCI_RDMA_AUTO && options->device[0] == '\0')
        lack(info, "it is the kernel's software, slower than TCP: TCDIST_RDMA=1 uses it");
}

/* ---- Kinds of queue pairs ---- */

static bool gives(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = type,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = tci_verbs()->create_qp(pd, &attr);

    if (qp != NULL)
        (void)tci_verbs()->destroy_qp(qp);
    return qp != NULL;
}

/* No attribute of a device tells which it has: one of each is made for a moment. */
static void try_kinds(struct tci_rdma_choice *choice)
{
    const struct tci_verbs *verbs = tci_verbs();
    struct ibv_pd *pd = verbs->alloc_pd(choice->context);
    struct ibv_cq *cq = pd != NULL ? verbs->create_cq(choice->context, 2, NULL, NULL) : NULL;

    if (cq != NULL) {
        choice->info.has_rc = gives(pd, cq, IBV_QPT_RC);
        choice->info.has_uc = gives(pd, cq, IBV_QPT_UC);
    }
    if (!choice->info.has_rc && !choice->info.has_uc)
        lack(&choice->info, "it gives no queue pair: %s", strerror(errno));
    if (cq != NULL)
        (void)verbs->destroy_cq(cq);
    if (pd != NULL)
        (void)verbs->dealloc_pd(pd);
}

static void look_at_kinds(struct tci_rdma_choice *choice, const struct tci_rdma_options *options)
{
    struct tci_rdma_port_info *info = &choice->info;
    bool is_uc;

    if (choice->context == NULL || info->transport[0] == '\0')
        return;
    try_kinds(choice);
    is_uc = info->has_uc && (options->is_uc || !info->has_rc);
    snprintf(info->transport, sizeof(info->transport), "%s", is_uc ? "UC" : "RC");
}

/* ---- All of them ---- */

typedef bool port_fn(void *arg, struct tci_rdma_choice *choice);

/* The ports of one device, until fn is content with one and takes the open device over. */
static bool walk_ports(struct ibv_device *device, const struct tci_rdma_options *options,
                       port_fn *fn, void *arg)
{
    const struct tci_verbs *verbs = tci_verbs();
    struct tci_rdma_choice choice = {.info = {.is_software = verbs->is_software(device)}};
    struct tci_rdma_port_info blank;

    snprintf(choice.info.device, sizeof(choice.info.device), "%s", verbs->get_device_name(device));
    choice.context = verbs->open_device(device);
    if (choice.context == NULL || verbs->query_device(choice.context, &choice.device) != 0) {
        lack(&choice.info, "it cannot be opened: %s; look at the rights of /dev/infiniband",
             strerror(errno));
        (void)fn(arg, &choice);
        choice.device.phys_port_cnt = 0;
    }
    blank = choice.info;
    for (unsigned port = 1; port <= choice.device.phys_port_cnt; port++) {
        choice.info = blank;
        choice.info.port = (uint8_t)port;
        memset(&choice.gid, 0, sizeof(choice.gid));
        if (verbs->query_port(choice.context, (uint8_t)port, &choice.port) != 0)
            lack(&choice.info, "its port cannot be asked: %s", strerror(errno));
        else
            look_at_port(&choice, options);
        if (fn(arg, &choice))
            return true;
    }
    if (choice.context != NULL)
        (void)verbs->close_device(choice.context);
    return false;
}

/* NULL, or why there is nothing to walk over. */
static const char *walk(const struct tci_rdma_options *options, port_fn *fn, void *arg)
{
    const struct tci_verbs *verbs = tci_verbs();
    struct ibv_device **list;
    int count = 0;

    list = verbs->get_device_list(&count);
    if (list == NULL)
        return errno == ENOSYS ? "the kernel has no RDMA: the module ib_uverbs is not loaded"
                               : "RDMA devices cannot be listed here";
    for (int i = 0; i < count; i++)
        if (walk_ports(list[i], options, fn, arg))
            break;
    verbs->free_device_list(list);
    return count == 0 ? "there is no RDMA device here" : NULL;
}

struct listing {
    const struct tci_rdma_options *options;
    struct tci_rdma_port_info *ports; /* owned */
    size_t count;
    bool has_chosen, is_out_of_memory;
};

static bool list_port(void *arg, struct tci_rdma_choice *choice)
{
    struct listing *listing = arg;
    struct tci_rdma_port_info *ports =
        tci_realloc_array(listing->ports, listing->count + 1, sizeof(*ports));

    if (ports == NULL) {
        listing->is_out_of_memory = true;
        return false;
    }
    listing->ports = ports;
    look_at_kinds(choice, listing->options);
    ports[listing->count] = choice->info;
    ports[listing->count].is_chosen = choice->info.is_usable && !listing->has_chosen;
    listing->has_chosen = listing->has_chosen || choice->info.is_usable;
    listing->count++;
    return false;
}

bool tci_rdma_is_built(void)
{
    return true;
}

const char *tci_rdma_list(const struct tci_rdma_options *options,
                          struct tci_rdma_port_info **ports_out, size_t *count_out)
{
    struct listing listing = {.options = options};
    const char *why = walk(options, list_port, &listing);

    if (listing.is_out_of_memory) {
        tci_free(listing.ports);
        listing = (struct listing){0};
        why = "there is no memory left to list RDMA devices";
    }
    *ports_out = listing.ports;
    *count_out = listing.count;
    return why;
}

struct choosing {
    const struct tci_rdma_options *options;
    struct tci_rdma_choice *choice_out;
    char *why_out;
    size_t why_room;
    bool is_chosen;
    char others[128]; /* "card0, card1": devices that were not asked for */
};

static void note_other(struct choosing *choosing, const char *device)
{
    size_t len = strlen(choosing->others);
    const char *last = strrchr(choosing->others, ' ');

    if (strcmp(last != NULL ? last + 1 : choosing->others, device) != 0)
        snprintf(choosing->others + len, sizeof(choosing->others) - len, "%s%s",
                 len > 0 ? ", " : "", device);
}

static bool choose_port(void *arg, struct tci_rdma_choice *choice)
{
    struct choosing *choosing = arg;

    if (choice->info.is_usable) {
        *choosing->choice_out = *choice;
        choosing->is_chosen = true;
    } else if (!is_asked_for(&choice->info, choosing->options)) {
        note_other(choosing, choice->info.device);
    } else if (choosing->why_out[0] == '\0') {
        snprintf(choosing->why_out, choosing->why_room, "device %s, port %u: %s",
                 choice->info.device, choice->info.port, choice->info.lacks);
    }
    return choosing->is_chosen;
}

static void say_none(const struct tci_rdma_options *options, const char *there, char *why_out,
                     size_t why_room)
{
    char port[32] = "";

    if (options->port >= 0)
        snprintf(port, sizeof(port), "port %d", options->port);
    snprintf(why_out, why_room,
             "no device or port is the one that was asked for by TCDIST_RDMA (%s%s%s); the devices "
             "here are %s",
             options->device, options->device[0] != '\0' && port[0] != '\0' ? ", " : "", port,
             there);
}

bool tci_rdma_choose(const struct tci_rdma_options *options, struct tci_rdma_choice *choice_out,
                     char *why_out, size_t why_room)
{
    struct choosing choosing = {
        .options = options, .choice_out = choice_out, .why_out = why_out, .why_room = why_room};
    const char *why;

    why_out[0] = '\0';
    why = walk(options, choose_port, &choosing);
    if (choosing.is_chosen || why_out[0] != '\0')
        return choosing.is_chosen;
    if (why != NULL)
        snprintf(why_out, why_room, "%s", why);
    else
        say_none(options, choosing.others, why_out, why_room);
    return false;
}

bool tci_rdma_can(const struct tci_rdma_options *options, char *why_out, size_t why_room)
{
    struct tci_rdma_choice choice;

    if (!tci_rdma_choose(options, &choice, why_out, why_room))
        return false;
    (void)tci_verbs()->close_device(choice.context);
    return true;
}
