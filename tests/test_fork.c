/* test_fork.c - a child of fork(2) is told what it cannot use; the parent goes on unharmed. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 200 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/process.h"
#include "support/world.h"
#include "tcdist/mesh.h"

/* The thread sanitizer knows no threads of a child: there its loops are turned by hand. */
#if defined(__SANITIZE_THREAD__)
enum { MAY_HAVE_THREADS = 0 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { MAY_HAVE_THREADS = 0 };
#else
enum { MAY_HAVE_THREADS = 1 };
#endif
#else
enum { MAY_HAVE_THREADS = 1 };
#endif

enum { COUNT = 20000, BOUND_S = 60, EXIT_SAYS = 3 };

/* What the parent has in its hands when it forks. */
struct scene {
    struct world world;
    tc_mesh_group_t *mesh;
    tc_future *pending, *settled, *promise;
    float data[2][COUNT];
};

/* A child's assertion. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not so: %s (last error: %s)\n", __LINE__, #condition,        \
                    tc_last_error() == NULL ? "none" : tc_last_error()->message);                  \
            _exit(EXIT_SAYS);                                                                      \
        }                                                                                          \
    } while (0)

/* The outcome of a call, and why. */
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        CHECK((call) == TC_ERR_NOT_INITIALIZED);                                                   \
        CHECK(says_who(tc_last_error()->message));                                                 \
    } while (0)

static bool says_who(const char *message)
{
    char text[96];

    snprintf(text, sizeof(text), "made in process %d, and this is its child %d: call tc_init here",
             (int)getppid(), (int)getpid());
    return strstr(message, text) != NULL;
}

static void gives_refused(tc_future *future)
{
    CHECK(future != NULL && tc_future_test(future) == TC_ERR_NOT_INITIALIZED);
    CHECK(tc_future_wait(future, -1) == TC_ERR_NOT_INITIALIZED);
    CHECK(strstr(tc_future_error(future)->message, "call tc_init here") != NULL);
    tc_future_release(future);
}

static void never(tc_future *future, void *arg)
{
    (void)future, (void)arg;
    _exit(EXIT_SAYS);
}

static void try_futures(struct scene *scene)
{
    tc_future *const both[] = {scene->pending, scene->settled};

    for (size_t f = 0; f < 2; f++) {
        REFUSED(tc_future_wait(both[f], -1));
        REFUSED(tc_future_wait(both[f], 0));
        REFUSED(tc_future_test(both[f]));
        REFUSED(tc_future_then(both[f], never, NULL));
        CHECK(tc_future_error(both[f])->status == TC_ERR_NOT_INITIALIZED);
        CHECK(tc_future_fd(both[f]) == -1);
        CHECK(tc_future_ref(both[f]) == both[f]);
        tc_future_cancel(both[f]);
        tc_future_release(both[f]);
        tc_future_release(both[f]);
    }
    REFUSED(tc_promise_settle(scene->promise, TC_OK));
    gives_refused(tc_promise_create(scene->world.context[0]));
    gives_refused(tc_future_all(scene->world.context[0], both, 2));
    gives_refused(tc_future_any(scene->world.context[0], both, 2));
}

static void try_context(tc_context *context)
{
    tc_dist_options options;
    tc_dist_ctx *out;
    tc_buffer *buffer;

    REFUSED(tc_poll(context, -1));
    REFUSED(tc_dispatch(context));
    CHECK(tc_fd(context) == -1);
    CHECK(tc_timeout_ms(context) == -1);
    REFUSED(tc_buffer_alloc(context, 100, &buffer));
    REFUSED(tc_dist_init_env(context, &out));
    tc_dist_options_default(&options);
    gives_refused(tc_dist_init_async(context, &options, &out));
    CHECK(tc_dist_init(context, TC_DIST_ANY, 1, 0, NULL, &out) == TC_ERR_NOT_INITIALIZED);
    tc_trace_span(context, "nothing", 1, 0);
    REFUSED(tc_shutdown(context));
}

