/* wake.c - how other threads wake a loop that sleeps, and only then. */
/* SPDX-License-Identifier: Apache-2.0 */

/* The sleeper says "asleep" and then looks into the inbox; the poster puts its task into the inbox
 * and then looks whether the loop is asleep.  All four are seq_cst, so that at least one of the two
 * sees the other: the loop does not go to sleep, or the poster rings the bell.  Of several
 * posters the one that turns "asleep" off rings it. */
#include "loop/state.h"

static void on_rung(struct tci_watch *watch, uint32_t ready)
{
    (void)ready;
    tci_bell_hush(&tci_container_of(watch, struct tci_loop, wake_watch)->bell);
}

int tci_wake_open(struct tci_loop *loop)
{
    if (tci_bell_open(&loop->bell) != 0)
        return -1;
    loop->wake_watch.fn = on_rung;
    return tci_watch_add(loop, &loop->wake_watch, loop->bell.fd, TC_READABLE);
}

void tci_wake_close(struct tci_loop *loop)
{
    tci_watch_del(&loop->wake_watch);
    tci_bell_close(&loop->bell);
}

void tci_wake_post(struct tci_loop *loop, struct tci_task *task)
{
    tci_inbox_push(&loop->inbox, task);
    /* seq_cst: pairs with tci_wake_sleep */
    if (atomic_load_explicit(&loop->is_asleep, memory_order_seq_cst) &&
        atomic_exchange_explicit(&loop->is_asleep, false, memory_order_seq_cst))
        tci_bell_ring(&loop->bell);
}

bool tci_wake_sleep(struct tci_loop *loop)
{
    /* seq_cst: pairs with tci_wake_post */
    atomic_store_explicit(&loop->is_asleep, true, memory_order_seq_cst);
    if (tci_inbox_is_empty(&loop->inbox))
        return true;
    tci_wake_rise(loop);
    return false;
}

void tci_wake_rise(struct tci_loop *loop)
{
    /* relaxed: nobody but the loop's owner says that it sleeps, and one that was the owner before
     * has left it by now */
    if (!atomic_load_explicit(&loop->is_asleep, memory_order_relaxed))
        return;
    /* seq_cst as the others: a post after this one is found by the turn that follows */
    atomic_store_explicit(&loop->is_asleep, false, memory_order_seq_cst);
}
