/* test_tcinfo.c - tcinfo tells what is there, and what the environment makes of it. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120, needs libcjson */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "core/base.h"
#include "support/tool_run.h"
#include "tcdist/version.h"

/* Variables of the new process, NULL after the last. */
static void set_all(void *arg)
{
    for (const char *const *pair = arg; *pair != NULL; pair += 2)
        setenv(pair[0], pair[1], 1);
}

static void run_in(struct tool_run *run, const char *const *pairs, const char *const argv[])
{
    struct tool_setup setup = {.prepare = set_all, .arg = (void *)(uintptr_t)pairs};

    tool_start(run, &setup, argv);
    tool_finish(run);
}

static void must_have(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in\n%s", part, text);
}

static void it_tells_of_build_machine_and_environment(void **state)
{
    static const char *const parts[] = {"built with: tcp, shared memory",
                                        "protocol: rendezvous ",
                                        "kernels: plain",
                                        " lo ",
                                        "127.0.0.1",
                                        "RDMA (TCDIST_RDMA: ",
                                        "processors: ",
                                        "a group is formed of this process alone"};
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, (const char *const[]){"tcinfo", NULL});
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    must_have(run.out.data, tc_version());
    for (size_t k = 0; k < TCI_LEN(parts); k++)
        must_have(run.out.data, parts[k]);
    tool_close(&run);
}

static const cJSON *at(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    if (item == NULL)
        fail_msg("there is no %s", name);
    return item;
}

static void json_has_the_same(void **state)
{
    static const char *const pairs[] = {
        "TCDIST_RANK",          "1", "TCDIST_WORLD_SIZE", "2", "TCDIST_RENDEZVOUS",
        "tcp://127.0.0.1:4100", NULL};
    const cJSON *environment;
    struct tool_run run;
    cJSON *document;

    (void)state;
    run_in(&run, pairs, (const char *const[]){"tcinfo", "--json", NULL});
    assert_int_equal(run.exit_code, 0);
    document = cJSON_Parse(run.out.data);
    assert_non_null(document);
    assert_string_equal(cJSON_GetStringValue(at(document, "tcdist")), tc_version());
    assert_true(cJSON_IsTrue(at(at(document, "features"), "tcp")));
    for (size_t k = 0; k < 3; k++) {
        const char *place = (const char *const[]){"redis", "etcd", "PMIx"}[k];

        assert_true(cJSON_IsBool(at(at(document, "features"), place)));
    }
    assert_true(cJSON_GetArraySize(at(document, "interfaces")) > 0);
    assert_true(cJSON_IsArray(at(at(document, "rdma"), "ports")));
    assert_true(cJSON_IsBool(at(at(document, "host"), "memory_can_be_read")));
    environment = at(document, "environment");
    assert_int_equal((int)cJSON_GetNumberValue(at(environment, "rank")), 1);
    assert_int_equal((int)cJSON_GetNumberValue(at(environment, "size")), 2);
    assert_string_equal(cJSON_GetStringValue(at(environment, "rendezvous")),
                        "tcp://127.0.0.1:4100");
    must_have(cJSON_GetStringValue(at(environment, "launcher_variables")), "TCDIST_RANK");
    cJSON_Delete(document);
    tool_close(&run);
}

static void a_wrong_environment_is_told_and_is_exit_code_1(void **state)
{
    static const char *const rows[][4] = {
        {"TCDIST_TIMEOUT", "soon", NULL, "wrong: TCDIST_TIMEOUT is \"soon\""},
        {"TCDIST_RANK", "3", NULL, "TCDIST_WORLD_SIZE"},
        {"TCDIST_RDMA", "maybe", NULL, "wrong: TCDIST_RDMA is \"maybe\""},
    };
    struct tool_run run;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        run_in(&run, rows[k], (const char *const[]){"tcinfo", NULL});
        assert_int_equal(run.exit_code, 1);
        must_have(run.out.data, rows[k][3]);
        tool_close(&run);
    }
}

