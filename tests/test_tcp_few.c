/* test_tcp_few.c - of large messages that wait few are on their way at a time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/tcp_link.h"
#include "support/tcp_net.h"
#include "transport_suite.h"

enum { MANY = 16, EAGER = 64 * 1024, LEN = 256 * 1024, LONG = 16 * 1024 * 1024 };
/* What is on its way: messages that were begun before it was enough, and small change. */
enum { FEW_MAX = TCI_TCP_FEW + LEN + 4096 };

static const struct tci_log *watched; /* NULL: none */
static uint64_t most;                 /* that was on its way in it */

/* In place of the system library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (watched != NULL)
        most = tci_max(most, watched->end - watched->acked);
    return syscall(SYS_sendmsg, fd, message, flags);
}

static struct net_message sends[MANY], recvs[MANY];

static void open_watched(struct net *net)
{
    net_open(net, 2, EAGER);
    net_exchange(net, 8, 1000); /* the link stands */
    watched = &tci_tcp_of(net->nodes[0].transport)->links[1]->log;
    most = 0;
}

static void close_watched(struct net *net)
{
    watched = NULL;
    net_close(net);
}

static void post_many(struct net *net)
{
    for (unsigned i = 0; i < MANY; i++) {
        net_recv(net, &recvs[i], 1, 0, i, LEN);
        net_send(net, &sends[i], 0, 1, i, LEN);
    }
}

static void finish_many(struct net *net)
{
    for (unsigned i = 0; i < MANY; i++) {
        net_finish(net, &sends[i], TC_OK);
        net_finish(net, &recvs[i], TC_OK);
    }
}

static void few_large_messages_are_on_their_way(void **state)
{
    struct net net;

    (void)state;
    open_watched(&net);
    post_many(&net);
    finish_many(&net);

    assert_in_range(most, LEN, FEW_MAX);
    close_watched(&net);
}

/* Whoever begins with what the other one comes to last. */
static void ranks_that_post_in_opposite_orders_do_not_wait_for_each_other(void **state)
{
    static struct net_message back[MANY], forth[MANY];
    struct net net;

    (void)state;
    open_watched(&net);
    for (unsigned k = 0; k < MANY; k++) {
        unsigned r = MANY - 1 - k;

        net_send(&net, &sends[k], 0, 1, k, LEN);
        net_recv(&net, &recvs[r], 1, 0, r, LEN);
        net_send(&net, &back[r], 1, 0, r, LEN);
        net_recv(&net, &forth[k], 0, 1, k, LEN);
        net_turn(&net);
    }
    finish_many(&net);
    for (unsigned i = 0; i < MANY; i++) {
        net_finish(&net, &back[i], TC_OK);
        net_finish(&net, &forth[i], TC_OK);
    }
    close_watched(&net);
}

struct pair {
    struct net_message send, recv;
};

static void post_pair(struct net *net, struct pair *pair, uint64_t tag, size_t len)
{
    net_recv(net, &pair->recv, 1, 0, tag, len);
    net_send(net, &pair->send, 0, 1, tag, len);
}

static void finish_pair(struct net *net, struct pair *pair)
{
    net_finish(net, &pair->send, TC_OK);
    net_finish(net, &pair->recv, TC_OK);
}

/* Where nothing else waits there is nothing to be gained. */
static void a_message_alone_does_not_wait_for_itself(void **state)
{
    struct pair pair;
    struct net net;

    (void)state;
    open_watched(&net);
    post_pair(&net, &pair, 1, LONG);
    finish_pair(&net, &pair);

    assert_true(most > FEW_MAX);
    close_watched(&net);
}

/* What grants take up is on its way, too. */
static void whoever_has_granted_much_begins_nevertheless(void **state)
{
    enum { GRANTS = TCI_TCP_FEW / TCI_HEAD_BYTES + 100 };
    struct net_message *granted = calloc(GRANTS, sizeof(*granted));
    struct net net;

    (void)state;
    assert_non_null(granted);
    open_watched(&net);
    for (unsigned i = 0; i < GRANTS; i++)
        net_recv(&net, &granted[i], 0, 1, 1000 + i, EAGER + 1);
    post_many(&net);
    finish_many(&net);

    for (unsigned i = 0; i < GRANTS; i++) {
        struct net_message send;

        net_send(&net, &send, 1, 0, 1000 + i, EAGER + 1);
        net_finish(&net, &send, TC_OK);
        net_finish(&net, &granted[i], TC_OK);
    }
    free(granted);
    close_watched(&net);
}

