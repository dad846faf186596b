/* status.h - how a call or an operation went, and who is to blame. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDIST_STATUS_H
#define TCDIST_STATUS_H

#include <stdint.h>

#include "tcdist/export.h"

TC_BEGIN_DECLS

/* Outcome of a call or of a future.  The values down to TC_ERR_INTERNAL are tensorcore's. */
typedef enum tc_status {
    TC_PENDING = 1, /* not settled yet */
    TC_OK = 0,
    TC_ERR_NOT_INITIALIZED = -1,
    TC_ERR_ALREADY_INITIALIZED = -2,
    TC_ERR_NO_DEVICE = -3,
    TC_ERR_UNSUPPORTED_FAMILY = -4,
    TC_ERR_UNSUPPORTED_DTYPE = -5,
    TC_ERR_INVALID_SHAPE = -6,
    TC_ERR_INVALID_ARG = -7, /* the caller's mistake; nothing was sent */
    TC_ERR_ALLOC = -8,
    TC_ERR_KERNEL_NOT_FOUND = -9,
    TC_ERR_PIPELINE = -10,
    TC_ERR_DISPATCH = -11,
    TC_ERR_TIMEOUT = -20,      /* the deadline passed; the error says who was missing */
    TC_ERR_PEER_LOST = -21,    /* a rank exited, was killed, or its link is gone */
    TC_ERR_MISMATCH = -22,     /* two ranks called the same tag differently */
    TC_ERR_BUSY = -23,         /* the tag is still reserved */
    TC_ERR_CANCELLED = -24,    /* a rank cancelled the operation */
    TC_ERR_CLOSED = -25,       /* the group or the context was closed */
    TC_ERR_AUTH = -26,         /* a peer could not prove who it is */
    TC_ERR_ABI_MISMATCH = -27, /* compiled against another version of a struct */
    TC_ERR_RENDEZVOUS = -28,   /* the group could not be formed */
    TC_ERR_TRANSPORT = -29,    /* the medium failed */
    TC_ERR_UNSUPPORTED = -30,  /* a valid request that this build or algorithm does not carry */
    TC_ERR_INTERNAL = -99
} tc_status_t;

/* What went wrong, for people and programs. */
typedef struct tc_error {
    tc_status_t status;    /* never TC_OK or TC_PENDING */
    int rank;              /* the rank at fault; -1 where none is to blame */
    uint64_t tag;          /* of the operation; 0 where there is none */
    const char *operation; /* the call without prefix and suffix: "allreduce"; "" for none */
    const char *message;   /* one sentence: what, who, what to do */
} tc_error;

/* The name of a status as it is written in this header without its prefix, "ERR_TIMEOUT" as
 * "timeout"; a static string, "unknown status" for other numbers.  Any thread. */
TC_API const char *tc_status_string(tc_status_t status);

/* The record of this thread's last failed call, or NULL when none has failed.
 *
 * Valid until the next call of this library on the same thread.  Futures carry their own record:
 * tc_future_error().  Any thread. */
TC_API const tc_error *tc_last_error(void);

TC_END_DECLS

#endif
