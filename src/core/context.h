/* context.h - what every part of one context shares. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_CONTEXT_H
#define TCI_CONTEXT_H

#include <stdatomic.h>

#include "core/exec.h"
#include "core/pool.h"
#include "core/trace.h"
#include "tcdist/context.h"

/* Made and ended by the roof (tcdist.c); core reads it. */
struct tc_context {
    struct tci_exec   *exec;    /* owned by the roof */
    struct tci_trace  *trace;   /* owned */
    tc_config          config;  /* every field resolved: none is "not set" any more */
    struct tci_pool    futures; /* of tc_future */
    struct tci_pool    ops;     /* of struct tci_op */
    struct tci_scratch scratch; /* loop thread */
};

#endif
