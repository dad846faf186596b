/* pmix.c - what a launcher with PMIx is asked: rank and size, and rank 0's card. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/pmix.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base.h"
#include "loop/loop.h"
#include "meet/store.h"

static bool is_plain(const char *url)
{
    return tci_store_rest(url, "pmix")[0] == '\0';
}

static tc_status_t refuse_rest(const char *url, struct tci_error *error)
{
    return tci_store_refuse(error, url, "nothing follows pmix://: the launcher knows the rest");
}

#ifdef TCI_HAS_PMIX

#include <dlfcn.h>
#include <strings.h> /* which pmix.h uses, and leaves out */

#include <pmix.h>

#define KEY     "tcdist-card"
#define LIBRARY "libpmix.so.2"

#define NOTICE_NS (200 * TCI_NS_PER_MS)

/* Loaded when it is needed: it brings threads and a dozen libraries with it, which a process
 * without such a launcher has no use for. */
static struct {
    pthread_mutex_t lock;
    void *library; /* stays: its own threads may still end in it */
    bool is_in, has_place, is_over;
    uint64_t left_ns; /* 0: it was never in */
    struct tci_pmix_place place;
    char card[TCI_CARD_TEXT];
    pmix_proc_t self;
    __typeof__(&PMIx_Init) init;
    __typeof__(&PMIx_Put) put;
    __typeof__(&PMIx_Commit) commit;
    __typeof__(&PMIx_Fence) fence;
    __typeof__(&PMIx_Get) get;
    __typeof__(&PMIx_Finalize) finalize;
    __typeof__(&PMIx_Error_string) text;
} pmix = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tc_status_t fail(struct tci_error *error, const char *doing, const char *why)
{
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init",
                  "PMIx: %s: %.150s; say where the ranks meet with TCDIST_RENDEZVOUS", doing, why);
    return TC_ERR_UNSUPPORTED;
}

static bool find(void *function, const char *name)
{
    void *found = dlsym(pmix.library, name);

    memcpy(function, &found, sizeof(found)); /* ISO C knows no other way from data to code */
    return found != NULL;
}

static tc_status_t load(struct tci_error *error)
{
    if (pmix.library != NULL)
        return TC_OK;
    /* Its own parts look for it among what all see. */
    pmix.library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (pmix.library == NULL)
        return fail(error, "it cannot be loaded", dlerror());
    if (find(&pmix.init, "PMIx_Init") && find(&pmix.put, "PMIx_Put") &&
        find(&pmix.commit, "PMIx_Commit") && find(&pmix.fence, "PMIx_Fence") &&
        find(&pmix.get, "PMIx_Get") && find(&pmix.finalize, "PMIx_Finalize") &&
        find(&pmix.text, "PMIx_Error_string"))
        return TC_OK;
    (void)dlclose(pmix.library);
    pmix.library = NULL;
    return fail(error, "it lacks a function", LIBRARY);
}

/* A server hears of the end of a client in its own time, and takes one that comes again before for
 * the one that has gone: some of its collectives end in an error then (7 of 25 of Slurm 22.05 with
 * PMIx 4.2.2; none after this pause). */
static void let_it_notice(void)
{
    const uint64_t passed_ns = tci_loop_clock() - pmix.left_ns;
    struct timespec rest = {.tv_nsec = (long)(NOTICE_NS - tci_min(passed_ns, NOTICE_NS))};

    if (pmix.left_ns != 0)
        (void)nanosleep(&rest, NULL);
}

static tc_status_t enter(struct tci_error *error)
{
    tc_status_t status = load(error);
    pmix_status_t result;

    if (status != TC_OK || pmix.is_in)
        return status;
    let_it_notice();
    result = pmix.init(&pmix.self, NULL, 0);
    pmix.is_in = result == PMIX_SUCCESS;
    return pmix.is_in ? TC_OK : fail(error, "init", pmix.text(result));
}

