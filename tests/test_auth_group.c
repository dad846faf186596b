/* test_auth_group.c - groups whose ranks have keys: those that form, and why the others do not. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: waits, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base.h"
#include "core/comm.h"
#include "core/mux.h"
#include "net/shm.h"
#include "net/tcp_link.h"
#include "rdma/rdma.h"
#include "support/world.h"

static const char key_a[] = "0123456789abcdef0123456789abcdef", key_b[] = "another key of 16+";
static const char *const names[] = {"anna", "bert", "carl", "dora"};
enum { COUNT = 20000, DENIED_MS = 6000 };

/* ---- Groups that form ------------------------------------------------------------------------ */

/* Every pair of ranks exchanges something, and every rank gets the right sums. */
static void check_works(struct world *world)
{
    static float send[4][COUNT], got[4][COUNT], all[4][4 * 4];
    tc_future *sums[4], *parts[4];

    for (int r = 0; r < world->size; r++) {
        for (int k = 0; k < COUNT; k++)
            send[r][k] = (float)(r + k % 17);
        sums[r] = tc_allreduce_async(world->group[r], 1, send[r], got[r], COUNT, TC_DTYPE_F32,
                                     TC_REDUCE_SUM, NULL);
        parts[r] = tc_alltoall_async(world->group[r], 2, send[r], all[r], 4, TC_DTYPE_F32, NULL);
    }
    for (int r = 0; r < world->size; r++) {
        float ranks = (float)(world->size * (world->size - 1) / 2);

        if (world_wait(world, sums[r]) != TC_OK || world_wait(world, parts[r]) != TC_OK)
            fail_msg("rank %d: %s", r, tc_future_error(sums[r])->message);
        for (int k = 0; k < COUNT; k++)
            assert_true(got[r][k] == ranks + (float)(world->size * (k % 17)));
        for (int from = 0; from < world->size; from++)
            assert_true(all[r][4 * from] == (float)(from + 4 * r % 17));
        tc_future_release(sums[r]);
        tc_future_release(parts[r]);
    }
}

static void ranks_with_a_key_form_a_group(void **state)
{
    struct world world;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.key = key_a;
    config.key_bytes = sizeof(key_a) - 1;
    for (int size = 1; size <= 4; size++)
        for (int encryption = -1; encryption <= 1; encryption += 2) {
            config.encryption = encryption;
            world_open(&world, size, &config);
            check_works(&world);
            world_close(&world);
        }
}

static void the_environment_has_the_key(void **state)
{
    static const char *const variables[] = {"TCDIST_KEY", "NUVEC_DISTRIBUTED_KEY"};
    struct world world;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(variables); k++) {
        setenv(variables[k], key_b, 1);
        setenv("TCDIST_PREVIOUS_KEY", key_a, 1);
        setenv("TCDIST_ENCRYPTION", "on", 1);
        world_open(&world, 3, NULL);
        check_works(&world);
        world_close(&world);
        unsetenv(variables[k]);
        unsetenv("TCDIST_PREVIOUS_KEY");
        unsetenv("TCDIST_ENCRYPTION");
    }
}

static void a_short_key_is_refused_without_being_shown(void **state)
{
    tc_context *context;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.key = "hush, secret 15";
    config.key_bytes = 15;
    assert_int_equal(tc_init_config(&config, &context), TC_ERR_INVALID_ARG);
    assert_non_null(
        strstr(tc_last_error()->message, "key is 15 bytes long: a key has at least 16"));
    assert_null(strstr(tc_last_error()->message, "hush"));

    setenv("TCDIST_KEY", "hush", 1);
    assert_int_equal(tc_init(&context), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "TCDIST_KEY is 4 bytes long"));
    assert_null(strstr(tc_last_error()->message, "hush"));
    unsetenv("TCDIST_KEY");
}

static void note_key(tc_log_level_t level, const char *line, void *arg)
{
    int *told = arg;

    *told += level == TC_LOG_WARN && strstr(line, "encryption is on, and there is no key") != NULL;
}

