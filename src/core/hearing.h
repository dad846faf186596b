/* hearing.h - whether the host of a rank is heard: by this rank, and as others testify. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_HEARING_H
#define TCI_HEARING_H

#include "core/list.h"
#include "core/transport.h"

/*
 *   judge -- INQUIRE of a rank --> others, each of which says something to that rank and listens
 *        <-- TESTIFY ------------- heard, or not; nothing where there is no link, or it is too
 *                                  soon to tell
 *
 * A host is heard when it acknowledges what was said to it.  What comes from it proves nothing: it
 * may be deaf.
 */

struct tci_comm;

struct tci_hearings {
    struct tci_list jurors; /* those for whom this rank listens */
    uint32_t count;
};
void tci_hearings_init(struct tci_hearings *hearings);
/* The group breaks, or goes: nobody is listened to any more. */
void tci_hearings_end(struct tci_comm *comm);

/* What this rank hears itself since a time.  Asked at that time, it is noted what was acknowledged
 * until then. */
enum tci_hearing tci_hearing_of(const struct tci_comm *comm, uint32_t peer, uint64_t since_ns);

/* Say something to a rank, listen for so many milliseconds, then tell the one who asks, which may
 * be this rank.  Where there is no link, one is made if that is allowed. */
void tci_hearing_listen(struct tci_comm *comm, uint32_t asker, uint32_t of, uint32_t ms,
                        bool may_link);

/* Ask all that there are links with who hears the host of a rank.  To the first of them a link is
 * made if there is none, and they make one with it, so that there is somebody to say it. */
void tci_hearing_inquire(struct tci_comm *comm, int of, uint32_t ms);
/* Notices of the kinds INQUIRE and TESTIFY. */
void tci_hearing_inquired(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);
void tci_hearing_testified(struct tci_comm *comm, uint32_t from, const struct tci_notice *notice);

#endif
