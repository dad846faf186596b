/* test_tcrun.c - how tcrun starts ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/tool_run.h"
#include "tcdist/tcdist.h"

#define TCRUN(...) ((const char *const[]){"tcrun", __VA_ARGS__, NULL})

static const char *self_path; /* this program, which plays a rank when told so */

/* ---- Starting ------------------------------------------------------------------------------ */

static void ranks_know_their_place(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "3", "sh", "-c",
                     "echo $TCDIST_RANK/$TCDIST_WORLD_SIZE/$TCDIST_LOCAL_RANK/$TCDIST_LOCAL_SIZE"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out.data, "[0] 0/3/0/3\n"));
    assert_non_null(strstr(run.out.data, "[1] 1/3/1/3\n"));
    assert_non_null(strstr(run.out.data, "[2] 2/3/2/3\n"));
    assert_string_equal(run.err.data, "");
    tool_close(&run);
}

static void rank_0_inherits_the_listening_socket(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "3", self_path, "--meet"));
    tool_finish(&run);

    assert_string_equal(run.err.data, "");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out.data, "[0] met 2, open beyond 2: 2\n"));
    assert_non_null(strstr(run.out.data, "[1] met 1, open beyond 2: 1\n"));
    tool_close(&run);
}

/* The socket is gone with the first group, the address is not. */
static void ranks_may_join_again(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "3", self_path, "--join-twice"));
    tool_finish(&run);

    assert_string_equal(run.err.data, "");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] joined\n"), 6);
    tool_close(&run);
}

static void a_given_rendezvous_is_passed_on_without_a_socket(void **state)
{
    struct tool_run run;

    (void)state;
    setenv("TCDIST_RENDEZVOUS_FD", "7", 1);
    setenv("TCDIST_RENDEZVOUS_UP", "tcp://10.0.0.7:4100", 1);
    tool_start(
        &run, NULL,
        TCRUN(
            "-n", "2", "--rendezvous", "tcp://10.0.0.7:4100", "sh", "-c",
            "echo $TCDIST_RENDEZVOUS ${TCDIST_RENDEZVOUS_FD-none} ${TCDIST_RENDEZVOUS_UP:-none}"));
    unsetenv("TCDIST_RENDEZVOUS_FD");
    unsetenv("TCDIST_RENDEZVOUS_UP");
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] tcp://10.0.0.7:4100 none none\n"), 2);
    tool_close(&run);
}

/* The key of rank n in what ranks print as "key=…". */
static const char *key_of(const struct tool_run *run, int rank, char key[128])
{
    char line[32];
    const char *at;

    snprintf(line, sizeof line, "[%d] key=", rank);
    at = strstr(run->out.data, line);
    assert_non_null(at);
    snprintf(key, 128, "%.*s", (int)strcspn(at + strlen(line), "\n"), at + strlen(line));
    return key;
}

static void ranks_share_a_key_that_is_made_for_the_job(void **state)
{
    char keys[3][128], before[128] = "";
    struct tool_run run;

    (void)state;
    for (int job = 0; job < 2; job++) {
        tool_start(&run, NULL,
                   TCRUN("-n", "3", "--key", "auto", "--encrypt", "sh", "-c",
                         "echo key=$TCDIST_KEY; echo $TCDIST_ENCRYPTION"));
        tool_finish(&run);

        assert_int_equal(run.exit_code, 0);
        assert_int_equal(tool_count(run.out.data, "] on\n"), 3);
        for (int rank = 0; rank < 3; rank++)
            assert_string_equal(key_of(&run, rank, keys[rank]), keys[0]);
        assert_int_equal(strspn(keys[0], "0123456789abcdef"), 64);
        assert_int_equal(strlen(keys[0]), 64);
        assert_string_not_equal(keys[0], before);
        memcpy(before, keys[0], sizeof before);
        tool_close(&run);
    }
}

