/* process_posix.c - a process known by its number alone, where no page is emptied by a fork. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/process.h"

void tci_process_get(struct tci_process *out)
{
    *out = (struct tci_process){.pid = getpid()};
}
