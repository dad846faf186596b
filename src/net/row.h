/* row.h - descriptors that a caller gives instead of a meeting point: "fd://3,4". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_ROW_H
#define TCI_ROW_H

#include <stdbool.h>

#include "core/error.h"

/* Connected stream sockets to other ranks, from an URL:
 *
 *   fd://LEFT,RIGHT   to the ranks before and after this one; of two ranks, FD alone will do
 *   fd://A,-,C,D      to every rank, "-" in the place of this one */
struct tci_row {
    int *fds;     /* owned, one a rank; -1: none */
    int size;     /* length of fds */
    int spare;    /* owned: the second connection of two ranks; -1: none */
    bool is_ring; /* some ranks are not linked with this one */
};

/* Whether an URL gives descriptors. */
bool tci_row_is_meant(const char *url);
/* The descriptors of an URL: TC_OK, TC_ERR_INVALID_ARG or TC_ERR_ALLOC, with the cause in error;
 * they are the caller's until tci_row_take.  Any thread. */
tc_status_t tci_row_parse(const char *url, int size, int rank, struct tci_row *row_out,
                          struct tci_error *error);
/* Make them this process's own: non-blocking, closed on exec; the spare one is closed. */
void tci_row_take(struct tci_row *row);
/* Close what an URL gives as far as it is connected; takes no memory.  Harmless for other URLs. */
void tci_row_discard(const char *url);
/* Free the list, without closing anything. */
void tci_row_forget(struct tci_row *row);
/* Close what is there, and forget. */
void tci_row_close(struct tci_row *row);

#endif
