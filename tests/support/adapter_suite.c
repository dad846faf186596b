/* adapter_suite.c - what every adapter has to stand: one body of tests over all host loops. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/adapter_suite.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base.h"
#include "core/context.h"
#include "loop/loop.h"
#include "support/loop_room.h"
#include "support/threads.h"
#include "tcdist/collective.h"
#include "tcdist/future.h"

#define WAIT_MS 20000

static const struct adapter_host *host;

/* ---- The application ------------------------------------------------------------------------ */

static struct {
    tc_context *context;
    void *lent;
    int pair[2]; /* the application's own socket: what goes into 1 is read from 0 */
    unsigned ticks, bytes;
    tc_future *next; /* settled by the next tick */
    unsigned settled;
} app;

static void on_tick(void)
{
    app.ticks++;
    if (app.next != NULL)
        tc_promise_settle(app.next, TC_OK);
}

static void on_byte(void)
{
    char bytes[64];
    ssize_t count = read(app.pair[0], bytes, sizeof(bytes));

    assert_true(count > 0);
    app.bytes += (unsigned)count;
}

static tc_context *open_context(void *lent)
{
    tc_context *context = NULL;
    tc_config config;

    tc_config_default(&config);
    config.loop_mode = TC_LOOP_HOST;
    config.reactor = host->ops();
    config.reactor_arg = lent;
    if (tc_init_config(&config, &context) != TC_OK)
        fail_msg("%s", tc_last_error()->message);
    return context;
}

static int open_app(void **state)
{
    (void)state;
    memset(&app, 0, sizeof(app));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, app.pair), 0);
    host->open();
    app.lent = host->lend();
    app.context = open_context(app.lent);
    return 0;
}

static int close_app(void **state)
{
    (void)state;
    assert_int_equal(tc_shutdown(app.context), TC_OK);
    host->take_back(app.lent);
    host->close();
    close(app.pair[0]);
    close(app.pair[1]);
    return 0;
}

static struct tci_loop *the_loop(void)
{
    return tci_loop_of(app.context->exec);
}

/* ---- Futures and the application's own events ----------------------------------------------- */

static void start_next(void);

static void on_settled(tc_future *future, void *arg)
{
    (void)arg;
    if (tc_future_test(future) != TC_OK)
        return; /* the last one, by tc_shutdown */
    assert_int_equal(write(app.pair[1], "x", 1), 1);
    tc_future_release(future);
    app.settled++;
    start_next();
}

static void start_next(void)
{
    app.next = tc_promise_create(app.context);
    assert_int_equal(tc_future_then(app.next, on_settled, NULL), TC_OK);
}

static void futures_settle_while_the_application_keeps_ticking(void **state)
{
    unsigned threads = count_threads();

    (void)state;
    host->watch(app.pair[0], on_byte);
    host->tick(1, on_tick);
    start_next();
    while (app.bytes < 200)
        host->step();

    assert_true(app.settled >= app.bytes);
    assert_true(app.ticks >= app.settled);
    assert_int_equal(threads, 1);
    assert_int_equal(count_threads(), 1);
    tc_future_release(app.next);
    app.next = NULL;
}

/* ---- Waiting where the host's loop would turn ----------------------------------------------- */

static void *settle_soon(void *promise)
{
    clock_pass_ms(20);
    tc_promise_settle(promise, TC_OK);
    return NULL;
}

static void a_wait_keeps_the_loop_and_gives_it_back(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        tc_future *promise = tc_promise_create(app.context);
        pthread_t thread;

        assert_int_equal(tc_future_wait(promise, 5), TC_PENDING);
        assert_int_equal(pthread_create(&thread, NULL, settle_soon, promise), 0);
        assert_int_equal(tc_future_wait(promise, WAIT_MS), TC_OK);
        pthread_join(thread, NULL);
        tc_future_release(promise);
    }
    host->watch(app.pair[0], on_byte);
    host->tick(1, on_tick);
    start_next();
    while (app.bytes < 5)
        host->step();

    assert_true(app.settled >= 5);
    tc_future_release(app.next);
    app.next = NULL;
}

struct far_waiter {
    tc_future *promise;
    tc_status_t poll_status, status;
};

static void *wait_far_away(void *arg)
{
    struct far_waiter *self = arg;

    self->poll_status = tc_poll(app.context, 0); /* the host's loop belongs to the host's thread */
    self->status = tc_future_wait(self->promise, WAIT_MS);
    return NULL;
}

static void another_thread_waits_while_the_host_turns(void **state)
{
    struct far_waiter waiter = {.promise = tc_promise_create(app.context), .status = TC_PENDING};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, wait_far_away, &waiter), 0);
    host->tick(10, on_tick);
    app.next = waiter.promise;
    while (tc_future_test(waiter.promise) == TC_PENDING)
        host->step();
    pthread_join(thread, NULL);

    assert_int_equal(waiter.status, TC_OK);
    assert_int_equal(waiter.poll_status, TC_ERR_INVALID_ARG);
    tc_future_release(waiter.promise);
    app.next = NULL;
}

