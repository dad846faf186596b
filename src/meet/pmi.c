/* pmi.c - the process manager's interface, version 1: rank 0 puts its card, the others get it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/pmi.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "meet/store.h"

/*   rank                              manager (hydra, slurmstepd)
 *    | -- cmd=initack pmiid=… ---------> |   with PMI_PORT alone: then size and rank come
 *    | -- cmd=init ---------------------> |
 *    | -- cmd=get_my_kvsname -----------> |   the space of names that the job has
 *    | -- cmd=put key=… value=card -----> |   rank 0
 *    | -- cmd=barrier_in ---------------> |
 *    | <- cmd=barrier_out --------------- |   when all ranks have come
 *    | -- cmd=get key=… ----------------> |
 *    | -- cmd=finalize -----------------> |   without it the end of this process would end the job
 *
 * A process has one such connection, and after the last word none: what was exchanged is kept, and
 * ranks that meet again do so in the same place. */
enum { LINE_BYTES = 2048, LINE_MS = 60000, KEY_NAME_BYTES = 256 };
#define KEY "tcdist-card"

static struct {
    pthread_mutex_t lock;
    int fd; /* borrowed from the launcher, or made and kept; -1: not yet */
    bool has_place, is_over, is_broken;
    int rank, size;
    char card[TCI_CARD_TEXT];
    /* What came behind the last line. */
    char bytes[LINE_BYTES];
    size_t len;
} manager = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static tc_status_t fail(struct tci_error *error, const char *why)
{
    manager.is_broken = true;
    tci_error_set(
        error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init",
        "the process manager does not answer as PMI has it (%s): say where the ranks meet "
        "with TCDIST_RENDEZVOUS",
        why);
    return TC_ERR_UNSUPPORTED;
}

/* ---- Lines --------------------------------------------------------------------------------- */

static tc_status_t say(const char *line, struct tci_error *error)
{
    size_t len = strlen(line), sent = 0;

    while (sent < len) {
        ssize_t wrote = send(manager.fd, line + sent, len - sent, MSG_NOSIGNAL);

        if (wrote < 0 && errno == ENOTSOCK)
            wrote = write(manager.fd, line + sent, len - sent);
        if (wrote < 0 && errno == EAGAIN) {
            struct pollfd watched = {.fd = manager.fd, .events = POLLOUT};

            (void)poll(&watched, 1, TCI_STORE_SLICE_MS);
            continue;
        }
        if (wrote < 0 && errno != EINTR)
            return fail(error, strerror(errno));
        sent += wrote > 0 ? (size_t)wrote : 0;
    }
    return TC_OK;
}

/* Wait for bytes, or for being told to stop. */
static tc_status_t wait_for_bytes(const atomic_bool *is_stopped, int *left_ms,
                                  struct tci_error *error)
{
    struct pollfd watched = {.fd = manager.fd, .events = POLLIN};
    int ready = poll(&watched, 1, TCI_STORE_SLICE_MS);

    if (ready > 0 || (ready < 0 && errno == EINTR))
        return TC_OK;
    if (ready < 0)
        return fail(error, strerror(errno));
    if (is_stopped != NULL && atomic_load_explicit(is_stopped, memory_order_relaxed))
        return fail(error, "the wait for it was given up");
    if (*left_ms >= 0) {
        *left_ms -= TCI_STORE_SLICE_MS;
        if (*left_ms < 0)
            return fail(error, "it is silent");
    }
    return TC_OK;
}

/* One line without its end.  wait_ms -1: as long as the other ranks take. */
static tc_status_t hear(char line[LINE_BYTES], const atomic_bool *is_stopped, int wait_ms,
                        struct tci_error *error)
{
    for (;;) {
        char *end = memchr(manager.bytes, '\n', manager.len);
        ssize_t got;

        if (end != NULL) {
            size_t len = (size_t)(end - manager.bytes);

            memcpy(line, manager.bytes, len);
            line[len] = '\0';
            manager.len -= len + 1;
            memmove(manager.bytes, end + 1, manager.len);
            return TC_OK;
        }
        if (manager.len == LINE_BYTES)
            return fail(error, "a line of it has no end");
        if (wait_for_bytes(is_stopped, &wait_ms, error) != TC_OK)
            return error->pub.status;
        got = read(manager.fd, manager.bytes + manager.len, LINE_BYTES - manager.len);
        if (got == 0)
            return fail(error, "it has closed the connection");
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return fail(error, strerror(errno));
        manager.len += got > 0 ? (size_t)got : 0;
    }
}

