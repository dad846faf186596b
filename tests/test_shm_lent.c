/* test_shm_lent.c - memory that is lent is read whole, or the message is not complete. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base.h"
#include "core/memories.h"
#include "core/pages.h"
#include "core/plan.h"
#include "core/reduce.h"
#include "loop/state.h"
#include "net/shm_link.h"
#include "support/shm_net.h"

/* More than the caches are to keep, and no whole number of pieces. */
enum { LONG = (9 << 20) + 13, ODD = 7, PAGES = 16 << 20 };

static struct net net;

static int open_as(const struct net_subject *subject)
{
    net_subject = subject;
    net_open(&net, 2, TCI_SHM_EAGER_MAX);
    net_exchange(&net, 8, 1000); /* they have met */
    return 0;
}

static int open_reading(void **state)
{
    static const struct net_subject reading = {"shm", shm_net_open};

    (void)state;
    return open_as(&reading);
}

static int open_mapping(void **state)
{
    static const struct net_subject mapping = {"shm, mapping", shm_net_open_mapping};

    (void)state;
    return open_as(&mapping);
}

static int close_net(void **state)
{
    (void)state;
    net_close(&net);
    return 0;
}

static struct tci_shm_link *reader(void)
{
    return tci_shm_of(net.nodes[1].transport)->links[0];
}

/* ---- Memory that others map ---- */

static void make_memory(struct tci_memory *memory)
{
    struct stat status;

    *memory = (struct tci_memory){.bytes = PAGES, .fd = tci_shm_make(PAGES)};
    assert_true(memory->fd >= 0);
    memory->data = tci_pages_map(memory->fd, PAGES, PROT_READ | PROT_WRITE);
    assert_non_null(memory->data);
    assert_int_equal(fstat(memory->fd, &status), 0);
    memory->number = status.st_ino;
    tci_memories_add(memory);
}

static void end_memory(struct tci_memory *memory)
{
    tci_memories_del(memory);
    tci_pages_end(memory->data, memory->bytes, memory->fd);
}

/* ---- Moves from rank 0 to rank 1 ---- */

struct move {
    struct net_message send, recv;
};

static void prepare_move(struct move *move, uint8_t coll, size_t len)
{
    static uint64_t tag;

    tag++;
    net_prepare(&move->recv, false, 0, tag, len);
    net_prepare(&move->send, true, 1, tag, len);
    move->recv.call.coll = move->send.call.coll = coll;
}

static void post_move(struct move *move)
{
    net_post(&net, &move->recv, 1);
    net_post(&net, &move->send, 0);
}

/* Out of `memory`, NULL: out of any. */
static void start_move(struct move *move, const struct tci_memory *memory, uint8_t coll, size_t len)
{
    prepare_move(move, coll, len);
    if (memory != NULL) {
        memcpy(memory->data + ODD, move->send.bytes, len);
        move->send.xfer.data = memory->data + ODD;
    }
    post_move(move);
}

static void finish_move(struct move *move)
{
    net_finish(&net, &move->send, TC_OK);
    net_finish(&net, &move->recv, TC_OK);
}

/* What rank 0 copies into the ring for one message. */
static uint64_t copied_for(const struct tci_memory *memory, uint8_t coll, size_t len)
{
    uint64_t before = net_stats(&net, 0).bytes_copied;
    struct move move;

    start_move(&move, memory, coll, len);
    finish_move(&move);
    return net_stats(&net, 0).bytes_copied - before;
}

/* Until more than so many bytes have come, at the least. */
static void pass_until_read(const struct move *move, uint64_t len)
{
    uint64_t end_ns = tci_loop_clock() + 60 * 1000 * TCI_NS_PER_MS;

    while (move->recv.xfer.room[TCI_ROOM_DONE] <= len) {
        assert_true(tci_loop_clock() < end_ns);
        (void)tci_loop_pass(net.loop);
    }
}

static void mapped_memory_is_read_in_place(void **state)
{
    const size_t least = TCI_SHM_MAPPED_MIN, most = TCI_SHM_EAGER_MAX;
    struct tci_memory memory;

    (void)state;
    make_memory(&memory);
    assert_int_equal(copied_for(&memory, TCI_COLL_BROADCAST, least - 1), least - 1);
    assert_int_equal(copied_for(&memory, TCI_COLL_BROADCAST, least), 0);
    assert_int_equal(copied_for(&memory, TCI_COLL_ALLREDUCE, most), most);
    assert_int_equal(copied_for(&memory, TCI_COLL_BROADCAST, LONG), 0);
    assert_int_equal(copied_for(&memory, TCI_COLL_P2P, LONG), 0);
    end_memory(&memory);
}

static void memory_that_cannot_be_mapped_comes_all_the_same(void **state)
{
    struct tci_memory memory;

    (void)state;
    make_memory(&memory);
    memory.number++; /* the descriptor is of another memory */
    (void)copied_for(&memory, TCI_COLL_BROADCAST, TCI_SHM_MAPPED_MIN);
    (void)copied_for(&memory, TCI_COLL_BROADCAST, LONG);
    end_memory(&memory);
}

