/* test_trace.c - the ring of events: kept, overtaken, shown, written. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/trace.h"
#include "support/future_room.h"
#include "tcdist/trace.h"

#define EVENTS 64u

static int enter(void **state)
{
    struct room *room;

    room_enter(state);
    room = *state;
    room->context->trace = tci_trace_new(EVENTS - 1);
    return room->context->trace == NULL ? -1 : 0;
}

static int leave(void **state)
{
    struct room *room = *state;

    tci_trace_free(room->context->trace);
    return room_leave(state);
}

static void add(struct room *room, uint64_t tag)
{
    struct tci_trace_record record = {.kind = TCI_TRACE_FOLD,
                                      .rank = 2,
                                      .begin_ns = tag * 10,
                                      .end_ns = tag * 10 + 5,
                                      .tag = tag,
                                      .a = tag * 100};

    tci_trace_add(room->context->trace, &record);
}

struct seen {
    unsigned count;
    tc_trace_event first, last;
};

static void see(const tc_trace_event *event, void *arg)
{
    struct seen *seen = arg;

    if (seen->count == 0)
        seen->first = *event;
    else
        assert_true(event->tag == seen->last.tag + 1);
    seen->last = *event;
    seen->count++;
}

static void an_empty_trace_shows_nothing(void **state)
{
    struct room *room = *state;
    struct seen seen = {.count = 0};

    tc_trace_visit(room->context, see, &seen);
    tc_trace_visit(NULL, see, &seen);

    assert_int_equal(seen.count, 0);
}

static void events_are_shown_oldest_first(void **state)
{
    struct room *room = *state;
    struct seen seen = {.count = 0};

    for (uint64_t tag = 1; tag <= 10; tag++)
        add(room, tag);
    tc_trace_visit(room->context, see, &seen);

    assert_int_equal(seen.count, 10);
    assert_int_equal(seen.first.tag, 1);
    assert_string_equal(seen.first.name, "fold");
    assert_string_equal(seen.first.category, "step");
    assert_int_equal(seen.first.begin_ns, 10);
    assert_int_equal(seen.first.end_ns, 15);
    assert_int_equal(seen.first.bytes, 100);
    assert_int_equal(seen.first.rank, 2);
    assert_true(seen.first.thread > 0);
}

static void the_oldest_events_give_way(void **state)
{
    struct room *room = *state;
    struct seen seen = {.count = 0};

    for (uint64_t tag = 0; tag < 1000; tag++)
        add(room, tag);
    tc_trace_visit(room->context, see, &seen);

    assert_int_equal(seen.count, EVENTS);
    assert_int_equal(seen.last.tag, 999);
}

static void spans_of_the_application_have_its_names(void **state)
{
    struct room *room = *state;
    struct seen seen = {.count = 0};
    uint64_t begin = tc_trace_now_ns();

    tc_trace_span(room->context, "load batch", 7, begin);
    tc_trace_span(NULL, "nowhere", 7, begin);
    tc_trace_visit(room->context, see, &seen);

    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.last.name, "load batch");
    assert_string_equal(seen.last.category, "app");
    assert_int_equal(seen.last.tag, 7);
    assert_int_equal(seen.last.rank, -1);
    assert_true(seen.last.begin_ns == begin && seen.last.end_ns >= begin);
}

/* ---- Threads -------------------------------------------------------------------------------- */

#define WRITERS 4
#define EACH    20000u

/* Every field of an event is a function of its tag, so that a mixed one shows. */
static void *write_events(void *arg)
{
    struct room *room = arg;
    uint64_t base = (uint64_t)(uintptr_t)&base << 16;

    for (uint64_t i = 0; i < EACH; i++)
        add(room, (base + i) % 1000000007);
    return NULL;
}

static void check(const tc_trace_event *event, void *arg)
{
    unsigned *mixed = arg;

    if (event->begin_ns != event->tag * 10 || event->end_ns != event->begin_ns + 5 ||
        event->bytes != event->tag * 100 || event->rank != 2)
        ++*mixed;
}

static void a_reader_among_writers_sees_whole_events(void **state)
{
    struct room *room = *state;
    pthread_t threads[WRITERS];
    unsigned mixed = 0;

    for (unsigned t = 0; t < WRITERS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, write_events, room), 0);
    for (int i = 0; i < 500; i++)
        tc_trace_visit(room->context, check, &mixed);
    for (unsigned t = 0; t < WRITERS; t++)
        pthread_join(threads[t], NULL);
    tc_trace_visit(room->context, check, &mixed);

    assert_int_equal(mixed, 0);
}

/* ---- The file ------------------------------------------------------------------------------- */

static void read_file(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    text[fread(text, 1, room - 1, file)] = '\0';
    fclose(file);
}

static void the_file_is_chrome_json(void **state)
{
    static const char *const format =
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
        "{\"name\":\"fold\",\"cat\":\"step\",\"ph\":\"X\",\"ts\":12345.670,\"dur\":0.005,"
        "\"pid\":2,\"tid\":%u,\"args\":{\"tag\":\"1234567\",\"bytes\":123456700}},\n"
        "{\"name\":\"a \\\"b\\\\\\u000a\",\"cat\":\"app\",\"ph\":\"i\",\"s\":\"t\",\"ts\":0.001,"
        "\"pid\":2147483647,\"tid\":%u,\"args\":{\"tag\":\"9\",\"bytes\":0}}\n]}\n";
    struct tci_trace_record record = {.kind = TCI_TRACE_APP,
                                      .rank = -1,
                                      .name = "a \"b\\\n",
                                      .begin_ns = 1,
                                      .end_ns = 1,
                                      .tag = 9};
    char path[] = "/tmp/tcdist-trace-XXXXXX", text[1000], expected[1000];
    struct room *room = *state;
    struct seen seen = {.count = 0};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    add(room, 1234567);
    tc_trace_visit(room->context, see, &seen);
    tci_trace_add(room->context->trace, &record);
    assert_int_equal(tc_trace_write(room->context, path), TC_OK);
    read_file(path, text, sizeof(text));
    unlink(path);

    snprintf(expected, sizeof(expected), format, seen.last.thread, seen.last.thread);
    assert_string_equal(text, expected);
}

static void a_file_that_can_not_be_written_is_told(void **state)
{
    struct room *room = *state;

    add(room, 1);

    assert_int_equal(tc_trace_write(room->context, "/no/such/folder/x.json"), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "No such file"));
    assert_int_equal(tc_trace_write(room->context, NULL), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_trace_write(room->context, "/dev/full"), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(tc_last_error()->message, "No space left"));
}

static void sizes_that_are_not_to_be_had_give_null(void **state)
{
    (void)state;
    assert_null(tci_trace_new(SIZE_MAX));
    assert_null(tci_trace_new(SIZE_MAX / 2));
    tci_alloc_fail_at(1, 0);
    assert_null(tci_trace_new(16));
}

#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ROOM(an_empty_trace_shows_nothing),
        IN_ROOM(events_are_shown_oldest_first),
        IN_ROOM(the_oldest_events_give_way),
        IN_ROOM(spans_of_the_application_have_its_names),
        IN_ROOM(a_reader_among_writers_sees_whole_events),
        IN_ROOM(the_file_is_chrome_json),
        IN_ROOM(a_file_that_can_not_be_written_is_told),
        cmocka_unit_test(sizes_that_are_not_to_be_had_give_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
