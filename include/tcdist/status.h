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

/* Why a rank is at fault, as far as others can tell; docs/failures.md says how each is
 * noticed, and how soon. */
typedef enum tc_reason {
    TC_REASON_NONE = 0,             /* nobody is to blame, or the status says it all */
    TC_REASON_NEVER_STARTED = 1,    /* it did not come to where the group meets */
    TC_REASON_REFUSED_KEY = 2,      /* it has no key, or another one */
    TC_REASON_REFUSED_IDENTITY = 3, /* it is not who it says it is */
    TC_REASON_REFUSED_VERSION = 4,  /* it speaks another version of the protocol */
    TC_REASON_EXITED = 5,           /* its process has ended, or has closed the group */
    TC_REASON_MACHINE_SILENT = 6,   /* nobody hears its machine any more */
    TC_REASON_LINK_DEAD = 7,        /* its machine is heard by others: one path to it is broken */
    TC_REASON_LOOP_STALLED = 8,     /* its machine answers, but its loop does not turn */
    TC_REASON_NOT_ENTERED = 9,      /* its loop turns, but it has not entered the operation */
    TC_REASON_SLOW = 10             /* it has entered and moves data, too late */
} tc_reason_t;

/* The name of a status as it is written in this header without its prefix, "ERR_TIMEOUT" as
 * "timeout"; a static string, "unknown status" for other numbers.  Any thread. */
TC_API const char *tc_status_string(tc_status_t status);

/* The record of this thread's last failed call, or NULL when none has failed.
 *
 * Valid until the next call of this library on the same thread.  Futures carry their own record:
 * tc_future_error().  Any thread. */
TC_API const tc_error *tc_last_error(void);

/* The name of a reason as it is written in this header without its prefix, "LINK_DEAD" as
 * "link_dead"; a static string, "unknown reason" for other numbers.  Any thread. */
TC_API const char *tc_reason_string(tc_reason_t reason);

/* Why error->rank is at fault.  error is what tc_last_error() or tc_future_error() gave, itself and
 * no copy of it; of a copy, and of NULL: TC_REASON_NONE.  The reason of a group's first error is
 * that of tc_last_error() after tc_dist_health().  Any thread. */
TC_API tc_reason_t tc_error_reason(const tc_error *error);

TC_END_DECLS

#endif