/* Elements that are not aligned are copied into the ring, since this net reads nothing else. */
static void what_is_not_aligned_is_not_folded_in_place(void **state)
{
    enum { COUNT = 500000 };
    struct tci_memory memory;
    struct tci_fold fold;
    struct move move;

    (void)state;
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_F32, TC_REDUCE_MAX), TC_OK);
    make_memory(&memory);
    for (size_t at = 0; at < 2; at++) {
        uint64_t before = net_stats(&net, 0).bytes_copied;

        prepare_move(&move, TCI_COLL_ALLREDUCE, COUNT * sizeof(float));
        memcpy(memory.data + at, move.send.bytes, COUNT * sizeof(float));
        move.send.xfer.data = memory.data + at;
        move.recv.xfer.fold = &fold;
        memcpy(move.recv.bytes, move.send.bytes, COUNT * sizeof(float));
        move.recv.xfer.operand = move.recv.bytes;
        post_move(&move);
        finish_move(&move);
        assert_int_equal(net_stats(&net, 0).bytes_copied - before,
                         at == 0 ? 0 : COUNT * sizeof(float));
    }
    end_memory(&memory);
}

/* The send is aborted in the middle, and its memory goes at once. */
static void memory_that_goes_while_it_is_read_completes_nothing(void **state)
{
    struct tci_memory memory;
    struct tci_key key;
    struct move move;

    (void)state;
    make_memory(&memory);
    start_move(&move, &memory, TCI_COLL_BROADCAST, LONG);
    pass_until_read(&move, 0);
    assert_true(move.recv.xfer.room[TCI_ROOM_DONE] < LONG);
    key = move.send.xfer.key;
    net_abort(&net, 0, &key);
    end_memory(&memory);
    net_turns(&net, 50);
    assert_int_equal(move.recv.xfer.status, TC_PENDING);
    net_abort(&net, 1, &key);
    net_finish(&net, &move.recv, TC_ERR_CANCELLED);
    net_finish(&net, &move.send, TC_ERR_CANCELLED);
    net_exchange(&net, LONG, 1001);
}

/* ---- Memory that the system reads ---- */

static int watch_ended_process(void)
{
    pid_t child = fork();
    int fd;

    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    fd = tci_shm_watch_process(child);
    assert_true(fd >= 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return fd;
}

/* What was read under the number of a process that has ended may be another's. */
static void try_dead_peer(uint64_t alive_ns)
{
    int watched = reader()->pidfd;
    struct move move;

    reader()->pidfd = watch_ended_process();
    reader()->alive_ns = alive_ns;
    start_move(&move, NULL, TCI_COLL_BROADCAST, LONG);
    pass_until_read(&move, LONG - 1);
    for (int i = 0; i < 50; i++)
        (void)tci_loop_pass(net.loop);
    assert_int_equal(move.recv.xfer.status, TC_PENDING);
    close(reader()->pidfd);
    reader()->pidfd = watched;
    finish_move(&move);
}

static void what_was_read_of_a_dead_peer_is_not_complete(void **state)
{
    (void)state;
    try_dead_peer(0);
    assert_true(reader()->alive_ns != 0);
    try_dead_peer(reader()->alive_ns - TCI_NS_PER_MS);
}

/* From now on, of this process. */
static bool refuse_reading(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = TCI_LEN(filter), .filter = filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Last of all: this process reads nothing afterwards. */
static void what_the_system_refuses_later_comes_by_the_ring(void **state)
{
    static const size_t lens[] = {TCI_SHM_MOVED_MIN, TCI_SHM_EAGER_MAX + 1, LONG};
    struct move move;

    (void)state;
    start_move(&move, NULL, TCI_COLL_BROADCAST, LONG);
    pass_until_read(&move, 0);
    if (!refuse_reading()) {
        finish_move(&move);
        skip();
    }
    finish_move(&move);
    for (size_t i = 0; i < TCI_LEN(lens); i++)
        assert_int_equal(copied_for(NULL, TCI_COLL_BROADCAST, lens[i]), lens[i]);
}

int main(void)
{
    const struct CMUnitTest mapping[] = {
        cmocka_unit_test(mapped_memory_is_read_in_place),
        cmocka_unit_test(memory_that_cannot_be_mapped_comes_all_the_same),
        cmocka_unit_test(memory_that_goes_while_it_is_read_completes_nothing),
        cmocka_unit_test(what_is_not_aligned_is_not_folded_in_place),
    };
    const struct CMUnitTest reading[] = {
        cmocka_unit_test(mapped_memory_is_read_in_place),
        cmocka_unit_test(memory_that_cannot_be_mapped_comes_all_the_same),
        cmocka_unit_test(memory_that_goes_while_it_is_read_completes_nothing),
        cmocka_unit_test(what_was_read_of_a_dead_peer_is_not_complete),
        cmocka_unit_test(what_the_system_refuses_later_comes_by_the_ring),
    };
    int fd = tci_shm_watch_process(getpid()), failed;

    failed = cmocka_run_group_tests_name("mapped", mapping, open_mapping, close_net);
    if (fd < 0) {
        puts("the system has no pidfd_open: what is read from a peer's memory is not tried");
        return failed;
    }
    close(fd);
    return failed + cmocka_run_group_tests_name("read", reading, open_reading, close_net);
}
