/* test_tcdump_files.c - what tcdump reads and writes: clocks, damaged files, timelines, options. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libcjson */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "core/trace_read.h"
#include "support/tool_run.h"
#include "support/traced_ranks.h"

#define TCDUMP(...) ((const char *const[]){"tcdump", __VA_ARGS__, NULL})

enum { TROUBLE = 2 };

static int number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    assert_true(cJSON_IsNumber(item));
    return item->valueint;
}

static double value_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);

    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void all_reduce(struct traced_rank *self, uint64_t tag)
{
    float data[256] = {1};

    traced_wait(self, tc_allreduce_async(self->group, tag, data, data, 256, TC_DTYPE_F32,
                                         TC_REDUCE_SUM, NULL));
}

/* ---- Files ---------------------------------------------------------------------------------- */

static uint8_t *read_file(const char *path, size_t *len_out)
{
    FILE *file = fopen(path, "rb");
    struct stat facts;
    uint8_t *bytes;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &facts), 0);
    bytes = malloc((size_t)facts.st_size);
    assert_int_equal(fread(bytes, 1, (size_t)facts.st_size, file), facts.st_size);
    fclose(file);
    *len_out = (size_t)facts.st_size;
    return bytes;
}

static void write_file(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void well(struct traced_rank *self)
{
    for (uint64_t tag = 1; tag <= 30; tag++)
        all_reduce(self, tag);
}

/* As if written by another machine, whose clock is ahead by so much. */
static void move_clock(uint8_t *bytes, int64_t by_ns, char mark)
{
    struct tci_trace_head *head = (struct tci_trace_head *)(void *)bytes;
    struct tci_trace_slot *slots = (void *)(bytes + head->tables[TCI_TRACE_SLOTS].offset);
    struct tci_trace_group *groups = (void *)(bytes + head->tables[TCI_TRACE_GROUPS].offset);

    head->boot_id[0] = mark;
    head->opened_ns += (uint64_t)by_ns;
    head->ended_ns += (uint64_t)by_ns;
    head->loop_ns += (uint64_t)by_ns;
    for (size_t c = 0; c < TCI_TRACE_CLOCKS; c++)
        head->clocks[c][0] += (uint64_t)by_ns;
    for (uint32_t i = 0; i < head->tables[TCI_TRACE_SLOTS].count; i++) {
        slots[i].begin_ns += (uint64_t)by_ns;
        slots[i].end_ns += (uint64_t)by_ns;
    }
    for (uint32_t i = 0; i < head->tables[TCI_TRACE_GROUPS].count; i++)
        groups[i].since_ns += (uint64_t)by_ns;
}

static void clocks_of_machines_are_set_right_by_their_messages(void **state)
{
    static const int64_t ahead_ns[3] = {0, INT64_C(3600000000000), INT64_C(7777777777)};
    struct traced_ranks ranks;
    char paths[3][128];
    const cJSON *rank;
    cJSON *root;
    int seen = 0;

    (void)state;
    traced_init(&ranks, 3);
    traced_start(&ranks, well, false);
    for (int r = 0; r < 3; r++)
        traced_path(&ranks, r, paths[r]);
    traced_await(&ranks, false);
    for (int r = 1; r < 3; r++) {
        size_t len;
        uint8_t *bytes = read_file(paths[r], &len);

        move_clock(bytes, ahead_ns[r], r == 1 ? 'x' : 'y');
        write_file(paths[r], bytes, len);
        free(bytes);
    }
    {
        struct tool_run run;

        tool_start(&run, NULL,
                   TCDUMP("--late", "100000", "--slow", "1e9", "--json", "-", ranks.dir));
        tool_finish(&run);
        assert_int_equal(run.exit_code, 0);
        root = cJSON_Parse(run.out.data);
        tool_close(&run);
    }
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(root, "ranks"))
    {
        double doubt = value_of(rank, "clock_doubt_ns");
        double error = value_of(rank, "clock_shift_ns") + (double)ahead_ns[number_of(rank, "rank")];

        assert_true(doubt >= 0 && doubt < 5e9);
        assert_true(error >= -doubt - 1 && error <= doubt + 1);
        seen++;
    }
    assert_int_equal(seen, 3);
    cJSON_Delete(root);
    traced_fini(&ranks);
}

