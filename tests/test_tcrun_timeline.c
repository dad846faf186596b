/* test_tcrun_timeline.c - tcrun --timeline: what cannot be written, what becomes of traces. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tool_run.h"

#define TCRUN(...) ((const char *const[]){"tcrun", __VA_ARGS__, NULL})

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Rank 0 leaves a file where traces lie, which is none. */
static const char leave_rubbish[] = "echo rubbish > $TCDIST_TRACE_DIR/tcdist-1.trace; echo done";

static void what_can_not_be_written_is_said_before_the_job(void **state)
{
    static const char *const paths[] = {"/nonexistent/t.html", "/", "/dev/null/t.html"};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct tool_run run;
        char said[128];

        tool_start(&run, NULL, TCRUN("-n", "2", "--timeline", paths[i], "echo", "ran"));
        tool_finish(&run);

        snprintf(said, sizeof said, "tcrun: cannot write the timeline to '%s': ", paths[i]);
        assert_int_equal(run.exit_code, 1);
        assert_non_null(strstr(run.err.data, said));
        assert_string_equal(run.out.data, "");
        tool_close(&run);
    }
}

static void the_look_at_it_leaves_nothing_and_changes_nothing(void **state)
{
    const char *path = in_folder("old.html");
    struct tool_run run;
    struct stat st;
    FILE *file = fopen(path, "w");

    (void)state;
    assert_non_null(file);
    fputs("old", file);
    fclose(file);
    tool_start(&run, NULL, TCRUN("-n", "1", "--timeline", path, "true"));
    tool_finish(&run);
    tool_close(&run);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3);
    unlink(path);

    tool_start(&run, NULL, TCRUN("-n", "1", "--timeline", path, "true"));
    tool_finish(&run);
    assert_non_null(strstr(run.err.data, "no rank has left a trace"));
    tool_close(&run);
    assert_int_equal(access(path, F_OK), -1);
}

/* How many folders with traces lie there; the name of one of them. */
static int count_kept(char *name, size_t room)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    int count = 0;

    while ((entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, "tcrun-traces-", 13) != 0)
            continue;
        snprintf(name, room, "%s/%s", folder, entry->d_name);
        count++;
    }
    closedir(dir);
    return count;
}

static void a_job_ends_as_it_has_and_its_traces_stay_without_a_timeline(void **state)
{
    char kept[384] = "", file[416];
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "1", "--timeline", in_folder("t.html"), "sh", "-c", leave_rubbish));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out.data, "[0] done\n");
    assert_int_equal(count_kept(kept, sizeof kept), 1);
    assert_non_null(strstr(run.err.data, "tcrun: no timeline in '"));
    assert_non_null(strstr(run.err.data, kept));
    tool_close(&run);

    snprintf(file, sizeof file, "%s/tcdist-1.trace", kept);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(kept), 0);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tcrun-timeline-XXXXXX");
    return mkdtemp(folder) == NULL || setenv("TMPDIR", folder, 1) != 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_not_be_written_is_said_before_the_job),
        cmocka_unit_test(the_look_at_it_leaves_nothing_and_changes_nothing),
        cmocka_unit_test(a_job_ends_as_it_has_and_its_traces_stay_without_a_timeline),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