/* A process that ends without this is taken for a crash, which ends the job. */
static void leave(void)
{
    if (!pmix.is_in)
        return;
    (void)pmix.finalize(NULL, 0);
    pmix.is_in = false;
    pmix.left_ns = tci_loop_clock();
}

void tci_pmix_leave(void)
{
    (void)pthread_mutex_lock(&pmix.lock);
    leave();
    (void)pthread_mutex_unlock(&pmix.lock);
}

/* ---- The place of this process --------------------------------------------------------------- */

/* A number that the launcher has said of a process when it started it. */
static pmix_status_t read_number(uint32_t rank, const char *key, int *out)
{
    pmix_proc_t whom = pmix.self;
    pmix_value_t *value = NULL;
    pmix_status_t result;

    whom.rank = rank;
    result = pmix.get(&whom, key, NULL, 0, &value);
    if (result != PMIX_SUCCESS)
        return result;
    if (value->type == PMIX_UINT32)
        *out = (int)value->data.uint32;
    else if (value->type == PMIX_UINT16)
        *out = (int)value->data.uint16;
    else
        result = PMIX_ERR_TYPE_MISMATCH;
    free(value);
    return result;
}

static tc_status_t ask_place(struct tci_error *error)
{
    struct tci_pmix_place *place = &pmix.place;
    tc_status_t status = enter(error);
    pmix_status_t result;

    if (status != TC_OK)
        return status;
    *place =
        (struct tci_pmix_place){.rank = (int)pmix.self.rank, .local_rank = -1, .local_size = -1};
    result = read_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &place->size);
    (void)read_number(pmix.self.rank, PMIX_LOCAL_RANK, &place->local_rank);
    (void)read_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &place->local_size);
    if (result != PMIX_SUCCESS)
        status = fail(error, "the size of the job", pmix.text(result));
    else if (place->size < 1 || place->rank < 0 || place->rank >= place->size)
        status = fail(error, "the size of the job", "it does not fit the rank");
    pmix.has_place = status == TC_OK;
    if (status != TC_OK)
        leave();
    return status;
}

tc_status_t tci_pmix_place(struct tci_pmix_place *out, struct tci_error *error)
{
    tc_status_t status = TC_OK;

    (void)pthread_mutex_lock(&pmix.lock);
    if (!pmix.has_place)
        status = ask_place(error);
    if (status == TC_OK)
        *out = pmix.place;
    (void)pthread_mutex_unlock(&pmix.lock);
    return status;
}

bool tci_pmix_is_usable(void)
{
    struct tci_error unused = {.pub = {.status = TC_OK}};
    bool is_usable;

    (void)pthread_mutex_lock(&pmix.lock);
    is_usable = load(&unused) == TC_OK;
    (void)pthread_mutex_unlock(&pmix.lock);
    return is_usable;
}

/* ---- The exchange ---------------------------------------------------------------------------- */

static tc_status_t leave_card(const char *card, struct tci_error *error)
{
    char copy[TCI_CARD_TEXT];
    pmix_value_t value = {.type = PMIX_STRING};
    pmix_status_t result;

    (void)snprintf(copy, sizeof(copy), "%s", card);
    (void)snprintf(pmix.card, sizeof(pmix.card), "%s", card);
    value.data.string = copy;
    result = pmix.put(PMIX_GLOBAL, KEY, &value);
    if (result == PMIX_SUCCESS)
        result = pmix.commit();
    return result == PMIX_SUCCESS ? TC_OK : fail(error, "put", pmix.text(result));
}

static tc_status_t take_card(struct tci_error *error)
{
    pmix_proc_t root = pmix.self;
    pmix_value_t *value = NULL;
    pmix_status_t result;

    root.rank = 0;
    result = pmix.get(&root, KEY, NULL, 0, &value);
    if (result != PMIX_SUCCESS)
        return fail(error, "get", pmix.text(result));
    if (value->type == PMIX_STRING && value->data.string != NULL)
        (void)snprintf(pmix.card, sizeof(pmix.card), "%s", value->data.string);
    if (value->type == PMIX_STRING)
        free(value->data.string); /* as its own macro does */
    free(value);
    return TC_OK;
}

