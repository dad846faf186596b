/* futex_posix.c - sleep on a word where the system has no futex: words share a few locks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/futex.h"

#include <pthread.h>

#include "core/cond.h"

/* A word is found again by its address.  Two that share a bed wake each other for no reason, which
 * a futex may do as well. */
enum { BEDS = 64 };

struct bed {
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static struct bed beds[BEDS];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_beds(void)
{
    for (int k = 0; k < BEDS; k++) {
        (void)pthread_mutex_init(&beds[k].lock, NULL);
        (void)tci_cond_init(&beds[k].wake);
    }
}

/* Multiplied by the golden ratio: neighbours get beds of their own. */
static struct bed *bed_of(const atomic_uint *word)
{
    uint64_t spread = (uint64_t)(uintptr_t)word / sizeof(*word) * UINT64_C(0x9e3779b97f4a7c15);

    (void)pthread_once(&made, make_beds);
    return &beds[spread >> 58];
}

/* Whoever changes the word wakes under the lock: who has seen the old value under it sleeps by
 * then, and is woken. */
bool tci_futex_wait(atomic_uint *word, unsigned value, uint64_t deadline_ns)
{
    struct bed *bed = bed_of(word);
    bool has_time = true;

    (void)pthread_mutex_lock(&bed->lock);
    /* seq_cst, as a futex compares: behind the count of the one who goes to sleep */
    if (atomic_load_explicit(word, memory_order_seq_cst) == value)
        has_time = tci_cond_wait(&bed->wake, &bed->lock, deadline_ns);
    (void)pthread_mutex_unlock(&bed->lock);
    return has_time;
}

void tci_futex_wake(atomic_uint *word)
{
    struct bed *bed = bed_of(word);

    (void)pthread_mutex_lock(&bed->lock);
    (void)pthread_cond_broadcast(&bed->wake);
    (void)pthread_mutex_unlock(&bed->lock);
}
