/* error.h - the record of what went wrong: the first cause wins. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ERROR_H
#define TCI_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "tcdist/status.h"

enum { TCI_REASON_COUNT = TC_REASON_SLOW + 1 };

/* A tc_error with the room for its sentence.  All zero: nothing went wrong. */
struct tci_error {
    tc_error pub; /* message points at text below, once set */
    char text[384];
    tc_reason_t reason; /* why pub.rank is at fault */
    unsigned says_at;   /* where in text the sentence begins, behind operation and tag */
};

/* Write the cause down, unless one is written already.  `operation` is a static string or NULL. */
__attribute__((format(printf, 6, 7))) void tci_error_set(struct tci_error *error,
                                                         tc_status_t status, int rank, uint64_t tag,
                                                         const char *operation, const char *fmt,
                                                         ...);

/* The same with the reason why the rank is at fault. */
__attribute__((format(printf, 6, 7))) void tci_error_blame(struct tci_error *error,
                                                           tc_status_t status, int rank,
                                                           tc_reason_t reason,
                                                           const char *operation, const char *fmt,
                                                           ...);

/* The same for a failed system call: "<doing>: <strerror(errno)>", rank -1. */
tc_status_t tci_error_system(struct tci_error *error, tc_status_t status, const char *doing);

/* Copy `from` into `to`, unless a cause is written there. */
void tci_error_copy(struct tci_error *to, const struct tci_error *from);

/* The record that `error` is the head of; NULL of a copy, and of NULL. */
const struct tci_error *tci_error_whole(const tc_error *error);

/* What the loss of a rank ends with: one that could not prove who it is was never linked. */
static inline tc_status_t tci_status_of_loss(tc_reason_t reason)
{
    return reason >= TC_REASON_REFUSED_KEY && reason <= TC_REASON_REFUSED_VERSION
               ? TC_ERR_AUTH
               : TC_ERR_PEER_LOST;
}

/* Whether that is what broke a group. */
static inline bool tci_status_is_loss(tc_status_t status)
{
    return status == TC_ERR_PEER_LOST || status == TC_ERR_AUTH;
}

/* Make it this thread's tc_last_error(); gives its status. */
tc_status_t tci_error_publish(const struct tci_error *error);

/* Short form of the two: this thread's last error, no rank; gives `status`. */
__attribute__((format(printf, 3, 4))) tc_status_t tci_fail(tc_status_t status,
                                                           const char *operation, const char *fmt,
                                                           ...);

#endif