static void keys_are_not_shown_and_misspelt_names_are(void **state)
{
    static const char *const pairs[] = {"TCDIST_KEY", "0123456789abcdef-and-more", "TCDIST_TIMOUT",
                                        "3", NULL};
    struct tool_run run;

    (void)state;
    run_in(&run, pairs, (const char *const[]){"tcinfo", NULL});
    assert_int_equal(run.exit_code, 0);
    must_have(run.out.data, "TCDIST_KEY=(not shown)");
    must_have(run.out.data, "TCDIST_TIMOUT=3   nothing reads it: is TCDIST_TIMEOUT meant?");
    assert_null(strstr(run.out.data, "0123456789abcdef"));
    tool_close(&run);

    run_in(&run, pairs, (const char *const[]){"tcinfo", "--json", NULL});
    assert_null(strstr(run.out.data, "0123456789abcdef"));
    must_have(run.out.data, "\"nearest\":");
    tool_close(&run);
}

static void what_has_no_effect_is_said(void **state)
{
    static const char *const pairs[] = {"MLX_MPI_LIBNAME", "libmpi.so", "CUDA_VISIBLE_DEVICES", "0",
                                        NULL};
    struct tool_run run;

    (void)state;
    run_in(&run, pairs, (const char *const[]){"tcinfo", NULL});
    assert_int_equal(run.exit_code, 0);
    must_have(run.out.data, "MLX_MPI_LIBNAME=libmpi.so   no effect here: no library of MPI");
    must_have(run.out.data, "CUDA_VISIBLE_DEVICES=0   no effect here: memory of devices");
    assert_null(strstr(run.out.data, "MLX_METAL_FAST_SYNCH"));
    tool_close(&run);

    run_in(&run, pairs, (const char *const[]){"tcinfo", "--json", NULL});
    must_have(run.out.data, "\"idle\":\t\"no library of MPI");
    tool_close(&run);
}

static void cables_of_a_device_file_are_told(void **state)
{
    static const char matrix[] =
        "[[null,[\"en5\",\"en4\"],\"en3\"],[[\"en5\",\"en4\"],null,\"en3\"],"
        "[\"en3\",\"en4\",null]]";
    char path[] = "/tmp/tcinfo.XXXXXX";
    const char *pairs[] = {
        "MLX_RANK", "1", "MLX_JACCL_COORDINATOR", "127.0.0.1:4100", "MLX_IBV_DEVICES", path, NULL};
    int fd = mkstemp(path);
    struct tool_run run;

    (void)state;
    assert_int_equal(write(fd, matrix, strlen(matrix)), strlen(matrix));
    close(fd);
    run_in(&run, pairs, (const char *const[]){"tcinfo", NULL});
    assert_int_equal(run.exit_code, 0);
    must_have(run.out.data, "cables of rank 1, in a mesh of 3 ranks, by /tmp/tcinfo.");
    must_have(run.out.data, "to rank 0: en5 (not there), en4 (not there)\n");
    must_have(run.out.data, "to rank 2: en3 (not there)\n");
    tool_close(&run);

    run_in(&run, pairs, (const char *const[]){"tcinfo", "--json", NULL});
    must_have(run.out.data, "\"devices\":\t[\"en5\", \"en4\"]");
    tool_close(&run);
    unlink(path);
}

static void words_are_too_much(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, (const char *const[]){"tcinfo", "devices", NULL});
    tool_finish(&run);
    assert_int_equal(run.exit_code, 2);
    must_have(run.err.data, "unexpected argument 'devices'");
    tool_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_tells_of_build_machine_and_environment),
        cmocka_unit_test(json_has_the_same),
        cmocka_unit_test(a_wrong_environment_is_told_and_is_exit_code_1),
        cmocka_unit_test(keys_are_not_shown_and_misspelt_names_are),
        cmocka_unit_test(what_has_no_effect_is_said),
        cmocka_unit_test(cables_of_a_device_file_are_told),
        cmocka_unit_test(words_are_too_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