static void to_encrypt_takes_a_key(void **state)
{
    int told = 0;
    tc_dist_ctx *group;
    tc_context *context;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.encryption = 1;
    tc_log_set_sink(note_key, &told);
    assert_int_equal(tc_init_config(&config, &context), TC_OK);
    assert_int_equal(tc_dist_init(context, TC_DIST_ANY, 2, 0, "tcp://127.0.0.1:4100", &group),
                     TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "there is no key to encrypt by"));

    assert_int_equal(tc_dist_init(context, TC_DIST_SINGLE, 1, 0, NULL, &group), TC_OK);
    assert_int_equal(told, 1);
    assert_int_equal(tc_dist_finalize(group), TC_OK);
    tc_shutdown(context);
    tc_log_set_sink(NULL, NULL);
}

/* ---- Groups that do not ---------------------------------------------------------------------- */

/* What the second rank is given, where the first has key_a; and what both say of it. */
struct unlike {
    const char *key, *previous;
    int encryption;
    const char *says;
    tc_context *contexts[2];
    tc_dist_ctx *groups[2];
    tc_future *futures[2];
};

static void begin_rank(struct unlike *unlike, int rank, const char *url, int fd)
{
    tc_dist_options options;
    tc_config config;

    tc_config_default(&config);
    config.key = rank == 0 ? key_a : unlike->key;
    config.key_bytes = config.key != NULL ? strlen(config.key) : 0;
    config.previous_key = rank == 0 ? NULL : unlike->previous;
    config.previous_key_bytes = config.previous_key != NULL ? strlen(config.previous_key) : 0;
    config.encryption = rank == 0 ? -1 : unlike->encryption;
    assert_int_equal(tc_init_config(&config, &unlike->contexts[rank]), TC_OK);
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.rank = rank;
    options.rendezvous_url = url;
    options.listen_fd = fd;
    options.timeout_ms = rank == 0 ? DENIED_MS : 10 * DENIED_MS;
    unlike->futures[rank] =
        tc_dist_init_async(unlike->contexts[rank], &options, &unlike->groups[rank]);
}

static void check_denied(const tc_error *error, const char *says)
{
    if (strstr(error->message, says) == NULL || strstr(error->message, "0123456789") != NULL)
        fail_msg("\"%s\", not \"%s\"", error->message, says);
    assert_int_equal(error->status, TC_ERR_AUTH);
    assert_int_equal(error->rank, 1);
    assert_int_equal(tc_error_reason(error), TC_REASON_REFUSED_KEY);
}

/* All at the same time: who has the key waits for the right rank to come until its deadline. */
static void each_mistake_has_its_own_words(void **state)
{
    struct unlike rows[] = {
        {.key = key_b, .says = "rank 1 have different keys"},
        {.key = NULL, .says = "rank 1 has no key, rank 0 has one"},
        {.key = key_a, .encryption = 1, .says = "is set to encrypt, the other is not"},
        {.key = "0123456789abcdef0123456789abcdeF", .says = "rank 1 have different keys"},
        {.key = "0123456789abcdef0123456789abcde", .says = "rank 1 have different keys"},
    };

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        char url[64];
        int fd = world_listen(url, sizeof(url));

        begin_rank(&rows[k], 0, url, fd);
        begin_rank(&rows[k], 1, url, -1);
    }
    for (size_t k = 0; k < TCI_LEN(rows); k++)
        for (int rank = 1; rank >= 0; rank--) {
            assert_int_equal(tc_future_wait(rows[k].futures[rank], -1), TC_ERR_AUTH);
            check_denied(tc_future_error(rows[k].futures[rank]), rows[k].says);
            tc_future_release(rows[k].futures[rank]);
            tc_shutdown(rows[k].contexts[rank]);
        }
}

