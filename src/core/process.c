/* process.c - the page that is empty after a fork. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "core/process.h"

#include <stdint.h>
#include <sys/mman.h>

/* Both are copied by a fork, so that a child counts on, and finds the page empty. */
static _Atomic(atomic_uint *) page;
static atomic_uint numbers;

static atomic_uint no_page; /* its address says that the kernel has none to give */

/* One for the whole life of the process and of its children; two threads may both make one. */
static atomic_uint *make_page(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    atomic_uint *mine, *nothing = NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at != MAP_FAILED && madvise(at, bytes, MADV_WIPEONFORK) != 0) {
        munmap(at, bytes);
        at = MAP_FAILED;
    }
    mine = at == MAP_FAILED ? &no_page : at;
    if (atomic_compare_exchange_strong(&page, &nothing, mine))
        return mine;
    if (mine != &no_page)
        munmap(mine, bytes);
    return nothing;
}

void tci_process_get(struct tci_process *out)
{
    atomic_uint *at = atomic_load(&page);
    unsigned none = 0, fresh;

    if (at == NULL)
        at = make_page();
    *out = (struct tci_process){.pid = getpid()};
    if (at == &no_page)
        return;
    out->page = at;
    out->number = atomic_load(at);
    if (out->number != 0)
        return;
    do
        fresh = atomic_fetch_add(&numbers, 1) + 1;
    while (fresh == 0);
    if (atomic_compare_exchange_strong(at, &none, fresh))
        out->number = fresh;
    else
        out->number = none; /* another thread was faster */
}
