/* test_sock.c - sockets: listened on exactly, connected, refused with a name, tuned. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/sock.h"
#include "net/socket.h"

static int listen_at(const char *host, uint16_t port, struct tci_addr *bound_out)
{
    struct tci_error error = {.text = ""};
    struct tci_addr addr;
    int fd;

    assert_true(tci_addr_from_text(host, port, &addr));
    return tci_sock_listen(&addr, &fd, bound_out, &error) == TC_OK ? fd : -1;
}

static void wait_for(int fd, short events)
{
    struct pollfd wait = {.fd = fd, .events = events};

    assert_int_equal(poll(&wait, 1, 10000), 1);
}

/* Connect; gives what the connection came to. */
static int connect_to(const struct tci_addr *to, int *fd_out)
{
    struct tci_error error = {.text = ""};
    bool is_up;

    if (tci_sock_connect(to, fd_out, &is_up, &error) != TC_OK) {
        *fd_out = -1;
        return errno;
    }
    if (!is_up)
        wait_for(*fd_out, POLLOUT);
    return tci_sock_connect_result(*fd_out);
}

static bool is_ours(int fd)
{
    return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

static int get_option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void connections_stand_between_the_addresses_they_name(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "::1"};

    (void)state;
    for (size_t k = 0; k < sizeof hosts / sizeof hosts[0]; k++) {
        struct tci_addr bound, from, local, peer;
        int listener = listen_at(hosts[k], 0, &bound), up, down;

        if (listener < 0)
            continue; /* a host without IPv6 */
        assert_int_not_equal(tci_addr_port(&bound), 0);
        assert_int_equal(tci_sock_accept(listener, &from), -1);
        assert_int_equal(errno, EAGAIN);

        assert_int_equal(connect_to(&bound, &up), 0);
        wait_for(listener, POLLIN);
        down = tci_sock_accept(listener, &from);

        assert_true(down >= 0);
        tci_sock_local(up, &local);
        tci_sock_peer(up, &peer);
        assert_true(tci_addr_is_equal(&peer, &bound));
        assert_true(tci_addr_is_equal(&local, &from));
        assert_true(is_ours(listener) && is_ours(up) && is_ours(down));
        close(up);
        close(down);
        close(listener);
    }
}

