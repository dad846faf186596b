/* test_rdma_memory.c - how much memory is registered, how long messages may be, and wrong keys. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, needs libibverbs, long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base.h"
#include "fake_verbs/fake.h"
#include "rdma/link.h"
#include "support/rdma_net.h"
#include "support/world.h"
#include "tcdist/buffer.h"

enum { EAGER = 65536, MIB = 1 << 20 };

/* What fails is not made again, so the first failure is named. */
static void open_plain(struct net *net, size_t eager_bytes)
{
    net->context.config.heal_ms = -1;
    rdma_net_open(net, eager_bytes);
}

static const struct net_subject subject = {"rdma", open_plain};

static struct net net;

static int open_two(void **state)
{
    (void)state;
    net_subject = &subject;
    fake_setup_usual();
    net_open(&net, 2, EAGER);
    tci_process_get(&net.context.process);
    net_exchange(&net, 1000, 1);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fake_hold(false);
    net_close(&net);
    rdma_net_check_clean();
    return 0;
}

/* ---- Memory that stays registered ---- */

static tc_buffer *new_buffer(size_t bytes, void **data_out)
{
    tc_buffer *buffer;

    assert_int_equal(tc_buffer_alloc(&net.context, bytes, &buffer), TC_OK);
    assert_int_equal(tc_buffer_map(buffer, data_out), TC_OK);
    return buffer;
}

/* From the buffer's memory at rank 0; rank 1 has memory of its own, which does not stay. */
static void send_from(void *data, size_t len, uint64_t tag)
{
    struct net_message send, recv;

    net_prepare(&send, true, 1, tag, len);
    memcpy(data, send.bytes, len);
    send.xfer.data = data;
    net_post(&net, &send, 0);
    net_recv(&net, &recv, 1, 0, tag, len);
    net_finish(&net, &send, TC_OK);
    net_finish(&net, &recv, TC_OK);
}

static void regions_are_bounded_in_number(void **state)
{
    enum { COUNT = 2 * TCI_RDMA_REGIONS };
    tc_buffer *buffers[COUNT];
    unsigned before;
    uint64_t ever;
    void *data;

    (void)state;
    net_exchange(&net, MIB, 2);
    before = fake_counts().regions;
    for (unsigned i = 0; i < COUNT; i++) {
        buffers[i] = new_buffer(MIB / 4, &data);
        send_from(data, MIB / 4, 10 + i);
        assert_int_equal(fake_counts().regions,
                         before + tci_min(i + 1, (unsigned)TCI_RDMA_REGIONS));
    }
    /* the last ones are those that stand */
    ever = fake_counts().registered;
    send_from(data, MIB / 4, 3);
    assert_int_equal(fake_counts().registered, ever + 1);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(tc_buffer_free(&net.context, buffers[i]), TC_OK);
    assert_int_equal(fake_counts().regions, before);
}

static void regions_are_bounded_in_bytes(void **state)
{
    enum { COUNT = 8, MOST = 3 };
    tc_buffer *buffers[COUNT], *large;
    size_t before;
    uint64_t ever;
    void *data;

    (void)state;
    tci_rdma_of(net.nodes[0].transport)->idle_max = (size_t)MOST * MIB;
    large = new_buffer(MIB, &data);
    send_from(data, MIB, 2);
    assert_int_equal(tc_buffer_free(&net.context, large), TC_OK);
    before = fake_counts().region_bytes;
    for (unsigned i = 0; i < COUNT; i++) {
        buffers[i] = new_buffer(MIB, &data);
        send_from(data, MIB, 10 + i);
        assert_int_equal(fake_counts().region_bytes,
                         before + (size_t)tci_min(i + 1, (unsigned)MOST) * MIB);
    }
    /* one that is longer than all that may stand stays alone: it may well be used again */
    large = new_buffer((size_t)5 * MIB, &data);
    send_from(data, MIB, 3);
    assert_int_equal(fake_counts().region_bytes, before + (size_t)5 * MIB);
    ever = fake_counts().registered;
    send_from(data, MIB, 4);
    assert_int_equal(fake_counts().registered, ever + 1);
    assert_int_equal(tc_buffer_free(&net.context, large), TC_OK);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(tc_buffer_free(&net.context, buffers[i]), TC_OK);
    assert_int_equal(fake_counts().region_bytes, before);
}

/* ---- Lengths ---- */

