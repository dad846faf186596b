/* open.c - the transport over RDMA is opened on a device, and closed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/log.h"
#include "rdma/link.h"

enum { LAST_MS = 5, HEAL_MS = 15000, SEALED_BYTES = TCI_RECORD_MAX + TCI_RECORD_TAG };

static void read_meter(const struct tci_meter *meter, struct tci_transport_stats *stats_out)
{
    const struct tci_rdma *rdma =
        (const struct tci_rdma *)((const char *)meter - offsetof(struct tci_rdma, meter));

    *stats_out = rdma->stats;
}

/* ---- Open and close ---- */

static void say_all(struct tci_rdma_link *link)
{
    (void)tci_rdma_flush(link);
    tci_rdma_retire(link); /* answers are taken in no more */
}

/* Why it ends, above all: what a queue pair still holds goes with it, so it has a moment. */
static void say_last(struct tci_rdma *rdma)
{
    uint64_t end_ns = rdma->exec->ops->now_ns(rdma->exec) + LAST_MS * TCI_NS_PER_MS;
    bool is_waiting = true;

    rdma->is_closing = true;
    for (struct tci_list *at = rdma->near.next; at != &rdma->near; at = at->next)
        say_all(tci_container_of(at, struct tci_rdma_link, near_link));
    while (is_waiting && tci_exec_clock(rdma->exec) < end_ns) {
        (void)tci_rdma_poll_cq(rdma, TCI_RDMA_BATCH);
        is_waiting = false;
        for (struct tci_list *at = rdma->near.next; at != &rdma->near; at = at->next) {
            const struct tci_rdma_link *link =
                tci_container_of(at, struct tci_rdma_link, near_link);

            is_waiting =
                is_waiting || (link->broken == NULL && !link->has_left && !tci_rdma_is_told(link));
        }
    }
}

static void release(struct tci_rdma *rdma)
{
    struct tci_exec *exec = rdma->exec;

    rdma->is_leaving = false;
    tci_rdma_close_stripes(rdma);
    tci_list_del(&rdma->siblings);
    for (uint32_t i = 0; rdma->links != NULL && i < rdma->size; i++)
        tci_rdma_link_free(rdma->links[i]);
    TC_ASSERT(rdma->live == 0);
    exec->ops->timer_clear(exec, &rdma->probe);
    tci_meter_del(rdma->context, &rdma->meter);
    tci_rdma_mem_close(rdma);
    tci_rdma_port_close(rdma);
    tci_pool_fini(&rdma->earlies);
    tci_pool_fini(&rdma->pushes);
    tci_pool_fini(&rdma->stripe_pool);
    tci_free(rdma->match);
    tci_free(rdma->links);
    tci_free(rdma->cable_to);
    if (rdma->sealed != NULL)
        sodium_memzero(rdma->sealed, SEALED_BYTES);
    tci_free(rdma->sealed);
    tci_free(rdma);
}

void tci_rdma_close(struct tci_transport *self)
{
    struct tci_rdma *rdma = tci_rdma_of(self);
    struct tci_transport *below = rdma->below;

    say_last(rdma);
    release(rdma);
    below->ops->close(below);
}

static uint64_t heal_time(const tc_config *config)
{
    if (config->heal_ms == 0)
        return HEAL_MS * TCI_NS_PER_MS;
    return config->heal_ms < 0 ? 0 : (uint64_t)config->heal_ms * TCI_NS_PER_MS;
}

static struct tci_rdma *make(struct tci_loop *loop, tc_context *context,
                             struct tci_transport *below, const struct tci_rdma_config *config)
{
    struct tci_rdma *rdma = tci_alloc(sizeof(*rdma));

