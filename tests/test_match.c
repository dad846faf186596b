/* test_match.c - transfers and early messages are found by key, in order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/match.h"
#include "core/reduce.h"

static struct tci_match match;

static struct tci_xfer xfer_of(bool is_send, uint32_t peer, uint64_t tag, uint32_t step)
{
    return (struct tci_xfer){.is_send = is_send, .peer = peer, .key = {.tag = tag, .step = step}};
}

static void equal_keys_are_found_in_order(void **state)
{
    struct tci_xfer a = xfer_of(false, 1, 7, 3), b = a, c = a, send = xfer_of(true, 1, 7, 3);

    (void)state;
    tci_match_init(&match);
    tci_match_add(&match, &a);
    tci_match_add(&match, &b);
    tci_match_add(&match, &send);

    assert_ptr_equal(tci_match_recv(&match, 1, &a.key, 0, 0), &a);
    assert_ptr_equal(tci_match_send(&match, 1, &a.key), &send);
    a.room[TCI_ROOM_FLAGS] = TCI_XFER_BEGUN;
    assert_ptr_equal(tci_match_recv(&match, 1, &a.key, TCI_XFER_BEGUN, 0), &b);
    assert_ptr_equal(tci_match_recv(&match, 1, &a.key, TCI_XFER_BEGUN, TCI_XFER_BEGUN), &a);
    tci_match_del(&match, &a);
    tci_match_add(&match, &c); /* alone it would be found without the table */
    assert_ptr_equal(tci_match_recv(&match, 1, &b.key, 0, 0), &b);
    tci_match_del(&match, &b);
    assert_ptr_equal(tci_match_recv(&match, 1, &b.key, 0, 0), &c);
    tci_match_del(&match, &c);
    assert_null(tci_match_recv(&match, 1, &b.key, 0, 0));
    tci_match_del(&match, &send);
    assert_null(tci_match_send(&match, 1, &a.key));
}

static void every_part_of_a_key_counts_but_its_use(void **state)
{
    struct tci_xfer a = xfer_of(false, 1, 7, 3);
    struct tci_key key = a.key;

    (void)state;
    tci_match_init(&match);
    tci_match_add(&match, &a);
    key.use = 9;
    assert_ptr_equal(tci_match_recv(&match, 1, &key, 0, 0), &a);
    assert_null(tci_match_recv(&match, 2, &key, 0, 0));
    key.tag = 8;
    assert_null(tci_match_recv(&match, 1, &key, 0, 0));
    key = a.key;
    key.group = 1;
    assert_null(tci_match_recv(&match, 1, &key, 0, 0));
    key = a.key;
    key.space = 1;
    assert_null(tci_match_recv(&match, 1, &key, 0, 0));
    key = a.key;
    key.lane = 1;
    assert_null(tci_match_recv(&match, 1, &key, 0, 0));
    key = a.key;
    key.step = 1;
    assert_null(tci_match_recv(&match, 1, &key, 0, 0));
}

static void kinds_of_early_things_are_apart(void **state)
{
    static struct tci_early data, want, credit;
    struct tci_key key = {.tag = 5};

    (void)state;
    tci_match_init(&match);
    data = (struct tci_early){.key = key, .kind = TCI_EARLY_DATA};
    want = (struct tci_early){.key = key, .kind = TCI_EARLY_WANT};
    credit = (struct tci_early){.key = key, .kind = TCI_EARLY_CREDIT};
    tci_match_add_early(&match, &want);
    tci_match_add_early(&match, &data);
    tci_match_add_early(&match, &credit);

    assert_ptr_equal(tci_match_early(&match, 0, &key, TCI_EARLY_DATA), &data);
    assert_ptr_equal(tci_match_early(&match, 0, &key, TCI_EARLY_WANT), &want);
    assert_ptr_equal(tci_match_early(&match, 0, &key, TCI_EARLY_CREDIT), &credit);
    assert_null(tci_match_early(&match, 1, &key, TCI_EARLY_DATA));
    tci_match_del_early(&match, &data);
    tci_match_del_early(&match, &want);
    tci_match_del_early(&match, &credit);
    assert_int_equal(match.early_count + match.credits_count, 0);
}

static void count_and_del(void *arg, struct tci_xfer *xfer)
{
    ++*(unsigned *)arg;
    tci_match_del(&match, xfer);
}

static void a_walk_may_empty_the_tables(void **state)
{
    static struct tci_xfer xfers[5000];
    unsigned count = 0;

    (void)state;
    tci_match_init(&match);
    for (unsigned i = 0; i < 5000; i++) {
        xfers[i] = xfer_of(i % 2 == 0, i % 3, i % 700, i % 11);
        tci_match_add(&match, &xfers[i]);
    }
    tci_match_each_xfer(&match, count_and_del, &count);
    assert_int_equal(count, 5000);
    assert_int_equal(match.sends_count, 0);
    tci_match_each_xfer(&match, count_and_del, &count);
    assert_int_equal(count, 5000);
}

static void end_and_count(void *arg, struct tci_xfer *xfer, tc_status_t status)
{
    assert_int_equal(status, TC_ERR_CANCELLED);
    count_and_del(arg, xfer);
}

static void drop_and_count(void *arg, struct tci_early *early)
{
    *(unsigned *)arg += 10;
    tci_match_del_early(&match, early);
}

static const struct tci_match_ends ends = {end_and_count, drop_and_count};

