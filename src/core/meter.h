/* meter.h - what the transports of a context have carried, in one sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_METER_H
#define TCI_METER_H

#include "core/transport.h"
#include "tcdist/context.h"

/* Adds each count to that of the sum. */
void tci_stats_add(struct tci_transport_stats *sum, const struct tci_transport_stats *more);

/* What a transport counts, without the one below it; embedded in it.  Loop thread, all of it. */
struct tci_meter {
    struct tci_meter *next; /* in context->meters */
    void (*read)(const struct tci_meter *self, struct tci_transport_stats *stats_out);
};

/* A transport begins; from del on its counts belong to the past of the context. */
void tci_meter_add(tc_context *context, struct tci_meter *meter,
                   void (*read)(const struct tci_meter *self,
                                struct tci_transport_stats *stats_out));
void tci_meter_del(tc_context *context, struct tci_meter *meter);

/* Bring the counters of the trace up to date; `context` is a tc_context. */
void tci_meter_sample(void *context);

#endif
