/* boot_silent.h - at the deadline of a rendezvous: who is silent, as machine or as process. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_SILENT_H
#define TCI_BOOT_SILENT_H

#include "net/boot_member.h"
#include "net/boot_root.h"

/* Shortly before the deadline: those are pinged whose answer is awaited. */
void tci_root_ping(struct tci_boot *boot);
void tci_member_ping(struct tci_boot *boot);
/* A PING has come. */
void tci_root_pinged(struct tci_guest *guest);
/* False: too often. */
bool tci_member_pinged(struct tci_member *member);

/* Among those that have joined the first whose host is silent; 0: all of them are, and there are
 * more than one other rank, so that it is rank 0 that is cut off; -1: none is. */
int tci_root_find_silent(const struct tci_root *root);
/* The error of a rank 0 whose guest, or itself, is silent. */
void tci_root_blame_silent(struct tci_root *root, int rank, const char *time);

/* The error of a member that has come to rank 0, and waits for it. */
void tci_member_blame_root(const struct tci_member *member, const char *time,
                           struct tci_error *error);

#endif
