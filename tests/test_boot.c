/* test_boot.c - the rendezvous: groups that form, and every way in which one does not. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/base.h"
#include "net/boot.h"
#include "net/boot_wire.h"
#include "net/sock.h"

enum { RANKS_MAX = 64, TURNS_MAX = 100000, TURN_MS = 1000 };

/* One rank of a world; all ranks of a test share one loop. */
struct place {
    struct tci_boot *boot;
    bool is_done;
    tc_status_t status;
    struct tci_error error;
    struct tci_boot_result result;
};

static struct tci_loop *loop;
static struct place places[RANKS_MAX + 8];
static char url[TCI_ADDR_TEXT + 8];
static struct tci_addr meeting; /* where rank 0 listens */

static int setup(void **state)
{
    const tc_config config = {.abi_version = TC_CONFIG_ABI_VERSION, .loop_mode = TC_LOOP_MANUAL};
    struct tci_error error = {.text = ""};

    (void)state;
    memset(places, 0, sizeof places);
    loop = tci_loop_new(&config, &error);
    return loop != NULL ? 0 : -1;
}

static void cancel_now(void *boot)
{
    tci_boot_cancel(boot);
}

static void cancel(struct place *place)
{
    tci_loop_call(loop, cancel_now, place->boot);
    place->boot = NULL;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t k = 0; k < TCI_LEN(places); k++) {
        if (places[k].boot != NULL && !places[k].is_done)
            cancel(&places[k]);
        if (places[k].is_done && places[k].status == TC_OK)
            tci_boot_result_fini(&places[k].result);
    }
    tci_loop_free(loop);
    loop = NULL;
    return 0;
}

static void on_done(void *arg, tc_status_t status, const struct tci_error *error,
                    struct tci_boot_result *result)
{
    struct place *place = arg;

    assert_false(place->is_done);
    assert_int_equal(status == TC_OK, result != NULL);
    place->is_done = true;
    place->status = status;
    if (status == TC_OK)
        place->result = *result;
    else
        tci_error_copy(&place->error, error);
}

static bool is_at(int first, int last)
{
    for (int rank = first; rank <= last; rank++) {
        if (!places[rank].is_done)
            return false;
    }
    return true;
}

/* Turn until the ranks from first to last are done. */
static void run(int first, int last)
{
    for (int turn = 0; turn < TURNS_MAX && !is_at(first, last); turn++)
        assert_int_equal(tci_loop_turn(loop, TURN_MS), TC_OK);
    assert_true(is_at(first, last));
}

static void turn_some(int turns)
{
    for (int turn = 0; turn < turns; turn++)
        assert_int_equal(tci_loop_turn(loop, 1), TC_OK);
}

static int listen_at(const char *host)
{
    struct tci_error error = {.text = ""};
    struct tci_addr addr;
    char text[TCI_ADDR_TEXT];
    int fd;

    assert_true(tci_addr_from_text(host, 0, &addr));
    if (tci_sock_listen(&addr, &fd, &meeting, &error) != TC_OK)
        return -1;
    (void)snprintf(url, sizeof url, "tcp://%s", tci_addr_print(&meeting, text));
    return fd;
}

struct beginning {
    struct tci_boot_config config;
    uint64_t timeout_ms;
    struct place *place;
};

static void start_now(void *arg)
{
    struct beginning *beginning = arg;
    struct tci_exec *exec = tci_loop_exec(loop);

    beginning->config.deadline_ns = exec->ops->now_ns(exec) + beginning->timeout_ms * TCI_NS_PER_MS;
    beginning->place->boot = tci_boot_start(loop, &beginning->config, on_done, beginning->place);
}

static bool start_at(int place, int rank, int size, int fd, uint64_t timeout_ms)
{
    struct beginning beginning = {
        .timeout_ms = timeout_ms,
        .place = &places[place],
        .config = {.rank = rank, .size = size, .url = url, .listen_fd = fd},
    };
    struct tci_agreed *mine = &beginning.config.mine;

    *mine = (struct tci_agreed){
        .segment_bytes = 1000 + (uint64_t)rank, .eager_bytes = 7, .numerics = 1};
    (void)snprintf(mine->algorithm, sizeof mine->algorithm, "ring-%d", rank % 1000);
    tci_loop_call(loop, start_now, &beginning);
    return places[place].boot != NULL;
}

static void start(int rank, int size, int fd)
{
    assert_true(start_at(rank, rank, size, fd, 30000));
}

