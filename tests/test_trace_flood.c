/* test_trace_flood.c - floods: how many operations are kept whole, and what the rest leaves. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libcjson */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "core/base.h"
#include "core/context.h"
#include "core/trace_read.h"
#include "support/tool_run.h"
#include "support/traced_ranks.h"

#define MS UINT64_C(1000000)

/* ---- How many are kept ---------------------------------------------------------------------- */

enum { EVENTS = 16 };

static void few_operations_are_all_kept(void **state)
{
    struct tci_trace *trace = tci_trace_new(EVENTS);

    (void)state;
    for (uint64_t at = 1000 * MS; at < 2000 * MS; at += MS) {
        tci_trace_flood_tick(trace, at);
        assert_true(trace->flood.limit == UINT64_MAX);
        tci_trace_flood_spend(&trace->flood, 20);
    }
    tci_trace_free(trace);
}

static void of_many_fewer_are_kept_until_they_cost_little(void **state)
{
    struct tci_trace *trace = tci_trace_new(EVENTS);
    uint64_t now = 1000 * MS, least = UINT64_MAX, spent = 0;

    (void)state;
    for (unsigned i = 0; i < 10000; i++, now += MS) {
        /* A million operations a second, of five events each, of which this share is kept. */
        unsigned events = (unsigned)(5000 * ((double)trace->flood.limit / (double)UINT64_MAX));

        tci_trace_flood_tick(trace, now);
        tci_trace_flood_spend(&trace->flood, events);
        spent += i < 100 ? 0 : events;
        assert_true(trace->flood.limit == UINT64_MAX >> __builtin_clzll(trace->flood.limit));
        least = tci_min(least, trace->flood.limit);
    }

    assert_true(least < UINT64_MAX / 16);
    assert_true(spent > 0 && spent < 10000 * 30); /* one each 48 us is paid for: 21 a ms */
    tci_trace_flood_tick(trace, now + 100 * MS);
    assert_true(trace->flood.limit == UINT64_MAX); /* it is over */
    tci_trace_free(trace);
}

static void a_loop_that_is_not_turned_keeps_no_more(void **state)
{
    struct tci_trace *trace = tci_trace_new(EVENTS);

    (void)state;
    tci_trace_flood_tick(trace, 1000 * MS);
    for (unsigned i = 0; i < 5000; i++)
        tci_trace_flood_spend(&trace->flood, 1);

    assert_true(trace->flood.limit < UINT64_MAX);
    tci_trace_free(trace);
}

static void count_sample(void *arg)
{
    ++*(unsigned *)arg;
}

/* What it did in the last moment before is counted 50 ms later at most, and then it rests. */
static void a_loop_that_rests_leaves_no_counters_behind(void **state)
{
    struct tci_trace *trace = tci_trace_new(EVENTS);
    uint64_t now = 1000 * MS, due;
    unsigned samples = 0;

    (void)state;
    trace->sample = count_sample;
    trace->sample_arg = &samples;
    tci_trace_beat(trace, TCI_PART_TURNING, now);
    assert_int_equal(samples, 1);
    assert_true(tci_trace_due_ns(trace) == UINT64_MAX);

    tci_trace_add(trace, &(struct tci_trace_record){.kind = TCI_TRACE_APP, .begin_ns = now});
    tci_trace_beat(trace, TCI_PART_ASLEEP, 0);
    due = tci_trace_due_ns(trace);
    assert_true(samples == 2 || due <= now + 50 * MS);
    if (samples == 1)
        tci_trace_beat(trace, TCI_PART_TURNING, due);
    assert_int_equal(samples, 2);
    assert_true(tci_trace_due_ns(trace) == UINT64_MAX);
    tci_trace_free(trace);
}

static void who_wants_all_has_all(void **state)
{
    struct tci_trace *trace = tci_trace_new(EVENTS);

    (void)state;
    trace->flood.keeps_all = true;
    for (uint64_t at = 1000 * MS; at < 1100 * MS; at += MS) {
        tci_trace_flood_tick(trace, at);
        tci_trace_flood_spend(&trace->flood, 5000);
        assert_true(trace->flood.limit == UINT64_MAX);
    }
    tci_trace_free(trace);
}

