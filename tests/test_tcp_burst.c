/* test_tcp_burst.c - messages that are posted together share system calls. */
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

#include "support/tcp_net.h"
#include "transport_suite.h"

/* As many as a program with a bucket of gradients for each layer has in flight.  How many calls
 * they take depends on the system's buffers; without any gathering it is one each. */
enum { MANY = 64, EAGER = 64 * 1024, CALLS_MAX = MANY / 4 };

static unsigned writes, reads;

/* In place of the system library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    writes++;
    return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
    ssize_t got = syscall(SYS_readv, fd, iov, count);

    reads += got > 0;
    return got;
}

static void pass_together(struct net *net, size_t len)
{
    static struct net_message sends[MANY], recvs[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        net_prepare(&sends[i], true, 1, i, len);
        net_recv(net, &recvs[i], 1, 0, i, len);
    }
    net_turns(net, 3); /* acknowledgements of what was before */
    writes = reads = 0;

    for (unsigned i = 0; i < MANY; i++)
        net_post(net, &sends[i], 0);
    for (unsigned i = 0; i < MANY; i++)
        net_finish(net, &sends[i], TC_OK);

    assert_true(writes <= CALLS_MAX);
    for (unsigned i = 0; i < MANY; i++)
        net_finish(net, &recvs[i], TC_OK);
    assert_true(reads <= CALLS_MAX);
}

static void small_messages_of_one_turn_leave_and_come_together(void **state)
{
    static const size_t lens[] = {4, 1024, 4096, 4100};
    struct net net;

    (void)state;
    net_open(&net, 2, EAGER);
    net_exchange(&net, 8, 1000); /* the link stands */
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++)
        pass_together(&net, lens[i]);
    net_close(&net);
}

int main(void)
{
    static const struct net_subject subject = {"tcp", tcp_net_open};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_of_one_turn_leave_and_come_together),
    };

    net_subject = &subject;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