static void try_group(struct scene *scene)
{
    tc_dist_ctx *group = scene->world.group[0], *out;
    float *data = scene->data[0];
    int lost;

    gives_refused(tc_allreduce_async(group, 1, data, data, 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL));
    gives_refused(tc_barrier_async(group, 1, NULL));
    gives_refused(tc_send_async(group, 1, data, 4, TC_DTYPE_F32, 1, NULL));
    gives_refused(tc_recv_async(group, 1, data, 4, TC_DTYPE_F32, 1, NULL));
    gives_refused(tc_allgatherv_async(group, 1, data, 1, data, (const size_t[]){1, 1},
                                      (const size_t[]){0, 1}, TC_DTYPE_F32, NULL));
    gives_refused(tc_allreduce_compressed_async(group, 1, data, data, 4, TC_DTYPE_BF16,
                                                TC_REDUCE_SUM, NULL, NULL, NULL));
    gives_refused(tc_dist_split_async(group, 0, 0, &out));
    gives_refused(tc_dist_shrink_async(group, &out));
    gives_refused(tc_dist_tune_async(group));
    gives_refused(tc_dist_finalize_async(group));
    CHECK(tc_barrier(group) == TC_ERR_NOT_INITIALIZED);
    REFUSED(tc_tag_release(group, 1));
    REFUSED(tc_dist_health(group, &lost));
    REFUSED(tc_dist_finalize(group));
    REFUSED(tc_dist_close(group));
    CHECK(tc_algorithm(group, "allreduce", 4, TC_DTYPE_F32, TC_REDUCE_SUM, NULL) == NULL);
    CHECK(tc_dist_rank(group) == 0 && tc_dist_world_size(group) == 2);
    REFUSED(tc_mesh_allreduce(scene->mesh, data, 4, TC_COLL_DTYPE_F32, TC_REDUCE_SUM));
    REFUSED(tc_mesh_group_shutdown(scene->mesh));
    CHECK(tc_mesh_total_bytes(scene->mesh) == 0);
}

/* Give every element 1 on both ranks, sum, look. */
static bool sums_well(struct world *world, float data[2][COUNT], uint64_t tag)
{
    tc_future *sums[2];
    bool is_right = true;

    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < COUNT; i++)
            data[r][i] = 1;
        sums[r] = tc_allreduce_async(world->group[r], tag, data[r], data[r], COUNT, TC_DTYPE_F32,
                                     TC_REDUCE_SUM, NULL);
    }
    for (int r = 0; r < 2; r++) {
        is_right = is_right && world_wait(world, sums[r]) == TC_OK && data[r][COUNT - 1] == 2;
        tc_future_release(sums[r]);
    }
    return is_right;
}

/* What a child may do. */
static void live_its_own_life(int mode)
{
    static float data[2][COUNT];
    struct world world;
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = MAY_HAVE_THREADS ? mode : TC_LOOP_MANUAL;
    world_open(&world, 2, &config);
    CHECK(sums_well(&world, data, 5));
    for (int r = 0; r < 2; r++)
        CHECK(tc_dist_close(world.group[r]) == TC_OK);
    for (int r = 0; r < 2; r++)
        CHECK(tc_shutdown(world.context[r]) == TC_OK);
}

static pid_t fork_child(struct scene *scene, bool lives)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    alarm(BOUND_S);
    try_futures(scene);
    try_group(scene);
    try_context(scene->world.context[0]);
    if (lives)
        live_its_own_life(scene->world.mode);
    try_futures(scene); /* its own contexts make nothing of its parent's its own */
    _exit(0);
}

static void ends_well(pid_t pid)
{
    int how;

    assert_int_equal(waitpid(pid, &how, 0), pid);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
        fail_msg("a child ends with status %x", how);
}

static void open_scene(struct scene *scene, int mode)
{
    tc_config config;
    const char *url = "single://";

    tc_config_default(&config);
    config.loop_mode = mode;
    world_open(&scene->world, 2, &config);
    assert_int_equal(tc_mesh_group_init(scene->world.context[0], 1, 0, &url, &scene->mesh), TC_OK);
    assert_true(sums_well(&scene->world, scene->data, 1));
    scene->pending =
        tc_recv_async(scene->world.group[0], 9, scene->data[0], COUNT, TC_DTYPE_F32, 1, NULL);
    scene->settled = tc_promise_create(scene->world.context[0]);
    assert_int_equal(tc_promise_settle(scene->settled, TC_OK), TC_OK);
    assert_int_equal(world_wait(&scene->world, scene->settled), TC_OK);
    scene->promise = tc_promise_create(scene->world.context[0]);
    assert_true(tc_future_fd(scene->settled) >= 0);
}