/* ---- Waking, deadlines and rest ------------------------------------------------------------- */

/* Without a tick nothing but the post ends the sleep. */
static void a_post_of_another_thread_wakes_the_host(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        tc_future *promise = tc_promise_create(app.context);
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, settle_soon, promise), 0);
        while (tc_future_test(promise) == TC_PENDING)
            host->step();
        pthread_join(thread, NULL);
        tc_future_release(promise);
    }
}

struct alarm {
    struct tci_timer timer;
    uint64_t deadline_ns, rang_ns;
};

static void ring(struct tci_timer *timer)
{
    tci_container_of(timer, struct alarm, timer)->rang_ns = clock_now_ns();
}

static void set_alarm(void *arg)
{
    struct alarm *alarm = arg;
    struct tci_exec *exec = app.context->exec;

    alarm->timer.fn = ring;
    exec->ops->timer_set(exec, &alarm->timer, alarm->deadline_ns);
}

static void deadlines_are_kept_and_never_early(void **state)
{
    static const unsigned after_ms[] = {0, 1, 5, 30};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(after_ms); i++) {
        struct alarm alarm = {.deadline_ns = clock_now_ns() + after_ms[i] * TCI_NS_PER_MS};

        tci_loop_call(the_loop(), set_alarm, &alarm);
        while (alarm.rang_ns == 0)
            host->step();

        assert_true(alarm.rang_ns >= alarm.deadline_ns);
    }
}

static void an_idle_context_uses_no_processor_time(void **state)
{
    uint64_t begin_ns;

    (void)state;
    host->tick(100, on_tick);
    while (app.ticks < 1)
        host->step();
    begin_ns = clock_cpu_ns();
    while (app.ticks < 6)
        host->step();

    assert_true(clock_cpu_ns() - begin_ns < 10 * TCI_NS_PER_MS);
}

/* ---- Descriptors of the library's ----------------------------------------------------------- */

enum { STREAM_BYTES = 4 << 20, PAUSE_BYTES = 1 << 20 };

static struct stream {
    struct tci_watch in, out;
    int pair[2];
    size_t sent, received;
    bool has_paused, is_closed;
} stream;

/* Half way the reader stops listening until the writer is stuck. */
static void on_readable(struct tci_watch *watch, uint32_t ready)
{
    static char bytes[65536];
    ssize_t count = recv(watch->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    assert_true((ready & TC_READABLE) != 0);
    if (count == 0) {
        stream.is_closed = true;
        tci_watch_del(watch);
        return;
    }
    assert_true(count > 0 || errno == EAGAIN);
    stream.received += count > 0 ? (size_t)count : 0;
    if (stream.received >= PAUSE_BYTES && !stream.has_paused) {
        stream.has_paused = true;
        assert_int_equal(tci_watch_change(watch, 0), 0);
    }
}

static void on_writable(struct tci_watch *watch, uint32_t ready)
{
    static const char bytes[65536];
    size_t len = tci_min(sizeof(bytes), STREAM_BYTES - stream.sent);
    ssize_t count = send(watch->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

    assert_true((ready & TC_WRITABLE) != 0);
    assert_true(count > 0 || errno == EAGAIN);
    stream.sent += count > 0 ? (size_t)count : 0;
    if (stream.sent < STREAM_BYTES)
        return;
    tci_watch_del(watch);
    close(stream.pair[1]);
}

static void open_stream(void *arg)
{
    (void)arg;
    memset(&stream, 0, sizeof(stream));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream.pair), 0);
    stream.in.fn = on_readable;
    stream.out.fn = on_writable;
    assert_int_equal(tci_watch_add(the_loop(), &stream.in, stream.pair[0], TC_READABLE), 0);
    assert_int_equal(tci_watch_add(the_loop(), &stream.out, stream.pair[1], 0), 0);
    assert_int_equal(tci_watch_change(&stream.out, TC_WRITABLE), 0);
}

static void resume(void *arg)
{
    (void)arg;
    assert_int_equal(tci_watch_change(&stream.in, TC_READABLE), 0);
}

static bool is_paused(void *arg)
{
    (void)arg;
    return stream.has_paused;
}

static bool is_closed(void *arg)
{
    (void)arg;
    return stream.is_closed;
}

static void watches_follow_their_interest_in_the_hosts_loop(void **state)
{
    (void)state;
    host->tick(5, on_tick);
    tci_loop_call(the_loop(), open_stream, NULL);
    while (!stream.has_paused)
        host->step();
    for (unsigned ticks = app.ticks; app.ticks < ticks + 4;)
        host->step();
    assert_true(stream.sent < STREAM_BYTES && !stream.is_closed);
    tci_loop_call(the_loop(), resume, NULL);
    while (!stream.is_closed)
        host->step();

    assert_int_equal(stream.received, STREAM_BYTES);
    close(stream.pair[0]);
}

