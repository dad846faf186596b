/* poll_set.h - descriptors that are watched by poll(2), and who is called for each. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_POLL_SET_H
#define TCI_POLL_SET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "tcdist/reactor.h"

/* Embedded in its owner's object. */
struct tci_poll_entry {
    tc_reactor_fn fn;
    void *arg;
    size_t at; /* place in the two arrays */
};

/* Silent entries have the descriptor -1 - fd in polls, which poll(2) skips. */
struct tci_poll_set {
    struct pollfd *polls;            /* owned */
    struct tci_poll_entry **entries; /* owned, in the same order */
    size_t count, room;
};

/* See to it that one more has room; 0, or -1 with errno. */
int tci_poll_reserve(struct tci_poll_set *set);
/* Room was reserved. */
void tci_poll_add(struct tci_poll_set *set, struct tci_poll_entry *entry, int fd,
                  uint32_t interest);
void tci_poll_change(struct tci_poll_set *set, const struct tci_poll_entry *entry,
                     uint32_t interest);
void tci_poll_del(struct tci_poll_set *set, const struct tci_poll_entry *entry);
/* Wait for up to so long (0: do not, TCI_NEVER: no limit), and call those that are ready; what is
 * called may add, change and delete. */
void tci_poll_wait(struct tci_poll_set *set, uint64_t timeout_ns);
void tci_poll_fini(struct tci_poll_set *set);

/* As poll(2), but with such a time; poll.c. */
int tci_poll(struct pollfd *polls, size_t count, uint64_t timeout_ns);

#endif
