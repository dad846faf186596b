/* inbox.c - atomic stack that is taken whole and turned round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/inbox.h"

#include <stddef.h>

void tci_inbox_init(struct tci_inbox *inbox)
{
    atomic_init(&inbox->head, NULL);
}

bool tci_inbox_push(struct tci_inbox *inbox, struct tci_task *task)
{
    struct tci_task *head = atomic_load_explicit(&inbox->head, memory_order_relaxed);

    /* seq_cst: its release half publishes the task to the acquire in tci_inbox_take; the total
     * order pairs with the load in tci_inbox_is_empty, so that no wake-up is lost. */
    do {
        task->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&inbox->head, &head, task, memory_order_seq_cst,
                                                    memory_order_relaxed));
    return head == NULL;
}

struct tci_task *tci_inbox_take(struct tci_inbox *inbox)
{
    struct tci_task *newest, *oldest = NULL;

    if (atomic_load_explicit(&inbox->head, memory_order_relaxed) == NULL)
        return NULL;
    /* acquire: pairs with the push, the tasks' fields are visible. */
    newest = atomic_exchange_explicit(&inbox->head, NULL, memory_order_acquire);
    while (newest != NULL) {
        struct tci_task *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

bool tci_inbox_is_empty(struct tci_inbox *inbox)
{
    /* seq_cst: pairs with the push; see there. */
    return atomic_load_explicit(&inbox->head, memory_order_seq_cst) == NULL;
}