static void tuning_is_seen_in_the_options(void **state)
{
    struct tci_addr bound, from;
    int listener = listen_at("127.0.0.1", 0, &bound), up, down;
    char name[16] = "";
    socklen_t len = sizeof name;

    (void)state;
    assert_int_equal(connect_to(&bound, &up), 0);
    wait_for(listener, POLLIN);
    down = tci_sock_accept(listener, &from);

    tci_sock_tune(down);

    assert_int_not_equal(get_option(down, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_not_equal(get_option(down, SOL_SOCKET, SO_KEEPALIVE), 0);
    assert_int_equal(get_option(down, IPPROTO_TCP, TCP_KEEPIDLE), 5);
    assert_int_equal(get_option(down, IPPROTO_TCP, TCP_KEEPINTVL), 2);
    assert_int_equal(get_option(down, IPPROTO_TCP, TCP_KEEPCNT), 4);
    assert_int_equal(get_option(down, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    assert_int_equal(getsockopt(down, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
    if (setsockopt(up, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0)
        assert_string_equal(name, "reno");
    close(up);
    close(down);
    close(listener);
}

enum { CHOICE_LEN = 17 };

static void choice_of(int fd, char name[CHOICE_LEN])
{
    socklen_t len = CHOICE_LEN - 1;

    memset(name, 0, CHOICE_LEN);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
}

static bool is_of(int fd, const char *wanted)
{
    char name[CHOICE_LEN];

    choice_of(fd, name);
    return strcmp(name, wanted) == 0;
}

/* Before they stand: what the system would have chosen never begins.  And what is not of this host
 * gets that back. */
static void within_a_host_congestion_is_controlled_as_suits_from_the_first_byte(void **state)
{
    struct tci_addr bound, from;
    int listener = listen_at("127.0.0.1", 0, &bound), up, down;
    int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char usual[CHOICE_LEN];

    (void)state;
    choice_of(fresh, usual);
    if (setsockopt(fresh, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) != 0)
        skip();
    assert_true(is_of(listener, "reno"));
    assert_int_equal(connect_to(&bound, &up), 0);
    wait_for(listener, POLLIN);
    down = tci_sock_accept(listener, &from);
    assert_true(is_of(up, "reno"));
    assert_true(is_of(down, "reno"));

    tci_socket_suit_network(down);

    assert_true(is_of(down, usual));
    close(fresh);
    close(up);
    close(down);
    close(listener);
}

/* In place of the system library's: who has connected may be said to come from elsewhere. */
static bool is_from_elsewhere;
int stand_in_accept(int fd, struct sockaddr *from, socklen_t *len, int flags) __asm__("accept4");

int stand_in_accept(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
    int got = (int)syscall(SYS_accept4, fd, from, len, flags);

    if (got >= 0 && is_from_elsewhere)
        ((struct sockaddr_in *)(void *)from)->sin_addr.s_addr = htonl(0x0a4d0007);
    return got;
}

static void what_comes_from_another_host_has_what_is_usual_from_the_first_byte(void **state)
{
    struct tci_addr bound, from;
    int listener = listen_at("127.0.0.1", 0, &bound), up, down;
    int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char usual[CHOICE_LEN];

    (void)state;
    choice_of(fresh, usual);
    assert_int_equal(connect_to(&bound, &up), 0);
    wait_for(listener, POLLIN);

    is_from_elsewhere = true;
    down = tci_sock_accept(listener, &from);
    is_from_elsewhere = false;

    assert_true(is_of(down, usual));
    close(fresh);
    close(up);
    close(down);
    close(listener);
}

/* A socket that has the port and does not listen: nobody answers there, nor does anybody else
 * on this machine get it meanwhile. */
static int hold_a_port(const char *host, struct tci_addr *held_out)
{
    int fd;

    assert_true(tci_addr_from_text(host, 0, held_out));
    fd = socket(held_out->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&held_out->sa, held_out->len), 0);
    tci_sock_local(fd, held_out);
    return fd;
}

/* A listener at one address leaves the same port of the other alone. */
static void assert_bound_alone(const char *listened, const char *other)
{
    struct tci_addr held, bound;
    int holder = -1, listener = -1, fd;

    for (int attempt = 0; listener < 0 && attempt < 100; attempt++) {
        if (holder >= 0)
            close(holder);
        holder = hold_a_port(other, &held);
        listener = listen_at(listened, tci_addr_port(&held), &bound);
    }
    assert_true(listener >= 0);
    assert_int_equal(connect_to(&held, &fd), ECONNREFUSED);
    close(fd);
    close(listener);
    close(holder);
}

static void nothing_wider_than_the_address_is_bound(void **state)
{
    struct tci_addr bound;
    int six = listen_at("::", 0, &bound);

    (void)state;
    if (six >= 0) {
        close(six);
        assert_bound_alone("::", "127.0.0.1");
    }
    assert_bound_alone("127.0.0.1", "127.0.0.2");
}

static void an_address_that_is_taken_is_named(void **state)
{
    struct tci_error error = {.text = ""};
    struct tci_addr bound, again;
    int listener = listen_at("127.0.0.1", 0, &bound), fd = -7;
    char where[TCI_ADDR_TEXT], says[200];

    (void)state;
    assert_int_equal(tci_sock_listen(&bound, &fd, &again, &error), TC_ERR_TRANSPORT);
    assert_int_equal(errno, EADDRINUSE);
    (void)snprintf(says, sizeof says, "listen on %s: Address already in use",
                   tci_addr_print(&bound, where));
    assert_string_equal(error.pub.message, says);
    assert_int_equal(fd, -7);
    close(listener);
}

static void nobody_there_is_refused(void **state)
{
    struct tci_addr held;
    int holder = hold_a_port("127.0.0.1", &held), fd;

    (void)state;
    assert_int_equal(connect_to(&held, &fd), ECONNREFUSED);
    close(fd);
    close(holder);
}

/* Bound to a port and connected to it: the kernel lets a socket be its own peer. */
static void a_connection_with_itself_is_refused(void **state)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    assert_int_equal(bind(fd, (const struct sockaddr *)&sa, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&sa, len), 0);
    assert_int_equal(tci_sock_connect_result(fd), ECONNREFUSED);
    close(fd);
}

static void listeners_of_others_are_checked(void **state)
{
    struct tci_error error = {.text = ""};
    struct tci_addr bound, seen;
    int listener = listen_at("127.0.0.1", 0, &bound), pair[2];

    (void)state;
    assert_int_equal(fcntl(listener, F_SETFL, 0), 0);
    assert_int_equal(fcntl(listener, F_SETFD, 0), 0);
    assert_int_equal(tci_sock_adopt_listener(listener, &seen, &error), TC_OK);
    assert_true(tci_addr_is_equal(&bound, &seen));
    assert_true(is_ours(listener));
    close(listener);

    assert_int_equal(tci_sock_adopt_listener(listener, &seen, &error), TC_ERR_INVALID_ARG);
    error = (struct tci_error){.text = ""};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(tci_sock_adopt_listener(pair[0], &seen, &error), TC_ERR_INVALID_ARG);
    assert_non_null(strstr(error.pub.message, "is no listening TCP socket"));
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_stand_between_the_addresses_they_name),
        cmocka_unit_test(tuning_is_seen_in_the_options),
        cmocka_unit_test(within_a_host_congestion_is_controlled_as_suits_from_the_first_byte),
        cmocka_unit_test(what_comes_from_another_host_has_what_is_usual_from_the_first_byte),
        cmocka_unit_test(nothing_wider_than_the_address_is_bound),
        cmocka_unit_test(an_address_that_is_taken_is_named),
        cmocka_unit_test(nobody_there_is_refused),
        cmocka_unit_test(a_connection_with_itself_is_refused),
        cmocka_unit_test(listeners_of_others_are_checked),
    };

    return cmocka_run_group_tests_name("sock", tests, NULL, NULL);
}
