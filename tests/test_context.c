/* test_context.c - settings of a context, and what it does to its process. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: serial */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/context.h"
#include "support/loop_room.h"
#include "support/threads.h"
#include "tcdist/log.h"

static const char *const variables[] = {"TCDIST_LOOP_MODE",     "TCDIST_TIMEOUT",
                                        "TCDIST_TUNE_EVERY",    "TCDIST_START_TIMEOUT",
                                        "TCDIST_NUMERICS",      "TCDIST_ALGORITHM",
                                        "TCDIST_SEGMENT_BYTES", "TCDIST_EAGER_BYTES",
                                        "TCDIST_HOSTS",         "TCDIST_RDMA",
                                        "TCDIST_SPIN_US",       "TCDIST_TRACE_EVENTS",
                                        "TCDIST_LOG",           "NUVEC_DISTRIBUTED_TIMEOUT",
                                        "TCDIST_TRACE_ALL"};

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_LEN(variables); i++)
        unsetenv(variables[i]);
    tc_log_set_level(TC_LOG_WARN);
    return 0;
}

static tc_context *open_default(void)
{
    tc_context *context = NULL;

    if (tc_init(&context) != TC_OK)
        fail_msg("%s", tc_last_error()->message);
    return context;
}

/* ---- Settings ------------------------------------------------------------------------------- */

static void the_default_is_as_documented(void **state)
{
    tc_context *context = open_default();
    const tc_config *config = &context->config;

    (void)state;
    assert_int_equal(config->loop_mode, TC_LOOP_THREAD);
    assert_int_equal(config->timeout_ms, 30000);
    assert_int_equal(config->start_timeout_ms, 0);
    assert_int_equal(config->tune_every_ms, 60000);
    assert_int_equal(config->numerics, TC_NUMERICS_CANONICAL);
    assert_null(config->algorithm);
    assert_int_equal(config->segment_bytes, 4u << 20);
    assert_int_equal(config->eager_bytes, 64u << 10);
    assert_int_equal(config->spin_us, -1);
    assert_int_equal(config->trace_events, 8192);
    assert_int_equal(config->trace_all, -1);
    assert_string_equal(config->log_level, "warn");
    tc_shutdown(context);
}

static void the_environment_fills_what_is_not_set(void **state)
{
    tc_context *context;

    (void)state;
    setenv("TCDIST_LOOP_MODE", "manual", 1);
    setenv("TCDIST_TIMEOUT", "1.25", 1);
    setenv("TCDIST_START_TIMEOUT", "300", 1);
    setenv("TCDIST_TUNE_EVERY", "never", 1);
    setenv("TCDIST_NUMERICS", "fast", 1);
    setenv("TCDIST_ALGORITHM", "ring", 1);
    setenv("TCDIST_SEGMENT_BYTES", "65536", 1);
    setenv("TCDIST_EAGER_BYTES", "512", 1);
    setenv("TCDIST_HOSTS", "8*2", 1);
    setenv("TCDIST_RDMA", "0", 1);
    setenv("TCDIST_SPIN_US", "0", 1);
    setenv("TCDIST_TRACE_EVENTS", "64", 1);
    setenv("TCDIST_TRACE_ALL", "1", 1);
    setenv("TCDIST_LOG", "error", 1);
    context = open_default();

    assert_int_equal(context->config.loop_mode, TC_LOOP_MANUAL);
    assert_int_equal(context->config.timeout_ms, 1250);
    assert_int_equal(context->config.start_timeout_ms, 300000);
    assert_int_equal(context->config.tune_every_ms, -1);
    assert_int_equal(context->config.numerics, TC_NUMERICS_FAST);
    assert_string_equal(context->config.algorithm, "ring");
    assert_int_equal(context->config.segment_bytes, 65536);
    assert_int_equal(context->config.eager_bytes, 512);
    assert_string_equal(context->config.hosts, "8*2");
    assert_string_equal(context->config.rdma, "0");
    assert_int_equal(context->config.spin_us, 0);
    assert_int_equal(context->config.trace_events, 64);
    assert_int_equal(context->config.trace_all, 1);
    assert_string_equal(context->config.log_level, "error");
    tc_shutdown(context);
}

