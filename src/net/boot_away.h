/* boot_away.h - rank 0 is not there, or cannot be reached: in words, soon and at the deadline. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_AWAY_H
#define TCI_BOOT_AWAY_H

#include "net/boot_member.h"

/* Why a member knows of no rank 0 after `time`; nothing where rank 0 knows it: that says who is
 * missing.  The first cause wins, as with every error. */
void tci_member_blame_away(const struct tci_member *member, const char *time,
                           struct tci_error *error);

/* Of the role: rank 0 is missed for `time`.  Said; and the end, where waiting seldom mends it and
 * nobody has said that others may come late. */
void tci_member_say(struct tci_boot *boot, const char *time);
/* The same end without a word before, and silence counts, too. */
void tci_member_judge(struct tci_member *member);

#endif
