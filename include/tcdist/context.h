/* context.h - the runtime: one event loop, its settings, and the ways to turn it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_CONTEXT_H
#define TCDIST_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/future.h"
#include "tcdist/reactor.h"
#include "tcdist/status.h"

TC_BEGIN_DECLS

#define TC_CONFIG_ABI_VERSION 1 /* of tc_config, in this header */

/* Who turns the loop. */
typedef enum tc_loop_mode {
    TC_LOOP_THREAD = 0, /* a thread of the context's own (default) */
    TC_LOOP_MANUAL = 1, /* whoever waits on a future, or calls tc_poll or tc_dispatch */
    TC_LOOP_HOST = 2    /* the application's event loop, through `reactor` or through tc_fd */
} tc_loop_mode_t;

/* How reductions round: docs/determinism.md. */
typedef enum tc_numerics {
    TC_NUMERICS_DEFAULT = 0,   /* of the context; there: canonical */
    TC_NUMERICS_CANONICAL = 1, /* bit for bit tc_reduce_reference(), whatever carries it out */
    TC_NUMERICS_FAST = 2,      /* the algorithm's own order; same bits on all ranks and runs */
    TC_NUMERICS_EXACT = 3      /* tc_reduce_reference_exact(): real numbers, rounded once */
} tc_numerics_t;

/* How sure a rank that is done can be that all others have made the same call: collective.h.  Both
 * find calls that differ; docs/failures.md has the price of the second. */
typedef enum tc_check {
    TC_CHECK_DEFAULT = 0, /* not set */
    TC_CHECK_CHEAP = 1,   /* who needs nothing of the rank that differs may be done before it hears
                           * of that; tc_dist_health() and tc_dist_finalize() say it later */
    TC_CHECK_FULL = 2     /* every rank that takes part fails with TC_ERR_MISMATCH; so a broadcast,
                           * reduce, gather, scatter or all-to-all-v ends nowhere before all have
                           * called it, and a send not before its receive */
} tc_check_t;

/* Settings of a context; fill with tc_config_default(), then change.
 *
 * A field left at its "not set" value takes the environment variable named beside it, and the
 * default in brackets without that.  A variable that does not parse makes tc_init fail. */