/* Nothing is paid then, and nothing is earned. */
static void a_pause_is_no_time_to_recover(void **state)
{
    struct tci_trace *trace = tci_trace_new(EVENTS);
    uint64_t before;

    (void)state;
    tci_trace_flood_tick(trace, 1000 * MS);
    tci_trace_flood_spend(&trace->flood, 4096);
    tci_trace_flood_tick(trace, 1000 * MS);
    before = trace->flood.limit;
    assert_true(before < UINT64_MAX);
    tci_trace_pause(trace);
    assert_true(trace->flood.limit == UINT64_MAX);
    tci_trace_flood_tick(trace, 5000 * MS);
    assert_true(trace->flood.limit == before);
    tci_trace_flood_tick(trace, 6000 * MS);
    assert_true(trace->flood.limit == UINT64_MAX);
    tci_trace_free(trace);
}

/* ---- Marks ---------------------------------------------------------------------------------- */

static void put_mark(struct tci_trace *trace, uint64_t mark)
{
    uint64_t at = tci_word_get(&trace->head->marks);

    tci_word_set(&trace->marks[at % EVENTS].word, mark);
    tci_word_set(&trace->head->marks, at + 1);
}

static struct tci_trace_view view_of(const struct tci_trace *trace)
{
    struct tci_trace_view view;

    assert_null(tci_trace_view_open(&view, trace->head, (size_t)trace->head->file_bytes));
    return view;
}

