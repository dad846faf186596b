/* beat.h - what ranks tell each other now and then, so that it is known of one that is dead. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BEAT_H
#define TCI_BEAT_H

#include "core/exec.h"
#include "core/transport.h"

/*
 * Every few seconds each rank of a group that stands tells those that it is linked with how many
 * operations it has entered and how many of these have ended.  Nothing is concluded from a beat
 * that does not come: a loop that nobody waits on need not turn.  It is evidence for the words of
 * an error, and something for the host of the other to acknowledge.
 */
enum { TCI_BEAT_MS = 5000 };

struct tci_comm;
struct tci_heard; /* beat.c */

struct tci_beat {
    struct tci_timer timer;
    uint32_t period_ms;         /* 0: none are sent unasked */
    uint64_t entered, finished; /* operations of this rank */
    struct tci_heard *heard;    /* owned: by rank; NULL: nothing has been heard yet, or no memory */
};

void tci_beat_start(struct tci_comm *comm, uint32_t period_ms);
void tci_beat_end(struct tci_comm *comm); /* none is sent any more */
void tci_beat_fini(struct tci_comm *comm);

/* Tell one rank now, over a link that stands, or one that is made for it. */
void tci_beat_send(struct tci_comm *comm, uint32_t peer, bool may_link);
/* A notice of the kind BEAT; from a call of the transport. */
void tci_beat_heard(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

/* " (heard 3.1 s ago: 12 entered, 11 ended, last allreduce, tag 7)" into text; "" where nothing is
 * known of that rank. */
const char *tci_beat_print(const struct tci_comm *comm, int rank, char *text, size_t text_bytes);

#endif
