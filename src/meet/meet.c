/* meet.c - places where rank 0 leaves word: the table of kinds, and the thread that goes there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/meet.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/assert.h"
#include "core/base.h"
#include "core/bell.h"
#include "core/cond.h"
#include "loop/thread.h"
#include "meet/store.h"
#include "tcdist/reactor.h"

/* Between two looks, and two tries: short at first, since ranks start within milliseconds of each
 * other; then so that a thousand ranks are no burden to a small server. */
enum { PAUSE_MIN_MS = 10, PAUSE_MAX_MS = 250 };

static const struct tci_store_ops *const kinds[] = {
    &tci_store_file, &tci_store_redis, &tci_store_etcd,
    &tci_store_pmi,  &tci_store_pmix,  &tci_store_side,
};

/*   rank 0:       put --POSTED--> waits --withdraw--> del --WITHDRAWN--> ends
 *   another one:  get --FOUND--> waits --> get ... until it is closed
 *
 * Shared by the loop and the thread; the last to let go frees it, so that neither waits for the
 * other.  Under the lock: events, in the order of the enum each at most once at a time. */
struct tci_meet {
    atomic_uint holders;
    struct tci_bell bell; /* something has happened */

    /* Written before the thread starts. */
    const struct tci_store_ops *ops;
    bool exchanges; /* once, and it has not been before */
    char *url;      /* owned */
    char card[TCI_CARD_TEXT];
    struct tci_store store;

    /* Of the loop. */
    struct tci_watch watch;
    tci_meet_fn fn;
    void *arg;
    bool is_closed;

    atomic_bool is_stopped, is_withdrawn;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the thread */
    /* Under the lock: */
    bool happened[TCI_MEET_FAILED + 1];
    struct tci_card found;
    struct tci_error failure;
    char last[160];
    bool is_nowhere;
};

/* ---- Kinds --------------------------------------------------------------------------------- */

const char *tci_store_rest(const char *url, const char *scheme)
{
    size_t len = strlen(scheme);

    return strncmp(url, scheme, len) == 0 && strncmp(url + len, "://", 3) == 0 ? url + len + 3
                                                                               : NULL;
}

static const struct tci_store_ops *find(const char *url)
{
    for (size_t i = 0; i < TCI_LEN(kinds); i++)
        if (tci_store_rest(url, kinds[i]->scheme) != NULL ||
            (kinds[i]->to != NULL && tci_store_rest(url, kinds[i]->to) != NULL))
            return kinds[i];
    return NULL;
}

bool tci_meet_is_meant(const char *url)
{
    return url != NULL && find(url) != NULL;
}

tc_status_t tci_meet_check(const char *url, struct tci_error *error)
{
    const struct tci_store_ops *ops = find(url);

    TC_ASSERT(ops != NULL);
    return ops->check(url, error);
}

bool tci_meet_again(const char *url, char card[TCI_CARD_TEXT])
{
    const struct tci_store_ops *ops = find(url);

    return ops != NULL && ops->is_once && ops->again(card);
}

/* ---- The thread ---------------------------------------------------------------------------- */

