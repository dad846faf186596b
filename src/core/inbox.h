/* inbox.h - many-producer queue: how other threads hand tasks to the loop. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_INBOX_H
#define TCI_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/exec.h"

struct tci_inbox {
    _Atomic(struct tci_task *) head; /* newest first */
};

void tci_inbox_init(struct tci_inbox *inbox);
/* Add a task; true when the inbox was empty before.  Any thread, lock-free.  In the total order of
 * seq_cst operations, as is tci_inbox_is_empty: whoever pushes and then sees that the loop is not
 * asleep is seen by a loop that said so and then looked into the inbox. */
bool tci_inbox_push(struct tci_inbox *inbox, struct tci_task *task);
/* All tasks, oldest first, linked by next; NULL when there are none.  Loop thread. */
struct tci_task *tci_inbox_take(struct tci_inbox *inbox);
bool tci_inbox_is_empty(struct tci_inbox *inbox);

#endif
