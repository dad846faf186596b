/* test_rdma_calls.c - how often a device, and the kernel, are called for what goes over RDMA. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 120, needs libibverbs */

/* What an operation costs besides its data is calls: a post rings a doorbell, or is a call of the
 * system where the kernel is the device, and so is arming.  They are counted, since times are those
 * of a machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fake_verbs/fake.h"
#include "support/manual_world.h"

enum { ROUNDS = 64, COUNT_MAX = 16384 };

/* Those of connections, once the group stands. */
static atomic_uint reads;

ssize_t readv(int fd, const struct iovec *iov, int count)
{
    atomic_fetch_add(&reads, 1);
    return syscall(SYS_readv, fd, iov, count);
}

ssize_t recv(int fd, void *to, size_t len, int flags)
{
    atomic_fetch_add(&reads, 1);
    return syscall(SYS_recvfrom, fd, to, len, flags, NULL, NULL);
}

static int open_two(void **state)
{
    (void)state;
    fake_setup_usual();
    manual_open(2, 0);
    return 0;
}

static int close_two(void **state)
{
    (void)state;
    manual_close();
    assert_int_equal(fake_counts().qps, 0);
    assert_int_equal(fake_counts().mistakes, 0);
    return 0;
}

static void allreduce(size_t count)
{
    static float in[2][COUNT_MAX], out[2][COUNT_MAX];
    tc_future *futures[2];

    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < count; i++)
            in[r][i] = (float)(r + 1);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_allreduce_async(manual_world.group[r], 0, in[r], out[r], count,
                                        TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    for (int r = 0; r < 2; r++)
        manual_settles(futures[r], TC_OK, -1, NULL);
    assert_true(out[0][count - 1] == 3 && out[1][count - 1] == 3);
}

/* Calls of both ranks in ROUNDS operations; the first ones, in which they meet, are left out. */
static struct fake_counts count_rounds(size_t count)
{
    struct fake_counts before, after;

    for (int i = 0; i < 4; i++)
        allreduce(count);
    before = fake_counts();
    atomic_store(&reads, 0);
    for (int i = 0; i < ROUNDS; i++)
        allreduce(count);
    after = fake_counts();
    after.posts -= before.posts;
    after.arms -= before.arms;
    after.sends -= before.sends;
    return after;
}

/* One post a message: acknowledgements and credits go along with what goes the other way. */
static void a_small_allreduce_is_one_post_a_rank(void **state)
{
    struct fake_counts counts = count_rounds(2);

    (void)state;
    assert_int_equal(counts.sends, 2 * ROUNDS);
    assert_int_equal(counts.posts, 2 * ROUNDS);
    assert_int_equal(counts.arms, 0);
}

/* The connection of a pair that has a queue pair is read when there is something to read. */
static void connections_beside_queue_pairs_are_not_read(void **state)
{
    (void)state;
    (void)count_rounds(2);
    assert_int_equal(atomic_load(&reads), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_small_allreduce_is_one_post_a_rank, open_two, close_two),
        cmocka_unit_test_setup_teardown(connections_beside_queue_pairs_are_not_read, open_two,
                                        close_two),
    };

    if (sodium_init() < 0)
        return 1;
    setenv("TCDIST_SHM", "0", 1);
    setenv("TCDIST_RDMA", "1", 1);
    tci_verbs_put(&fake_verbs);
    return cmocka_run_group_tests_name("calls over rdma", tests, NULL, NULL);
}
