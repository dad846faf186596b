/* test_dist_env.c - the group that a launcher's environment describes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/world.h"

static void set(const char *name, const char *value)
{
    if (value == NULL)
        unsetenv(name);
    else
        setenv(name, value, 1);
}

static void describe(const char *rank, const char *size, const char *url, const char *fd)
{
    set("TCDIST_RANK", rank);
    set("TCDIST_WORLD_SIZE", size);
    set("TCDIST_RENDEZVOUS", url);
    set("TCDIST_RENDEZVOUS_FD", fd);
}

static int forget(void **state)
{
    (void)state;
    describe(NULL, NULL, NULL, NULL);
    set("MLX_RANK", NULL);
    set("MLX_WORLD_SIZE", NULL);
    set("NCCL_HOST_IP", NULL);
    set("NCCL_PORT", NULL);
    set("MLX_NCCL_TIMEOUT", NULL);
    set("MLX_HOSTFILE", NULL);
    set("MLX_RING_VERBOSE", NULL);
    set("TCDIST_START_TIMEOUT", NULL);
    return 0;
}

static tc_context *begin(void)
{
    tc_context *context = NULL;

    assert_int_equal(tc_init(&context), TC_OK);
    return context;
}

static void without_a_launcher_the_process_is_alone(void **state)
{
    tc_context *context = begin();
    tc_dist_ctx *group = NULL;

    (void)state;
    assert_int_equal(tc_dist_init_env(context, &group), TC_OK);
    assert_int_equal(tc_dist_world_size(group), 1);
    assert_int_equal(tc_dist_rank(group), 0);
    assert_int_equal(tc_dist_finalize(group), TC_OK);
    tc_shutdown(context);
}

static void a_second_call_gives_the_same_group_with_one_owner_more(void **state)
{
    tc_context *context = begin();
    tc_dist_ctx *first = NULL, *second = NULL, *third = NULL, *other = NULL;
    float value = 4;

    (void)state;
    assert_int_equal(tc_dist_init(context, TC_DIST_SINGLE, 1, 0, NULL, &other), TC_OK);
    assert_int_equal(tc_dist_init_env(context, &first), TC_OK);
    assert_ptr_not_equal(first, other); /* a group formed otherwise is none of the launcher's */
    assert_int_equal(tc_dist_init_env(context, &second), TC_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(tc_dist_finalize(first), TC_OK);

    /* It stands: one owner is left. */
    tc_future *sum =
        tc_allreduce_async(second, 1, &value, &value, 1, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    assert_int_equal(tc_future_wait(sum, 60000), TC_OK);
    tc_future_release(sum);
    assert_int_equal(tc_dist_health(second, NULL), TC_OK);
    assert_int_equal(tc_dist_finalize(second), TC_OK);

    /* It is gone: the next call forms another. */
    assert_int_equal(tc_dist_init_env(context, &third), TC_OK);
    assert_int_equal(tc_dist_finalize(third), TC_OK);
    assert_int_equal(tc_dist_finalize(other), TC_OK);
    tc_shutdown(context);
}

static void a_bad_value_is_refused_and_its_variable_named(void **state)
{
    static const struct {
        const char *rank, *size, *url, *fd;
        const char *variable, *value;
    } bad[] = {
        {"0", "two", "tcp://h:1", NULL, "TCDIST_WORLD_SIZE", "two"},
        {"0", "0", "tcp://h:1", NULL, "TCDIST_WORLD_SIZE", "0"},
        {"0", "-2", "tcp://h:1", NULL, "TCDIST_WORLD_SIZE", "-2"},
        {"0", "99999999999999999999", "tcp://h:1", NULL, "TCDIST_WORLD_SIZE", "9999"},
        {"2", "2", "tcp://h:1", NULL, "TCDIST_RANK", "2"},
        {"-1", "2", "tcp://h:1", NULL, "TCDIST_RANK", "-1"},
        {"1x", "2", "tcp://h:1", NULL, "TCDIST_RANK", "1x"},
        {NULL, "2", "tcp://h:1", NULL, "TCDIST_RANK", "not set"},
        {"1", "2", NULL, NULL, "TCDIST_RENDEZVOUS", "not set"},
        {"1", "2", "nowhere", NULL, "TCDIST_RENDEZVOUS", "nowhere"},
        {"1", "2", "single://", NULL, "TCDIST_RENDEZVOUS", "single://"},
        {"1", "2", "tcp://h", NULL, "TCDIST_RENDEZVOUS", "tcp://h"},
        {"0", "2", "tcp://h:1", "three", "TCDIST_RENDEZVOUS_FD", "three"},
        {"0", "2", "tcp://h:1", "-1", "TCDIST_RENDEZVOUS_FD", "-1"},
        {"0", "2", "tcp://127.0.0.1:1", "999", "TCDIST_RENDEZVOUS_FD", "999"},
        {"1", NULL, "tcp://h:1", NULL, "TCDIST_WORLD_SIZE", "not set"},
    };
    tc_context *context = begin();

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tc_dist_ctx *group = NULL;

        describe(bad[i].rank, bad[i].size, bad[i].url, bad[i].fd);
        tc_status_t status = tc_dist_init_env(context, &group);
        const tc_error *why = tc_last_error();
        if (status != TC_ERR_INVALID_ARG || strstr(why->message, bad[i].variable) == NULL ||
            strstr(why->message, bad[i].value) == NULL)
            fail_msg("case %zu: %d, %s", i, status, status == TC_OK ? "" : why->message);
        assert_null(group);
    }
    tc_shutdown(context);
}