static void a_key_may_come_from_a_file(void **state)
{
    char path[] = "/tmp/tcrun-key-XXXXXX", key[128];
    int fd = mkstemp(path);
    struct tool_run run;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "sixteen and more\nelse\n", 22), 22);
    tool_start(&run, NULL, TCRUN("-n", "1", "--key", path, "sh", "-c", "echo key=$TCDIST_KEY"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(key_of(&run, 0, key), "sixteen and more");
    tool_close(&run);

    assert_int_equal(ftruncate(fd, 15), 0);
    tool_start(&run, NULL, TCRUN("-n", "1", "--key", path, "true"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 2);
    assert_non_null(strstr(run.err.data, "shorter than the 16 characters"));
    assert_null(strstr(run.err.data, "sixteen"));
    tool_close(&run);
    close(fd);
    unlink(path);
}

static void environment_and_directory_are_as_asked(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL,
               TCRUN("-n", "2", "--env", "A=1=2", "--env=B=", "--cwd", "/proc/self/..", "sh", "-c",
                     "echo $A ${B-unset} $(pwd)"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] 1=2 /proc\n"), 2);
    tool_close(&run);
}

static void options_after_the_command_belong_to_it(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "1", "echo", "-n", "7", "--help", "--", "x"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out.data, "[0] 7 --help -- x\n");
    tool_close(&run);

    tool_start(&run, NULL, TCRUN("-n", "1", "--", "echo", "--verbose"));
    tool_finish(&run);

    assert_string_equal(run.out.data, "[0] --verbose\n");
    tool_close(&run);
}

static void mistakes_in_options_exit_with_2_and_a_hint(void **state)
{
    static const char *const mistakes[][5] = {
        {"tcrun", "true"},
        {"tcrun", "-n", "2"},
        {"tcrun", "-n", "0", "true"},
        {"tcrun", "-n", "-1", "true"},
        {"tcrun", "-n", "2x", "true"},
        {"tcrun", "-n", "99999999999999999999", "true"},
        {"tcrun", "-n2", "--what", "true"},
        {"tcrun", "-n2", "--env=NAME", "true"},
        {"tcrun", "-n2", "--env==x", "true"},
        {"tcrun", "-n2", "--env=TCDIST_RANK=1", "true"},
        {"tcrun", "-n2", "--timeout-kill=soon", "true"},
        {"tcrun", "-n2", "--timeout-kill=-1", "true"},
        {"tcrun", "-n2", "--timeout-kill=nan", "true"},
        {"tcrun", "-n2", "--rendezvous=here", "true"},
        {"tcrun", "-np", "0", "true"},
        {"tcrun", "-np"},
        {"tcrun", "-n2", "--mpi-arg=--oversubscribe", "true"},
        {"tcrun", "-n2", "--nccl-port=70000", "true"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct tool_run run;

        tool_start(&run, NULL, mistakes[i]);
        tool_finish(&run);

        assert_int_equal(run.exit_code, 2);
        assert_string_equal(run.out.data, "");
        assert_int_equal(tool_count(run.err.data, "\n"), 2);
        assert_non_null(strstr(run.err.data, "--help"));
        tool_close(&run);
    }
}

static void put_file(const char *folder, const char *name, mode_t mode, const char *text)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void look_there_first(void *folder)
{
    char path[4096];

    snprintf(path, sizeof path, "%s:%s", (const char *)folder, getenv("PATH"));
    setenv("PATH", path, 1);
}

/* Scripts that cannot be executed are run as mlx.launch runs them. */
static void scripts_of_python_are_run_by_it(void **state)
{
    char folder[] = "/tmp/tcrun_python_XXXXXX", cwd[64], command[64], found[64];
    struct tool_setup setup = {.prepare = look_there_first, .arg = folder};
    struct tool_run run;

    (void)state;
    assert_non_null(mkdtemp(folder));
    put_file(folder, "python3", 0755, "#!/bin/sh\necho python3 runs \"$@\"\n");
    put_file(folder, "train.py", 0644, "nothing\n");
    put_file(folder, "own.py", 0755, "#!/bin/sh\necho by itself \"$@\"\n");
    snprintf(cwd, sizeof cwd, "--cwd=%s", folder);
    snprintf(found, sizeof found, "%s/python3\n", folder);

    tool_start(&run, &setup, TCRUN("-n1", cwd, "train.py", "-x", "2"));
    tool_finish(&run);
    assert_string_equal(run.out.data, "[0] python3 runs train.py -x 2\n");
    tool_close(&run);

    snprintf(command, sizeof command, "%s/own.py", folder);
    tool_start(&run, &setup, TCRUN("-n1", command, "1"));
    tool_finish(&run);
    assert_string_equal(run.out.data, "[0] by itself 1\n");
    tool_close(&run);

    tool_start(&run, &setup, TCRUN("-n1", cwd, "--python=echo", "train.py", "1"));
    tool_finish(&run);
    assert_string_equal(run.out.data, "[0] train.py 1\n");
    tool_close(&run);

    tool_start(&run, &setup, TCRUN("--print-python"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out.data, found);
    tool_close(&run);

    for (size_t i = 0; i < 3; i++) {
        snprintf(command, sizeof command, "%s/%s", folder,
                 (const char *const[]){"python3", "train.py", "own.py"}[i]);
        unlink(command);
    }
    rmdir(folder);
}

static void np_of_mpirun_is_understood(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-np", "2", "echo", "here"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] here\n"), 2);
    tool_close(&run);
}

/* Also from the program itself; without any the library refuses to join. */
static void to_encrypt_takes_a_key_from_anywhere(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n2", "--encrypt", self_path, "--join", "sixteen and more"));
    tool_finish(&run);
    assert_string_equal(run.err.data, "");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] joined\n"), 2);
    tool_close(&run);

    tool_start(&run, NULL,
               TCRUN("-n2", "--encrypt", "--env=TCDIST_KEY=sixteen and more", self_path, "--join"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 0);
    tool_close(&run);

    tool_start(&run, NULL, TCRUN("-n2", "--encrypt", self_path, "--join"));
    tool_finish(&run);
    assert_int_not_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out.data, "encryption is on, and there is no key to encrypt by"));
    tool_close(&run);
}