/* The other way round nobody is protected, and all are told at once. */
static void a_key_on_the_second_rank_alone_is_told_at_once(void **state)
{
    struct world world = {.size = 2};
    tc_future *futures[2];
    char url[64];
    int fd = world_listen(url, sizeof(url));

    (void)state;
    for (int r = 0; r < 2; r++) {
        tc_dist_options options;
        tc_config config;

        tc_config_default(&config);
        config.key = r == 1 ? key_a : NULL;
        config.key_bytes = r == 1 ? strlen(key_a) : 0;
        assert_int_equal(tc_init_config(&config, &world.context[r]), TC_OK);
        tc_dist_options_default(&options);
        options.world_size = 2;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        options.timeout_ms = -1;
        futures[r] = tc_dist_init_async(world.context[r], &options, &world.group[r]);
    }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(tc_future_wait(futures[r], -1), TC_ERR_AUTH);
        check_denied(tc_future_error(futures[r]), "rank 1 has");
        tc_future_release(futures[r]);
        tc_shutdown(world.context[r]);
    }
}

static struct tci_tcp *tcp_of(tc_dist_ctx *group)
{
    return tci_tcp_of(
        tci_rdma_below(tci_shm_below(tci_mux_of(tci_comm_of(group)->transport)->below)));
}

/* Somebody sees to it that who dials one rank gets another, which has the key too.  It takes the
 * ten seconds that a rank goes on trying. */
static void who_dials_a_rank_is_not_content_with_another(void **state)
{
    uint8_t said = 1, heard = 0;
    struct world world;
    tc_config config;
    tc_future *send, *recv;

    (void)state;
    if (test_effort() < 2) {
        printf("skipped: takes ten seconds; TCDIST_TEST_EFFORT=full runs it\n");
        skip();
    }
    tc_config_default(&config);
    config.key = key_a;
    config.key_bytes = sizeof(key_a) - 1;
    config.encryption = 1;
    world_open(&world, 3, &config);
    tcp_of(world.group[1])->addrs[2] = tcp_of(world.group[1])->addrs[0];

    recv = tc_recv_async(world.group[2], 1, &heard, 1, TC_DTYPE_U8, 1, NULL);
    send = tc_send_async(world.group[1], 1, &said, 1, TC_DTYPE_U8, 2, NULL);

    assert_int_not_equal(tc_future_wait(send, -1), TC_OK);
    assert_non_null(strstr(tc_future_error(send)->message, "what was meant for another rank"));
    assert_int_not_equal(tc_future_wait(recv, -1), TC_OK);
    assert_int_equal(heard, 0);
    tc_future_release(send);
    tc_future_release(recv);
    for (int r = 0; r < 3; r++) {
        tc_dist_close(world.group[r]);
        world.group[r] = NULL;
    }
    world_close(&world);
}

/* ---- Identities ------------------------------------------------------------------------------ */

/* A rank that calls an authenticated constructor, in a thread. */
struct caller {
    pthread_t thread;
    int rank, size;
    bool is_mesh;
    const char *urls[4];
    const char *identities[4];
    tc_transport_auth_key keys[5];
    tc_transport_auth_config auth;
    tc_context *context;
    tc_dist_ctx *group;
    tc_mesh_group_t *mesh;
    tc_status_t status;
    int guilty;
    tc_reason_t reason;
    char message[400];
};

static void *call(void *arg)
{
    struct caller *caller = arg;

    caller->status =
        caller->is_mesh
            ? tc_mesh_group_init_authenticated(caller->context, caller->size, caller->rank,
                                               caller->urls, caller->identities, &caller->auth,
                                               &caller->mesh)
            : tc_dist_init_authenticated(caller->context, TC_DIST_RING, caller->size, caller->rank,
                                         caller->urls[0], caller->identities, (size_t)caller->size,
                                         &caller->auth, &caller->group);
    if (caller->status == TC_OK)
        return NULL;
    caller->guilty = tc_last_error()->rank;
    caller->reason = tc_error_reason(tc_last_error());
    snprintf(caller->message, sizeof(caller->message), "%s", tc_last_error()->message);
    return NULL;
}

