/* poll_set.c - descriptors that are watched by poll(2), and who is called for each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/poll_set.h"

#include <errno.h>

#include "core/alloc.h"
#include "core/assert.h"

#ifdef POLLRDHUP
enum { IN = POLLIN | POLLRDHUP };
#else
enum { IN = POLLIN }; /* the end of a stream is readable, too */
#endif

static void set_interest(struct pollfd *slot, int fd, uint32_t interest)
{
    slot->fd = interest == 0 ? -1 - fd : fd;
    slot->events = (short)(((interest & TC_READABLE) != 0 ? IN : 0) |
                           ((interest & TC_WRITABLE) != 0 ? POLLOUT : 0));
    slot->revents = 0;
}

static uint32_t ready_of(short events)
{
    if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        return TC_READABLE | TC_WRITABLE;
    return ((events & IN) != 0 ? (uint32_t)TC_READABLE : 0u) |
           ((events & POLLOUT) != 0 ? (uint32_t)TC_WRITABLE : 0u);
}

int tci_poll_reserve(struct tci_poll_set *set)
{
    size_t room = set->room == 0 ? 16 : 2 * set->room;
    void *grown;

    if (set->count < set->room)
        return 0;
    grown = tci_realloc_array(set->polls, room, sizeof(*set->polls));
    if (grown != NULL) {
        set->polls = grown;
        grown = tci_realloc_array(set->entries, room, sizeof(struct tci_poll_entry *));
    }
    if (grown == NULL) {
        errno = ENOMEM;
        return -1;
    }
    set->entries = grown;
    set->room = room;
    return 0;
}

void tci_poll_add(struct tci_poll_set *set, struct tci_poll_entry *entry, int fd, uint32_t interest)
{
    TC_ASSERT(set->count < set->room);
    entry->at = set->count++;
    set->entries[entry->at] = entry;
    set_interest(&set->polls[entry->at], fd, interest);
}

void tci_poll_change(struct tci_poll_set *set, const struct tci_poll_entry *entry,
                     uint32_t interest)
{
    struct pollfd *slot = &set->polls[entry->at];

    set_interest(slot, slot->fd < 0 ? -1 - slot->fd : slot->fd, interest);
}

/* The last one takes the place. */
void tci_poll_del(struct tci_poll_set *set, const struct tci_poll_entry *entry)
{
    size_t at = entry->at;

    TC_ASSERT(set->entries[at] == entry);
    set->count--;
    set->polls[at] = set->polls[set->count];
    set->entries[at] = set->entries[set->count];
    set->entries[at]->at = at;
}

/* Backwards, so that an entry that takes the place of a deleted one has had its call already; one
 * that is passed over is ready still the next time. */
void tci_poll_wait(struct tci_poll_set *set, uint64_t timeout_ns)
{
    if (tci_poll(set->polls, set->count, timeout_ns) <= 0)
        return;
    for (size_t at = set->count; at-- > 0;) {
        short events;

        if (at >= set->count)
            continue;
        events = set->polls[at].revents;
        set->polls[at].revents = 0;
        if (events != 0)
            set->entries[at]->fn(set->entries[at]->arg, ready_of(events));
    }
}

void tci_poll_fini(struct tci_poll_set *set)
{
    tci_free(set->polls);
    tci_free(set->entries);
}