static void refused(const char *path, const char *why)
{
    struct tool_run run;

    tool_start(&run, NULL, TCDUMP(path));
    tool_finish(&run);
    if (run.exit_code != TROUBLE || strstr(run.err.data, why) == NULL)
        fail_msg("exit code %d, not \"%s\": %s", run.exit_code, why, run.err.data);
    tool_close(&run);
}

static void damaged_files_are_refused_and_torn_events_left_out(void **state)
{
    struct traced_ranks ranks;
    struct tci_trace_head *head;
    struct tci_trace_slot *slots;
    struct tool_run run;
    char path[128];
    uint8_t *bytes;
    size_t len;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, well, false);
    traced_path(&ranks, 1, path);
    traced_await(&ranks, false);
    bytes = read_file(path, &len);
    head = (struct tci_trace_head *)(void *)bytes;
    slots = (void *)(bytes + head->tables[TCI_TRACE_SLOTS].offset);

    write_file(path, bytes, len - 1);
    refused(path, "its end is missing");
    write_file(path, bytes, 100);
    refused(path, "too short for a trace");
    write_file(path, "{}", 2);
    refused(path, "too short for a trace");
    head->version = 77;
    write_file(path, bytes, len);
    refused(path, "another version");
    head->version = TCI_TRACE_VERSION;
    head->tables[TCI_TRACE_SLOTS].offset = len;
    write_file(path, bytes, len);
    refused(path, "outside of it");
    memset(bytes, 0, sizeof(head->magic));
    write_file(path, bytes, len);
    refused(path, "it is empty");
    refused("/no/such/file", "No such file");
    memcpy(bytes, TCI_TRACE_MAGIC, sizeof(head->magic));
    head->tables[TCI_TRACE_SLOTS].offset = (uint64_t)((uint8_t *)slots - bytes);
    slots[3].turn |= 1; /* being written when it ended */
    write_file(path, bytes, len);
    tool_start(&run, NULL, TCDUMP("--late", "100000", "--slow", "1e9", ranks.dir));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out.data, "nothing is wrong"));
    tool_close(&run);
    free(bytes);
    traced_fini(&ranks);
}

static void check_timeline(const char *dir, const char *option, const char *part)
{
    struct tool_run run;

    tool_start(&run, NULL, TCDUMP("--late", "100000", "--slow", "1e9", option, "-", dir));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out.data, part));
    if (strcmp(option, "--chrome") == 0) {
        cJSON *root = cJSON_Parse(run.out.data);

        assert_true(cJSON_GetArraySize(cJSON_GetObjectItem(root, "traceEvents")) > 100);
        cJSON_Delete(root);
    }
    tool_close(&run);
}

static void timelines_are_written(void **state)
{
    struct traced_ranks ranks;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, well, false);
    traced_await(&ranks, false);

    check_timeline(ranks.dir, "--chrome", "\"name\":\"allreduce tag 30\",\"ph\":\"b\"");
    check_timeline(ranks.dir, "--html", "allreduce tag 30 (256 x f32, sum)");
    traced_fini(&ranks);
}

static void mistakes_in_options_exit_with_2(void **state)
{
    static const char *const mistakes[][4] = {{"tcdump"},
                                              {"tcdump", "--late", "x", "."},
                                              {"tcdump", "--slow", "0.5", "."},
                                              {"tcdump", "--nonsense"}};

    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        const char *argv[5] = {NULL};
        struct tool_run run;

        memcpy(argv, mistakes[i], sizeof(mistakes[i]));
        tool_start(&run, NULL, argv);
        tool_finish(&run);
        assert_int_equal(run.exit_code, TROUBLE);
        assert_non_null(strstr(run.err.data, "tcdump"));
        tool_close(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_of_machines_are_set_right_by_their_messages),
        cmocka_unit_test(damaged_files_are_refused_and_torn_events_left_out),
        cmocka_unit_test(timelines_are_written),
        cmocka_unit_test(mistakes_in_options_exit_with_2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
