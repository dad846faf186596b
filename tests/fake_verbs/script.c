/* script.c - what the fake's devices are like, and what befalls them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fake_verbs/fake.h"

static struct fake_world *const world = &fake_world;

void fake_setup(const struct fake_device *devices, unsigned count)
{
    pthread_mutex_lock(&world->lock);
    memset(world->devices, 0, sizeof(world->devices));
    memset(world->listed, 0, sizeof(world->listed));
    world->device_count = count;
    for (unsigned i = 0; i < count; i++) {
        world->devices[i] = devices[i];
        snprintf(world->listed[i].name, sizeof(world->listed[i].name), "%s", devices[i].name);
    }
    world->script.nth = 0;
    world->marker = NULL;
    world->counts.marked = 0;
    world->is_held = world->is_cut = world->is_removed = false;
    world->refuses_qps = world->refuses_growth = false;
    world->regions_max = world->switch_mtu = 0;
    world->region_bytes_max = 0;
    world->counts.regions_most = world->counts.regions;
    world->counts.sends = world->counts.writes = world->counts.registered = 0;
    world->counts.posts = world->counts.arms = world->counts.carried_ns = 0;
    world->counts.waits_for_receive = world->counts.overruns = world->counts.mistakes = 0;
    pthread_mutex_unlock(&world->lock);
}

/* As a card has them: a link-local one by version 1 first, then the address. */
int fake_query_gid(struct ibv_context *base, uint8_t port, uint32_t index,
                   struct ibv_gid_entry *entry_out)
{
    const struct fake_device *device = ((struct fake_context *)base)->device;
    uint8_t *raw = entry_out->gid.raw;

    (void)port;
    if (device->gids != NULL && index < device->gid_count) {
        entry_out->gid_type = (uint32_t)device->gids[index].type;
        return inet_pton(AF_INET6, device->gids[index].address, raw) == 1 ? 0 : EINVAL;
    }
    if (device->gids != NULL || device->address == 0 || index > 1) {
        errno = ENODATA;
        return ENODATA;
    }
    memset(raw, 0, 16);
    entry_out->gid_type = device->gid_type != 0 ? (uint32_t)device->gid_type : IBV_GID_TYPE_ROCE_V2;
    raw[10] = raw[11] = 0xff;
    for (int i = 0; i < 4; i++)
        raw[12 + i] = (uint8_t)(device->address >> (24 - 8 * i));
    if (index == 0) {
        memset(raw, 0, 12);
        raw[0] = 0xfe;
        raw[1] = 0x80;
        entry_out->gid_type = IBV_GID_TYPE_ROCE_V1;
    }
    return 0;
}

void fake_setup_usual(void)
{
    static const struct fake_device usual = {
        .name = "fake0", .ports = 1, .state = IBV_PORT_ACTIVE, .address = 0x0a4d0001};

    fake_setup(&usual, 1);
}

void fake_setup_uc(void)
{
    static const struct fake_device device = {.name = "fake0",
                                              .is_uc_only = true,
                                              .ports = 1,
                                              .state = IBV_PORT_ACTIVE,
                                              .address = 0x0a4d0001};

    fake_setup(&device, 1);
}

void fake_fate(int opcode, unsigned nth, enum fake_fate fate, enum ibv_wc_status status)
{
    pthread_mutex_lock(&world->lock);
    world->script.opcode = opcode;
    world->script.nth = nth;
    world->script.fate = fate;
    world->script.status = status;
    pthread_mutex_unlock(&world->lock);
}

void fake_change(int opcode, unsigned nth, size_t at)
{
    fake_fate(opcode, nth, FAKE_IS_CHANGED, IBV_WC_SUCCESS);
    pthread_mutex_lock(&world->lock);
    world->script.at = at;
    pthread_mutex_unlock(&world->lock);
}

void fake_look_for(const void *bytes, size_t len)
{
    pthread_mutex_lock(&world->lock);
    world->marker = bytes;
    world->marker_len = len;
    world->counts.marked = 0;
    pthread_mutex_unlock(&world->lock);
}

void fake_hold(bool is_held)
{
    pthread_mutex_lock(&world->lock);
    world->is_held = is_held;
    pthread_mutex_unlock(&world->lock);
}

void fake_path(bool stands)
{
    pthread_mutex_lock(&world->lock);
    world->is_cut = !stands;
    pthread_mutex_unlock(&world->lock);
}

void fake_switch(unsigned mtu)
{
    pthread_mutex_lock(&world->lock);
    world->switch_mtu = mtu;
    pthread_mutex_unlock(&world->lock);
}

void fake_port_of(unsigned device, bool is_up)
{
    pthread_mutex_lock(&world->lock);
    world->devices[device].state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    for (struct fake_context *context = world->contexts; context != NULL; context = context->next)
        if (context->device == &world->devices[device])
            fake_tell(context, is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1);
    pthread_mutex_unlock(&world->lock);
}

void fake_port(bool is_up)
{
    fake_port_of(0, is_up);
}

void fake_remove(void)
{
    pthread_mutex_lock(&world->lock);
    world->is_removed = true;
    for (struct fake_qp *qp = world->qps; qp != NULL; qp = qp->next)
        fake_flush(qp);
    for (struct fake_context *context = world->contexts; context != NULL; context = context->next)
        fake_tell(context, IBV_EVENT_DEVICE_FATAL, 0);
    pthread_mutex_unlock(&world->lock);
}

void fake_limit_regions(unsigned count, size_t bytes)
{
    pthread_mutex_lock(&world->lock);
    world->regions_max = count;
    world->region_bytes_max = bytes;
    pthread_mutex_unlock(&world->lock);
}

void fake_refuse(bool queue_pairs, bool growth)
{
    pthread_mutex_lock(&world->lock);
    world->refuses_qps = queue_pairs;
    world->refuses_growth = growth;
    pthread_mutex_unlock(&world->lock);
}

struct fake_counts fake_counts(void)
{
    struct fake_counts counts;

    pthread_mutex_lock(&world->lock);
    counts = world->counts;
    pthread_mutex_unlock(&world->lock);
    return counts;
}