static void watches_follow_their_interest_while_we_wait(void **state)
{
    (void)state;
    tci_loop_call(the_loop(), open_stream, NULL);
    tci_loop_await(the_loop(), is_paused, NULL);
    tci_loop_call(the_loop(), resume, NULL);
    tci_loop_await(the_loop(), is_closed, NULL);

    assert_int_equal(stream.received, STREAM_BYTES);
    close(stream.pair[0]);
}

/* ---- A group of two ranks, both in this loop ------------------------------------------------- */

enum { ALLREDUCES = 1000, RANKS = 2 };

static struct rank {
    void *lent;
    tc_context *context;
    tc_dist_ctx *group;
    float data[ALLREDUCES];
    unsigned done, failed;
} ranks[RANKS];

static void open_listener(int *fd_out, char *url, size_t room)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);

    *fd_out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(*fd_out, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(*fd_out, 16), 0);
    assert_int_equal(getsockname(*fd_out, (struct sockaddr *)&addr, &len), 0);
    snprintf(url, room, "tcp://127.0.0.1:%d", ntohs(addr.sin_port));
}

static void form_group(void)
{
    tc_dist_options options;
    tc_future *joins[RANKS];
    char url[64];
    int fd;

    open_listener(&fd, url, sizeof(url));
    for (int r = 0; r < RANKS; r++) {
        memset(&ranks[r], 0, sizeof(ranks[r]));
        ranks[r].lent = host->lend();
        ranks[r].context = open_context(ranks[r].lent);
        tc_dist_options_default(&options);
        options.world_size = RANKS;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        joins[r] = tc_dist_init_async(ranks[r].context, &options, &ranks[r].group);
    }
    for (int r = 0; r < RANKS; r++) {
        while (tc_future_test(joins[r]) == TC_PENDING)
            host->step();
        if (tc_future_test(joins[r]) != TC_OK)
            fail_msg("%s", tc_future_error(joins[r])->message);
        tc_future_release(joins[r]);
    }
}

static void on_reduced(tc_future *future, void *arg)
{
    struct rank *rank = arg;

    rank->done++;
    rank->failed += tc_future_test(future) != TC_OK;
    tc_future_release(future);
}

/* Each rank in its own order: 7 and ALLREDUCES have no common divisor. */
static void start_all(struct rank *rank, unsigned round, unsigned start, unsigned stride)
{
    rank->done = 0;
    for (unsigned i = 0; i < ALLREDUCES; i++) {
        unsigned k = (start + i * stride) % ALLREDUCES;
        float *at = &rank->data[k];

        *at = (float)(k + start);
        tc_future_then(tc_allreduce_async(rank->group, round * ALLREDUCES + k, at, at, 1,
                                          TC_DTYPE_F32, TC_REDUCE_SUM, NULL),
                       on_reduced, rank);
    }
}

static unsigned run_round(unsigned round)
{
    unsigned wrong = 0;

    start_all(&ranks[0], round, 0, 1);
    start_all(&ranks[1], round, 1, 7);
    while (ranks[0].done < ALLREDUCES || ranks[1].done < ALLREDUCES)
        host->step();
    for (unsigned k = 0; k < ALLREDUCES; k++)
        for (int r = 0; r < RANKS; r++)
            wrong += ranks[r].data[k] != (float)(2 * k + 1);
    return wrong;
}

/* A host's clock may be as coarse as 10 ms, and a thousand all-reduces faster: a round at a time,
 * without a pause, until the application has ticked. */
static void a_thousand_tagged_all_reduces_settle_beside_the_applications_ticks(void **state)
{
    unsigned wrong = 0, round = 0, threads = count_threads();

    (void)state;
    form_group();
    host->tick(1, on_tick);
    do
        wrong += run_round(round++);
    while (app.ticks == 0);

    assert_int_equal(wrong, 0);
    assert_int_equal(ranks[0].failed + ranks[1].failed, 0);
    assert_int_equal(count_threads(), threads);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(tc_dist_close(ranks[r].group), TC_OK);
        assert_int_equal(tc_shutdown(ranks[r].context), TC_OK);
        host->take_back(ranks[r].lent);
    }
}

int adapter_suite(const struct adapter_host *under_test)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_app, close_app)
    const struct CMUnitTest tests[] = {
        TEST(futures_settle_while_the_application_keeps_ticking),
        TEST(a_wait_keeps_the_loop_and_gives_it_back),
        TEST(another_thread_waits_while_the_host_turns),
        TEST(a_post_of_another_thread_wakes_the_host),
        TEST(deadlines_are_kept_and_never_early),
        TEST(an_idle_context_uses_no_processor_time),
        TEST(watches_follow_their_interest_in_the_hosts_loop),
        TEST(watches_follow_their_interest_while_we_wait),
        TEST(a_thousand_tagged_all_reduces_settle_beside_the_applications_ticks),
    };

    host = under_test;
    return cmocka_run_group_tests(tests, NULL, NULL);
#undef TEST
}
