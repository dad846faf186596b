/* meter.c - what the transports of a context have carried, in one sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/meter.h"

#include "core/assert.h"
#include "core/context.h"

void tci_stats_add(struct tci_transport_stats *sum, const struct tci_transport_stats *more)
{
    sum->bytes_sent += more->bytes_sent;
    sum->bytes_received += more->bytes_received;
    sum->messages_sent += more->messages_sent;
    sum->messages_received += more->messages_received;
    sum->bytes_copied += more->bytes_copied;
    sum->eager_bytes += more->eager_bytes;
    sum->strays += more->strays;
    sum->bytes_kept += more->bytes_kept;
    sum->breaks += more->breaks;
    sum->heals += more->heals;
    sum->links_open += more->links_open;
    sum->bytes_beside += more->bytes_beside;
    sum->sides_open += more->sides_open;
}

void tci_meter_add(tc_context *context, struct tci_meter *meter,
                   void (*read)(const struct tci_meter *self,
                                struct tci_transport_stats *stats_out))
{
    TC_ASSERT(meter->read == NULL);
    meter->read = read;
    meter->next = context->meters;
    context->meters = meter;
}

void tci_meter_del(tc_context *context, struct tci_meter *meter)
{
    struct tci_meter **at = &context->meters;
    struct tci_transport_stats last = {0};

    if (meter->read == NULL)
        return;
    while (*at != meter)
        at = &(*at)->next;
    *at = meter->next;
    meter->read(meter, &last);
    /* What is held now ends with its transport. */
    last.eager_bytes = last.bytes_kept = 0;
    last.links_open = last.sides_open = 0;
    tci_stats_add(&context->metered, &last);
    meter->read = NULL;
}

void tci_meter_sample(void *arg)
{
    tc_context *context = arg;
    struct tci_transport_stats sum = context->metered;
    tci_word *counters = context->trace->head->counters;

    for (const struct tci_meter *meter = context->meters; meter != NULL; meter = meter->next) {
        struct tci_transport_stats one = {0};

        meter->read(meter, &one);
        tci_stats_add(&sum, &one);
    }
    tci_word_set(&counters[TCI_COUNT_BYTES_SENT], sum.bytes_sent);
    tci_word_set(&counters[TCI_COUNT_BYTES_RECEIVED], sum.bytes_received);
    tci_word_set(&counters[TCI_COUNT_MESSAGES_SENT], sum.messages_sent);
    tci_word_set(&counters[TCI_COUNT_MESSAGES_RECEIVED], sum.messages_received);
    tci_word_set(&counters[TCI_COUNT_BYTES_COPIED], sum.bytes_copied);
    tci_word_set(&counters[TCI_COUNT_STRAYS], sum.strays);
    tci_word_set(&counters[TCI_COUNT_EAGER_BYTES], sum.eager_bytes);
    tci_word_set(&counters[TCI_COUNT_LINKS_OPEN], sum.links_open);
    tci_word_set(&counters[TCI_COUNT_BREAKS], sum.breaks);
    tci_word_set(&counters[TCI_COUNT_HEALS], sum.heals);
    tci_word_set(&counters[TCI_COUNT_KEPT_BYTES], sum.bytes_kept);
}