static void the_application_goes_before_the_environment(void **state)
{
    char algorithm[] = "tree", hosts[] = "4,2*3", level[] = "info";
    tc_context *context = NULL;
    tc_config config;

    (void)state;
    for (size_t i = 0; i < TCI_LEN(variables); i++)
        setenv(variables[i], "no such thing", 1);
    tc_config_default(&config);
    config.loop_mode = TC_LOOP_HOST;
    config.timeout_ms = -1;
    config.start_timeout_ms = 6;
    config.tune_every_ms = 5;
    config.numerics = TC_NUMERICS_FAST;
    config.algorithm = algorithm;
    config.hosts = hosts;
    config.rdma = "0";
    config.segment_bytes = 1;
    config.eager_bytes = 2;
    config.spin_us = 3;
    config.trace_events = 4;
    config.trace_all = -1;
    config.log_level = level;
    assert_int_equal(tc_init_config(&config, &context), TC_OK);
    memset(algorithm, 'x', sizeof(algorithm) - 1);
    memset(hosts, 'x', sizeof(hosts) - 1);
    memset(level, 'x', sizeof(level) - 1);

    assert_int_equal(context->config.loop_mode, TC_LOOP_HOST);
    assert_int_equal(context->config.timeout_ms, -1);
    assert_int_equal(context->config.start_timeout_ms, 6);
    assert_string_equal(context->config.algorithm, "tree");
    assert_string_equal(context->config.hosts, "4,2*3");
    assert_int_equal(context->config.segment_bytes, 1);
    assert_int_equal(context->config.eager_bytes, 2);
    assert_int_equal(context->config.spin_us, 3);
    assert_int_equal(context->config.trace_events, 4);
    assert_int_equal(context->config.trace_all, -1);
    assert_string_equal(context->config.log_level, "info");
    tc_shutdown(context);
}

static void a_variable_that_does_not_parse_is_named(void **state)
{
    static const struct {
        const char *name, *value, *allowed;
    } bad[] = {
        {"TCDIST_LOOP_MODE", "Thread", "thread, manual or host"},
        {"TCDIST_LOOP_MODE", "", "thread, manual or host"},
        {"TCDIST_LOOP_MODE", "host", "lends no event loop"},
        {"NUVEC_DISTRIBUTED_TIMEOUT", "0", "seconds"},
        {"TCDIST_TIMEOUT", "0", "seconds"},
        {"TCDIST_TIMEOUT", "-1", "seconds"},
        {"TCDIST_TIMEOUT", "1,5", "seconds"},
        {"TCDIST_TIMEOUT", "5s", "seconds"},
        {"TCDIST_START_TIMEOUT", "0", "seconds"},
        {"TCDIST_START_TIMEOUT", "later", "seconds"},
        {"TCDIST_TUNE_EVERY", "0", "never"},
        {"TCDIST_TUNE_EVERY", "none", "seconds"},
        {"TCDIST_TIMEOUT", ".", "seconds"},
        {"TCDIST_TIMEOUT", "1.", "seconds"},
        {"TCDIST_TIMEOUT", "99999999999999999999", "seconds"},
        {"TCDIST_NUMERICS", "default", "canonical, fast or exact"},
        {"TCDIST_NUMERICS", "slow", "canonical, fast or exact"},
        {"TCDIST_ALGORITHM", "rings", "ring"},
        {"TCDIST_ALGORITHM", "send", "one of oneshot"},
        {"TCDIST_SEGMENT_BYTES", "0", "number"},
        {"TCDIST_SEGMENT_BYTES", "4M", "number"},
        {"TCDIST_SEGMENT_BYTES", " 4", "number"},
        {"TCDIST_RDMA", "on", "0, 1 or auto"},
        {"TCDIST_RDMA", "1,mtu=9000", "mtu=256|512"},
        {"TCDIST_HOSTS", "", "ranks a host"},
        {"TCDIST_HOSTS", "4,", "ranks a host"},
        {"TCDIST_HOSTS", "4,0", "ranks a host"},
        {"TCDIST_HOSTS", "4*0", "ranks a host"},
        {"TCDIST_HOSTS", "=", "ranks a host"},
        {"TCDIST_HOSTS", "=0,x", "ranks a host"},
        {"TCDIST_HOSTS", "1048577", "ranks a host"},
        {"TCDIST_HOSTS", "1048576*1048576", "ranks a host"},
        {"TCDIST_EAGER_BYTES", "+1", "number"},
        {"TCDIST_EAGER_BYTES", "18446744073709551617", "number"},
        {"TCDIST_SPIN_US", "-1", "adaptive"},
        {"TCDIST_SPIN_US", "2000000", "adaptive"},
        {"TCDIST_TRACE_EVENTS", "many", "number"},
        {"TCDIST_TRACE_ALL", "some", "1 or 0"},
        {"TCDIST_LOG", "trace", "error, warn, info or debug"},
    };

    for (size_t i = 0; i < TCI_LEN(bad); i++) {
        tc_context *context = NULL;

        clear_environment(state);
        setenv(bad[i].name, bad[i].value, 1);
        assert_int_equal(tc_init(&context), TC_ERR_INVALID_ARG);

        assert_null(context);
        assert_non_null(strstr(tc_last_error()->message, bad[i].name));
        assert_non_null(strstr(tc_last_error()->message, bad[i].allowed));
    }
}

