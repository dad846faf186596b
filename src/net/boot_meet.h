/* boot_meet.h - a rendezvous at a place where rank 0 leaves a card with its addresses. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_BOOT_MEET_H
#define TCI_BOOT_MEET_H

#include "meet/meet.h"
#include "net/boot_member.h"
#include "net/boot_root.h"

/* The URL of such a place; the cause is in boot->error. */
tc_status_t tci_boot_check_meet(struct tci_boot *boot);

/* Rank 0 listens, and leaves its card. */
void tci_root_leave_card(struct tci_root *root);
/* All have joined: false where there is no card that has to go first. */
bool tci_root_take_card(struct tci_root *root);
/* It could not leave its card until now, so that nobody can come; else false. */
bool tci_root_blame_place(const struct tci_root *root, const char *time, struct tci_error *error);

/* A member looks for a card, and dials what is on it; another one, when there is another. */
void tci_member_find_card(struct tci_member *member);
/* It has found none until its deadline. */
void tci_member_blame_place(const struct tci_member *member, const char *time,
                            struct tci_error *error);

#endif