struct process {
    pthread_t thread;
    tc_context *context;
    tc_dist_ctx *group;
    tc_status_t left;
};

static void *leave(void *arg)
{
    struct process *process = arg;

    process->left = tc_dist_finalize(process->group);
    return NULL;
}

/* The environment is the process's: rank 1 is formed with options, as its launcher would have. */
static void form_both(struct process processes[2])
{
    tc_dist_options options;
    char url[64], fd[16];
    tc_future *one;

    snprintf(fd, sizeof(fd), "%d", world_listen(url, sizeof(url)));
    describe("0", "2", url, fd);
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.rank = 1;
    options.rendezvous_url = url;
    one = tc_dist_init_async(processes[1].context, &options, &processes[1].group);
    assert_int_equal(tc_dist_init_env(processes[0].context, &processes[0].group), TC_OK);
    assert_int_equal(tc_future_wait(one, 60000), TC_OK);
    tc_future_release(one);
    assert_int_equal(tc_dist_rank(processes[0].group), 0);
    assert_int_equal(tc_dist_world_size(processes[0].group), 2);
}

static void end_both(struct process processes[2])
{
    for (int r = 0; r < 2; r++)
        assert_int_equal(pthread_create(&processes[r].thread, NULL, leave, &processes[r]), 0);
    for (int r = 0; r < 2; r++) {
        pthread_join(processes[r].thread, NULL);
        assert_int_equal(processes[r].left, TC_OK);
        tc_shutdown(processes[r].context);
    }
}

static void ranks_of_a_launcher_meet_over_the_inherited_socket(void **state)
{
    struct process processes[2] = {{.context = begin()}, {.context = begin()}};

    (void)state;
    form_both(processes);
    end_both(processes);
}

/* Rank 1 leaves without a word of goodbye, and both come again. */
static void a_group_that_has_failed_is_not_given_again(void **state)
{
    struct process processes[2] = {{.context = begin()}, {.context = begin()}};
    tc_dist_ctx *failed;

    (void)state;
    form_both(processes);
    failed = processes[0].group;
    assert_int_equal(tc_dist_close(processes[1].group), TC_OK);
    while (tc_dist_health(failed, NULL) == TC_OK) /* until the word is there */
        usleep(1000);
    assert_int_not_equal(tc_barrier(failed), TC_OK);

    form_both(processes);
    assert_ptr_not_equal(processes[0].group, failed);
    assert_int_equal(tc_dist_health(processes[0].group, NULL), TC_OK);
    assert_int_not_equal(tc_dist_health(failed, NULL), TC_OK);
    assert_int_equal(tc_dist_close(failed), TC_OK);
    end_both(processes);
}