static void help_and_version_succeed(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("--help"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out.data, "--timeout-kill=SECONDS"));
    tool_close(&run);

    tool_start(&run, NULL, TCRUN("--version"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(strncmp(run.out.data, "tcrun (tcdist) ", 15), 0);
    tool_close(&run);
}

static void a_command_that_can_not_run_is_told_once(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "8", "no-such-command"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 127);
    assert_string_equal(run.err.data,
                        "tcrun: cannot run 'no-such-command': No such file or directory\n");
    tool_close(&run);

    tool_start(&run, NULL, TCRUN("-n", "8", "/"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 126);
    assert_string_equal(run.err.data, "tcrun: cannot run '/': Permission denied\n");
    tool_close(&run);
}

static void a_directory_that_is_not_there_is_told(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "8", "--cwd", "/no/such", "true"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.err.data,
                        "tcrun: cannot change to '/no/such': No such file or directory\n");
    tool_close(&run);
}

static void limit_files(void *arg)
{
    rlim_t count = *(const rlim_t *)arg;

    setrlimit(RLIMIT_NOFILE, &(struct rlimit){count, count});
}

/* The n-th descriptor fails, for each n until none does. */
static void a_limit_of_files_ends_what_was_started(void **state)
{
    int told = 0;
    bool has_succeeded = false;

    (void)state;
    for (rlim_t count = 6; count < 64 && !has_succeeded; count++) {
        struct tool_setup setup = {.prepare = limit_files, .arg = &count};
        struct tool_run run;

        tool_start(&run, &setup, TCRUN("-n", "4", "sleep", "0"));
        tool_finish(&run);

        has_succeeded = run.exit_code == 0;
        told += strstr(run.err.data, "of 4: Too many open files (too many for one process") != NULL;
        assert_true(has_succeeded || run.err.len > 0);
        tool_close(&run);
    }
    assert_true(has_succeeded);
    assert_true(told > 3);
}

static void limit_processes(void *arg)
{
    rlim_t count = *(const rlim_t *)arg;

    /* The limit does not hold for root. */
    if (geteuid() == 0 && setresuid(65533, 65533, 65533) != 0)
        _exit(125);
    if (access(tool_path("tcrun"), X_OK) != 0)
        _exit(77);
    setrlimit(RLIMIT_NPROC, &(struct rlimit){count, count});
}

static void a_limit_of_processes_ends_what_was_started(void **state)
{
    int told = 0;
    bool has_succeeded = false;

    (void)state;
    if (geteuid() != 0) {
        printf("skipped: other processes of this user would count; root runs it\n");
        skip();
    }
    for (rlim_t count = 1; count < 64 && !has_succeeded; count++) {
        struct tool_setup setup = {.prepare = limit_processes, .arg = &count};
        struct tool_run run;

        tool_start(&run, &setup, TCRUN("-n", "4", "/bin/true"));
        tool_finish(&run);
        if (run.exit_code == 77) {
            tool_close(&run);
            printf("skipped: the build is out of reach of other users\n");
            skip();
        }

        has_succeeded = run.exit_code == 0;
        told += strstr(run.err.data, "of 4: Resource temporarily unavailable (too many") != NULL;
        assert_true(has_succeeded || run.exit_code == 1);
        tool_close(&run);
    }
    assert_true(has_succeeded);
    assert_true(told >= 2);
}