static void fractions_of_seconds_are_read(void **state)
{
    static const struct {
        const char *text;
        int ms;
    } good[] = {{"2", 2000},      {"0.5", 500},       {"0.001", 1}, {"0.0001", 1},
                {"1.0010", 1001}, {"007.0300", 7030}, {"none", -1}};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(good); i++) {
        tc_context *context;

        setenv("TCDIST_TIMEOUT", good[i].text, 1);
        context = open_default();

        assert_int_equal(context->config.timeout_ms, good[i].ms);
        tc_shutdown(context);
    }
}

static void nuvecs_timeout_counts_where_there_is_none_of_ours(void **state)
{
    tc_context *context;

    (void)state;
    unsetenv("TCDIST_TIMEOUT");
    setenv("NUVEC_DISTRIBUTED_TIMEOUT", "4", 1);
    context = open_default();
    assert_int_equal(context->config.timeout_ms, 4000);
    tc_shutdown(context);

    setenv("TCDIST_TIMEOUT", "2", 1);
    context = open_default();
    assert_int_equal(context->config.timeout_ms, 2000);
    tc_shutdown(context);
}

static void expect_refusal(const tc_config *config, tc_status_t status)
{
    tc_context *context = NULL;

    assert_int_equal(tc_init_config(config, &context), status);
    assert_null(context);
    assert_non_null(tc_last_error());
    assert_int_equal(tc_last_error()->status, status);
}

static void settings_without_meaning_are_refused(void **state)
{
    static const tc_reactor_ops other_reactor = {.abi_version = TC_REACTOR_ABI_VERSION + 1};
    tc_config config;

#define REFUSED(field, value, status)                                                              \
    do {                                                                                           \
        tc_config_default(&config);                                                                \
        config.field = (value);                                                                    \
        expect_refusal(&config, status);                                                           \
    } while (0)

    (void)state;
    REFUSED(abi_version, TC_CONFIG_ABI_VERSION + 1, TC_ERR_ABI_MISMATCH);
    REFUSED(abi_version, 0, TC_ERR_ABI_MISMATCH);
    REFUSED(loop_mode, 3, TC_ERR_INVALID_ARG);
    REFUSED(loop_mode, -2, TC_ERR_INVALID_ARG);
    REFUSED(timeout_ms, -2, TC_ERR_INVALID_ARG);
    REFUSED(numerics, 4, TC_ERR_INVALID_ARG);
    REFUSED(algorithm, "fastest", TC_ERR_INVALID_ARG);
    REFUSED(spin_us, -2, TC_ERR_INVALID_ARG);
    REFUSED(segment_bytes, SIZE_MAX, TC_ERR_INVALID_ARG);
    REFUSED(log_level, "loud", TC_ERR_INVALID_ARG);
    REFUSED(key_bytes, 5, TC_ERR_INVALID_ARG);
    REFUSED(key, "secret", TC_ERR_INVALID_ARG);
    REFUSED(previous_key, "secret", TC_ERR_INVALID_ARG);
    REFUSED(encryption, 2, TC_ERR_INVALID_ARG);
    REFUSED(reactor, &other_reactor, TC_ERR_INVALID_ARG); /* loop_mode is not host */
    config.loop_mode = TC_LOOP_HOST;
    expect_refusal(&config, TC_ERR_ABI_MISMATCH);
    assert_int_equal(tc_init_config(NULL, NULL), TC_ERR_INVALID_ARG);
#undef REFUSED
}