static void messages_are_cut_to_what_a_device_takes(void **state)
{
    static const uint32_t most[] = {TCI_RDMA_SLOT, 100001, 3 * MIB};

    (void)state;
    for (size_t i = 0; i < TCI_LEN(most); i++) {
        const struct fake_device card = {.name = "fake0",
                                         .ports = 1,
                                         .state = IBV_PORT_ACTIVE,
                                         .address = 0x0a4d0001,
                                         .max_msg_bytes = most[i]};
        uint64_t before;

        net_close(&net);
        fake_setup(&card, 1);
        net_open(&net, 2, EAGER);
        net_exchange(&net, EAGER, 1);
        before = fake_counts().writes;
        net_exchange(&net, 3 * MIB + 5, 2);
        assert_int_equal(
            fake_counts().writes - before,
            2 * ((3 * MIB + 5 + tci_min(most[i], MIB) - 1) / tci_min(most[i], (uint32_t)MIB)));
        assert_int_equal(net.nodes[0].losses + net.nodes[1].losses, 0);
    }
}

/* The same pages again and again, so that long memory costs little. */
static uint8_t *map_again_and_again(size_t len, size_t once)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    uint8_t *memory =
        mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(fd >= 0 && memory != MAP_FAILED);
    assert_int_equal(ftruncate(fd, (off_t)once), 0);
    for (size_t at = 0; at < len; at += once)
        assert_true(mmap(memory + at, tci_min(once, len - at), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, fd, 0) == memory + at);
    close(fd);
    return memory;
}

/* Pieces are told apart by their ends: what goes to the wrong place shows in one of them. */
static void a_message_of_more_than_4_gib_comes_whole(void **state)
{
    const size_t once = (size_t)64 * MIB, len = ((size_t)4 << 30) + MIB + 4096;
    uint64_t before = net_stats(&net, 0).bytes_sent;
    struct net_message send, recv;
    uint8_t *from, *to;

    (void)state;
    if (test_effort() == 0) {
        printf("skipped: takes seconds, and minutes under valgrind\n");
        skip();
    }
#if defined(__SANITIZE_THREAD__)
    printf("skipped: the thread sanitizer keeps several times as much memory for it\n");
    skip();
#endif
    from = map_again_and_again(len, once);
    to = map_again_and_again(len, once);
    for (size_t i = 0; i < once; i++)
        from[i] = (uint8_t)(i ^ i >> 8 ^ i >> 16 ^ i >> 24);
    net_prepare(&send, true, 1, 5, 1);
    net_prepare(&recv, false, 0, 5, 1);
    send.xfer.data = from;
    recv.xfer.data = to;
    send.xfer.len = recv.xfer.len = len;
    net_post(&net, &recv, 1);
    net_post(&net, &send, 0);
    while (send.xfer.status == TC_PENDING || recv.xfer.status == TC_PENDING)
        net_turn(&net); /* that may take its time */
    assert_int_equal(send.xfer.status, TC_OK);
    assert_int_equal(recv.xfer.status, TC_OK);
    assert_int_equal(net_stats(&net, 0).bytes_sent, before + len);
    assert_memory_equal(from, to, once);
    net_free(&send);
    net_free(&recv);
    munmap(from, len);
    munmap(to, len);
}

/* ---- Wrong keys ---- */

/* The device of the receiver refuses it: its memory stays as it was. */
static void a_write_with_a_wrong_key_is_refused_and_named(void **state)
{
    struct net_message send, recv;

    (void)state;
    net_recv(&net, &recv, 1, 0, 3, 3 * MIB);
    memset(recv.bytes, 0x77, 3 * MIB);
    fake_fate(IBV_WR_RDMA_WRITE_WITH_IMM, 1, FAKE_GOES_ASTRAY, IBV_WC_SUCCESS);
    net_send(&net, &send, 0, 1, 3, 3 * MIB);
    net_wait(&net, &send.xfer);
    net_wait(&net, &recv.xfer);
    net_turn_until(&net, &net.nodes[0].losses, 1);
    net_turn_until(&net, &net.nodes[1].losses, 1);
    assert_int_equal(send.xfer.status, TC_ERR_PEER_LOST);
    assert_int_equal(recv.xfer.status, TC_ERR_PEER_LOST);
    for (size_t i = 0; i < 3 * MIB; i++)
        assert_int_equal(recv.bytes[i], 0x77);
    assert_int_equal(net.nodes[0].lost_peer, 1);
    assert_string_equal(net.nodes[0].error.pub.message,
                        "rank 1 cannot be reached over RDMA any more (device fake0, port 1): its "
                        "device refused to write to its memory: was a buffer there freed too "
                        "early?");
    assert_int_equal(fake_counts().qps, 0);
    net_free(&send);
    net_free(&recv);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_two, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(regions_are_bounded_in_number),
        CASE(regions_are_bounded_in_bytes),
        CASE(messages_are_cut_to_what_a_device_takes),
        CASE(a_message_of_more_than_4_gib_comes_whole),
        CASE(a_write_with_a_wrong_key_is_refused_and_named),
    };

    if (sodium_init() < 0)
        return 1;
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("rdma memory", tests, NULL, NULL);
}