/* Say one line, and hear the answer of that name with rc=0 or none. */
static tc_status_t ask(const char *question, const char *name, char line[LINE_BYTES],
                       const atomic_bool *is_stopped, struct tci_error *error)
{
    int wait_ms = strcmp(name, "barrier_out") == 0 ? -1 : LINE_MS;
    char result[32];

    if (say(question, error) != TC_OK || hear(line, is_stopped, wait_ms, error) != TC_OK)
        return error->pub.status;
    if (!tci_pmi_is(line, name) ||
        (tci_pmi_value(line, "rc", result, sizeof(result)) && strcmp(result, "0") != 0)) {
        line[80] = '\0';
        return fail(error, line);
    }
    return TC_OK;
}

/* ---- The connection ------------------------------------------------------------------------ */

#ifdef SOCK_CLOEXEC /* from the beginning, so that no program that is started meanwhile has it */
enum { STREAM = SOCK_STREAM | SOCK_CLOEXEC };
#else
enum { STREAM = SOCK_STREAM };
#endif

static int connect_to(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int fd = -1;

    if (getaddrinfo(host, port, &hints, &list) != 0)
        return -1;
    for (struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, STREAM, 0);
        if (fd >= 0)
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* "host:port" of PMI_PORT; then the manager says which rank PMI_ID is. */
static tc_status_t go_there(const char *where, const char *id, struct tci_error *error)
{
    char host[256], line[LINE_BYTES], value[32];
    const char *colon = strrchr(where, ':');

    if (colon == NULL || (size_t)(colon - where) >= sizeof(host))
        return fail(error, "PMI_PORT is no host:port");
    memcpy(host, where, (size_t)(colon - where));
    host[colon - where] = '\0';
    manager.fd = connect_to(host, colon + 1);
    if (manager.fd < 0)
        return fail(error, "PMI_PORT cannot be reached");
    (void)snprintf(line, sizeof(line), "cmd=initack pmiid=%.32s\n", id);
    if (say(line, error) != TC_OK || hear(line, NULL, LINE_MS, error) != TC_OK)
        return error->pub.status;
    if (!tci_pmi_is(line, "initack"))
        return fail(error, "no initack");
    for (int told = 0; told < 3; told++) { /* size, rank, debug, in this order */
        if (hear(line, NULL, LINE_MS, error) != TC_OK)
            return error->pub.status;
        if (tci_pmi_value(line, "size", value, sizeof(value)))
            manager.size = atoi(value);
        else if (tci_pmi_value(line, "rank", value, sizeof(value)))
            manager.rank = atoi(value);
    }
    if (manager.size < 1 || manager.rank < 0 || manager.rank >= manager.size)
        return fail(error, "it says no rank and size");
    manager.has_place = true;
    return TC_OK;
}

static tc_status_t open_locked(struct tci_error *error)
{
    const char *fd = getenv("PMI_FD"), *port = getenv("PMI_PORT"), *id = getenv("PMI_ID");
    char *end = NULL;
    long number = fd == NULL ? -1 : strtol(fd, &end, 10);

    if (manager.is_broken)
        return fail(error, "an earlier exchange with it has failed");
    if (manager.fd >= 0)
        return TC_OK;
    if (fd != NULL && (*fd == '\0' || *end != '\0' || number < 0 || number > INT_MAX))
        return fail(error, "PMI_FD is no descriptor");
    if (fd != NULL)
        manager.fd = (int)number;
    else if (port == NULL || id == NULL)
        return fail(error, "neither PMI_FD, nor PMI_PORT and PMI_ID, is set");
    else
        return go_there(port, id, error);
    return TC_OK;
}

tc_status_t tci_pmi_place(int *rank_out, int *size_out, struct tci_error *error)
{
    tc_status_t status = TC_OK;

    (void)pthread_mutex_lock(&manager.lock);
    if (!manager.has_place)
        status = open_locked(error);
    if (status == TC_OK && manager.has_place) {
        *rank_out = manager.rank;
        *size_out = manager.size;
    } else if (status == TC_OK) {
        status = fail(error, "PMI_RANK is not set");
    }
    (void)pthread_mutex_unlock(&manager.lock);
    return status;
}

/* ---- The exchange -------------------------------------------------------------------------- */

static tc_status_t exchange(const struct tci_store *store, const char *card,
                            struct tci_error *error)
{
    const atomic_bool *stop = store->is_stopped;
    char question[LINE_BYTES], line[LINE_BYTES], space[KEY_NAME_BYTES];

    if (ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", line, stop, error) !=
            TC_OK ||
        ask("cmd=get_my_kvsname\n", "my_kvsname", line, stop, error) != TC_OK)
        return error->pub.status;
    if (!tci_pmi_value(line, "kvsname", space, sizeof(space)))
        return fail(error, "it names no space of keys");
    if (card != NULL) {
        (void)snprintf(question, sizeof(question), "cmd=put kvsname=%s key=" KEY " value=%s\n",
                       space, card);
        if (ask(question, "put_result", line, stop, error) != TC_OK)
            return error->pub.status;
        (void)snprintf(manager.card, sizeof(manager.card), "%s", card);
    }
    if (ask("cmd=barrier_in\n", "barrier_out", line, stop, error) != TC_OK)
        return error->pub.status;
    if (card == NULL) {
        (void)snprintf(question, sizeof(question), "cmd=get kvsname=%s key=" KEY "\n", space);
        if (ask(question, "get_result", line, stop, error) != TC_OK)
            return error->pub.status;
        if (!tci_pmi_value(line, "value", manager.card, sizeof(manager.card)))
            return fail(error, "the card of rank 0 is not there");
    }
    manager.is_over = true;
    return ask("cmd=finalize\n", "finalize_ack", line, stop, error);
}

static tc_status_t check(const char *url, struct tci_error *error)
{
    return tci_store_rest(url, "pmi")[0] == '\0'
               ? TC_OK
               : tci_store_refuse(error, url,
                                  "nothing follows pmi://: the launcher knows the rest");
}

/* The lock is taken for the exchange: who comes second finds it done. */
static tc_status_t open_manager(struct tci_store *store, struct tci_error *error)
{
    tc_status_t status = TC_OK;

    (void)store;
    (void)pthread_mutex_lock(&manager.lock);
    if (!manager.is_over)
        status = open_locked(error);
    (void)pthread_mutex_unlock(&manager.lock);
    return status;
}

static void close_manager(struct tci_store *store)
{
    (void)store;
}

static tc_status_t meet(struct tci_store *store, const char *card, struct tci_error *error)
{
    tc_status_t status = TC_OK;

    (void)pthread_mutex_lock(&manager.lock);
    if (!manager.is_over)
        status = exchange(store, card, error);
    (void)pthread_mutex_unlock(&manager.lock);
    return status;
}

static tc_status_t put(struct tci_store *store, const char *card, struct tci_error *error)
{
    return meet(store, card, error);
}

static tc_status_t get(struct tci_store *store, char *card, struct tci_error *error)
{
    tc_status_t status = meet(store, NULL, error);

    if (status == TC_OK)
        (void)snprintf(card, TCI_CARD_TEXT, "%s", manager.card);
    return status;
}

static bool again(char *card)
{
    bool is_over;

    /* Who has the lock waits for all ranks, maybe: the loop does not. */
    if (pthread_mutex_trylock(&manager.lock) != 0)
        return false;
    is_over = manager.is_over;
    if (is_over)
        (void)snprintf(card, TCI_CARD_TEXT, "%s", manager.card);
    (void)pthread_mutex_unlock(&manager.lock);
    return is_over;
}

const struct tci_store_ops tci_store_pmi = {
    .scheme = "pmi",
    .is_once = true,
    .check = check,
    .open = open_manager,
    .close = close_manager,
    .put = put,
    .get = get,
    .again = again,
};