static unsigned end_all(const struct tci_key *key, int peer)
{
    unsigned count = 0;

    tci_match_end(&match, &ends, &count, key, peer, TC_ERR_CANCELLED);
    return count;
}

/* Two transfers and two early messages of each of two tags, with each of two peers. */
static void fill(struct tci_xfer xfers[8], struct tci_early earlies[8])
{
    tci_match_init(&match);
    for (unsigned i = 0; i < 8; i++) {
        xfers[i] = xfer_of(i % 2 == 0, i / 2 % 2, i / 4, 0);
        earlies[i] = (struct tci_early){.kind = i % 2 == 0 ? TCI_EARLY_CREDIT : TCI_EARLY_DATA,
                                        .peer = i / 2 % 2,
                                        .key = {.tag = i / 4, .use = 1 + i % 2}};
        tci_match_add(&match, &xfers[i]);
        tci_match_add_early(&match, &earlies[i]);
    }
}

static void what_ends_is_of_a_tag_a_peer_and_uses_so_far(void **state)
{
    static struct tci_xfer xfers[8];
    static struct tci_early earlies[8];
    struct tci_key key = {.tag = 1, .use = 1};

    (void)state;
    fill(xfers, earlies);

    assert_int_equal(end_all(&key, 1), 12);
    assert_int_equal(end_all(&key, TCI_ALL_PEERS), 12);
    key.use = 2;
    assert_int_equal(end_all(&key, TCI_ALL_PEERS), 20);
    assert_int_equal(end_all(NULL, 0), 22);
    assert_int_equal(end_all(NULL, TCI_ALL_PEERS), 22);
    assert_int_equal(match.early_count + match.credits_count + match.sends_count, 0);
}

/* A use that is not counted is the last of its tag, whatever a peer has counted. */
static void what_is_not_counted_ends_all_uses(void **state)
{
    static struct tci_xfer xfers[8];
    static struct tci_early earlies[8];
    struct tci_key key = {.tag = 1};

    (void)state;
    fill(xfers, earlies);

    assert_int_equal(end_all(&key, TCI_ALL_PEERS), 44);
    assert_int_equal(match.early_count + match.credits_count, 4);
}

static bool is_of_second_use(void *arg, uint32_t peer, const struct tci_key *key,
                             const struct tci_call *call)
{
    (void)peer, (void)call;
    assert_ptr_equal(arg, &match);
    return key->use == 2;
}

static void what_is_not_kept_is_dropped(void **state)
{
    static struct tci_xfer xfers[8];
    static struct tci_early earlies[8];
    unsigned count = 0;

    (void)state;
    fill(xfers, earlies);

    tci_match_review(&match, &ends, &count, is_of_second_use, &match);

    assert_int_equal(count, 40);
    assert_int_equal(match.early_count, 4);
    assert_int_equal(match.credits_count, 0);
}

static void a_transfer_is_added_where_it_belongs(void **state)
{
    struct tci_xfer a = xfer_of(true, 1, 7, 0), b = a, c = a;
    struct tci_xfers xfers = {NULL, NULL};

    (void)state;
    tci_xfers_add_behind(&xfers, NULL, &c);
    tci_xfers_add_behind(&xfers, NULL, &a);
    tci_xfers_add_behind(&xfers, &a, &b);

    assert_ptr_equal(xfers.head, &a);
    assert_ptr_equal(a.room_next, &b);
    assert_ptr_equal(b.room_next, &c);
    assert_ptr_equal(c.room_prev, &b);
    assert_ptr_equal(b.room_prev, &a);
    assert_ptr_equal(xfers.tail, &c);
}

static void bytes_in_order_are_copied_or_folded(void **state)
{
    const int32_t incoming[3] = {1, 2, 3};
    int32_t copied[3] = {0}, folded[3] = {10, 20, 30};
    struct tci_fold fold;
    struct tci_xfer copy = xfer_of(false, 1, 7, 0), sum = copy;

    (void)state;
    assert_int_equal(tci_fold_init(&fold, TC_DTYPE_I32, TC_REDUCE_SUM), TC_OK);
    copy.data = copied;
    sum.data = folded;
    sum.operand = folded;
    sum.fold = &fold;
    copy.len = sum.len = sizeof(incoming);

    tci_xfer_append(&copy, incoming, 5);
    tci_xfer_append(&copy, (const uint8_t *)incoming + 5, sizeof(incoming) - 5);
    tci_xfer_append(&sum, incoming, 4);
    tci_xfer_append(&sum, &incoming[1], 8);
    tci_xfer_append(&sum, NULL, 0);

    assert_memory_equal(copied, incoming, sizeof(incoming));
    assert_int_equal(folded[0], 11);
    assert_int_equal(folded[1], 22);
    assert_int_equal(folded[2], 33);
    assert_int_equal(sum.room[TCI_ROOM_DONE], sizeof(incoming));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_keys_are_found_in_order),
        cmocka_unit_test(every_part_of_a_key_counts_but_its_use),
        cmocka_unit_test(kinds_of_early_things_are_apart),
        cmocka_unit_test(a_walk_may_empty_the_tables),
        cmocka_unit_test(what_ends_is_of_a_tag_a_peer_and_uses_so_far),
        cmocka_unit_test(what_is_not_counted_ends_all_uses),
        cmocka_unit_test(what_is_not_kept_is_dropped),
        cmocka_unit_test(a_transfer_is_added_where_it_belongs),
        cmocka_unit_test(bytes_in_order_are_copied_or_folded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