typedef struct tc_config {
    /* TC_CONFIG_ABI_VERSION; checked. */
    uint32_t abi_version;
    /* tc_loop_mode_t; -1: TCDIST_LOOP_MODE, thread|manual|host [thread].  By the variable, host
     * needs a reactor. */
    int loop_mode;
    /* With TC_LOOP_HOST: the verbs of the host's loop; NULL: it watches tc_fd(). */
    const tc_reactor_ops *reactor;
    /* Given to each verb of `reactor`. */
    void *reactor_arg;
    /* Of every operation; 0: TCDIST_TIMEOUT in seconds, or NUVEC_DISTRIBUTED_TIMEOUT
     * [30 s]; -1: none. */
    int timeout_ms;
    /* tc_numerics_t; DEFAULT: TCDIST_NUMERICS, canonical|fast|exact [canonical].  That of rank 0
     * counts. */
    int numerics;
    /* For every collective that has it; NULL: TCDIST_ALGORITHM [chosen].  Rank 0's counts. */
    const char *algorithm;
    /* How algorithms are chosen: off, by what is usual for loopback and for a network; measure, by
     * what the links of a group show while it forms; auto, measured where ranks are on several
     * hosts; else a file that tcperf --tune wrote.  NULL: TCDIST_TUNE [auto].  Rank 0's counts. */
    const char *tune;
    /* Where the links were measured while the group formed, they are measured anew so often as the
     * group runs, and ordered calls follow (docs/plans.md): 0: TCDIST_TUNE_EVERY in seconds [60 s];
     * -1: never.  Rank 0's counts. */
    int tune_every_ms;
    /* Payload that one lane takes on at a time; 0: TCDIST_SEGMENT_BYTES.  Rank 0's counts. */
    size_t segment_bytes;
    /* Messages up to this need no credit; 0: TCDIST_EAGER_BYTES.  Rank 0's counts. */
    size_t eager_bytes;
    /* Which ranks of a group share a host, for algorithms that cross between hosts as little as
     * they can: "4,4,2": the first 4, the next 4, the last 2; "8*16": 8 on each of 16 hosts;
     * "=0,1,0,1": a host a rank; "auto": found out.  NULL: TCDIST_HOSTS [auto].  Rank 0's counts;
     * a group of another size cannot be formed.  Of no effect where descriptors link the ranks. */
    const char *hosts;
    /* Connections between two ranks, 1 to 8, over which large messages are striped; one that breaks
     * is left out until it stands again.  0: TCDIST_CONNECTIONS [1].  The lower rank's count. */
    size_t connections;
    /* How long a peer may stay away whose connection or queue pair broke, before it is lost: until
     * then it is made again, and nothing is noticed of it.  0: TCDIST_HEAL in seconds, or none
     * [half of timeout_ms, 15 s without one]; -1: never made again. */
    int heal_ms;
    /* How long a wait polls before it sleeps; -1: TCDIST_SPIN_US [adaptive]. */
    int spin_us;
    /* Events that the trace keeps; 0: TCDIST_TRACE_EVENTS [8192]. */
    size_t trace_events;
    /* A folder where the trace is kept in a file that is there after the process was killed, for
     * tcdump and tcstat; NULL: TCDIST_TRACE_DIR [none: in memory]. */
    const char *trace_dir;
    /* A folder where the trace is left when an operation fails, for tcdump; NULL: TCDIST_DUMP_DIR
     * [none: it is not]. */
    const char *dump_dir;
    /* error|warn|info|debug; NULL: TCDIST_LOG [warn]. */
    const char *log_level;
    /* Shared secret of all ranks, at least 16 bytes: connections over TCP prove on both sides that
     * they have it.  docs/security.md.  NULL: the text of TCDIST_KEY, or of NUVEC_DISTRIBUTED_KEY
     * [none: whoever comes is believed]. */
    const void *key;
    size_t key_bytes;
    /* The key before it, which holds too while keys are changed; NULL: TCDIST_PREVIOUS_KEY, where
     * `key` comes from the environment [none]. */
    const void *previous_key;
    size_t previous_key_bytes;
    /* Whether everything said over TCP is encrypted, which needs a key; the same on all ranks.
     * 1: on, -1: off, 0: TCDIST_ENCRYPTION, on|off [off]. */
    int encryption;
    /* Whether ranks use RDMA, and how: "auto" where there is a card, "0" never, "1" over the
     * kernel's software devices too; then settings, as "1,device=mlx5_0,gid=3,mtu=1024".  NULL:
     * TCDIST_RDMA [auto].  Each rank's own: two that do not both have it use TCP. */
    const char *rdma;
    /* tc_check_t; DEFAULT: TCDIST_CHECK, cheap|full [cheap].  That of rank 0 counts. */
    int check;
    /* How long the ranks of a group may take to come together.  0: TCDIST_START_TIMEOUT in seconds,
     * or none [as timeout_ms, and what waiting seldom mends, as a name that nobody knows or a host
     * without a route, fails within 5 s]; -1: no limit. */
    int start_timeout_ms;
    /* 1: every operation leaves events in the trace, whatever that costs; -1: of a flood of short
     * ones some do (docs/tracing.md); 0: TCDIST_TRACE_ALL, 1|0 [0]. */
    int trace_all;
} tc_config;

/* Every field "not set".  Any thread. */
TC_API void tc_config_default(tc_config *config);

/* A context with default settings.  Any thread; as tc_init_config(). */
TC_API tc_status_t tc_init(tc_context **out);

/* A context: a loop, its memory and its records.  Several in one process are legal.
 *
 * config is copied.  Fails with TC_ERR_INVALID_ARG, TC_ERR_ABI_MISMATCH, TC_ERR_ALLOC or
 * TC_ERR_TRANSPORT (no descriptor to be had); tc_last_error() says more.  Installs no signal
 * handler, changes no affinity.  Any thread. */
TC_API tc_status_t tc_init_config(const tc_config *config, tc_context **out);

/* End a context: groups still open are closed, futures still pending fail with TC_ERR_CLOSED.
 *
 * Futures that the application holds stay valid until it releases them.  Not from a
 * continuation; with MANUAL and HOST on the thread that turns the loop.  NULL is fine. */
TC_API tc_status_t tc_shutdown(tc_context *context);

/* Turn a MANUAL or HOST loop once: do what is due, and wait up to timeout_ms for something to do
 * (0: do not wait, -1: no limit).  TC_OK; TC_ERR_INVALID_ARG with TC_LOOP_THREAD and inside a
 * continuation.  One thread at a time. */
TC_API tc_status_t tc_poll(tc_context *context, int timeout_ms);

/* A descriptor that becomes readable when there is work for tc_dispatch(), and stays so until that
 * is done; for a host loop that watches one descriptor instead of lending a reactor.  -1 with
 * TC_LOOP_THREAD or a reactor.  Owned by the context, and the same as long as that lives.  On a
 * system without epoll the first call starts a thread that watches for it; -1, too, where there is
 * none to be had. */
TC_API int tc_fd(tc_context *context);

/* Milliseconds until tc_dispatch() is due even if the descriptor stays silent; -1: no deadline.
 * Ask before each sleep. */
TC_API int tc_timeout_ms(tc_context *context);

/* Do what is due; never blocks.  As tc_poll(context, 0). */
TC_API tc_status_t tc_dispatch(tc_context *context);

TC_END_DECLS

#endif
