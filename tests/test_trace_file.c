/* test_trace_file.c - traces in files: what outlives a process, and what a failure leaves. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/trace_read.h"
#include "support/traced_ranks.h"
#include "support/world.h"

static uint8_t *read_trace(const char *path, struct tci_trace_view *view)
{
    FILE *file = fopen(path, "rb");
    struct stat facts;
    const char *wrong;
    uint8_t *bytes;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &facts), 0);
    bytes = malloc((size_t)facts.st_size);
    assert_int_equal(fread(bytes, 1, (size_t)facts.st_size, file), facts.st_size);
    fclose(file);
    wrong = tci_trace_view_open(view, bytes, (size_t)facts.st_size);
    if (wrong != NULL)
        fail_msg("%s: %s", path, wrong);
    return bytes;
}

static unsigned count_kind(const struct tci_trace_view *view, enum tci_trace_kind kind)
{
    struct tci_trace_seen event;
    unsigned count = 0;

    for (uint64_t n = tci_trace_view_first(view); n < view->next; n++)
        count += tci_trace_view_event(view, n, &event) && event.kind == kind;
    return count;
}

/* ---- Killed --------------------------------------------------------------------------------- */

static float kept[4096];

static void sum_and_wait(struct traced_rank *self)
{
    float data[8] = {1};

    tc_trace_span(self->context, "forward", 3, tc_trace_now_ns());
    for (uint64_t tag = 1; tag <= 5; tag++)
        traced_wait(self, tc_allreduce_async(self->group, tag, data, data, 8, TC_DTYPE_F32,
                                             TC_REDUCE_SUM, NULL));
    if (self->rank == 1)
        return;
    (void)tc_recv_async(self->group, 9, kept, 4096, TC_DTYPE_F32, 1, NULL);
    traced_entered(self, 6);
}

static void a_killed_process_leaves_all_that_it_did(void **state)
{
    struct tci_trace_seen_group group;
    struct tci_trace_seen_link link;
    struct tci_trace_seen_live live;
    struct traced_ranks ranks;
    struct tci_trace_view view;
    char path[128], name[TCI_TRACE_NAME_TEXT];
    uint8_t *bytes;
    unsigned in_flight = 0;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, sum_and_wait, true);
    traced_await(&ranks, true);
    kill(ranks.pids[1], SIGSTOP);
    traced_path(&ranks, 0, path);
    kill(ranks.pids[0], SIGKILL);
    waitpid(ranks.pids[0], NULL, 0);
    bytes = read_trace(path, &view);

    assert_int_equal(view.pid, (uint64_t)ranks.pids[0]);
    assert_int_equal(view.ended_ns, 0);
    assert_int_equal(view.counters[TCI_COUNT_BEGUN], 6);
    assert_int_equal(view.counters[TCI_COUNT_FINISHED], 5);
    assert_int_equal(count_kind(&view, TCI_TRACE_DONE), 5);
    assert_int_equal(count_kind(&view, TCI_TRACE_CALL), 0); /* the sixth is in flight */
    assert_int_equal(count_kind(&view, TCI_TRACE_APP), 1);
    assert_true(count_kind(&view, TCI_TRACE_XFER_END) >= 10);
    assert_true(tci_trace_view_group(&view, 0, &group));
    assert_int_equal(group.size, 2);
    assert_int_equal(group.rank, 0);
    assert_int_equal(group.state, TCI_TRACE_GROUP_STANDS);
    assert_true(tci_trace_view_link(&view, 0, &link));
    assert_int_equal(link.peer, 1);
    assert_int_equal(link.state, TCI_TRACE_LINK_UP);
    for (uint32_t i = 0; i < view.tables[TCI_TRACE_LIVE].count; i++)
        if (tci_trace_view_live(&view, i, &live)) {
            in_flight++;
            assert_string_equal(tci_trace_view_name(&view, live.name, name), "recv");
            assert_int_equal(live.tag, 9);
            assert_int_equal(live.waits_count, 1);
            assert_int_equal(live.waits[0], 1);
            assert_false(live.is_send[0]);
        }
    assert_int_equal(in_flight, 1);
    free(bytes);
    ranks.pids[0] = 0;
    traced_fini(&ranks);
}

/* ---- Dumps ---------------------------------------------------------------------------------- */

static char folder[] = "/tmp/tcdist-dumps-XXXXXX";

static unsigned count_dumps(char *first, size_t room)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    unsigned count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        if (strstr(entry->d_name, ".dump") != NULL) {
            count++;
            snprintf(first, room, "%s/%s", folder, entry->d_name);
        }
    closedir(dir);
    return count;
}

static void empty_folder(void)
{
    char path[400];

    while (count_dumps(path, sizeof(path)) > 0)
        unlink(path);
    rmdir(folder);
}