/* Places that were free a moment ago. */
static void fill(struct caller *callers, int size, int encryption, int timeout_ms)
{
    static char places[4][64];
    tc_config config;

    memset(callers, 0, (size_t)size * sizeof(*callers));
    tc_config_default(&config);
    config.timeout_ms = timeout_ms;
    config.encryption = encryption;
    for (int r = 0; r < size; r++)
        close(world_listen(places[r], sizeof(places[r])));
    for (int r = 0; r < size; r++) {
        struct caller *caller = &callers[r];

        caller->rank = r;
        caller->size = size;
        for (int k = 0; k < size; k++) {
            caller->urls[k] = places[k];
            caller->identities[k] = names[k];
            caller->keys[k] = (tc_transport_auth_key){names[k], 7, &key_a[k % 2 == 0 ? 0 : 1],
                                                      sizeof(key_a) - 2 + (size_t)(k % 2 == 0)};
            caller->keys[k].secret_bytes = 32;
        }
        caller->auth = (tc_transport_auth_config){TC_TRANSPORT_AUTH_ABI_VERSION_CURRENT, names[r],
                                                  7, caller->keys, (size_t)size};
        assert_int_equal(tc_init_config(&config, &caller->context), TC_OK);
    }
}

static void run(struct caller *callers, int size)
{
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_create(&callers[r].thread, NULL, call, &callers[r]), 0);
    for (int r = 0; r < size; r++)
        pthread_join(callers[r].thread, NULL);
}

static void *leave(void *arg)
{
    struct caller *caller = arg;

    if (caller->mesh != NULL)
        tc_mesh_group_shutdown(caller->mesh);
    if (caller->group != NULL)
        tc_dist_finalize(caller->group);
    tc_shutdown(caller->context);
    return NULL;
}

static void end(struct caller *callers, int size)
{
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_create(&callers[r].thread, NULL, leave, &callers[r]), 0);
    for (int r = 0; r < size; r++)
        pthread_join(callers[r].thread, NULL);
}

static void *sum(void *arg)
{
    struct caller *caller = arg;
    float value = (float)(caller->rank + 1);

    caller->status = tc_mesh_allreduce(caller->mesh, &value, 1, TC_COLL_DTYPE_F32, TC_REDUCE_SUM);
    if (value != (float)(caller->size * (caller->size + 1) / 2))
        caller->status = TC_ERR_INTERNAL;
    return NULL;
}

static void ranks_prove_who_they_are(void **state)
{
    struct caller callers[4];

    (void)state;
    for (int size = 2; size <= 4; size++)
        for (int way = 0; way < 4; way++) {
            struct world world = {.size = size};

            fill(callers, size, way % 2 == 0 ? -1 : 1, 0);
            for (int r = 0; r < size; r++)
                callers[r].is_mesh = way >= 2;
            run(callers, size);
            for (int r = 0; r < size; r++) {
                if (callers[r].status != TC_OK)
                    fail_msg("rank %d of %d: %s", r, size, callers[r].message);
                world.group[r] = callers[r].group;
                world.context[r] = callers[r].context;
            }
            if (way < 2)
                check_works(&world);
            for (int r = 0; way >= 2 && r < size; r++)
                assert_int_equal(pthread_create(&callers[r].thread, NULL, sum, &callers[r]), 0);
            for (int r = 0; way >= 2 && r < size; r++) {
                pthread_join(callers[r].thread, NULL);
                assert_int_equal(callers[r].status, TC_OK);
            }
            end(callers, size);
        }
}

/* A key that comes to all before one of them uses it changes nothing else. */
static void a_rank_changes_its_key_before_the_others_do(void **state)
{
    struct caller callers[3];

    (void)state;
    fill(callers, 3, -1, 0);
    for (int r = 0; r < 3; r++) {
        callers[r].keys[3] = (tc_transport_auth_key){"bert", 8, key_a, 32};
        callers[r].auth.key_count = 4;
    }
    callers[1].auth.active_key_id = 8;

    run(callers, 3);

    for (int r = 0; r < 3; r++)
        if (callers[r].status != TC_OK)
            fail_msg("rank %d: %s", r, callers[r].message);
    end(callers, 3);
}

