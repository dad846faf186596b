/* tcp_front.c - a rank over TCP whose peers are descriptors in the hands of a test. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/alloc.h"
#include "net/sock.h"
#include "net/tcp_link.h"
#include "support/tcp_front.h"

int front_peers[3];
struct net front_net;

static struct tci_addr door;
static int nobody;

static struct tci_addr loopback(void)
{
    struct tci_addr addr = {.len = sizeof(addr.v4)};

    addr.v4.sin_family = AF_INET;
    addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

int front_dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&door.sa, door.len), 0);
    return fd;
}

/* An address at which nobody listens, and nobody else will. */
static struct tci_addr hold_place(void)
{
    struct tci_addr addr = loopback();
    socklen_t len = addr.len;

    nobody = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(nobody, (struct sockaddr *)&addr.sa, addr.len), 0);
    assert_int_equal(getsockname(nobody, (struct sockaddr *)&addr.sa, &len), 0);
    return addr;
}

static void open_one(struct net *one, size_t eager_bytes)
{
    struct tci_boot_result result = {.rank = 0, .size = 4, .agreed.eager_bytes = eager_bytes};
    struct tci_addr addr = loopback();
    struct tci_error error = {0};

    memset(result.group_id, 0x5a, TCI_GROUP_ID);
    result.fds = tci_alloc_array(4, sizeof(int));
    result.addrs = tci_alloc_array(4, sizeof(struct tci_addr));
    result.addrs[3] = hold_place();
    assert_int_equal(tci_sock_listen(&addr, &result.listener, &door, &error), TC_OK);
    memset(result.fds, 0xff, 4 * sizeof(int));
    for (int i = 1; i < 3; i++) {
        struct tci_addr from;

        front_peers[i] = front_dial();
        do
            result.fds[i] = tci_sock_accept(result.listener, &from);
        while (result.fds[i] < 0);
    }
    one->nodes[0].transport = tci_tcp_open(one->loop, &one->context, &result, &error);
    tci_free(result.fds);
}

int front_open(void **state)
{
    static const struct net_subject subject = {"tcp", open_one};

    (void)state;
    net_subject = &subject;
    net_open(&front_net, 1, FRONT_EAGER);
    return 0;
}

int front_close(void **state)
{
    (void)state;
    net_close(&front_net);
    for (int i = 1; i < 3; i++)
        close(front_peers[i]);
    close(nobody);
    return 0;
}

void front_turn(int times)
{
    while (times-- > 0)
        net_turn(&front_net);
}

void front_put(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

void front_put_frame(int fd, const struct tci_frame *frame)
{
    uint8_t wire[TCI_HEAD_BYTES];

    tci_frame_encode(frame, wire);
    front_put(fd, wire, sizeof(wire));
}

struct tci_frame front_frame(uint8_t kind, uint32_t seq)
{
    return (struct tci_frame){.kind = kind, .seq = seq, .key = {.tag = 1, .use = 1}};
}

/* A receive from rank 2 still works. */
void front_other_link_works(uint32_t seq)
{
    struct tci_frame frame = front_frame(TCI_FRAME_DATA, seq);
    struct net_message recv;

    frame.key.tag = 100 + seq;
    frame.length = frame.total = frame.call.count = 1;
    frame.call.root = -1;
    net_recv(&front_net, &recv, 0, 2, 100 + seq, 1);
    front_put_frame(front_peers[2], &frame);
    front_put(front_peers[2], "x", 1);
    net_wait(&front_net, &recv.xfer);
    assert_int_equal(recv.xfer.status, TC_OK);
    assert_int_equal(recv.bytes[0], 'x');
    net_free(&recv);
}