/* A byte goes over the link of each rank with rank 0: nothing is unread or lost there. */
static void check_links(int size)
{
    for (int rank = 1; rank < size; rank++) {
        int up = places[rank].result.fds[0], down = places[0].result.fds[rank];
        struct pollfd wait = {.fd = down, .events = POLLIN};
        uint8_t byte = (uint8_t)rank;

        assert_true((fcntl(up, F_GETFL) & O_NONBLOCK) != 0);
        assert_true((fcntl(down, F_GETFL) & O_NONBLOCK) != 0);
        assert_int_equal(recv(up, &byte, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
        assert_int_equal(send(up, &byte, 1, 0), 1);
        byte = 0;
        assert_int_equal(poll(&wait, 1, 10000), 1);
        assert_int_equal(recv(down, &byte, 1, 0), 1);
        assert_int_equal(byte, rank);
        assert_int_equal(recv(down, &byte, 1, 0), -1);
    }
}

static void check_group(int size)
{
    const struct tci_boot_result *root = &places[0].result;

    for (int rank = 0; rank < size; rank++) {
        const struct tci_boot_result *result = &places[rank].result;
        struct tci_addr bound;

        if (places[rank].status != TC_OK)
            fail_msg("rank %d: %s", rank, places[rank].error.text);
        assert_int_equal(result->rank, rank);
        assert_int_equal(result->size, size);
        assert_memory_equal(result->group_id, root->group_id, TCI_GROUP_ID);
        assert_int_equal(result->agreed.segment_bytes, 1000);
        assert_int_equal(result->agreed.eager_bytes, 7);
        assert_int_equal(result->agreed.numerics, 1);
        assert_string_equal(result->agreed.algorithm, "ring-0");
        assert_int_equal(result->local_ranks, size);
        tci_sock_local(result->listener, &bound);
        assert_true(tci_addr_is_equal(&bound, &result->addrs[rank]));
        for (int other = 0; other < size; other++) {
            assert_true(tci_addr_is_equal(&result->addrs[other], &root->addrs[other]));
            assert_int_equal(result->hosts[other], root->hosts[0]);
            assert_int_equal(result->fds[other] >= 0, (rank == 0) != (other == 0));
        }
    }
    check_links(size);
}

/* ---- Groups that form ------------------------------------------------------------------------- */

static void groups_of_any_size_form(void **state)
{
    static const int sizes[] = {2, 3, 9, 64};

    for (size_t k = 0; k < TCI_LEN(sizes); k++) {
        int fd = listen_at("127.0.0.1");

        for (int rank = 0; rank < sizes[k]; rank++)
            start(rank, sizes[k], rank == 0 ? fd : -1);

        run(0, sizes[k] - 1);

        check_group(sizes[k]);
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

static void a_group_forms_over_ipv6(void **state)
{
    int fd = listen_at("::1");

    (void)state;
    if (fd < 0)
        skip();
    for (int rank = 0; rank < 3; rank++)
        start(rank, 3, rank == 0 ? fd : -1);
    run(0, 2);
    check_group(3);
}

/* The listener has one address of the name; members find it among all. */
static void a_group_forms_by_name(void **state)
{
    int fd = listen_at("127.0.0.1");

    (void)state;
    (void)snprintf(url, sizeof url, "tcp://localhost:%u", (unsigned)tci_addr_port(&meeting));
    for (int rank = 0; rank < 3; rank++)
        start(rank, 3, rank == 0 ? fd : -1);
    run(0, 2);
    check_group(3);
}

/* Rank 0 binds the URL itself, after the others have tried for a while. */
static void rank_0_may_come_late(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};

    for (size_t k = 0; k < TCI_LEN(hosts); k++) {
        close(listen_at("127.0.0.1"));
        (void)snprintf(url, sizeof url, "tcp://%s:%u", hosts[k], (unsigned)tci_addr_port(&meeting));
        for (int rank = 1; rank < 4; rank++)
            start(rank, 4, -1);
        turn_some(100);
        assert_false(is_at(1, 1));
        start(0, 4, -1);
        run(0, 3);
        check_group(4);
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

static void a_listener_on_any_address_will_do(void **state)
{
    int fd = listen_at("0.0.0.0");

    (void)state;
    (void)snprintf(url, sizeof url, "tcp://127.0.0.1:%u", (unsigned)tci_addr_port(&meeting));
    for (int rank = 0; rank < 2; rank++)
        start(rank, 2, rank == 0 ? fd : -1);
    run(0, 1);
    assert_int_equal(places[0].status, TC_OK);
    assert_int_equal(places[1].status, TC_OK);
    assert_true(tci_addr_is_loopback(&places[1].result.addrs[0]));
    check_links(2);
}

/* ---- Strangers -------------------------------------------------------------------------------- */

static int knock(const char *says, size_t len)
{
    int fd = socket(meeting.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&meeting.sa, meeting.len), 0);
    if (len > 0)
        assert_int_equal(send(fd, says, len, MSG_NOSIGNAL), (ssize_t)len);
    return fd;
}

static int knock_text(const char *says)
{
    return knock(says, strlen(says));
}

static void strangers_do_not_disturb(void **state)
{
    uint8_t head[TCI_BOOT_HEAD];
    int fd = listen_at("127.0.0.1"), strangers[80 + 6];
    size_t count = 0;

    (void)state;
    tci_boot_head_encode(TCI_BOOT_GO, 0, head);
    start(0, 3, fd);
    strangers[count++] = knock_text("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    strangers[count++] = knock_text("x");
    strangers[count++] = knock_text("tcdist");
    strangers[count++] = knock((const char *)head, sizeof head);
    tci_boot_head_encode(TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN, head);
    strangers[count++] = knock((const char *)head, sizeof head);
    close(knock((const char *)head, 7));
    while (count < TCI_LEN(strangers))
        strangers[count++] = knock("", 0);
    turn_some(20);
    start(1, 3, -1);
    turn_some(20);
    start(2, 3, -1);

    run(0, 2);

    check_group(3);
    while (count > 0)
        close(strangers[--count]);
}

static void a_rank_0_that_is_a_stranger_is_left(void **state)
{
    struct tci_addr from;
    int fd = listen_at("127.0.0.1"), stranger = -1;

    (void)state;
    start(1, 2, -1);
    for (int turn = 0; turn < 1000 && stranger < 0; turn++) {
        turn_some(1);
        stranger = tci_sock_accept(fd, &from);
    }
    assert_true(stranger >= 0);
    assert_int_equal(send(stranger, "220 mail here\r\n", 15, 0), 15);
    turn_some(5);
    close(stranger);
    start(0, 2, fd);
    run(0, 1);
    check_group(2);
}

/* ---- Groups that do not form ------------------------------------------------------------------ */

static void check_text(int place, tc_status_t status, int rank, const char *says)
{
    if (strstr(places[place].error.text, says) == NULL)
        fail_msg("place %d says \"%s\", not \"%s\"", place, places[place].error.text, says);
    assert_int_equal(places[place].status, status);
    assert_int_equal(places[place].error.pub.status, status);
    assert_int_equal(places[place].error.pub.rank, rank);
}

static void a_rank_that_joins_twice_is_refused(void **state)
{
    int fd = listen_at("127.0.0.1");

    (void)state;
    start(0, 4, fd);
    start(2, 4, -1);
    turn_some(30);
    assert_true(start_at(3, 2, 4, -1, 30000));
    places[1].is_done = true;
    places[1].status = TC_ERR_INTERNAL;
    run(0, 3);
    for (int place = 0; place < 4; place++) {
        if (place != 1)
            check_text(place, TC_ERR_RENDEZVOUS, 2, "rank 2 has joined twice: from 127.0.0.1:");
    }
}

static void another_world_size_is_refused(void **state)
{
    int fd = listen_at("127.0.0.1");

    (void)state;
    start(0, 3, fd);
    start(1, 4, -1);
    run(0, 1);
    check_text(0, TC_ERR_RENDEZVOUS, 1, "rank 0 was started with 3, rank 1 at 127.0.0.1:");
    check_text(1, TC_ERR_RENDEZVOUS, 1, "with 4; start all with the same");
}

/* What a program that is not this library's may send. */
static void send_join(uint32_t size, uint32_t rank, unsigned version, char *answer, size_t room)
{
    struct tci_boot_join join = {.size = size, .rank = rank, .addr = meeting};
    uint8_t bytes[TCI_BOOT_HEAD + TCI_BOOT_JOIN_LEN];
    ssize_t got;
    int fd;

    tci_boot_head_encode(TCI_BOOT_JOIN, TCI_BOOT_JOIN_LEN, bytes);
    tci_boot_join_encode(&join, bytes + TCI_BOOT_HEAD);
    bytes[9] = (uint8_t)version;
    fd = knock((const char *)bytes, sizeof bytes);
    run(0, 0);
    got = recv(fd, answer, room - 1, MSG_WAITALL);
    assert_true(got > TCI_BOOT_HEAD + TCI_BOOT_REFUSE_FIXED);
    answer[got] = '\0';
    close(fd);
}

static void ranks_out_of_range_and_other_versions_are_refused(void **state)
{
    static const struct {
        uint32_t size, rank;
        unsigned version;
        int guilty;
        const char *says;
    } rows[] = {
        {3, 3, TCI_BOOT_VERSION, -1, "claims to be rank 3, but the ranks are 0 to 2"},
        {3, UINT32_MAX, TCI_BOOT_VERSION, -1, "claims to be rank 4294967295"},
        {3, 0, TCI_BOOT_VERSION, 0, "rank 0 is there twice: here, at 127.0.0.1:"},
        {3, 1, 77, -1, "versions differ: rank 0 speaks version 1"},
    };
    char answer[TCI_BOOT_HEAD + TCI_BOOT_REFUSE_MAX + 1];

    for (size_t k = 0; k < TCI_LEN(rows); k++) {
        start(0, 3, listen_at("127.0.0.1"));
        send_join(rows[k].size, rows[k].rank, rows[k].version, answer, sizeof answer);
        check_text(0, TC_ERR_RENDEZVOUS, rows[k].guilty, rows[k].says);
        assert_int_equal(answer[10], TCI_BOOT_REFUSE);
        assert_non_null(strstr(answer + TCI_BOOT_HEAD + TCI_BOOT_REFUSE_FIXED, rows[k].says));
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
}

static void the_missing_are_named_to_all(void **state)
{
    int fd = listen_at("127.0.0.1");
    char says[400];

    (void)state;
    assert_true(start_at(0, 0, 8, fd, 100));
    for (int rank = 1; rank < 8; rank++) {
        if (rank != 3 && rank != 5)
            assert_true(start_at(rank, rank, 8, -1, 100));
        else
            places[rank].is_done = true;
    }
    places[3].status = places[5].status = TC_ERR_INTERNAL;

    run(0, 7);

    (void)snprintf(says, sizeof says, "ranks 3, 5 of 8 have not come to %s within 100 ms: start",
                   url);
    for (int rank = 0; rank < 8; rank++) {
        if (rank != 3 && rank != 5)
            check_text(rank, TC_ERR_TIMEOUT, 3, says);
    }
}

static void a_member_says_where_it_tried(void **state)
{
    char says[400];

    (void)state;
    close(listen_at("127.0.0.1"));
    assert_true(start_at(1, 1, 2, -1, 60));
    run(1, 1);
    (void)snprintf(says, sizeof says, "rank 0 at %s within 60 ms (last: %s: Connection refused)",
                   url, url + strlen("tcp://"));
    check_text(1, TC_ERR_TIMEOUT, 0, says);
}

static void a_silent_rank_0_is_told_from_a_missing_one(void **state)
{
    int fd = listen_at("127.0.0.1");

    (void)state;
    assert_true(start_at(1, 1, 2, -1, 60));
    run(1, 1);
    check_text(1, TC_ERR_TIMEOUT, 0, "but rank 0 has not answered there within 60 ms");
    close(fd);
}

static void a_name_without_address_is_named(void **state)
{
    (void)state;
    (void)snprintf(url, sizeof url, "tcp://nonesuch.invalid:4100");
    assert_true(start_at(0, 0, 2, -1, 300));
    assert_true(start_at(1, 1, 2, -1, 300));
    run(0, 1);
    check_text(0, TC_ERR_TIMEOUT, 0, "no address of its own for tcp://nonesuch.invalid:4100");
    check_text(1, TC_ERR_TIMEOUT, 0, "rank 0 at tcp://nonesuch.invalid:4100 within 300 ms");
}

static void a_member_that_dies_is_named(void **state)
{
    int fd = listen_at("127.0.0.1");

    (void)state;
    for (int rank = 0; rank < 3; rank++)
        start(rank, 4, rank == 0 ? fd : -1);
    turn_some(50);
    cancel(&places[1]);
    places[1] = (struct place){.is_done = true, .status = TC_ERR_CANCELLED};
    run(0, 2);
    check_text(0, TC_ERR_PEER_LOST, 1, "rank 1 at 127.0.0.1:");
    check_text(2, TC_ERR_PEER_LOST, 1, "went away before the group stood");
}

static void a_rank_0_that_dies_is_named(void **state)
{
    int fd = listen_at("127.0.0.1");

    (void)state;
    for (int rank = 0; rank < 2; rank++)
        start(rank, 3, rank == 0 ? fd : -1);
    turn_some(50);
    cancel(&places[0]);
    run(1, 1);
    check_text(1, TC_ERR_PEER_LOST, 0, "rank 0 at 127.0.0.1:");
}

static void what_cannot_be_listened_on_is_refused(void **state)
{
    int fd;

    (void)state;
    (void)snprintf(url, sizeof url, "tcp://127.0.0.1:4100");
    start(0, 2, open("/dev/null", O_RDONLY | O_CLOEXEC));
    start(1, 2, -1);
    run(0, 0);
    check_text(0, TC_ERR_INVALID_ARG, -1, "is no socket that could be listened on");

    places[0] = (struct place){.boot = NULL};
    start(0, 2, socket(AF_INET, SOCK_STREAM, 0));
    run(0, 0);
    check_text(0, TC_ERR_INVALID_ARG, -1, "is no listening TCP socket");

    places[0] = (struct place){.boot = NULL};
    fd = listen_at("127.0.0.1");
    start(0, 2, -1);
    run(0, 0);
    check_text(0, TC_ERR_RENDEZVOUS, 0, "Address already in use");
    close(fd);

    places[0] = (struct place){.boot = NULL};
    (void)snprintf(url, sizeof url, "single://");
    start(0, 2, -1);
    run(0, 0);
    check_text(0, TC_ERR_INVALID_ARG, -1, "it is for a group of one, this has 2 ranks");
}

/* ---- Cancelled, and out of memory ------------------------------------------------------------- */

static void cancelled_after_any_number_of_turns_it_frees_all(void **state)
{
    uint64_t live;

    teardown(state);
    live = tci_alloc_live();
    for (int turns = 0; turns < 40; turns++) {
        int fd = listen_at("127.0.0.1");

        assert_int_equal(setup(state), 0);
        for (int rank = 0; rank < 3; rank++)
            start(rank, 3, rank == 0 ? fd : -1);
        for (int turn = 0; turn < turns; turn++)
            (void)tci_loop_turn(loop, 0);
        teardown(state);
        memset(places, 0, sizeof places);
        assert_true(tci_alloc_live() <= live);
    }
    assert_int_equal(setup(state), 0);
}

static bool forms_with_failure_at(uint64_t n)
{
    int fd = listen_at("127.0.0.1");
    bool has_started = true, has_formed = true;

    tci_alloc_fail_at(n, 0);
    for (int rank = 0; rank < 3 && has_started; rank++)
        has_started = start_at(rank, rank, 3, rank == 0 ? fd : -1, 30000);
    while (has_started && has_formed && !is_at(0, 2)) {
        assert_int_equal(tci_loop_turn(loop, TURN_MS), TC_OK);
        for (int rank = 0; rank < 3; rank++)
            has_formed = has_formed && places[rank].status == TC_OK;
    }
    tci_alloc_fail_at(0, 0);
    for (int rank = 0; rank < 3; rank++)
        if (places[rank].status != TC_OK)
            assert_true(places[rank].error.text[0] != '\0');
    return has_started && has_formed;
}

static void without_memory_it_ends_with_an_error(void **state)
{
    bool has_formed = false;
    uint64_t n;

    for (n = 1; n < 200 && !has_formed; n++) {
        has_formed = forms_with_failure_at(n);
        teardown(state);
        assert_int_equal(setup(state), 0);
    }
    assert_true(has_formed);
    assert_true(n > 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(groups_of_any_size_form),
        TEST(a_group_forms_over_ipv6),
        TEST(a_group_forms_by_name),
        TEST(rank_0_may_come_late),
        TEST(a_listener_on_any_address_will_do),
        TEST(strangers_do_not_disturb),
        TEST(a_rank_0_that_is_a_stranger_is_left),
        TEST(a_rank_that_joins_twice_is_refused),
        TEST(another_world_size_is_refused),
        TEST(ranks_out_of_range_and_other_versions_are_refused),
        TEST(the_missing_are_named_to_all),
        TEST(a_member_says_where_it_tried),
        TEST(a_silent_rank_0_is_told_from_a_missing_one),
        TEST(a_name_without_address_is_named),
        TEST(a_member_that_dies_is_named),
        TEST(a_rank_0_that_dies_is_named),
        TEST(what_cannot_be_listened_on_is_refused),
        TEST(cancelled_after_any_number_of_turns_it_frees_all),
        TEST(without_memory_it_ends_with_an_error),
    };

    return cmocka_run_group_tests_name("boot", tests, NULL, NULL);
}
