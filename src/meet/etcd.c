/* etcd.c - rank 0's card as the value of a key of etcd, by its HTTP interface. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/store.h"

#ifdef TCI_HAS_CURL

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "meet/etcd_text.h"

enum { PORT = 2379, ANSWER_S = 5, CONNECT_S = 3, BODY_BYTES = 8192, ANSWER_BYTES = 64 << 10 };

/* Loaded when it is needed: it brings two dozen libraries with it, which a process that meets
 * elsewhere has no use for. */
static struct {
    pthread_mutex_t lock;
    void *library;
    __typeof__(&curl_global_init) global_init;
    __typeof__(&curl_easy_init) easy_init;
    __typeof__(&curl_easy_setopt) setopt;
    __typeof__(&curl_easy_perform) perform;
    __typeof__(&curl_easy_getinfo) getinfo;
    __typeof__(&curl_easy_cleanup) cleanup;
    __typeof__(&curl_slist_append) append;
    __typeof__(&curl_slist_free_all) free_all;
} curl = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool find(void *function, const char *name)
{
    void *found = dlsym(curl.library, name);

    memcpy(function, &found, sizeof(found)); /* ISO C knows no other way from data to code */
    return found != NULL;
}

static bool load_locked(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

    for (size_t i = 0; i < 2 && curl.library == NULL; i++)
        curl.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (curl.library == NULL)
        return false;
    if (curl.easy_init != NULL)
        return true;
    return find(&curl.global_init, "curl_global_init") && find(&curl.setopt, "curl_easy_setopt") &&
           find(&curl.perform, "curl_easy_perform") && find(&curl.getinfo, "curl_easy_getinfo") &&
           find(&curl.cleanup, "curl_easy_cleanup") && find(&curl.append, "curl_slist_append") &&
           find(&curl.free_all, "curl_slist_free_all") &&
           curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK &&
           find(&curl.easy_init, "curl_easy_init");
}

static bool load(void)
{
    bool is_loaded;

    (void)pthread_mutex_lock(&curl.lock);
    is_loaded = load_locked();
    (void)pthread_mutex_unlock(&curl.lock);
    return is_loaded;
}

/* ---- One call ------------------------------------------------------------------------------ */

struct etcd {
    CURL *handle;
    struct tci_store_where where;
    const char *protocol; /* "http" */
    char answer[ANSWER_BYTES];
    size_t len;
};

static tc_status_t fail(const struct tci_store *store, tc_status_t status, const char *why,
                        struct tci_error *error)
{
    tci_error_set(error, status, -1, 0, "dist_init", "etcd of %.120s: %.120s", store->url, why);
    return status;
}

static size_t on_bytes(char *bytes, size_t each, size_t count, void *arg)
{
    struct etcd *etcd = arg;
    size_t len = each * count;

    if (len >= sizeof(etcd->answer) - etcd->len)
        return 0; /* no answer to us is so long: the call fails */
    memcpy(etcd->answer + etcd->len, bytes, len);
    etcd->len += len;
    return len;
}

static tc_status_t judge(const struct tci_store *store, CURLcode result, long code,
                         struct tci_error *error)
{
    struct etcd *etcd = store->own;
    char reason[100], text[160];

    etcd->answer[etcd->len] = '\0';
    if (result == CURLE_COULDNT_CONNECT)
        return fail(store, TC_ERR_RENDEZVOUS, "no connection: does it run there?", error);
    if (result == CURLE_COULDNT_RESOLVE_HOST)
        return fail(store, TC_ERR_RENDEZVOUS, "its host has no address", error);
    if (result == CURLE_OPERATION_TIMEDOUT)
        return fail(store, TC_ERR_RENDEZVOUS, "it does not answer within 5 s", error);
    if (result == CURLE_OK && code == 200)
        return TC_OK;
    tci_etcd_reason(etcd->answer, reason, sizeof(reason));
    if (result != CURLE_OK)
        (void)snprintf(text, sizeof(text), "the call failed (curl %d)", (int)result);
    else
        (void)snprintf(text, sizeof(text), "it answers %ld%s%s", code,
                       reason[0] != '\0' ? ": " : "", reason);
    return fail(store, code == 401 || code == 403 ? TC_ERR_AUTH : TC_ERR_RENDEZVOUS, text, error);
}

static tc_status_t call(struct tci_store *store, const char *method, const char *body,
                        struct tci_error *error)
{
    struct etcd *etcd = store->own;
    bool is_ip6 = strchr(etcd->where.host, ':') != NULL;
    struct curl_slist *headers = curl.append(NULL, "Content-Type: application/json");
    char url[400];
    CURLcode result;
    long code = 0;