/* As programs of MLX's nccl backend are started, but rank 0 does not come. */
static void the_timeout_of_nccl_is_that_of_the_start(void **state)
{
    static const struct {
        const char *own, *said;
    } rows[] = {{NULL, " within 150 ms"}, {"0.2", " within 200 ms"}};
    char url[64], *port;
    int listener = world_listen(url, sizeof(url));
    tc_dist_ctx *group = NULL;

    (void)state;
    port = strrchr(url, ':') + 1;
    set("MLX_RANK", "1");
    set("MLX_WORLD_SIZE", "2");
    set("NCCL_HOST_IP", "127.0.0.1");
    set("NCCL_PORT", port);
    set("MLX_NCCL_TIMEOUT", "150");
    close(listener); /* nobody is there */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tc_context *context;

        set("TCDIST_START_TIMEOUT", rows[i].own);
        context = begin();
        assert_int_equal(tc_dist_init_env(context, &group), TC_ERR_TIMEOUT);
        if (strstr(tc_last_error()->message, rows[i].said) == NULL)
            fail_msg("%s", tc_last_error()->message);
        tc_shutdown(context);
    }
}

/* What was said, and whether that was by which variables the group is formed. */
struct said {
    int lines, chosen;
};

static void count_info(tc_log_level_t level, const char *line, void *arg)
{
    struct said *said = arg;

    said->lines += level == TC_LOG_INFO;
    said->chosen += level == TC_LOG_INFO &&
                    strstr(line, "rank 0 of 1, as mlx says (MLX_HOSTFILE, MLX_RANK)") != NULL;
}

/* Whatever its value; without it the log is as it was. */
static void mlx_asks_for_a_log_that_says_more(void **state)
{
    static const char hosts[] = "[[\"127.0.0.1:4100\"]]";
    char path[] = "/tmp/test_dist_env_XXXXXX";
    struct said said[2] = {{0, 0}, {0, 0}};
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, hosts, strlen(hosts)), strlen(hosts));
    close(fd);
    set("MLX_HOSTFILE", path);
    set("MLX_RANK", "0");
    for (int k = 0; k < 2; k++) {
        tc_context *context = begin();
        tc_dist_ctx *group = NULL;

        tc_log_set_level(TC_LOG_WARN);
        tc_log_set_sink(count_info, &said[k]);
        set("MLX_RING_VERBOSE", k == 0 ? NULL : "");
        assert_int_equal(tc_dist_init_env(context, &group), TC_OK);
        assert_int_equal(tc_dist_finalize(group), TC_OK);
        tc_shutdown(context);
        tc_log_set_sink(NULL, NULL);
    }
    tc_log_set_level(TC_LOG_WARN);
    unlink(path);
    assert_int_equal(said[0].lines, 0);
    assert_true(said[1].lines > 1);
    assert_int_equal(said[1].chosen, 1);
}

static void a_group_that_was_closed_is_not_given_again(void **state)
{
    tc_context *context = begin();
    tc_dist_ctx *group = NULL;

    (void)state;
    assert_int_equal(tc_dist_init_env(context, &group), TC_OK);
    assert_int_equal(tc_dist_close(group), TC_OK);
    assert_int_equal(tc_dist_init_env(context, &group), TC_OK);
    assert_int_equal(tc_barrier(group), TC_OK);
    assert_int_equal(tc_dist_finalize(group), TC_OK);
    tc_shutdown(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_launcher_the_process_is_alone, forget, forget),
        cmocka_unit_test_setup_teardown(a_second_call_gives_the_same_group_with_one_owner_more,
                                        forget, forget),
        cmocka_unit_test_setup_teardown(a_bad_value_is_refused_and_its_variable_named, forget,
                                        forget),
        cmocka_unit_test_setup_teardown(ranks_of_a_launcher_meet_over_the_inherited_socket, forget,
                                        forget),
        cmocka_unit_test_setup_teardown(a_group_that_has_failed_is_not_given_again, forget, forget),
        cmocka_unit_test_setup_teardown(the_timeout_of_nccl_is_that_of_the_start, forget, forget),
        cmocka_unit_test_setup_teardown(mlx_asks_for_a_log_that_says_more, forget, forget),
        cmocka_unit_test_setup_teardown(a_group_that_was_closed_is_not_given_again, forget, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
