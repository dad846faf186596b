/* net_sim.h - a network in virtual time: LogGP links, one adapter a rank, faults on demand. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_NET_SIM_H
#define TEST_NET_SIM_H

#include "core/transport.h"
#include "sim/exec_sim.h"

/*
 *   sender       o   | len * G          o: work of the processor a message
 *   wire               L       |        G: time of the adapter a byte, one way each
 *   receiver                   | len * G | o | len * gamma where it folds
 *
 * A message up to eager_max leaves at once; one whose receive is late is stored, and costs a copy.
 * A larger one waits for the credit, which travels when the receive is posted.
 */
struct sim_net_config {
    double latency_ns, overhead_ns;
    double byte_ns, fold_byte_ns; /* G and gamma */
    double jitter;                /* each message takes up to this times the latency longer */
    size_t eager_max;
    uint64_t seed;
    uint64_t lost_after_ns;   /* until the others see a rank that was killed */
    uint64_t silent_after_ns; /* until both ends of a path that is broken give it up */
    uint64_t patience_ns;     /* until an acknowledgement that has not come is missed */
    bool is_sparse; /* only what has something to say is linked, besides rank 0 with all */
    bool no_data;   /* only lengths travel: no payload is read or written */
};
void sim_net_config_default(struct sim_net_config *config);

struct sim_net;

/* The network of `size` ranks.  execs[r] is the loop of rank r. */
struct sim_net *sim_net_new(struct sim_clock *clock, struct sim_exec *execs, uint32_t size,
                            const struct sim_net_config *config);
/* After every transport was closed. */
void sim_net_free(struct sim_net *net);

/* The transport of a rank; close() leaves its memory with the network. */
struct tci_transport *sim_net_transport(struct sim_net *net, uint32_t rank);

/* A rank ends now, without a word; the others see it lost_after_ns later. */
void sim_net_kill(struct sim_net *net, uint32_t rank);
/* The same as soon as it has sent n notices more; 0: not any more. */
void sim_net_kill_at_notice(struct sim_net *net, uint32_t rank, uint32_t n);
/* The link of two ranks breaks now, and both see that. */
void sim_net_cut(struct sim_net *net, uint32_t a, uint32_t b);
/* Nothing gets from one rank to another for a while, or (TCI_NEVER) ever: what is sent comes
 * afterwards, or never. */
void sim_net_break(struct sim_net *net, uint32_t from, uint32_t to, uint64_t span_ns);

/* From now on messages from one rank to another take so much longer; TCI_NEVER: they do not arrive,
 * and nobody sees that, until they are to take less: then those that were held up leave. */
void sim_net_delay(struct sim_net *net, uint32_t from, uint32_t to, uint64_t longer_ns);
/* From now on a rank's processor takes so much longer for each message. */
void sim_net_slow(struct sim_net *net, uint32_t rank, uint64_t longer_ns);

/* What must hold before and after a run; gives the messages that wait for a receive or a send. */
size_t sim_net_early(const struct sim_net *net);

#endif
