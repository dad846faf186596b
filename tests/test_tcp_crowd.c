/* test_tcp_crowd.c - ranks that share cores ask the sockets that something is expected of, and all
 * others before long. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loop/state.h"
#include "net/tcp_link.h"
#include "support/tcp_net.h"

enum { EAGER = 64 * 1024, LEN = 1000, PASSES = 40, CROWD = 100000 };

static unsigned reads;

/* In place of the system library's. */
ssize_t readv(int fd, const struct iovec *iov, int count)
{
    reads++;
    return syscall(SYS_readv, fd, iov, count);
}

ssize_t recv(int fd, void *to, size_t len, int flags)
{
    reads++;
    return syscall(SYS_recvfrom, fd, to, len, flags, NULL, NULL);
}

static unsigned reads_of_passes(struct net *net)
{
    reads = 0;
    for (int i = 0; i < PASSES; i++)
        (void)tci_loop_pass(net->loop);
    return reads;
}

static void open_crowd(struct net *net)
{
    net_open(net, 2, EAGER);
    net_exchange(net, 8, 1000); /* the link stands */
    net_turns(net, 10);
    tci_loop_set_local_ranks(net->loop, CROWD);
    assert_true(tci_loop_shares_cores(net->loop));
}

static void a_socket_is_asked_while_something_is_expected_of_it(void **state)
{
    struct net_message recv;
    struct net net;

    (void)state;
    open_crowd(&net);
    assert_int_equal(reads_of_passes(&net), 0);

    net_recv(&net, &recv, 1, 0, 1, LEN);
    assert_true(reads_of_passes(&net) >= PASSES);
    net_abort(&net, 1, &recv.xfer.key);
    net_finish(&net, &recv, TC_ERR_CANCELLED);

    tci_loop_set_local_ranks(net.loop, 1);
    assert_true(reads_of_passes(&net) >= PASSES);
    net_close(&net);
}

/* ---- Beside other work ---- */

/* Something to do in each turn: the loop neither spins nor sleeps. */
struct work {
    struct tci_task task; /* first */
    struct tci_exec *exec;
    bool is_over;
};

static void go_on(struct tci_task *task)
{
    struct work *work = (struct work *)task;

    if (!work->is_over)
        work->exec->ops->post(work->exec, task);
}

static bool has_come(void *arg)
{
    return net_stats(arg, 1).eager_bytes >= LEN;
}

static void what_nobody_expects_comes_beside_other_work(void **state)
{
    struct tci_waiter waiter = {.is_done = has_come};
    struct net_message send, recv;
    struct work work = {.task.fn = go_on};
    struct net net;

    (void)state;
    open_crowd(&net);
    waiter.arg = &net;
    work.exec = tci_loop_exec(net.loop);
    work.exec->ops->post(work.exec, &work.task);
    net_send(&net, &send, 0, 1, 2, LEN);

    waiter.deadline_ns = tci_loop_clock() + 60 * 1000 * TCI_NS_PER_MS;
    tci_loop_run(net.loop, &waiter, false);
    assert_true(has_come(&net));

    work.is_over = true;
    net_recv(&net, &recv, 1, 0, 2, LEN);
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
    net_close(&net);
}

int main(void)
{
    static const struct net_subject subject = {"tcp", tcp_net_open};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_is_asked_while_something_is_expected_of_it),
        cmocka_unit_test(what_nobody_expects_comes_beside_other_work),
    };

    net_subject = &subject;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
