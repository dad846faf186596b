/* test_environment.c - variables that nothing reads are told of, with the one that was meant. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <glob.h>

#include "context/environment.h"
#include "tcdist/tcdist.h"

#include "support/world.h"

static unsigned warnings, idle_count;
static char last[512];
static char ways[8][128]; /* how groups of this process have formed, as they say it */
static unsigned ways_count;

/* Loops of several ranks say something at the same time. */
static pthread_mutex_t hearing = PTHREAD_MUTEX_INITIALIZER;

static void hear_one(tc_log_level_t level, const char *line)
{
    if (strstr(line, " stands in its group over ") != NULL && ways_count < 8)
        snprintf(ways[ways_count++], sizeof(ways[0]), "%s", line);
    if (level == TC_LOG_INFO && strstr(line, " has no effect here: ") != NULL) {
        idle_count++;
        snprintf(last, sizeof(last), "%s", line);
    }
    if (level != TC_LOG_WARN || strstr(line, "nothing reads it") == NULL)
        return;
    warnings++;
    snprintf(last, sizeof(last), "%s", line);
}

static void hear(tc_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&hearing);
    hear_one(level, line);
    pthread_mutex_unlock(&hearing);
}

static int listen_to_log(void **state)
{
    (void)state;
    warnings = 0;
    tc_log_set_sink(hear, NULL);
    return 0;
}

static int listen_no_more(void **state)
{
    (void)state;
    tc_log_set_sink(NULL, NULL);
    return 0;
}

static void open_and_close(void)
{
    tc_context *context = NULL;

    assert_int_equal(tc_init(&context), TC_OK);
    tc_shutdown(context);
}

static void a_misspelt_variable_is_told_of_once(void **state)
{
    (void)state;
    setenv("TCDIST_TIMOUT", "5", 1);
    open_and_close();
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last, "TCDIST_TIMOUT is set"));
    assert_non_null(strstr(last, "is TCDIST_TIMEOUT meant?"));
    open_and_close();
    assert_int_equal(warnings, 1);
    setenv("TCDIST_ZZZZZZZZZZZZZZZZZZZZ", "5", 1);
    open_and_close();
    assert_int_equal(warnings, 3);
    unsetenv("TCDIST_TIMOUT");
    unsetenv("TCDIST_ZZZZZZZZZZZZZZZZZZZZ");
    open_and_close();
    assert_int_equal(warnings, 3);
}

/* Programs of MLX set them: whoever looks at the log sees that they do nothing. */
static void a_variable_that_has_no_effect_is_told_of(void **state)
{
    tc_context *context = NULL;
    tc_dist_ctx *group = NULL;

    (void)state;
    setenv("MLX_METAL_FAST_SYNCH", "1", 1);
    idle_count = 0;
    tc_log_set_level(TC_LOG_INFO);
    assert_int_equal(tc_init(&context), TC_OK);
    assert_int_equal(tc_dist_init_env(context, &group), TC_OK);
    tc_log_set_level(TC_LOG_WARN);
    unsetenv("MLX_METAL_FAST_SYNCH");
    assert_int_equal(idle_count, 1);
    assert_non_null(
        strstr(last, "MLX_METAL_FAST_SYNCH is set, and has no effect here: it is about"));
    assert_int_equal(warnings, 0);
    assert_int_equal(tc_dist_finalize(group), TC_OK);
    tc_shutdown(context);
}

static void a_variable_that_is_read_is_not_told_of(void **state)
{
    (void)state;
    setenv("TCDIST_TIMEOUT", "5", 1);
    setenv("TCDIST_TEST_EFFORT", "0", 1);
    open_and_close();
    assert_int_equal(warnings, 0);
    unsetenv("TCDIST_TIMEOUT");
}

static void the_nearest_is_near(void **state)
{
    (void)state;
    assert_string_equal(tci_environment_nearest("TCDIST_RANKS"), "TCDIST_RANK");
    assert_string_equal(tci_environment_nearest("TCDIST_EAGERBYTES"), "TCDIST_EAGER_BYTES");
    assert_string_equal(tci_environment_nearest("TCDIST_ALGO"), "TCDIST_ALGORITHM");
    assert_null(tci_environment_nearest("TCDIST_QQQQQQQQQQQQ"));
    assert_null(tci_environment_nearest(""));
}

static bool is_listed(const char *name, size_t len)
{
    for (const char *const *known = tci_environment; *known != NULL; known++)
        if (strlen(*known) == len && strncmp(name, *known, len) == 0)
            return true;
    return false;
}

/* What stands between quotes and begins like a variable is one. */
static void check_file(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    size_t len;

    assert_non_null(file);
    len = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[len] = '\0';
    for (const char *at = text; (at = strstr(at, "\"TCDIST_")) != NULL; at++) {
        size_t name = strspn(at + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

        if (at[1 + name] == '"' && at[name] != '_' && !is_listed(at + 1, name))
            fail_msg("%s reads %.*s, which src/context/environment.c does not list", path,
                     (int)name, at + 1);
    }
}

static void every_variable_that_is_read_is_listed(void **state)
{
    static const char *const folders[] = {"/src/*/*.c", "/tools/*/*.c", "/examples/*/*.c"};
    size_t files = 0;

    (void)state;
    for (size_t f = 0; f < sizeof(folders) / sizeof(folders[0]); f++) {
        char pattern[512];
        glob_t found;

        snprintf(pattern, sizeof(pattern), "%s%s", TEST_SOURCE_DIR, folders[f]);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t i = 0; i < found.gl_pathc; i++)
            check_file(found.gl_pathv[i]);
        files += found.gl_pathc;
        globfree(&found);
    }
    assert_true(files > 50);
}

/* The ranks of this host share memory, unless the environment says otherwise. */
static void what_carries_a_group_is_said_as_it_is(void **state)
{
    static const char *const switches[] = {"1", "0"}, *const said[] = {"shared memory", "tcp"};
    struct world world;

    (void)state;
    tc_log_set_level(TC_LOG_INFO);
    for (int k = 0; k < 2; k++) {
        setenv("TCDIST_SHM", switches[k], 1);
        setenv("TCDIST_RDMA", "0", 1);
        ways_count = 0;
        world_open(&world, 2, NULL);
        world_close(&world);
        assert_int_equal(ways_count, 2);
        for (unsigned r = 0; r < ways_count; r++)
            assert_string_equal(strstr(ways[r], "over ") + strlen("over "), said[k]);
    }
    tc_log_set_level(TC_LOG_WARN);
    unsetenv("TCDIST_SHM");
    unsetenv("TCDIST_RDMA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_misspelt_variable_is_told_of_once, listen_to_log,
                                        listen_no_more),
        cmocka_unit_test_setup_teardown(a_variable_that_has_no_effect_is_told_of, listen_to_log,
                                        listen_no_more),
        cmocka_unit_test_setup_teardown(a_variable_that_is_read_is_not_told_of, listen_to_log,
                                        listen_no_more),
        cmocka_unit_test_setup_teardown(what_carries_a_group_is_said_as_it_is, listen_to_log,
                                        listen_no_more),
        cmocka_unit_test(the_nearest_is_near),
        cmocka_unit_test(every_variable_that_is_read_is_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