static void without_memory_there_is_no_context_and_no_leak(void **state)
{
    static const int modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL, TC_LOOP_HOST};
    uint64_t live = tci_alloc_live();

    (void)state;
    for (size_t m = 0; m < TCI_LEN(modes); m++) {
        tc_status_t status = TC_ERR_ALLOC;

        for (uint64_t n = 1; status != TC_OK; n++) {
            tc_context *context = NULL;
            tc_config config;

            tc_config_default(&config);
            config.loop_mode = modes[m];
            config.algorithm = "ring";
            tci_alloc_fail_at(n, 1);
            status = tc_init_config(&config, &context);
            tci_alloc_fail_at(0, 0);
            tc_shutdown(context);

            assert_int_equal(tci_alloc_live(), live);
            assert_true(n < 1000);
        }
    }
}

/* ---- The process ---------------------------------------------------------------------------- */

static void only_a_thread_context_has_a_thread(void **state)
{
    unsigned before = count_threads();
    tc_context *manual = context_open(TC_LOOP_MANUAL);
    tc_context *host = context_open(TC_LOOP_HOST);
    unsigned without = count_threads();
    tc_context *thread = context_open(TC_LOOP_THREAD);
    unsigned with = count_threads();

    (void)state;
    tc_shutdown(manual);
    tc_shutdown(host);
    tc_shutdown(thread);

    assert_int_equal(without, before);
    assert_int_equal(with, before + 1);
    assert_int_equal(count_threads(), before);
}

static void read_signals(struct sigaction *actions, sigset_t *mask)
{
    for (int i = 1; i < NSIG; i++)
        sigaction(i, NULL, &actions[i]);
    pthread_sigmask(SIG_SETMASK, NULL, mask);
}

static void signals_and_affinity_stay_as_they_are(void **state)
{
    static struct sigaction before[NSIG], after[NSIG];
    cpu_set_t cores_before, cores_after;
    sigset_t mask_before, mask_after;
    tc_context *context;

    (void)state;
    memset(before, 0, sizeof(before));
    memset(after, 0, sizeof(after));
    read_signals(before, &mask_before);
    sched_getaffinity(0, sizeof(cores_before), &cores_before);
    context = open_default();
    read_signals(after, &mask_after);
    sched_getaffinity(0, sizeof(cores_after), &cores_after);

    for (int i = 1; i < NSIG; i++)
        assert_true(before[i].sa_handler == after[i].sa_handler);
    for (int i = 1; i < NSIG; i++)
        assert_int_equal(sigismember(&mask_before, i), sigismember(&mask_after, i));
    assert_true(CPU_EQUAL(&cores_before, &cores_after));
    tc_shutdown(context);
}

static volatile pthread_t handled_on;

static void note_thread(int signal_number)
{
    (void)signal_number;
    handled_on = pthread_self();
}

static void signals_are_handled_on_the_applications_threads(void **state)
{
    struct sigaction action = {.sa_handler = note_thread}, before;
    tc_context *context = open_default();

    (void)state;
    sigaction(SIGUSR1, &action, &before);
    for (int i = 0; i < 50; i++) {
        handled_on = 0;
        kill(getpid(), SIGUSR1);
        assert_true(pthread_equal(handled_on, pthread_self()));
    }

    sigaction(SIGUSR1, &before, NULL);
    tc_shutdown(context);
}

