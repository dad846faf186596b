/* redis.c - rank 0's card as the value of a key of a Redis server. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "meet/store.h"

#ifdef TCI_HAS_HIREDIS

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { PORT = 6379, ANSWER_S = 5, LIFE_S = 24 * 3600 }; /* of a card that nobody takes away */

static tc_status_t check(const char *url, struct tci_error *error)
{
    struct tci_store_where where;

    return tci_store_parse(url, "redis", PORT, &where, error);
}

/* Its words are the server's: what is no text is left out. */
static tc_status_t fail(const struct tci_store *store, tc_status_t status, const char *why,
                        struct tci_error *error)
{
    char text[121];
    size_t len = 0;

    for (; why[len] != '\0' && len + 1 < sizeof(text); len++)
        text[len] = why[len] >= ' ' && why[len] < 0x7f ? why[len] : '?';
    text[len] = '\0';
    tci_error_set(error, status, -1, 0, "dist_init", "the Redis server of %.120s: %s", store->url,
                  text);
    return status;
}

static tc_status_t fail_answer(const struct tci_store *store, const redisContext *context,
                               const redisReply *reply, struct tci_error *error)
{
    bool is_denied =
        reply != NULL && reply->type == REDIS_REPLY_ERROR &&
        (strncmp(reply->str, "NOAUTH", 6) == 0 || strncmp(reply->str, "WRONGPASS", 9) == 0 ||
         strncmp(reply->str, "NOPERM", 6) == 0);

    if (is_denied)
        return fail(store, TC_ERR_AUTH,
                    "it wants a password, or another one: set TCDIST_REDIS_PASSWORD", error);
    return fail(store, TC_ERR_RENDEZVOUS,
                reply == NULL                      ? context->errstr
                : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                   : "an answer that is none",
                error);
}

static tc_status_t log_in(struct tci_store *store, redisContext *context, struct tci_error *error)
{
    const char *password = getenv("TCDIST_REDIS_PASSWORD");
    redisReply *reply;
    tc_status_t status = TC_OK;

    if (password == NULL || *password == '\0')
        return TC_OK;
    reply = redisCommand(context, "AUTH %s", password);
    if (reply == NULL)
        status = fail_answer(store, context, reply, error);
    else if (reply->type == REDIS_REPLY_ERROR)
        status = fail(store, TC_ERR_AUTH, "it does not take TCDIST_REDIS_PASSWORD", error);
    freeReplyObject(reply);
    return status;
}

static tc_status_t open_redis(struct tci_store *store, struct tci_error *error)
{
    const struct timeval limit = {.tv_sec = ANSWER_S};
    struct tci_store_where where;
    redisContext *context;
    tc_status_t status = tci_store_parse(store->url, "redis", PORT, &where, error);

    if (status != TC_OK)
        return status;
    context = redisConnectWithTimeout(where.host, where.port, limit);
    if (context == NULL || context->err != 0) {
        status =
            fail(store, TC_ERR_RENDEZVOUS, context == NULL ? "no memory" : context->errstr, error);
    } else {
        (void)redisSetTimeout(context, limit);
        status = log_in(store, context, error);
    }
    if (status == TC_OK)
        store->own = context;
    else if (context != NULL)
        redisFree(context);
    return status;
}

static void close_redis(struct tci_store *store)
{
    redisFree(store->own);
    store->own = NULL;
}

static const char *key_of(const struct tci_store *store, struct tci_store_where *where)
{
    struct tci_error unused = {.pub = {.status = TC_OK}};

    (void)tci_store_parse(store->url, "redis", PORT, where, &unused);
    return where->key;
}

static tc_status_t put(struct tci_store *store, const char *card, struct tci_error *error)
{
    struct tci_store_where where;
    redisReply *reply =
        redisCommand(store->own, "SET %s %s EX %d", key_of(store, &where), card, LIFE_S);
    tc_status_t status = TC_OK;

    if (reply == NULL || reply->type != REDIS_REPLY_STATUS)
        status = fail_answer(store, store->own, reply, error);
    freeReplyObject(reply);
    return status;
}

static tc_status_t get(struct tci_store *store, char *card, struct tci_error *error)
{
    struct tci_store_where where;
    redisReply *reply = redisCommand(store->own, "GET %s", key_of(store, &where));
    tc_status_t status = TC_OK;

    if (reply != NULL && reply->type == REDIS_REPLY_NIL)
        status = TC_PENDING;
    else if (reply == NULL || reply->type != REDIS_REPLY_STRING)
        status = fail_answer(store, store->own, reply, error);
    else if (reply->len >= TCI_CARD_TEXT)
        card[0] = '\0'; /* whatever it is, it is no card */
    else
        (void)snprintf(card, TCI_CARD_TEXT, "%s", reply->str);
    freeReplyObject(reply);
    return status;
}

/* Compared and taken away at once, on the server. */
static tc_status_t del(struct tci_store *store, const char *card, struct tci_error *error)
{
    static const char script[] = "if redis.call('get', KEYS[1]) == ARGV[1] then "
                                 "return redis.call('del', KEYS[1]) else return 0 end";
    struct tci_store_where where;
    redisReply *reply =
        redisCommand(store->own, "EVAL %s 1 %s %s", script, key_of(store, &where), card);
    tc_status_t status = TC_OK;

    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER)
        status = fail_answer(store, store->own, reply, error);
    freeReplyObject(reply);
    return status;
}

const struct tci_store_ops tci_store_redis = {
    .scheme = "redis",
    .check = check,
    .open = open_redis,
    .close = close_redis,
    .put = put,
    .get = get,
    .del = del,
};

#else

static tc_status_t check(const char *url, struct tci_error *error)
{
    (void)url;
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init",
                  "redis:// needs hiredis, which this library was built without: use file:// or "
                  "tcp://, or build it with libhiredis-dev");
    return TC_ERR_UNSUPPORTED;
}

const struct tci_store_ops tci_store_redis = {
    .scheme = "redis",
    .check = check,
};

#endif