/* It would always have enough on its way. */
static void a_long_message_leaves_others_their_turns(void **state)
{
    struct pair pair;
    struct net net;

    (void)state;
    open_watched(&net);
    post_pair(&net, &pair, 100, LONG);
    net_turns(&net, 2);
    post_many(&net);
    finish_many(&net);

    assert_int_equal(pair.recv.xfer.status, TC_PENDING);
    finish_pair(&net, &pair);
    close_watched(&net);
}

static void a_small_message_does_not_wait_for_large_ones_that_do(void **state)
{
    struct pair pair;
    struct net net;

    (void)state;
    open_watched(&net);
    post_many(&net);
    post_pair(&net, &pair, 100, 4096);
    net_wait(&net, &pair.recv.xfer);

    assert_int_equal(recvs[MANY - 1].xfer.status, TC_PENDING);
    finish_pair(&net, &pair);
    finish_many(&net);
    close_watched(&net);
}

/* ---- Places ---------------------------------------------------------------------------------- */

static unsigned placed, refused; /* tags: how many have asked; the one that is given none */

static bool place(struct tci_xfer *xfer)
{
    struct net_message *message = tci_container_of(xfer, struct net_message, xfer);

    assert_null(xfer->data);
    placed++;
    if (xfer->key.tag == refused)
        return false;
    xfer->data = message->bytes;
    return true;
}

static void post_late(struct net *net, size_t len)
{
    placed = 0;
    net->nodes[1].cq.place = place;
    for (unsigned i = 0; i < MANY; i++) {
        net_prepare(&recvs[i], false, 0, i, len);
        recvs[i].xfer.is_late = true;
        recvs[i].xfer.data = NULL;
        net_post(net, &recvs[i], 1);
    }
}

static unsigned ended(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < MANY; i++)
        count += recvs[i].xfer.status != TC_PENDING;
    return count;
}

static void send_late(struct net *net, size_t len)
{
    for (unsigned i = 0; i < MANY; i++)
        net_send(net, &sends[i], 0, 1, i, len);
}

static void a_late_receive_is_given_its_place_when_its_message_comes(void **state)
{
    struct net net;

    (void)state;
    refused = MANY;
    open_watched(&net);
    post_late(&net, LEN);
    net_turns(&net, 10);
    assert_int_equal(placed, 0);
    send_late(&net, LEN);
    while (ended() < MANY) {
        net_turn(&net);
        assert_in_range(placed - ended(), 0, 1);
    }

    assert_int_equal(placed, MANY);
    finish_many(&net);
    close_watched(&net);
}

static void a_late_receive_of_a_small_message_is_given_its_place_at_once(void **state)
{
    struct net net;

    (void)state;
    refused = MANY;
    open_watched(&net);
    post_late(&net, 1000);
    assert_int_equal(placed, MANY);
    send_late(&net, 1000);
    finish_many(&net);
    close_watched(&net);
}

static void a_late_receive_without_memory_ends_alone(void **state)
{
    static const size_t lens[] = {1000, LEN};
    struct net net;

    (void)state;
    refused = 3;
    open_watched(&net);
    for (unsigned l = 0; l < sizeof lens / sizeof *lens; l++) {
        post_late(&net, lens[l]);
        send_late(&net, lens[l]);
        for (unsigned i = 0; i < MANY; i++) {
            net_finish(&net, &recvs[i], i == refused ? TC_ERR_ALLOC : TC_OK);
            net_drop(&net, &sends[i]);
        }
        net_abort(&net, 1, &(struct tci_key){.tag = refused, .use = 1});
    }
    close_watched(&net);
}

int main(void)
{
    static const struct net_subject subject = {"tcp", tcp_net_open};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_large_messages_are_on_their_way),
        cmocka_unit_test(ranks_that_post_in_opposite_orders_do_not_wait_for_each_other),
        cmocka_unit_test(a_message_alone_does_not_wait_for_itself),
        cmocka_unit_test(whoever_has_granted_much_begins_nevertheless),
        cmocka_unit_test(a_long_message_leaves_others_their_turns),
        cmocka_unit_test(a_small_message_does_not_wait_for_large_ones_that_do),
        cmocka_unit_test(a_late_receive_is_given_its_place_when_its_message_comes),
        cmocka_unit_test(a_late_receive_of_a_small_message_is_given_its_place_at_once),
        cmocka_unit_test(a_late_receive_without_memory_ends_alone),
    };

    net_subject = &subject;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
