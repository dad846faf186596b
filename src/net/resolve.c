/* resolve.c - names to addresses, without keeping the loop waiting. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/bell.h"
#include "loop/thread.h"
#include "tcdist/reactor.h"

/* Shared by the loop and the thread; the last to let go frees it, so that neither waits for the
 * other: a cancelled question may be open for as long as a name server is silent. */
struct tci_resolve {
    atomic_uint holders;
    struct tci_bell answered;

    /* Written before the thread starts. */
    char host[256];
    uint16_t port;

    /* Of the loop. */
    struct tci_watch watch;
    tci_resolve_fn fn;
    void *arg;

    /* Of the thread until has_answered. */
    atomic_bool has_answered;
    struct tci_addr addrs[TCI_RESOLVE_MAX];
    size_t count;
    struct tci_unnamed why;
};

static void let_go(struct tci_resolve *resolve)
{
    /* acq_rel: whoever frees sees all that the other has done */
    if (atomic_fetch_sub_explicit(&resolve->holders, 1, memory_order_acq_rel) != 1)
        return;
    tci_bell_close(&resolve->answered);
    tci_free(resolve);
}

static bool is_listed(const struct tci_resolve *resolve, const struct tci_addr *addr)
{
    for (size_t k = 0; k < resolve->count; k++) {
        if (tci_addr_is_equal(&resolve->addrs[k], addr))
            return true;
    }
    return false;
}

static void look_up(struct tci_resolve *resolve)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int result = getaddrinfo(resolve->host, NULL, &hints, &list);

    if (result != 0) {
        (void)snprintf(resolve->why.text, sizeof resolve->why.text, "%s",
                       result == EAI_SYSTEM ? strerror(errno) : gai_strerror(result));
        resolve->why.is_unknown = result == EAI_NONAME || result == EAI_FAIL;
        return;
    }
    for (struct addrinfo *at = list; at != NULL && resolve->count < TCI_RESOLVE_MAX;
         at = at->ai_next) {
        struct tci_addr addr;

        tci_addr_from_system(at->ai_addr, at->ai_addrlen, &addr);
        if (addr.len == 0)
            continue;
        tci_addr_set_port(&addr, resolve->port);
        if (!is_listed(resolve, &addr))
            resolve->addrs[resolve->count++] = addr;
    }
    freeaddrinfo(list);
    if (resolve->count == 0)
        (void)snprintf(resolve->why.text, sizeof resolve->why.text, "the name has no address");
}

static void *thread_main(void *arg)
{
    struct tci_resolve *resolve = arg;

    look_up(resolve);
    /* release: pairs with the acquire in on_answer, publishes the addresses */
    atomic_store_explicit(&resolve->has_answered, true, memory_order_release);
    tci_bell_ring(&resolve->answered);
    let_go(resolve);
    return NULL;
}

static void on_answer(struct tci_watch *watch, uint32_t ready)
{
    struct tci_resolve *resolve = tci_container_of(watch, struct tci_resolve, watch);

    (void)ready;
    if (!atomic_load_explicit(&resolve->has_answered, memory_order_acquire))
        return;
    tci_watch_del(&resolve->watch);
    resolve->fn(resolve->arg, resolve->addrs, resolve->count, &resolve->why);
    let_go(resolve);
}

struct tci_resolve *tci_resolve_start(struct tci_loop *loop, const char *host, uint16_t port,
                                      tci_resolve_fn fn, void *arg)
{
    struct tci_resolve *resolve = tci_alloc(sizeof *resolve);
    int cause;

    if (resolve == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    TC_ASSERT(strlen(host) < sizeof resolve->host);
    atomic_init(&resolve->holders, 1);
    atomic_init(&resolve->has_answered, false);
    memcpy(resolve->host, host, strlen(host) + 1);
    resolve->port = port;
    resolve->fn = fn;
    resolve->arg = arg;
    resolve->watch.fn = on_answer;

    if (tci_bell_open(&resolve->answered) != 0) {
        cause = errno;
        tci_free(resolve);
        errno = cause;
        return NULL;
    }
    if (tci_watch_add(loop, &resolve->watch, resolve->answered.fd, TC_READABLE) != 0) {
        cause = errno;
        goto let_go;
    }
    atomic_store_explicit(&resolve->holders, 2, memory_order_relaxed);
    cause = tci_thread_start(thread_main, resolve, NULL);
    if (cause == 0)
        return resolve;

    atomic_store_explicit(&resolve->holders, 1, memory_order_relaxed);
    tci_watch_del(&resolve->watch);
let_go:
    let_go(resolve);
    errno = cause;
    return NULL;
}

void tci_resolve_cancel(struct tci_resolve *resolve)
{
    if (resolve == NULL)
        return;
    tci_watch_del(&resolve->watch);
    let_go(resolve);
}
