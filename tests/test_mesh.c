/* test_mesh.c - mesh groups: where peers listen, what calls promise, what is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "support/world.h"

enum { PEERS_MAX = 4 };

/* ---- Peers as threads ----------------------------------------------------------------------- */

static int holders[PEERS_MAX];
static char urls[PEERS_MAX][64];
static const char *peers[PEERS_MAX] = {urls[0], urls[1], urls[2], urls[3]};

/* Peer k at 127.0.0.(k + 1), at a port that nobody else is given while the holder is open. */
static int hold_ports(void **state)
{
    (void)state;
    for (int k = 0; k < PEERS_MAX; k++) {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (in_addr_t)k)};
        socklen_t len = sizeof at;
        int yes = 1;

        holders[k] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(holders[k] >= 0);
        setsockopt(holders[k], SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        assert_int_equal(bind(holders[k], (struct sockaddr *)&at, sizeof at), 0);
        assert_int_equal(getsockname(holders[k], (struct sockaddr *)&at, &len), 0);
        snprintf(urls[k], sizeof urls[k], "tcp://127.0.0.%d:%d", k + 1, ntohs(at.sin_port));
    }
    return 0;
}

static int free_ports(void **state)
{
    (void)state;
    for (int k = 0; k < PEERS_MAX; k++)
        close(holders[k]);
    return 0;
}

struct peer {
    int rank, size;
    tc_status_t status;
    char why[400];
    tc_context *context;
    tc_mesh_group_t *mesh;
    void (*body)(struct peer *peer); /* runs in the peer's thread; may not use assert_* */
    bool is_right;
};

static void *live(void *arg)
{
    struct peer *peer = arg;
    tc_config config;

    tc_config_default(&config);
    config.timeout_ms = 20000;
    peer->status = tc_init_config(&config, &peer->context);
    if (peer->status == TC_OK)
        peer->status =
            tc_mesh_group_init(peer->context, peer->size, peer->rank, peers, &peer->mesh);
    if (peer->status == TC_OK) {
        peer->body(peer);
        peer->status = tc_mesh_group_shutdown(peer->mesh);
    }
    if (peer->status != TC_OK)
        snprintf(peer->why, sizeof peer->why, "%s", tc_last_error()->message);
    tc_shutdown(peer->context);
    return NULL;
}

/* Runs `body` on each of `size` peers; fails the test unless all find everything right. */
static void with_peers(int size, void (*body)(struct peer *peer))
{
    struct peer all[PEERS_MAX];
    pthread_t threads[PEERS_MAX];

    memset(all, 0, sizeof all);
    for (int rank = 0; rank < size; rank++) {
        all[rank] = (struct peer){.rank = rank, .size = size, .body = body, .is_right = true};
        assert_int_equal(pthread_create(&threads[rank], NULL, live, &all[rank]), 0);
    }
    for (int rank = 0; rank < size; rank++)
        pthread_join(threads[rank], NULL);
    for (int rank = 0; rank < size; rank++) {
        if (all[rank].status != TC_OK)
            fail_msg("peer %d: %s", rank, all[rank].why);
        assert_true(all[rank].is_right);
    }
}

static void want(struct peer *peer, bool holds, int line)
{
    if (holds)
        return;
    print_error("peer %d: line %d does not hold\n", peer->rank, line);
    peer->is_right = false;
}
#define WANT(what) want(peer, what, __LINE__)

/* ---- Where peers listen --------------------------------------------------------------------- */

static bool answers(int host, const char *url)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (in_addr_t)host)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_open;

    at.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
    is_open = fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return is_open;
}

static void look_where(struct peer *peer)
{
    float x = 1;

    for (int k = 0; k < peer->size; k++) {
        WANT(answers(k, peers[k]));
        WANT(!answers((k + 1) % peer->size, peers[k]));
        WANT(!answers(17, peers[k]));
    }
    WANT(tc_mesh_allreduce(peer->mesh, &x, 1, TC_COLL_DTYPE_F32, TC_REDUCE_SUM) == TC_OK);
    WANT(x == (float)peer->size);
}

static void each_peer_listens_at_its_own_url_and_nowhere_else(void **state)
{
    (void)state;
    with_peers(4, look_where);
}

