/* test_error.c - statuses, records of errors, log lines, the version. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "tcdist/version.h"

static void statuses_have_their_names(void **state)
{
    (void)state;
    assert_string_equal(tc_status_string(TC_OK), "ok");
    assert_string_equal(tc_status_string(TC_PENDING), "pending");
    assert_string_equal(tc_status_string(TC_ERR_TIMEOUT), "timeout");
    assert_string_equal(tc_status_string(TC_ERR_PEER_LOST), "peer_lost");
    assert_string_equal(tc_status_string(TC_ERR_INTERNAL), "internal");
    assert_string_equal(tc_status_string((tc_status_t)-12345), "unknown status");
}

static void the_version_is_that_of_the_header(void **state)
{
    char text[32];
    (void)state;

    snprintf(text, sizeof(text), "%d.%d.%d", TC_VERSION_MAJOR, TC_VERSION_MINOR, TC_VERSION_PATCH);

    assert_string_equal(tc_version(), text);
}

static void the_first_cause_wins(void **state)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    (void)state;

    tci_error_set(&error, TC_ERR_PEER_LOST, 3, 7, "allreduce", "rank %d is lost", 3);
    tci_error_set(&error, TC_ERR_TIMEOUT, 4, 8, "barrier", "late");

    assert_int_equal(error.pub.status, TC_ERR_PEER_LOST);
    assert_int_equal(error.pub.rank, 3);
    assert_int_equal(error.pub.tag, 7);
    assert_string_equal(error.pub.operation, "allreduce");
    assert_string_equal(error.pub.message, "rank 3 is lost");
}

static void a_long_sentence_is_cut(void **state)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    char text[1000];
    (void)state;

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    tci_error_set(&error, TC_ERR_TIMEOUT, -1, 0, NULL, "%s", text);

    assert_int_equal(strlen(error.pub.message), sizeof(error.text) - 1);
}

static void a_system_error_says_what_and_why(void **state)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    (void)state;

    errno = ENOENT;

    assert_int_equal(tci_error_system(&error, TC_ERR_TRANSPORT, "open it"), TC_ERR_TRANSPORT);
    assert_string_equal(error.pub.message, "open it: No such file or directory");
    assert_int_equal(error.pub.rank, -1);
    assert_int_equal(errno, ENOENT);
}

static void a_copy_has_its_own_sentence(void **state)
{
    struct tci_error from = {.pub = {.status = TC_OK}}, to = from;
    (void)state;

    tci_error_copy(&to, &from);
    assert_int_equal(to.pub.status, TC_OK);
    tci_error_set(&from, TC_ERR_BUSY, 1, 2, "send", "busy");
    tci_error_copy(&to, &from);
    from.text[0] = '\0';

    assert_int_equal(to.pub.status, TC_ERR_BUSY);
    assert_string_equal(to.pub.message, "busy");
    assert_ptr_equal(to.pub.message, to.text);
}

static void *look_for_an_error(void *arg)
{
    (void)arg;
    return (void *)tc_last_error();
}

static void reasons_have_their_names(void **state)
{
    (void)state;
    assert_string_equal(tc_reason_string(TC_REASON_NONE), "none");
    assert_string_equal(tc_reason_string(TC_REASON_REFUSED_KEY), "refused_key");
    assert_string_equal(tc_reason_string(TC_REASON_SLOW), "slow");
    assert_string_equal(tc_reason_string((tc_reason_t)TCI_REASON_COUNT), "unknown reason");
    assert_string_equal(tc_reason_string((tc_reason_t)-1), "unknown reason");
}

static void a_reason_goes_with_its_record_and_not_with_a_copy_of_its_public_part(void **state)
{
    struct tci_error error = {0}, to = {0};
    tc_error copy;
    (void)state;

    tci_error_blame(&error, TC_ERR_PEER_LOST, 3, TC_REASON_LINK_DEAD, NULL, "rank 3 is lost");
    tci_error_copy(&to, &error);
    tci_error_publish(&error);
    copy = error.pub;

    assert_int_equal(tc_error_reason(&error.pub), TC_REASON_LINK_DEAD);
    assert_int_equal(tc_error_reason(&to.pub), TC_REASON_LINK_DEAD);
    assert_int_equal(tc_error_reason(tc_last_error()), TC_REASON_LINK_DEAD);
    assert_int_equal(tc_error_reason(&copy), TC_REASON_NONE);
    assert_int_equal(tc_error_reason(NULL), TC_REASON_NONE);
    (void)tci_fail(TC_ERR_INVALID_ARG, "init", "no");
    assert_int_equal(tc_error_reason(tc_last_error()), TC_REASON_NONE);
}

static void the_last_error_is_the_threads_own(void **state)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    pthread_t thread;
    void *elsewhere;
    (void)state;

    assert_int_equal(tci_fail(TC_ERR_INVALID_ARG, "send", "peer %d", 9), TC_ERR_INVALID_ARG);
    pthread_create(&thread, NULL, look_for_an_error, NULL);
    pthread_join(thread, &elsewhere);

    assert_null(elsewhere);
    assert_string_equal(tc_last_error()->message, "peer 9");
    tci_error_set(&error, TC_ERR_CLOSED, 2, 0, NULL, "closed");
    assert_int_equal(tci_error_publish(&error), TC_ERR_CLOSED);
    assert_string_equal(tc_last_error()->message, "closed");
    assert_int_equal(tc_last_error()->rank, 2);
}

static void an_error_may_quote_the_last_one(void **state)
{
    (void)state;
    tci_fail(TC_ERR_TIMEOUT, "send", "late");

    tci_fail(TC_ERR_CLOSED, "recv", "closed after %s", tc_last_error()->message);

    assert_string_equal(tc_last_error()->message, "closed after late");
}

/* ---- Log ------------------------------------------------------------------------------------ */