    (void)snprintf(url, sizeof(url), is_ip6 ? "%s://[%s]:%d/v3/%s" : "%s://%s:%d/v3/%s",
                   etcd->protocol, etcd->where.host, etcd->where.port, method);
    etcd->len = 0;
    (void)curl.setopt(etcd->handle, CURLOPT_URL, url);
    (void)curl.setopt(etcd->handle, CURLOPT_POSTFIELDS, body);
    (void)curl.setopt(etcd->handle, CURLOPT_HTTPHEADER, headers);
    (void)curl.setopt(etcd->handle, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl.setopt(etcd->handle, CURLOPT_WRITEDATA, etcd);
    (void)curl.setopt(etcd->handle, CURLOPT_TIMEOUT, (long)ANSWER_S);
    (void)curl.setopt(etcd->handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    (void)curl.setopt(etcd->handle, CURLOPT_NOSIGNAL, 1L); /* signals are the application's */
    (void)curl.setopt(etcd->handle, CURLOPT_PROXY, "");    /* a server of the cluster */
    result = curl.perform(etcd->handle);
    if (result == CURLE_OK)
        (void)curl.getinfo(etcd->handle, CURLINFO_RESPONSE_CODE, &code);
    curl.free_all(headers);
    return judge(store, result, code, error);
}

/* ---- The place ----------------------------------------------------------------------------- */

static const char *scheme_of(const char *url)
{
    return tci_store_rest(url, "etcds") != NULL ? "etcds" : "etcd";
}

static tc_status_t check(const char *url, struct tci_error *error)
{
    struct tci_store_where where;

    return tci_store_parse(url, scheme_of(url), PORT, &where, error);
}

static tc_status_t open_etcd(struct tci_store *store, struct tci_error *error)
{
    const char *scheme = scheme_of(store->url);
    struct etcd *etcd;

    if (!load())
        return fail(store, TC_ERR_UNSUPPORTED, "libcurl cannot be loaded: install libcurl4", error);
    etcd = tci_alloc(sizeof(*etcd));
    if (etcd == NULL)
        return fail(store, TC_ERR_ALLOC, "no memory", error);
    etcd->protocol = strcmp(scheme, "etcds") == 0 ? "https" : "http";
    etcd->handle = curl.easy_init();
    if (etcd->handle != NULL &&
        tci_store_parse(store->url, scheme, PORT, &etcd->where, error) == TC_OK) {
        store->own = etcd;
        return TC_OK;
    }
    if (etcd->handle != NULL)
        curl.cleanup(etcd->handle);
    tci_free(etcd);
    return fail(store, TC_ERR_ALLOC, "no memory", error);
}

static void close_etcd(struct tci_store *store)
{
    struct etcd *etcd = store->own;

    curl.cleanup(etcd->handle);
    tci_free(etcd);
    store->own = NULL;
}

/* The key and a card in base 64. */
struct coded {
    char key[400], card[(TCI_CARD_TEXT + 2) / 3 * 4 + 1];
};

static void encode(const struct tci_store *store, const char *card, struct coded *coded)
{
    const struct etcd *etcd = store->own;

    (void)tci_base64_encode(etcd->where.key, strlen(etcd->where.key), coded->key);
    (void)tci_base64_encode(card, strlen(card), coded->card);
}

static tc_status_t put(struct tci_store *store, const char *card, struct tci_error *error)
{
    struct coded coded;
    char body[BODY_BYTES];

    encode(store, card, &coded);
    (void)snprintf(body, sizeof(body), "{\"key\":\"%s\",\"value\":\"%s\"}", coded.key, coded.card);
    return call(store, "kv/put", body, error);
}

static tc_status_t get(struct tci_store *store, char *card, struct tci_error *error)
{
    struct etcd *etcd = store->own;
    struct coded coded;
    char body[BODY_BYTES];
    tc_status_t status;

    encode(store, "", &coded);
    (void)snprintf(body, sizeof(body), "{\"key\":\"%s\"}", coded.key);
    status = call(store, "kv/range", body, error);
    if (status != TC_OK)
        return status;
    switch (tci_etcd_value(etcd->answer, card, TCI_CARD_TEXT)) {
    case 1:
        return TC_OK;
    case 0:
        return TC_PENDING;
    default:
        return fail(store, TC_ERR_RENDEZVOUS, "what it has at the key is no card", error);
    }
}

/* Compared and taken away in one transaction. */
static tc_status_t del(struct tci_store *store, const char *card, struct tci_error *error)
{
    struct coded coded;
    char body[BODY_BYTES];

    encode(store, card, &coded);
    (void)snprintf(body, sizeof(body),
                   "{\"compare\":[{\"target\":\"VALUE\",\"key\":\"%s\",\"value\":\"%s\"}],"
                   "\"success\":[{\"requestDeleteRange\":{\"key\":\"%s\"}}]}",
                   coded.key, coded.card, coded.key);
    return call(store, "kv/txn", body, error);
}

const struct tci_store_ops tci_store_etcd = {
    .scheme = "etcd",
    .to = "etcds",
    .check = check,
    .open = open_etcd,
    .close = close_etcd,
    .put = put,
    .get = get,
    .del = del,
};

#else

static tc_status_t check(const char *url, struct tci_error *error)
{
    (void)url;
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init",
                  "etcd:// needs libcurl and cJSON, which this library was built without: use "
                  "file:// or tcp://, or build it with libcurl4-openssl-dev and libcjson-dev");
    return TC_ERR_UNSUPPORTED;
}

const struct tci_store_ops tci_store_etcd = {
    .scheme = "etcd",
    .to = "etcds",
    .check = check,
};

#endif