static void sum_once(struct peer *peer)
{
    int32_t x = 1 << peer->rank;

    WANT(tc_mesh_allreduce(peer->mesh, &x, 1, TC_COLL_DTYPE_I32, TC_REDUCE_BOR) == TC_OK);
    WANT(x == (1 << peer->size) - 1);
}

static void a_peer_may_be_named(void **state)
{
    char named[64];
    const char *before = peers[0];

    (void)state;
    snprintf(named, sizeof named, "tcp://localhost:%s", strrchr(urls[0], ':') + 1);
    peers[0] = named;
    with_peers(3, sum_once);
    peers[0] = before;
}

static void a_member_may_be_named(void **state)
{
    char named[64];
    const char *first = peers[0], *second = peers[1];

    (void)state;
    snprintf(named, sizeof named, "tcp://localhost:%s", strrchr(urls[0], ':') + 1);
    peers[0] = second;
    peers[1] = named;
    with_peers(3, sum_once);
    peers[0] = first;
    peers[1] = second;
}

static void a_place_that_is_taken_is_an_error_that_names_it(void **state)
{
    char url[64];
    int fd = world_listen(url, sizeof url);
    const char *urls_here[2] = {urls[0], url};
    tc_context *context;
    tc_mesh_group_t *mesh = NULL;

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);

    assert_int_equal(tc_mesh_group_init(context, 2, 1, urls_here, &mesh), TC_ERR_RENDEZVOUS);

    assert_non_null(strstr(tc_last_error()->message, url));
    assert_int_equal(tc_last_error()->rank, 1);
    assert_null(mesh);
    tc_shutdown(context);
    close(fd);
}

static void a_host_of_others_cannot_be_listened_at(void **state)
{
    const char *elsewhere[2] = {urls[0], "tcp://192.0.2.1:4100"};
    tc_context *context;
    tc_mesh_group_t *mesh = NULL;

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);

    assert_int_equal(tc_mesh_group_init(context, 2, 1, elsewhere, &mesh), TC_ERR_RENDEZVOUS);

    assert_non_null(strstr(tc_last_error()->message, "192.0.2.1"));
    tc_shutdown(context);
}

static void peers_that_do_not_come_are_named(void **state)
{
    tc_config config;
    tc_context *context;
    tc_mesh_group_t *mesh = NULL;

    (void)state;
    tc_config_default(&config);
    config.timeout_ms = 200;
    assert_int_equal(tc_init_config(&config, &context), TC_OK);

    assert_int_equal(tc_mesh_group_init(context, 3, 0, peers, &mesh), TC_ERR_TIMEOUT);

    assert_non_null(strstr(tc_last_error()->message, "ranks 1, 2"));
    tc_shutdown(context);
}

/* ---- What calls promise --------------------------------------------------------------------- */

static void reduce_every_type(struct peer *peer)
{
    static const struct {
        tc_coll_dtype_t coll;
        tc_dtype_t dtype;
    } types[] = {{TC_COLL_DTYPE_F32, TC_DTYPE_F32},       {TC_COLL_DTYPE_F16, TC_DTYPE_F16},
                 {TC_COLL_DTYPE_BF16, TC_DTYPE_BF16},     {TC_COLL_DTYPE_F64, TC_DTYPE_F64},
                 {TC_COLL_DTYPE_I8, TC_DTYPE_I8},         {TC_COLL_DTYPE_U8, TC_DTYPE_U8},
                 {TC_COLL_DTYPE_I16, TC_DTYPE_I16},       {TC_COLL_DTYPE_U16, TC_DTYPE_U16},
                 {TC_COLL_DTYPE_I32, TC_DTYPE_I32},       {TC_COLL_DTYPE_U32, TC_DTYPE_U32},
                 {TC_COLL_DTYPE_I64, TC_DTYPE_I64},       {TC_COLL_DTYPE_U64, TC_DTYPE_U64},
                 {TC_COLL_DTYPE_F8E4M3, TC_DTYPE_F8E4M3}, {TC_COLL_DTYPE_F8E5M2, TC_DTYPE_F8E5M2},
                 {TC_COLL_DTYPE_BOOL, TC_DTYPE_BOOL},     {TC_COLL_DTYPE_C64, TC_DTYPE_C64}};
    enum { COUNT = 33, BYTES = COUNT * 8 };

    for (size_t t = 0; t < TCI_LEN(types); t++) {
        uint8_t in[PEERS_MAX][BYTES], out[BYTES], mine[BYTES], all[PEERS_MAX * BYTES];
        const void *inputs[PEERS_MAX];
        size_t bytes = COUNT * tc_dtype_size(types[t].dtype);

        for (int r = 0; r < peer->size; r++) {
            inputs[r] = in[r];
            for (size_t i = 0; i < BYTES; i++)
                in[r][i] = (uint8_t)(0x11 * r + 7 * i + t);
        }
        memcpy(mine, in[peer->rank], BYTES);
        WANT(tc_mesh_allgather(peer->mesh, mine, COUNT, all, types[t].coll) == TC_OK);
        for (int r = 0; r < peer->size; r++)
            WANT(memcmp(all + (size_t)r * bytes, in[r], bytes) == 0);
        WANT(tc_mesh_allreduce(peer->mesh, mine, COUNT, types[t].coll, TC_REDUCE_SUM) == TC_OK);
        tc_reduce_reference(out, inputs, peer->size, COUNT, types[t].dtype, TC_REDUCE_SUM);
        WANT(memcmp(out, mine, bytes) == 0);
        memcpy(mine, in[peer->rank], BYTES);
        WANT(tc_mesh_broadcast(peer->mesh, mine, COUNT, types[t].coll, 1) == TC_OK);
        WANT(memcmp(in[1], mine, bytes) == 0);
    }
}