static void sixty_four_ranks_run(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCRUN("-n", "64", "--verbose", "echo", "here"));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    assert_int_equal(tool_count(run.out.data, "] here\n"), 64);
    assert_int_equal(tool_count(run.err.data, " started\n"), 64);
    assert_int_equal(tool_count(run.err.data, " ended\n"), 64);
    assert_non_null(strstr(run.err.data, "tcrun: 64 ranks meet at tcp://127.0.0.1:"));
    tool_close(&run);
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static int count_open_beyond_2(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0;

    while ((entry = readdir(dir)) != NULL) {
        int fd = atoi(entry->d_name);

        count += fd > 2 && fd != dirfd(dir);
    }
    closedir(dir);
    return count;
}

/* Rank 0 accepts the others at the descriptor it inherited, which must be at the URL's address. */
static int meet(void)
{
    const char *url = getenv("TCDIST_RENDEZVOUS");
    const char *inherited = getenv("TCDIST_RENDEZVOUS_FD");
    const char *is_up = getenv("TCDIST_RENDEZVOUS_UP");
    int others = atoi(getenv("TCDIST_WORLD_SIZE")) - 1;
    bool is_first = strcmp(getenv("TCDIST_RANK"), "0") == 0;
    int open_count = count_open_beyond_2();
    struct sockaddr_in addr = {.sin_family = AF_INET};
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    int fd;

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    addr.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
    if (is_first != (inherited != NULL) || is_up == NULL || strcmp(is_up, url) != 0)
        return 10;
    if (is_first) {
        fd = atoi(inherited);
        if (getsockname(fd, (struct sockaddr *)&own, &len) != 0 || own.sin_port != addr.sin_port)
            return 11;
        for (int i = 0; i < others; i++) {
            if (accept(fd, NULL, NULL) < 0)
                return 12;
        }
    } else {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&addr, sizeof addr) != 0)
            return 13;
    }
    printf("met %d, open beyond 2: %d\n", is_first ? others : 1, open_count);
    return 0;
}

/* A program that has a key of its own, or none, and joins so many times. */
static int join(const char *key, int times)
{
    tc_context *context = NULL;
    tc_config config;

    tc_config_default(&config);
    config.key = key;
    config.key_bytes = key == NULL ? 0 : strlen(key);
    if (tc_init_config(&config, &context) != TC_OK)
        return 1;
    for (int k = 0; k < times; k++) {
        tc_dist_ctx *group = NULL;

        if (tc_dist_init_env(context, &group) != TC_OK) {
            puts(tc_last_error()->message);
            return 1;
        }
        puts("joined");
        (void)tc_dist_finalize(group);
    }
    tc_shutdown(context);
    return 0;
}

int main(int argc, char **argv)
{
    static char self[4096];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_know_their_place),
        cmocka_unit_test(rank_0_inherits_the_listening_socket),
        cmocka_unit_test(ranks_may_join_again),
        cmocka_unit_test(a_given_rendezvous_is_passed_on_without_a_socket),
        cmocka_unit_test(ranks_share_a_key_that_is_made_for_the_job),
        cmocka_unit_test(a_key_may_come_from_a_file),
        cmocka_unit_test(environment_and_directory_are_as_asked),
        cmocka_unit_test(options_after_the_command_belong_to_it),
        cmocka_unit_test(mistakes_in_options_exit_with_2_and_a_hint),
        cmocka_unit_test(scripts_of_python_are_run_by_it),
        cmocka_unit_test(np_of_mpirun_is_understood),
        cmocka_unit_test(to_encrypt_takes_a_key_from_anywhere),
        cmocka_unit_test(help_and_version_succeed),
        cmocka_unit_test(a_command_that_can_not_run_is_told_once),
        cmocka_unit_test(a_directory_that_is_not_there_is_told),
        cmocka_unit_test(a_limit_of_files_ends_what_was_started),
        cmocka_unit_test(a_limit_of_processes_ends_what_was_started),
        cmocka_unit_test(sixty_four_ranks_run),
    };

    if (argc > 1 && strcmp(argv[1], "--meet") == 0)
        return meet();
    if (argc > 1 && strcmp(argv[1], "--join") == 0)
        return join(argc > 2 ? argv[2] : NULL, 1);
    if (argc > 1 && strcmp(argv[1], "--join-twice") == 0)
        return join(NULL, 2);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    self_path = self;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