static bool was_open[1024]; /* before: by the caller, who is no business of ours */

static unsigned count_descriptors(void)
{
    DIR *fds = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(fds);
    for (struct dirent *entry = readdir(fds); entry != NULL; entry = readdir(fds)) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] == '.' || fd == dirfd(fds))
            continue;
        count++;
        if (fd < (int)TCI_LEN(was_open) && !was_open[fd])
            assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    }
    closedir(fds);
    return count;
}

static void descriptors_close_on_exec_and_with_the_context(void **state)
{
    static const int modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL, TC_LOOP_HOST};
    unsigned before;

    (void)state;
    for (int fd = 0; fd < (int)TCI_LEN(was_open); fd++)
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    before = count_descriptors();
    for (size_t m = 0; m < TCI_LEN(modes); m++) {
        tc_context *context = context_open(modes[m]);

        assert_true(count_descriptors() > before);
        tc_shutdown(context);
        assert_int_equal(count_descriptors(), before);
    }
}

/* ---- The end -------------------------------------------------------------------------------- */

static void note_status(tc_future *future, void *arg)
{
    *(tc_status_t *)arg = tc_future_test(future);
}

static void a_shutdown_fails_what_is_pending_and_runs_its_continuations(void **state)
{
    static const int modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL, TC_LOOP_HOST};

    (void)state;
    for (size_t m = 0; m < TCI_LEN(modes); m++) {
        tc_context *context = context_open(modes[m]);
        tc_future *promise = tc_promise_create(context);
        tc_status_t seen = TC_PENDING;

        tc_future_then(promise, note_status, &seen);
        assert_int_equal(tc_shutdown(context), TC_OK);

        assert_int_equal(seen, TC_ERR_CLOSED);
        assert_int_equal(tc_future_test(promise), TC_ERR_CLOSED);
        tc_future_release(promise);
    }
    assert_int_equal(tc_shutdown(NULL), TC_OK);
}

static tc_future *blocker;

static void end_group(tc_future *future, void *arg)
{
    (void)future;
    tci_list_del(arg);
}

static void settle_blocker(tc_context *context)
{
    (void)context;
    tc_promise_settle(blocker, TC_OK);
}

static void a_shutdown_closes_groups_and_waits_until_they_are_gone(void **state)
{
    static const int modes[] = {TC_LOOP_THREAD, TC_LOOP_MANUAL, TC_LOOP_HOST};

    (void)state;
    for (size_t m = 0; m < TCI_LEN(modes); m++) {
        tc_context *context = context_open(modes[m]);
        struct tci_list group;

        tci_list_init(&group);
        tci_list_add(&context->groups, &group);
        context->close_groups = settle_blocker;
        blocker = tc_promise_create(context);
        tc_future_then(blocker, end_group, &group);
        assert_int_equal(tc_shutdown(context), TC_OK);

        assert_int_equal(tc_future_test(blocker), TC_OK);
        assert_true(tci_list_is_empty(&group));
        tc_future_release(blocker);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_environment, clear_environment)
    const struct CMUnitTest tests[] = {
        TEST(the_default_is_as_documented),
        TEST(the_environment_fills_what_is_not_set),
        TEST(the_application_goes_before_the_environment),
        TEST(a_variable_that_does_not_parse_is_named),
        TEST(fractions_of_seconds_are_read),
        TEST(nuvecs_timeout_counts_where_there_is_none_of_ours),
        TEST(settings_without_meaning_are_refused),
        TEST(without_memory_there_is_no_context_and_no_leak),
        TEST(only_a_thread_context_has_a_thread),
        TEST(signals_and_affinity_stay_as_they_are),
        TEST(signals_are_handled_on_the_applications_threads),
        TEST(descriptors_close_on_exec_and_with_the_context),
        TEST(a_shutdown_fails_what_is_pending_and_runs_its_continuations),
        TEST(a_shutdown_closes_groups_and_waits_until_they_are_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