static void every_type_is_carried_and_gives_the_reference(void **state)
{
    (void)state;
    with_peers(3, reduce_every_type);
    with_peers(2, reduce_every_type);
}

struct caller {
    pthread_t thread;
    tc_mesh_group_t *mesh;
    uint64_t id;
    int64_t value;
    tc_status_t status;
};

static void *call_tagged(void *arg)
{
    struct caller *caller = arg;

    caller->status = tc_mesh_allreduce_tagged(caller->mesh, caller->id, &caller->value, 1,
                                              TC_COLL_DTYPE_I64, TC_REDUCE_SUM);
    return NULL;
}

/* Eight threads a rank, each rank in an order of its own; the first to start may be the last
 * elsewhere. */
static void cross(struct peer *peer)
{
    enum { THREADS = 8, ROUNDS = 20 };
    struct caller callers[THREADS];

    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < THREADS; k++) {
            int which =
                (peer->rank % 2 == 0 ? k : THREADS - 1 - k) * (2 * peer->rank + 1) % THREADS;

            callers[k] = (struct caller){
                .mesh = peer->mesh, .id = (uint64_t)which, .value = 100 * which + peer->rank};
            pthread_create(&callers[k].thread, NULL, call_tagged, &callers[k]);
        }
        for (int k = 0; k < THREADS; k++)
            pthread_join(callers[k].thread, NULL);
        WANT(tc_mesh_retained_snapshot_count(peer->mesh) == THREADS);
        for (int k = 0; k < THREADS; k++) {
            int64_t sum = peer->size * (peer->size - 1) / 2;

            WANT(callers[k].status == TC_OK);
            WANT(callers[k].value == sum + 100 * (int64_t)callers[k].id * peer->size);
            WANT(tc_mesh_collective_release_tag(peer->mesh, callers[k].id) == TC_OK);
        }
        WANT(tc_mesh_retained_snapshot_count(peer->mesh) == 0);
    }
}

static void tagged_calls_of_many_threads_come_in_any_order(void **state)
{
    (void)state;
    with_peers(3, cross);
}

static void *call_ordered(void *arg)
{
    struct caller *caller = arg;

    for (int k = 0; k < 50 && caller->status == TC_OK; k++) {
        caller->value = 1;
        caller->status =
            tc_mesh_allreduce(caller->mesh, &caller->value, 1, TC_COLL_DTYPE_I64, TC_REDUCE_SUM);
    }
    return NULL;
}

/* Which thread's call meets which is open; all calls are alike here. */
static void share_order(struct peer *peer)
{
    struct caller callers[4];
    size_t most = 0;

    for (size_t k = 0; k < TCI_LEN(callers); k++) {
        callers[k] = (struct caller){.mesh = peer->mesh};
        pthread_create(&callers[k].thread, NULL, call_ordered, &callers[k]);
    }
    for (int k = 0; k < 1000; k++) {
        size_t now = tc_mesh_retained_snapshot_count(peer->mesh);

        most = now > most ? now : most;
    }
    for (size_t k = 0; k < TCI_LEN(callers); k++) {
        pthread_join(callers[k].thread, NULL);
        WANT(callers[k].status == TC_OK && callers[k].value == peer->size);
    }
    WANT(most <= 2);
}