static void marks_say_what_was_entered_and_since_when_they_do(void **state)
{
    struct tci_trace *trace = tci_trace_new(EVENTS);
    struct tci_trace_view view;

    (void)state;
    tci_trace_flood_tick(trace, 1000 * MS); /* nothing is stamped: there is no mark */
    for (uint32_t use = 1; use <= 10; use++)
        put_mark(trace, tci_trace_mark_of(7, 1, 42, use));
    for (unsigned tick = 1; tick < 4; tick++) /* one stamp: there is no mark behind it */
        tci_trace_flood_tick(trace, 1000 * MS + tick * MS);
    assert_int_equal(tci_word_get(&trace->head->marks), 10 + 1);
    view = view_of(trace);

    assert_int_equal(view.counters[TCI_COUNT_BEGUN], 10);
    assert_true(tci_trace_view_has_mark(&view, tci_trace_mark_of(7, 1, 42, 1)));
    assert_true(tci_trace_view_has_mark(&view, tci_trace_mark_of(7, 1, 42, 10)));
    assert_false(tci_trace_view_has_mark(&view, tci_trace_mark_of(7, 1, 42, 11)));
    assert_false(tci_trace_view_has_mark(&view, tci_trace_mark_of(7, 2, 42, 10)));
    assert_false(tci_trace_view_has_mark(&view, tci_trace_mark_of(8, 1, 42, 10)));
    assert_int_equal(tci_trace_view_marked_ns(&view), 0); /* all are there */

    for (uint32_t use = 11; use <= 20; use++)
        put_mark(trace, tci_trace_mark_of(7, 1, 42, use));
    view = view_of(trace);
    assert_int_equal(view.counters[TCI_COUNT_BEGUN], 20);
    assert_false(tci_trace_view_has_mark(&view, tci_trace_mark_of(7, 1, 42, 1)));
    assert_int_equal(tci_trace_view_marked_ns(&view), 1001 * MS);

    for (uint32_t use = 21; use <= 40; use++)
        put_mark(trace, tci_trace_mark_of(7, 1, 42, use));
    view = view_of(trace);
    assert_true(tci_trace_view_marked_ns(&view) == UINT64_MAX); /* it is not known */
    tci_trace_free(trace);
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

struct debt {
    struct tci_task task;
    tc_context *context;
    atomic_bool is_made;
};

static void make_debt(struct tci_task *task)
{
    struct debt *debt = tci_container_of(task, struct debt, task);

    debt->context->trace->flood.tokens = INT64_MIN / 2;
    tci_trace_flood_limit(&debt->context->trace->flood, 0);
    atomic_store(&debt->is_made, true);
}

static void nap(void)
{
    struct timespec some = {.tv_nsec = 1000000};

    nanosleep(&some, NULL);
}

/* From here on all is a flood, however slow the machine. */
static void begin_flood(struct traced_rank *self)
{
    struct debt debt = {.task = {.fn = make_debt}, .context = self->context};

    self->context->exec->ops->post_remote(self->context->exec, &debt.task);
    while (!atomic_load(&debt.is_made))
        nap();
}

/* On a machine that has other work even these calls may come a millisecond apart, or take one.
 * Gives how many it took. */
static uint64_t go_on_until_some_are_left_out(struct traced_rank *self)
{
    uint64_t calls;
    float some = 0;

    for (calls = 0; some == 0; calls++) {
        some = tci_word_get(&self->context->trace->head->left_out) > 0;
        traced_wait(self, tc_allreduce_async(self->group, 1000 + calls, &some, &some, 1,
                                             TC_DTYPE_F32, TC_REDUCE_SUM, NULL));
    }
    return calls;
}

static uint8_t *read_trace(const char *path, struct tci_trace_view *view)
{
    FILE *file = fopen(path, "rb");
    struct stat facts;
    uint8_t *bytes;

    if (file == NULL || fstat(fileno(file), &facts) != 0)
        return NULL;
    bytes = malloc((size_t)facts.st_size);
    if (bytes == NULL || fread(bytes, 1, (size_t)facts.st_size, file) != (size_t)facts.st_size ||
        tci_trace_view_open(view, bytes, (size_t)facts.st_size) != NULL)
        abort();
    fclose(file);
    return bytes;
}

static bool find_live(const struct tci_trace_view *view, uint64_t tag,
                      struct tci_trace_seen_live *live)
{
    for (uint32_t i = 0; i < view->tables[TCI_TRACE_LIVE].count; i++)
        if (tci_trace_view_live(view, i, live) && live->tag == tag)
            return true;
    return false;
}

/* Until the trace at a path shows an operation as in flight that waits for so many ranks. */
static void await_waits(const char *path, uint64_t tag, uint32_t count,
                        struct tci_trace_seen_live *live)
{
    struct tci_trace_view view;

    for (bool is_there = false; !is_there; nap()) {
        uint8_t *bytes = read_trace(path, &view);

        is_there = bytes != NULL && find_live(&view, tag, live) && live->waits_count == count;
        free(bytes);
    }
}

enum { OPERATIONS = 64 };
static float kept[OPERATIONS];
static struct traced_ranks ranks; /* those before it are known to each */

/* All at once; rank 1 gets the sums, and waits for the last one of rank 2.  That of rank 3 comes
 * when the trace shows that it is missing, too. */
static void rank_2_stops(struct traced_rank *self)
{
    int mine = self->rank == 2 ? OPERATIONS - 1 : OPERATIONS;
    struct tci_trace_seen_live live;
    uint64_t before;
    char path[128];

    begin_flood(self);
    before = go_on_until_some_are_left_out(self);
    for (int i = 0; i < mine; i++) {
        if (self->rank == 3 && i == OPERATIONS - 1) {
            traced_path(&ranks, 1, path);
            await_waits(path, OPERATIONS, 2, &live);
        }
        (void)tc_reduce_async(self->group, (uint64_t)i + 1, &kept[i], &kept[i], 1, TC_DTYPE_F32,
                              TC_REDUCE_SUM, 1, NULL);
    }
    traced_entered(self, before + (uint64_t)mine);
}

static cJSON *ask(const char *dir)
{
    struct tool_run run;
    cJSON *root;

    tool_start(&run, NULL,
               (const char *const[]){"tcdump", "--wait", "0", "--json", "-", dir, NULL});
    tool_finish(&run);
    root = cJSON_Parse(run.out.data);
    if (root == NULL)
        fail_msg("%s\n%s", run.out.data, run.err.data);
    tool_close(&run);
    return root;
}

static bool is_missing(const cJSON *finding)
{
    return strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(finding, "kind")), "missing") == 0;
}