    if (rdma == NULL)
        return NULL;
    rdma->base.ops = &tci_rdma_ops;
    rdma->below = below;
    rdma->loop = loop;
    rdma->exec = tci_loop_exec(loop);
    rdma->context = context;
    rdma->rank = config->rank;
    rdma->size = config->size;
    rdma->options = config->options;
    rdma->encrypts = config->encrypts;
    rdma->heal_ns = heal_time(&context->config);
    rdma->eager_max = tci_min(config->eager_bytes, TCI_RDMA_EAGER_MAX);
    rdma->verbs = tci_verbs();
    rdma->probe.fn = tci_rdma_on_probe_timer;
    tci_list_init(&rdma->near);
    tci_list_init(&rdma->siblings);
    tci_list_init(&rdma->stripes);
    tci_rdma_mem_open(rdma);
    tci_meter_add(context, &rdma->meter, read_meter);
    return rdma;
}

struct tci_transport *tci_rdma_open(struct tci_loop *loop, tc_context *context,
                                    struct tci_transport *below,
                                    const struct tci_rdma_config *config)
{
    struct tci_rdma_choice choice;
    struct tci_rdma *rdma;
    char why[300];

    if (config->options.mode == TCI_RDMA_OFF)
        return below;
    if (!tci_rdma_choose(&config->options, &choice, why, sizeof(why))) {
        tci_log(config->options.mode == TCI_RDMA_ON ? TC_LOG_WARN : TC_LOG_DEBUG,
                "rank %u: no RDMA: %s", config->rank, why);
        return below;
    }
    rdma = make(loop, context, below, config);
    if (rdma == NULL) {
        (void)tci_verbs()->close_device(choice.context);
        return below;
    }
    rdma->choice = choice;
    rdma->links = tci_alloc_array(rdma->size, sizeof(struct tci_rdma_link *));
    if (config->cable_to != NULL) {
        rdma->cable_to = tci_alloc_array(rdma->size, sizeof(*rdma->cable_to));
        if (rdma->cable_to != NULL)
            memcpy(rdma->cable_to, config->cable_to, rdma->size * sizeof(*rdma->cable_to));
    }
    if (config->sibling != NULL)
        tci_list_add(&tci_rdma_of(config->sibling)->siblings, &rdma->siblings);
    if (config->encrypts)
        rdma->sealed = tci_alloc_raw(SEALED_BYTES);
    if (tci_pool_init(&rdma->earlies, sizeof(struct tci_early), 1024) != 0 ||
        tci_pool_init(&rdma->pushes, sizeof(struct tci_rdma_push), 256) != 0 ||
        tci_pool_init(&rdma->stripe_pool, tci_rdma_stripe_bytes, 64) != 0 || rdma->links == NULL ||
        (rdma->cable_to == NULL) != (config->cable_to == NULL) ||
        (rdma->sealed == NULL) == config->encrypts || !tci_rdma_port_open(rdma)) {
        tci_log(TC_LOG_WARN, "rank %u: no RDMA: device %s gives no queues, or no memory is left",
                config->rank, choice.info.device);
        release(rdma);
        return below;
    }
    tci_rdma_hear_below(rdma);
    return &rdma->base;
}

bool tci_rdma_is(const struct tci_transport *self)
{
    return self->ops == &tci_rdma_ops;
}

struct tci_transport *tci_rdma_below(struct tci_transport *self)
{
    return tci_rdma_is(self) ? tci_rdma_of(self)->below : self;
}

const char *tci_rdma_way(const struct tci_transport *self, uint32_t peer, const char **why_out)
{
    const struct tci_rdma *rdma = (const struct tci_rdma *)self;
    const struct tci_rdma_link *link;

    *why_out = NULL;
    if (!tci_rdma_is(self))
        return self->ops->name;
    if (tci_rdma_cable_to(rdma, peer) < 0)
        return tci_rdma_way(rdma->below, peer, why_out);
    link = rdma->links[peer];
    if (link != NULL && !tci_rdma_is_up(link) && link->why_far[0] != '\0')
        *why_out = link->why_far;
    return link != NULL && tci_rdma_is_up(link) ? tci_rdma_ops.name : rdma->below->ops->name;
}