static void ordered_calls_of_many_threads_run_one_at_a_time(void **state)
{
    (void)state;
    with_peers(3, share_order);
}

static void keep_ids(struct peer *peer)
{
    float x = 1;

    WANT(tc_mesh_allreduce_tagged(peer->mesh, 5, &x, 1, TC_COLL_DTYPE_F32, TC_REDUCE_BXOR) ==
         TC_ERR_UNSUPPORTED);
    WANT(tc_mesh_collective_release_tag(peer->mesh, 5) == TC_ERR_INVALID_ARG);
    WANT(tc_mesh_allreduce_tagged(peer->mesh, 5, &x, 1, TC_COLL_DTYPE_F32, TC_REDUCE_SUM) == TC_OK);
    WANT(tc_mesh_broadcast_tagged(peer->mesh, 5, &x, 1, TC_COLL_DTYPE_F32, 0) == TC_ERR_BUSY);
    WANT(tc_last_error()->status == TC_ERR_BUSY);
    WANT(tc_mesh_broadcast(peer->mesh, &x, 1, TC_COLL_DTYPE_F32, 0) == TC_OK);
    WANT(tc_mesh_collective_release_tag(peer->mesh, 5) == TC_OK);
    WANT(tc_mesh_broadcast_tagged(peer->mesh, 5, &x, 1, TC_COLL_DTYPE_F32, 1) == TC_OK);
    WANT(tc_mesh_collective_release_tag(peer->mesh, 5) == TC_OK);
    WANT(tc_mesh_broadcast_tagged(peer->mesh, TC_TAG_ORDERED, &x, 1, TC_COLL_DTYPE_F32, 1) ==
         TC_ERR_INVALID_ARG);
    WANT(tc_mesh_broadcast(peer->mesh, &x, 1, (tc_coll_dtype_t)16, 0) == TC_ERR_UNSUPPORTED_DTYPE);
    WANT(tc_mesh_broadcast(peer->mesh, &x, 1, (tc_coll_dtype_t)-1, 0) == TC_ERR_UNSUPPORTED_DTYPE);
    WANT(tc_mesh_broadcast(peer->mesh, &x, 1, TC_COLL_DTYPE_F32, peer->size) == TC_ERR_INVALID_ARG);
    WANT(tc_mesh_allreduce(peer->mesh, NULL, 1, TC_COLL_DTYPE_F32, TC_REDUCE_SUM) ==
         TC_ERR_INVALID_ARG);
    WANT(tc_mesh_allreduce(peer->mesh, NULL, 0, TC_COLL_DTYPE_F32, TC_REDUCE_SUM) == TC_OK);
}

static void an_id_stays_reserved_until_it_is_released(void **state)
{
    (void)state;
    with_peers(2, keep_ids);
}

static void call_inside(tc_future *future, void *arg)
{
    struct peer *peer = arg;
    float x = 1;

    (void)future;
    WANT(tc_mesh_allreduce(peer->mesh, &x, 1, TC_COLL_DTYPE_F32, TC_REDUCE_SUM) ==
         TC_ERR_INVALID_ARG);
    WANT(tc_mesh_group_shutdown(peer->mesh) == TC_ERR_INVALID_ARG);
    WANT(tc_mesh_total_bytes(peer->mesh) > 0);
}

static void ask_inside(struct peer *peer)
{
    tc_future *promise = tc_promise_create(peer->context);
    float x[100] = {0};
    uint64_t before = tc_mesh_total_bytes(peer->mesh);

    WANT(tc_mesh_allreduce(peer->mesh, x, 100, TC_COLL_DTYPE_F32, TC_REDUCE_SUM) == TC_OK);
    WANT(tc_mesh_total_bytes(peer->mesh) >= before + 400);
    tc_future_then(promise, call_inside, peer);
    tc_promise_settle(promise, TC_OK);
    tc_future_release(promise);
    WANT(tc_mesh_allreduce(peer->mesh, x, 100, TC_COLL_DTYPE_F32, TC_REDUCE_SUM) == TC_OK);
}

static void calls_inside_a_continuation_are_refused(void **state)
{
    (void)state;
    with_peers(2, ask_inside);
}