static char last_line[2048];
static int lines;

static void keep_line(tc_log_level_t level, const char *line, void *arg)
{
    (void)level;
    lines++;
    snprintf(last_line, sizeof(last_line), "%s", line);
    assert_string_equal(arg, "arg");
}

static void lines_up_to_the_level_reach_the_sink(void **state)
{
    static char arg[] = "arg";
    (void)state;

    lines = 0;
    tc_log_set_sink(keep_line, arg);
    tci_log(TC_LOG_INFO, "not by default");
    tci_log(TC_LOG_WARN, "rank %d", 3);
    assert_int_equal(lines, 1);
    assert_string_equal(last_line, "rank 3");
    tc_log_set_level(TC_LOG_DEBUG);
    tci_log(TC_LOG_DEBUG, "more");

    assert_int_equal(lines, 2);
    tc_log_set_level(TC_LOG_WARN);
    tc_log_set_sink(NULL, NULL);
}

static size_t log_to_pipe(const char *text, char *out, size_t room)
{
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t len;

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    tci_log(TC_LOG_WARN, "%s", text);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    len = read(ends[0], out, room - 1);
    close(ends[0]);
    assert_true(len >= 0);
    out[len] = '\0';
    return (size_t)len;
}

static void lines_on_standard_error_have_prefix_and_newline(void **state)
{
    char text[2000], out[3000];
    size_t len;
    (void)state;

    log_to_pipe("peer 7 lost", out, sizeof(out));
    assert_string_equal(out, "tcdist: warn: peer 7 lost\n");
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    len = log_to_pipe(text, out, sizeof(out));

    assert_in_range(len, 500, 1024);
    assert_int_equal(out[len - 1], '\n');
    assert_int_equal(out[len - 2], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_their_names),
        cmocka_unit_test(the_version_is_that_of_the_header),
        cmocka_unit_test(the_first_cause_wins),
        cmocka_unit_test(a_long_sentence_is_cut),
        cmocka_unit_test(a_system_error_says_what_and_why),
        cmocka_unit_test(a_copy_has_its_own_sentence),
        cmocka_unit_test(reasons_have_their_names),
        cmocka_unit_test(a_reason_goes_with_its_record_and_not_with_a_copy_of_its_public_part),
        cmocka_unit_test(the_last_error_is_the_threads_own),
        cmocka_unit_test(an_error_may_quote_the_last_one),
        cmocka_unit_test(lines_up_to_the_level_reach_the_sink),
        cmocka_unit_test(lines_on_standard_error_have_prefix_and_newline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