static void let_go(struct tci_meet *meet)
{
    /* acq_rel: whoever frees sees all that the other has done */
    if (atomic_fetch_sub_explicit(&meet->holders, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&meet->wake);
    pthread_mutex_destroy(&meet->lock);
    tci_bell_close(&meet->bell);
    tci_free(meet->url);
    tci_free(meet);
}

/* relaxed: whoever needs more than the fact takes the lock */
static bool is_set(const atomic_bool *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static void tell(struct tci_meet *meet, enum tci_meet_event event)
{
    meet->happened[event] = true;
    tci_bell_ring(&meet->bell);
}

static void tell_locked(struct tci_meet *meet, enum tci_meet_event event)
{
    (void)pthread_mutex_lock(&meet->lock);
    tell(meet, event);
    (void)pthread_mutex_unlock(&meet->lock);
}

static void note(struct tci_meet *meet, const char *text)
{
    (void)pthread_mutex_lock(&meet->lock);
    (void)snprintf(meet->last, sizeof(meet->last), "%.159s", text);
    meet->is_nowhere = meet->store.is_nowhere;
    (void)pthread_mutex_unlock(&meet->lock);
}

/* Until the time is over, or there is something else to do. */
static void rest(struct tci_meet *meet, int *pause_ms)
{
    uint64_t end_ns = tci_loop_clock() + (uint64_t)*pause_ms * TCI_NS_PER_MS;

    (void)pthread_mutex_lock(&meet->lock);
    while (!is_set(&meet->is_stopped) && !is_set(&meet->is_withdrawn) &&
           tci_cond_wait(&meet->wake, &meet->lock, end_ns))
        ;
    (void)pthread_mutex_unlock(&meet->lock);
    *pause_ms = (int)tci_min(2 * (size_t)*pause_ms, PAUSE_MAX_MS);
}

/* Whether it may go well another time; what is for good is told. */
static bool may_try_again(struct tci_meet *meet, tc_status_t status, const struct tci_error *error)
{
    if (status != TC_ERR_INVALID_ARG && status != TC_ERR_UNSUPPORTED && status != TC_ERR_AUTH &&
        status != TC_ERR_BUSY && status != TC_ERR_ALLOC) {
        note(meet, error->text);
        return true;
    }
    (void)pthread_mutex_lock(&meet->lock);
    tci_error_copy(&meet->failure, error);
    tell(meet, TCI_MEET_FAILED);
    (void)pthread_mutex_unlock(&meet->lock);
    return false;
}

static tc_status_t open_store(struct tci_meet *meet, struct tci_error *error)
{
    return meet->ops->open == NULL ? meet->ops->check(meet->url, error)
                                   : meet->ops->open(&meet->store, error);
}

/* An attempt that failed may have left the connection half-way: the next one makes another. */
static tc_status_t put(struct tci_meet *meet, struct tci_error *error)
{
    tc_status_t status = open_store(meet, error);

    if (status != TC_OK)
        return status;
    status = meet->ops->put(&meet->store, meet->card, error);
    meet->ops->close(&meet->store);
    return status;
}

static void withdraw(struct tci_meet *meet)
{
    struct tci_error error = {.pub = {.status = TC_OK}};

    if (meet->ops->del == NULL || open_store(meet, &error) != TC_OK)
        return;
    (void)meet->ops->del(&meet->store, meet->card, &error);
    meet->ops->close(&meet->store);
}

static void be_root(struct tci_meet *meet)
{
    tc_status_t status = TC_PENDING;
    int pause_ms = PAUSE_MIN_MS;

    while (status != TC_OK && !is_set(&meet->is_stopped)) {
        struct tci_error error = {.pub = {.status = TC_OK}};

        status = put(meet, &error);
        if (status == TC_OK)
            break;
        if (!may_try_again(meet, status, &error))
            return;
        rest(meet, &pause_ms);
    }
    if (status != TC_OK)
        return;
    tell_locked(meet, TCI_MEET_POSTED);
    (void)pthread_mutex_lock(&meet->lock);
    while (!is_set(&meet->is_stopped) && !is_set(&meet->is_withdrawn))
        (void)pthread_cond_wait(&meet->wake, &meet->lock);
    (void)pthread_mutex_unlock(&meet->lock);
    withdraw(meet);
    tell_locked(meet, TCI_MEET_WITHDRAWN);
}

/* What is found is told when it is another one than before. */
static void find_card(struct tci_meet *meet, const char *text, struct tci_error *error)
{
    struct tci_card card;

    if (!tci_card_parse(text, &card)) {
        tci_error_set(error, TC_ERR_RENDEZVOUS, -1, 0, "dist_init",
                      "what is there is no card of a rank 0");
    } else if (tci_card_is_dead(&card, meet->store.host)) {
        tci_error_set(error, TC_ERR_RENDEZVOUS, -1, 0, "dist_init",
                      "the card there was left by process %llu of this host, which has ended",
                      (unsigned long long)card.pid);
    } else if (strcmp(meet->card, text) != 0) {
        (void)snprintf(meet->card, sizeof(meet->card), "%s", text);
        (void)pthread_mutex_lock(&meet->lock);
        meet->found = card;
        tell(meet, TCI_MEET_FOUND);
        (void)pthread_mutex_unlock(&meet->lock);
    }
}

static void be_member(struct tci_meet *meet)
{
    char text[TCI_CARD_TEXT];
    int pause_ms = PAUSE_MIN_MS;
    bool is_open = false;

    while (!is_set(&meet->is_stopped)) {
        struct tci_error error = {.pub = {.status = TC_OK}};
        tc_status_t status = is_open ? TC_OK : open_store(meet, &error);

        is_open = status == TC_OK;
        if (is_open)
            status = meet->ops->get(&meet->store, text, &error);
        if (status == TC_OK)
            find_card(meet, text, &error);
        if (status != TC_OK && status != TC_PENDING) {
            if (is_open)
                meet->ops->close(&meet->store);
            is_open = false;
        }
        if (status != TC_OK && status != TC_PENDING && !may_try_again(meet, status, &error))
            return;
        note(meet, error.text);
        if (status == TC_OK && meet->ops->is_once)
            break;
        rest(meet, &pause_ms);
    }
    if (is_open)
        meet->ops->close(&meet->store);
}

static void *thread_main(void *arg)
{
    struct tci_meet *meet = arg;

    if (meet->store.rank == 0)
        be_root(meet);
    else
        be_member(meet);
    let_go(meet);
    return NULL;
}

/* ---- The loop ------------------------------------------------------------------------------ */

static void on_event(struct tci_watch *watch, uint32_t ready)
{
    struct tci_meet *meet = tci_container_of(watch, struct tci_meet, watch);

    (void)ready;
    tci_bell_hush(&meet->bell);
    /* What is told may close it: it stays until the last word. */
    atomic_fetch_add_explicit(&meet->holders, 1, memory_order_relaxed);
    for (int event = 0; event <= TCI_MEET_FAILED && !meet->is_closed; event++) {
        struct tci_card card;
        struct tci_error error = {.pub = {.status = TC_OK}};
        bool happened;

        (void)pthread_mutex_lock(&meet->lock);
        happened = meet->happened[event];
        meet->happened[event] = false;
        card = meet->found;
        if (event == TCI_MEET_FAILED)
            tci_error_copy(&error, &meet->failure);
        (void)pthread_mutex_unlock(&meet->lock);
        if (happened)
            meet->fn(meet->arg, (enum tci_meet_event)event, &card, &error);
    }
    let_go(meet);
}

static bool init_locks(struct tci_meet *meet)
{
    return tci_cond_init(&meet->wake) == 0 && pthread_mutex_init(&meet->lock, NULL) == 0;
}

static struct tci_meet *new_meet(const struct tci_meet_config *config)
{
    struct tci_meet *meet = tci_alloc(sizeof *meet);
    char before[TCI_CARD_TEXT];

    if (meet == NULL)
        return NULL;
    atomic_init(&meet->holders, 1);
    atomic_init(&meet->is_stopped, false);
    atomic_init(&meet->is_withdrawn, false);
    meet->ops = find(config->url);
    TC_ASSERT(meet->ops != NULL && (config->card != NULL) == (config->rank == 0));
    meet->exchanges = meet->ops->is_once && !meet->ops->again(before);
    meet->url = tci_strdup(config->url);
    meet->store = (struct tci_store){.url = meet->url,
                                     .rank = config->rank,
                                     .size = config->size,
                                     .host = config->host,
                                     .side = config->side,
                                     .is_stopped = &meet->is_stopped};
    if (config->card != NULL)
        tci_card_print(config->card, meet->card);
    if (tci_bell_open(&meet->bell) == 0 && meet->url != NULL && init_locks(meet))
        return meet;
    tci_bell_close(&meet->bell);
    tci_free(meet->url);
    tci_free(meet);
    return NULL;
}

struct tci_meet *tci_meet_start(struct tci_loop *loop, const struct tci_meet_config *config,
                                tci_meet_fn fn, void *arg)
{
    struct tci_meet *meet = new_meet(config);
    int cause;

    if (meet == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    meet->fn = fn;
    meet->arg = arg;
    meet->watch.fn = on_event;
    if (tci_watch_add(loop, &meet->watch, meet->bell.fd, TC_READABLE) != 0) {
        cause = errno;
        goto let_go;
    }
    atomic_store_explicit(&meet->holders, 2, memory_order_relaxed);
    cause = tci_thread_start(thread_main, meet, NULL);
    if (cause == 0)
        return meet;
    atomic_store_explicit(&meet->holders, 1, memory_order_relaxed);
    tci_watch_del(&meet->watch);
let_go:
    let_go(meet);
    errno = cause;
    return NULL;
}

static void wake(struct tci_meet *meet, atomic_bool *flag)
{
    (void)pthread_mutex_lock(&meet->lock);
    atomic_store_explicit(flag, true, memory_order_relaxed);
    (void)pthread_cond_signal(&meet->wake);
    (void)pthread_mutex_unlock(&meet->lock);
}

void tci_meet_withdraw(struct tci_meet *meet)
{
    wake(meet, &meet->is_withdrawn);
}

void tci_meet_close(struct tci_meet *meet)
{
    if (meet == NULL)
        return;
    meet->is_closed = true;
    tci_watch_del(&meet->watch);
    wake(meet, &meet->is_stopped);
    let_go(meet);
}

bool tci_meet_exchanges(const struct tci_meet *meet)
{
    return meet->exchanges;
}

const char *tci_meet_last(struct tci_meet *meet, char *text)
{
    (void)pthread_mutex_lock(&meet->lock);
    memcpy(text, meet->last, sizeof(meet->last));
    (void)pthread_mutex_unlock(&meet->lock);
    return text;
}

bool tci_meet_is_nowhere(struct tci_meet *meet)
{
    bool is_nowhere;

    (void)pthread_mutex_lock(&meet->lock);
    is_nowhere = meet->is_nowhere;
    (void)pthread_mutex_unlock(&meet->lock);
    return is_nowhere;
}