static void no_log(tc_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

static void a_failure_leaves_a_dump_on_every_rank(void **state)
{
    struct tci_trace_view view;
    struct world world;
    tc_config config;
    tc_options options;
    float data[4] = {0};
    char path[400];
    uint8_t *bytes;
    tc_future *future;

    (void)state;
    tc_log_set_sink(no_log, NULL);
    assert_non_null(mkdtemp(folder));
    tc_config_default(&config);
    config.dump_dir = folder;
    world_open(&world, 2, &config);
    tc_options_default(&options);
    options.timeout_ms = 200;
    future =
        tc_allreduce_async(world.group[0], 7, data, data, 4, TC_DTYPE_F32, TC_REDUCE_SUM, &options);
    assert_int_equal(world_wait(&world, future), TC_ERR_TIMEOUT);

    tc_future_release(future);
    assert_int_equal(count_dumps(path, sizeof(path)), 1); /* rank 1 has not entered it */
    bytes = read_trace(path, &view);
    assert_true(view.copied_ns > 0);
    assert_int_equal(count_kind(&view, TCI_TRACE_OP_FAIL), 1);
    free(bytes);
    world_close(&world);
    tc_log_set_sink(NULL, NULL);
    empty_folder();
}

static const float sent[16];
static tc_context *dumped;
static int dump_fd, dump_rc;

static void on_signal(int sig)
{
    (void)sig;
    dump_rc = tc_trace_dump_fd(dumped, dump_fd);
}

static void a_dump_may_be_asked_for_and_by_a_signal(void **state)
{
    char path[] = "/tmp/tcdist-dump-XXXXXX";
    struct sigaction action = {.sa_handler = on_signal}, before;
    struct tci_trace_view view;
    struct world world;
    uint8_t *bytes;
    tc_future *future;

    (void)state;
    world_open(&world, 2, NULL);
    for (int r = 0; r < 2; r++)
        tc_future_release(tc_send_async(world.group[r], 4, sent, 16, TC_DTYPE_F32, 1 - r, NULL));
    dumped = world.context[0];
    dump_fd = mkstemp(path);
    assert_true(dump_fd >= 0);
    sigaction(SIGUSR1, &action, &before);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    close(dump_fd);

    assert_int_equal(dump_rc, 0);
    bytes = read_trace(path, &view);
    assert_int_equal(view.pid, (uint64_t)getpid());
    free(bytes);
    assert_int_equal(tc_trace_dump(world.context[1], path), TC_OK);
    bytes = read_trace(path, &view);
    assert_true(view.copied_ns > 0);
    free(bytes);
    unlink(path);
    assert_int_equal(tc_trace_dump(world.context[1], "/no/such/folder/x"), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "No such file"));
    assert_int_equal(tc_trace_dump(NULL, path), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_trace_dump_fd(NULL, 1), -1);
    for (int r = 0; r < 2; r++) {
        future = tc_recv_async(world.group[r], 4, kept + 16 * r, 16, TC_DTYPE_F32, 1 - r, NULL);
        assert_int_equal(world_wait(&world, future), TC_OK);
        tc_future_release(future);
    }
    world_close(&world);
}

/* ---- Settings ------------------------------------------------------------------------------- */

/* Told at once, not when the dump is wanted. */
static void a_folder_for_dumps_that_is_none_is_refused(void **state)
{
    static const char *const none[] = {"/no/such/folder", "/dev/null"};

    (void)state;
    for (size_t n = 0; n < 2; n++) {
        tc_config config;
        tc_context *context = NULL;

        tc_config_default(&config);
        config.dump_dir = none[n];
        assert_int_equal(tc_init_config(&config, &context), TC_ERR_INVALID_ARG);
        assert_non_null(strstr(tc_last_error()->message, none[n]));
        assert_non_null(strstr(tc_last_error()->message, "TCDIST_DUMP_DIR"));
    }
}

/* The strings are the application's, whatever was wrong first. */
static void folders_stay_the_application_s_when_something_else_is_refused(void **state)
{
    tc_config config;
    tc_context *context = NULL;

    (void)state;
    tc_config_default(&config);
    config.algorithm = "no such algorithm";
    config.trace_dir = config.dump_dir = "/tmp";
    config.hosts = config.tune = config.key = "the application's";
    assert_int_equal(tc_init_config(&config, &context), TC_ERR_INVALID_ARG);
}

static void a_folder_that_is_none_is_refused(void **state)
{
    tc_context *context;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.trace_dir = "/no/such/folder";
    assert_int_equal(tc_init_config(&config, &context), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "No such file"));
    assert_non_null(strstr(tc_last_error()->message, "TCDIST_TRACE_DIR"));
}

static void counts_are_those_of_the_context(void **state)
{
    struct world world;
    tc_stats stats;
    float data[2][64] = {{0}};

    (void)state;
    world_open(&world, 2, NULL);
    for (uint64_t tag = 0; tag < 10; tag++) {
        tc_future *futures[2];

        for (int r = 0; r < 2; r++)
            futures[r] = tc_allreduce_async(world.group[r], tag, data[r], data[r], 64, TC_DTYPE_F32,
                                            TC_REDUCE_MAX, NULL);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(world_wait(&world, futures[r]), TC_OK);
            tc_future_release(futures[r]);
        }
    }

    assert_int_equal(tc_context_stats(world.context[0], TC_STATS_ABI_VERSION, &stats), TC_OK);
    assert_true(stats.operations_begun >= 10);
    assert_int_equal(stats.operations_failed, 0);
    assert_true(stats.operation_bytes >= 10 * sizeof(data[0]));
    assert_int_equal(tc_context_stats(world.context[0], 77, &stats), TC_ERR_ABI_MISMATCH);
    assert_int_equal(tc_context_stats(NULL, TC_STATS_ABI_VERSION, &stats), TC_ERR_INVALID_ARG);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_process_leaves_all_that_it_did),
        cmocka_unit_test(a_failure_leaves_a_dump_on_every_rank),
        cmocka_unit_test(a_dump_may_be_asked_for_and_by_a_signal),
        cmocka_unit_test(a_folder_that_is_none_is_refused),
        cmocka_unit_test(a_folder_for_dumps_that_is_none_is_refused),
        cmocka_unit_test(folders_stay_the_application_s_when_something_else_is_refused),
        cmocka_unit_test(counts_are_those_of_the_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