static void close_scene(struct scene *scene)
{
    tc_future *sent =
        tc_send_async(scene->world.group[1], 9, scene->data[1], COUNT, TC_DTYPE_F32, 0, NULL);

    assert_int_equal(world_wait(&scene->world, sent), TC_OK);
    assert_int_equal(world_wait(&scene->world, scene->pending), TC_OK);
    assert_int_equal(tc_promise_settle(scene->promise, TC_OK), TC_OK);
    assert_int_equal(world_wait(&scene->world, scene->promise), TC_OK);
    tc_future_release(sent);
    tc_future_release(scene->pending);
    tc_future_release(scene->settled);
    tc_future_release(scene->promise);
    assert_int_equal(tc_dist_health(scene->world.group[0], NULL), TC_OK);
    assert_int_equal(tc_mesh_group_shutdown(scene->mesh), TC_OK);
    world_close(&scene->world);
}

static void in_mode(int mode)
{
    static struct scene scene;
    pid_t pids[4];

    open_scene(&scene, mode);
    /* At rest, and in the middle of things. */
    for (int c = 0; c < 4; c++) {
        static float bulk[2][COUNT];
        tc_future *sums[2];

        for (int r = 0; r < 2; r++)
            sums[r] = tc_allreduce_async(scene.world.group[r], 40 + (uint64_t)c, bulk[r], bulk[r],
                                         COUNT, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
        pids[c] = fork_child(&scene, c % 2 != 0);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(world_wait(&scene.world, sums[r]), TC_OK);
            tc_future_release(sums[r]);
        }
    }
    for (uint64_t tag = 100; tag < 120; tag++) {
        static float data[2][COUNT];

        assert_true(sums_well(&scene.world, data, tag));
    }
    for (int c = 0; c < 4; c++)
        ends_well(pids[c]);
    close_scene(&scene);
}

static void a_child_is_told_and_the_parent_goes_on(void **state)
{
    (void)state;
    in_mode(TC_LOOP_THREAD);
}

static void also_without_a_thread(void **state)
{
    (void)state;
    in_mode(TC_LOOP_MANUAL);
}

static void also_as_a_guest(void **state)
{
    (void)state;
    in_mode(TC_LOOP_HOST);
}

static void a_grandchild_knows_both(void **state)
{
    static struct scene scene;
    pid_t pid;

    (void)state;
    open_scene(&scene, TC_LOOP_MANUAL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        tc_context *own;
        tc_config config;
        pid_t grandchild;
        int how;

        alarm(BOUND_S);
        tc_config_default(&config);
        config.loop_mode = MAY_HAVE_THREADS ? TC_LOOP_THREAD : TC_LOOP_MANUAL;
        CHECK(tc_init_config(&config, &own) == TC_OK);
        grandchild = fork();
        if (grandchild == 0) {
            alarm(BOUND_S);
            REFUSED(tc_shutdown(own));
            CHECK(tc_shutdown(scene.world.context[0]) == TC_ERR_NOT_INITIALIZED);
            CHECK(tc_init_config(&config, &own) == TC_OK);
            CHECK(tc_shutdown(own) == TC_OK);
            _exit(0);
        }
        CHECK(waitpid(grandchild, &how, 0) == grandchild);
        CHECK(how == 0);
        CHECK(tc_shutdown(own) == TC_OK);
        _exit(0);
    }
    ends_well(pid);
    close_scene(&scene);
}

static void a_kernel_without_the_page_will_do(void **state)
{
    struct tci_process process;
    int how;

    (void)state;
    tci_process_get(&process);
    assert_true(tci_process_is_this(&process));
    process.page = NULL;
    assert_true(tci_process_is_this(&process));
    pid_t pid = fork();
    if (pid == 0)
        _exit(tci_process_is_this(&process));
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_told_and_the_parent_goes_on),
        cmocka_unit_test(also_without_a_thread),
        cmocka_unit_test(also_as_a_guest),
        cmocka_unit_test(a_grandchild_knows_both),
        cmocka_unit_test(a_kernel_without_the_page_will_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
