/* pmix.h - what a launcher that serves PMIx says of this process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_PMIX_H
#define TCI_PMIX_H

#include <stdbool.h>

#include "core/error.h"

/* Among all ranks, and among those of this host (-1: it says nothing of that). */
struct tci_pmix_place {
    int rank, size;
    int local_rank, local_size;
};

/* The server is asked once in a process, over a socket of this host.  The process is a client of it
 * from then on, until rank 0's card has gone round or it leaves.  Any thread. */
tc_status_t tci_pmix_place(struct tci_pmix_place *out, struct tci_error *error);

/* No card is to go round.  Harmless where the process is no client.  Any thread. */
void tci_pmix_leave(void);

/* Whether the library that speaks it is there.  Any thread. */
bool tci_pmix_is_usable(void);

#endif