/* Those that were through it have left a mark, and are not told of. */
static void who_stops_in_a_flood_is_named_and_nobody_else(void **state)
{
    struct tci_trace_seen_live live;
    const cJSON *finding, *rank;
    unsigned missing = 0;
    double left_out = 0;
    char path[128];
    cJSON *root;

    (void)state;
    traced_init(&ranks, 4);
    traced_start(&ranks, rank_2_stops, true);
    traced_await(&ranks, true);
    traced_path(&ranks, 1, path);
    await_waits(path, OPERATIONS, 1, &live);
    root = ask(ranks.dir);

    assert_int_equal(live.waits[0], 2);
    assert_false(live.is_send[0]);
    assert_int_equal(live.receives, 1);
    assert_int_equal(live.sends, 0);
    cJSON_ArrayForEach(finding, cJSON_GetObjectItem(root, "findings"))
    {
        if (!is_missing(finding))
            continue;
        missing++;
        assert_int_equal(cJSON_GetObjectItem(finding, "rank")->valueint, 2);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(finding, "tag")), "64");
    }
    assert_int_equal(missing, 1);
    cJSON_ArrayForEach(rank, cJSON_GetObjectItem(root, "ranks"))
    {
        left_out += cJSON_GetObjectItem(rank, "left_out")->valuedouble;
        assert_true(cJSON_GetObjectItem(rank, "begun")->valueint >= OPERATIONS - 1);
    }
    assert_true(left_out > 0);
    cJSON_Delete(root);
    traced_fini(&ranks);
}

/* Rank 1 sends what rank 0 waits for when that shows. */
static void one_of_a_flood_takes_long(struct traced_rank *self)
{
    char path[] = "/tmp/tcdist-look-XXXXXX";
    struct tci_trace_seen_live live;
    int fd = self->rank == 0 ? mkstemp(path) : -1;
    tc_future *late;

    begin_flood(self);
    if (self->rank == 1) {
        traced_wait(self, tc_recv_async(self->group, 1, &kept[1], 1, TC_DTYPE_F32, 0, NULL));
        traced_wait(self, tc_send_async(self->group, 9, &kept[9], 1, TC_DTYPE_F32, 0, NULL));
        return;
    }
    late = tc_recv_async(self->group, 9, &kept[9], 1, TC_DTYPE_F32, 1, NULL);
    do {
        nap();
        if (tc_trace_dump(self->context, path) != TC_OK)
            abort();
        struct tci_trace_view view;
        uint8_t *bytes = read_trace(path, &view);

        live.waits_count = 0;
        if (bytes == NULL || !find_live(&view, 9, &live))
            live.waits_count = 0;
        free(bytes);
    } while (live.waits_count == 0);
    close(fd);
    unlink(path);
    traced_wait(self, tc_send_async(self->group, 1, &kept[1], 1, TC_DTYPE_F32, 1, NULL));
    traced_wait(self, late);
}

static void what_takes_long_in_a_flood_is_kept_whole(void **state)
{
    struct tci_trace_seen_live live;
    struct tci_trace_seen event;
    struct tci_trace_view view;
    unsigned done = 0, transfers = 0;
    char path[128];
    uint8_t *bytes;

    (void)state;
    traced_init(&ranks, 2);
    traced_start(&ranks, one_of_a_flood_takes_long, false);
    traced_path(&ranks, 0, path);
    traced_await(&ranks, false);
    bytes = read_trace(path, &view);
    assert_non_null(bytes);

    for (uint64_t n = tci_trace_view_first(&view); n < view.next; n++)
        if (tci_trace_view_event(&view, n, &event) && event.tag == 9) {
            done += event.kind == TCI_TRACE_DONE;
            transfers += event.kind == TCI_TRACE_XFER_END;
        }
    assert_int_equal(done, 1);
    assert_int_equal(transfers, 1);
    assert_false(find_live(&view, 9, &live));
    assert_true(view.counters[TCI_COUNT_BEGUN] >= 2);
    assert_true(view.counters[TCI_COUNT_BEGUN] == view.counters[TCI_COUNT_FINISHED]);
    free(bytes);
    traced_fini(&ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_operations_are_all_kept),
        cmocka_unit_test(of_many_fewer_are_kept_until_they_cost_little),
        cmocka_unit_test(a_loop_that_is_not_turned_keeps_no_more),
        cmocka_unit_test(a_loop_that_rests_leaves_no_counters_behind),
        cmocka_unit_test(who_wants_all_has_all),
        cmocka_unit_test(a_pause_is_no_time_to_recover),
        cmocka_unit_test(marks_say_what_was_entered_and_since_when_they_do),
        cmocka_unit_test(who_stops_in_a_flood_is_named_and_nobody_else),
        cmocka_unit_test(what_takes_long_in_a_flood_is_kept_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