static void check_all_denied(struct caller *callers, tc_reason_t reason, const char *says)
{
    run(callers, 2);
    for (int r = 0; r < 2; r++) {
        if (strstr(callers[r].message, says) == NULL)
            fail_msg("rank %d: \"%s\", not \"%s\"", r, callers[r].message, says);
        assert_null(strstr(callers[r].message, "456789"));
        assert_int_equal(callers[r].status, TC_ERR_AUTH);
        assert_int_equal(callers[r].guilty, 1);
        assert_int_equal(callers[r].reason, reason);
    }
    end(callers, 2);
}

static void another_identity_number_or_secret_is_refused(void **state)
{
    enum { MS = 3000 };
    struct caller callers[2];

    (void)state;
    fill(callers, 2, -1, MS); /* rank 0 knows the second rank by another name */
    callers[0].identities[1] = callers[0].keys[1].identity = "berta";
    check_all_denied(callers, TC_REASON_REFUSED_IDENTITY,
                     "rank 1 gives an identity that is not the one");

    fill(callers, 2, -1, MS); /* and its key under another number */
    callers[0].keys[1].key_id = 9;
    check_all_denied(callers, TC_REASON_REFUSED_KEY, "rank 1 proves itself by a key number");

    fill(callers, 2, -1, MS); /* and another secret for it */
    callers[0].keys[1].secret = "0000000000000000000000000000000000";
    check_all_denied(callers, TC_REASON_REFUSED_KEY, "have different keys");
}

static void count_detours(tc_log_level_t level, const char *line, void *arg)
{
    (void)level;
    if (strstr(line, "is reached through rank 0") != NULL)
        atomic_fetch_add((atomic_int *)arg, 1);
}

/* Each has proven itself to rank 0, but the second and third have different secrets for the third:
 * that shows when one of them dials the other, and no way round it is tried. */
static void who_is_denied_later_is_named_as_well(void **state)
{
    struct caller callers[3];
    tc_future *futures[3];
    float value = 1, got = 0;
    atomic_int detours = 0;

    (void)state;
    tc_log_set_sink(count_detours, &detours);
    fill(callers, 3, -1, 0);
    callers[1].keys[2].secret = "0000000000000000000000000000000000";
    run(callers, 3);
    for (int r = 0; r < 3; r++)
        if (callers[r].status != TC_OK)
            fail_msg("rank %d: %s", r, callers[r].message);
    futures[0] = tc_barrier_async(callers[0].group, 1, NULL);
    futures[1] = tc_send_async(callers[1].group, 2, &value, 1, TC_DTYPE_F32, 2, NULL);
    futures[2] = tc_recv_async(callers[2].group, 2, &got, 1, TC_DTYPE_F32, 1, NULL);

    for (int r = 0; r < 3; r++) {
        const tc_error *error;

        (void)tc_future_wait(futures[r], -1);
        error = tc_future_error(futures[r]);
        assert_non_null(error);
        if (error->status != TC_ERR_AUTH || tc_error_reason(error) != TC_REASON_REFUSED_KEY ||
            error->rank != tc_future_error(futures[0])->rank || error->rank < 1 ||
            strstr(error->message, "have different keys") == NULL)
            fail_msg("rank %d: %d, %d: %s", r, error->status, error->rank, error->message);
        assert_int_equal(tc_dist_health(callers[r].group, NULL), TC_ERR_AUTH);
        tc_future_release(futures[r]);
    }
    end(callers, 3);
    tc_log_set_sink(NULL, NULL);
    assert_int_equal(detours, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_with_a_key_form_a_group),
        cmocka_unit_test(the_environment_has_the_key),
        cmocka_unit_test(a_short_key_is_refused_without_being_shown),
        cmocka_unit_test(to_encrypt_takes_a_key),
        cmocka_unit_test(each_mistake_has_its_own_words),
        cmocka_unit_test(a_key_on_the_second_rank_alone_is_told_at_once),
        cmocka_unit_test(who_dials_a_rank_is_not_content_with_another),
        cmocka_unit_test(ranks_prove_who_they_are),
        cmocka_unit_test(a_rank_changes_its_key_before_the_others_do),
        cmocka_unit_test(another_identity_number_or_secret_is_refused),
        cmocka_unit_test(who_is_denied_later_is_named_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