/* All come to the fence, and then rank 0's card is everywhere. */
static tc_status_t exchange(const char *card, struct tci_error *error)
{
    bool collects = true;
    pmix_info_t info = {.value = {.type = PMIX_BOOL, .data = {.flag = collects}}};
    tc_status_t status = enter(error);
    pmix_status_t result;

    if (status != TC_OK)
        return status;
    (void)snprintf(info.key, sizeof(info.key), "%s", PMIX_COLLECT_DATA);
    if (card != NULL)
        status = leave_card(card, error);
    result = pmix.fence(NULL, 0, &info, 1);
    if (status == TC_OK && result != PMIX_SUCCESS)
        status = fail(error, "fence", pmix.text(result));
    if (status == TC_OK && card == NULL)
        status = take_card(error);
    leave();
    pmix.is_over = status == TC_OK;
    return status;
}

static tc_status_t meet(const char *card, struct tci_error *error)
{
    tc_status_t status = TC_OK;

    (void)pthread_mutex_lock(&pmix.lock);
    if (!pmix.is_over)
        status = exchange(card, error);
    (void)pthread_mutex_unlock(&pmix.lock);
    return status;
}

static tc_status_t check(const char *url, struct tci_error *error)
{
    return is_plain(url) ? TC_OK : refuse_rest(url, error);
}

static tc_status_t put(struct tci_store *store, const char *card, struct tci_error *error)
{
    (void)store;
    return meet(card, error);
}

static tc_status_t get(struct tci_store *store, char *card, struct tci_error *error)
{
    tc_status_t status = meet(NULL, error);

    (void)store;
    if (status == TC_OK)
        (void)snprintf(card, TCI_CARD_TEXT, "%s", pmix.card);
    return status;
}

static bool again(char *card)
{
    bool is_over;

    /* Who has the lock waits for all ranks, maybe: the loop does not. */
    if (pthread_mutex_trylock(&pmix.lock) != 0)
        return false;
    is_over = pmix.is_over;
    if (is_over)
        (void)snprintf(card, TCI_CARD_TEXT, "%s", pmix.card);
    (void)pthread_mutex_unlock(&pmix.lock);
    return is_over;
}

static tc_status_t open_nothing(struct tci_store *store, struct tci_error *error)
{
    (void)store;
    (void)error;
    return TC_OK;
}

static void close_nothing(struct tci_store *store)
{
    (void)store;
}

const struct tci_store_ops tci_store_pmix = {
    .scheme = "pmix",
    .is_once = true,
    .check = check,
    .open = open_nothing,
    .close = close_nothing,
    .put = put,
    .get = get,
    .again = again,
};

#else

static tc_status_t lack(struct tci_error *error)
{
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init",
                  "the ranks would meet by way of PMIx, and this library was built without "
                  "libpmix-dev: say where they meet with TCDIST_RENDEZVOUS");
    return TC_ERR_UNSUPPORTED;
}

tc_status_t tci_pmix_place(struct tci_pmix_place *out, struct tci_error *error)
{
    (void)out;
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init_env",
                  "only PMIx knows how many ranks there are, and this library was built without "
                  "libpmix-dev: set TCDIST_RANK, TCDIST_WORLD_SIZE and TCDIST_RENDEZVOUS");
    return TC_ERR_UNSUPPORTED;
}

void tci_pmix_leave(void)
{
}

bool tci_pmix_is_usable(void)
{
    return false;
}

static tc_status_t check(const char *url, struct tci_error *error)
{
    return is_plain(url) ? lack(error) : refuse_rest(url, error);
}

const struct tci_store_ops tci_store_pmix = {
    .scheme = "pmix",
    .check = check,
};

#endif
