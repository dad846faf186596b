/* test_tcstat.c - tcstat shows a job that runs, as a table and for a scraper. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 600 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/tool_run.h"
#include "support/traced_ranks.h"

#define TCSTAT(...) ((const char *const[]){"tcstat", __VA_ARGS__, NULL})

static float kept[256];
static struct traced_ranks ranks;

/* Five sums, then rank 0 waits for rank 1. */
static void five_and_one(struct traced_rank *self)
{
    float data[64] = {1};

    for (uint64_t tag = 1; tag <= 5; tag++)
        traced_wait(self, tc_allreduce_async(self->group, tag, data, data, 64, TC_DTYPE_F32,
                                             TC_REDUCE_SUM, NULL));
    if (self->rank != 0)
        return;
    (void)tc_recv_async(self->group, 9, kept, 256, TC_DTYPE_F32, 1, NULL);
    traced_entered(self, 6);
}

static int start_job(void **state)
{
    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, five_and_one, true);
    traced_await(&ranks, true);
    return 0;
}

static int end_job(void **state)
{
    (void)state;
    traced_fini(&ranks);
    return 0;
}

static void must_have(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in\n%s", part, text);
}

static void a_table_shows_what_is_in_flight(void **state)
{
    struct tool_run run;
    char pid[32];

    (void)state;
    tool_start(&run, NULL, TCSTAT("-i", "0.05", ranks.dir));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    snprintf(pid, sizeof(pid), "    0 %8d ", (int)ranks.pids[0]);
    must_have(run.out.data, pid);
    must_have(run.out.data, "recv tag 9 for ");
    must_have(run.out.data, ", from 1\n");
    assert_int_equal(tool_count(run.out.data, " runs "), 2);
    tool_close(&run);
}

static void a_scraper_gets_counts(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCSTAT("--prometheus", ranks.dir));
    tool_finish(&run);

    assert_int_equal(run.exit_code, 0);
    must_have(run.out.data, "# TYPE tcdist_operations_ended_total counter\n");
    must_have(run.out.data, "tcdist_operations_begun_total{rank=\"0\"");
    must_have(run.out.data, "outcome=\"finished\"} 5\n");
    must_have(run.out.data, "# TYPE tcdist_operations_in_flight gauge\n");
    assert_int_equal(tool_count(run.out.data, "# HELP tcdist_links "), 1);
    tool_close(&run);
}

static void it_looks_again_and_again(void **state)
{
    struct tool_run run;

    (void)state;
    tool_start(&run, NULL, TCSTAT("--watch", "-i", "0.05", ranks.dir));
    while (tool_count(run.out.data, "longest in flight") < 3)
        tool_read(&run, "three tables");
    tool_kill(&run, SIGTERM);
    tool_finish(&run);

    assert_int_equal(run.exit_code, 128 + SIGTERM);
    tool_close(&run);
}

static void ask(int port, const char *request, char *text, size_t room)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t len = 0;
    ssize_t more;

    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    while (len < room - 1 && (more = recv(fd, text + len, room - 1 - len, 0)) > 0)
        len += (size_t)more;
    text[len] = '\0';
    close(fd);
}

static void it_answers_over_http_on_loopback(void **state)
{
    static char text[65536];
    struct tool_run run;
    int port;

    (void)state;
    tool_start(&run, NULL, TCSTAT("--listen", "0", ranks.dir));
    tool_wait_out(&run, "/metrics\n");
    port = tool_number_after(&run, "http://127.0.0.1:");
    ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", text, sizeof(text));
    must_have(text, "HTTP/1.0 200 OK\r\n");
    must_have(text, "tcdist_running{rank=\"1\"");
    ask(port, "GET / HTTP/1.1\r\n\r\n", text, sizeof(text));
    must_have(text, "404");
    ask(port, "GET /metrics HTTP/1.1\r\n\r\n", text, sizeof(text)); /* it goes on */
    must_have(text, "200 OK");
    tool_kill(&run, SIGTERM);
    tool_finish(&run);
    tool_close(&run);
}

static void a_folder_without_traces_is_told(void **state)
{
    char empty[] = "/tmp/tcdist-empty-XXXXXX";
    struct tool_run run;

    (void)state;
    assert_non_null(mkdtemp(empty));
    tool_start(&run, NULL, TCSTAT("-i", "0.05", empty));
    tool_finish(&run);
    rmdir(empty);

    assert_int_equal(run.exit_code, 2);
    must_have(run.err.data, "there is no trace in ");
    must_have(run.err.data, "TCDIST_TRACE_DIR");
    tool_close(&run);
    tool_start(&run, NULL, TCSTAT("--watch", "--prometheus", "x"));
    tool_finish(&run);
    assert_int_equal(run.exit_code, 2);
    tool_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_shows_what_is_in_flight),
        cmocka_unit_test(a_scraper_gets_counts),
        cmocka_unit_test(it_looks_again_and_again),
        cmocka_unit_test(it_answers_over_http_on_loopback),
        cmocka_unit_test(a_folder_without_traces_is_told),
    };

    return cmocka_run_group_tests(tests, start_job, end_job);
}