static void a_mesh_of_one_is_alone(void **state)
{
    tc_context *context;
    tc_mesh_group_t *mesh = NULL;
    float x = 3, y = 0;

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);
    assert_int_equal(tc_mesh_group_init(context, 1, 0, peers, &mesh), TC_OK);

    assert_int_equal(tc_mesh_allreduce(mesh, &x, 1, TC_COLL_DTYPE_F32, TC_REDUCE_AVG), TC_OK);
    assert_int_equal(tc_mesh_allgather(mesh, &x, 1, &y, TC_COLL_DTYPE_F32), TC_OK);

    assert_true(x == 3 && y == 3);
    assert_false(answers(0, urls[0]));
    assert_string_equal(tc_mesh_allreduce_algorithm(mesh), "centralized");
    assert_int_equal(tc_mesh_group_shutdown(mesh), TC_OK);
    tc_shutdown(context);
}

/* ---- What is refused ------------------------------------------------------------------------ */

static void arguments_are_checked(void **state)
{
    const char *none[2] = {urls[0], NULL}, *twice[2] = {urls[0], urls[0]};
    const char *single[2] = {urls[0], "single://"}, *broken[2] = {urls[0], "tcp://x"};
    tc_context *context;
    tc_mesh_group_t *mesh = NULL;

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);
    assert_int_equal(tc_mesh_group_init(NULL, 2, 0, peers, &mesh), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init(context, 2, 0, peers, NULL), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init(context, 2, 0, NULL, &mesh), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init(context, 0, 0, peers, &mesh), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init(context, 2, 2, peers, &mesh), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init(context, 2, -1, peers, &mesh), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init(context, 2, 0, none, &mesh), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "peer_urls[1] is NULL"));
    assert_int_equal(tc_mesh_group_init(context, 2, 0, twice, &mesh), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init(context, 2, 0, single, &mesh), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_group_init(context, 2, 0, broken, &mesh), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "peer_urls[1]"));
    assert_null(mesh);
    assert_int_equal(tc_mesh_group_shutdown(NULL), TC_OK);
    assert_int_equal(tc_mesh_retained_snapshot_count(NULL), 0);
    assert_int_equal(tc_mesh_total_bytes(NULL), 0);
    assert_string_equal(tc_mesh_allreduce_algorithm(NULL), "");
    assert_int_equal(tc_mesh_collective_release_tag(NULL, 1), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_mesh_allreduce(NULL, NULL, 0, TC_COLL_DTYPE_F32, TC_REDUCE_SUM),
                     TC_ERR_INVALID_ARG);
    tc_shutdown(context);
}

static void missing_memory_is_said_and_nothing_is_kept(void **state)
{
    tc_context *context;
    tc_status_t status = TC_ERR_ALLOC;
    uint64_t before = tci_alloc_live();

    (void)state;
    assert_int_equal(tc_init(&context), TC_OK);
    for (uint64_t n = 1; status != TC_OK; n++) {
        tc_mesh_group_t *mesh = NULL;

        assert_true(n < 1000);
        tci_alloc_fail_at(n, 0);
        status = tc_mesh_group_init(context, 1, 0, peers, &mesh);
        tci_alloc_fail_at(0, 0);
        if (status == TC_OK)
            assert_int_equal(tc_mesh_group_shutdown(mesh), TC_OK);
        else
            assert_int_equal(status, TC_ERR_ALLOC);
    }
    tc_shutdown(context);
    assert_int_equal(tci_alloc_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_peer_listens_at_its_own_url_and_nowhere_else),
        cmocka_unit_test(a_peer_may_be_named),
        cmocka_unit_test(a_member_may_be_named),
        cmocka_unit_test(a_place_that_is_taken_is_an_error_that_names_it),
        cmocka_unit_test(a_host_of_others_cannot_be_listened_at),
        cmocka_unit_test(peers_that_do_not_come_are_named),
        cmocka_unit_test(every_type_is_carried_and_gives_the_reference),
        cmocka_unit_test(tagged_calls_of_many_threads_come_in_any_order),
        cmocka_unit_test(ordered_calls_of_many_threads_run_one_at_a_time),
        cmocka_unit_test(an_id_stays_reserved_until_it_is_released),
        cmocka_unit_test(calls_inside_a_continuation_are_refused),
        cmocka_unit_test(a_mesh_of_one_is_alone),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(missing_memory_is_said_and_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, hold_ports, free_ports);
}
