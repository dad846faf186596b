/* test_mux.c - groups over one transport: whose ranks, whose messages, whose goodbye. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/mux.h"
#include "support/fake_exec.h"

enum { SIZE = 6, ME = 2, EARLY_MAX = 16 };

/* The transport below: writes down what it is told. */
struct lower {
    struct tci_transport base; /* first */
    struct tci_key early[EARLY_MAX];
    uint32_t early_from[EARLY_MAX];
    unsigned early_count;
    const struct tci_xfer *posted;
    int aborted_peer;
    uint32_t told_peer;
    struct tci_notice told;
    bool told_may_link;
    unsigned notified, left_of[SIZE], leaves, parts, closes;
};

/* A group: writes down what it hears. */
struct upper {
    struct tci_transport_sink sink; /* first */
    struct tci_transport *view;
    bool refuses;
    unsigned admits, notices, losses, lefts;
    uint32_t peer;
    struct tci_notice notice;
};

static struct fake_exec exec;
static struct lower lower;
static struct upper uppers[4];
static struct tci_mux *mux;
static uint64_t live_before;
static const struct tci_call call = {.count = 1};

/* ---- Below ---------------------------------------------------------------------------------- */

static void post(struct tci_transport *self, struct tci_xfer *xfer)
{
    ((struct lower *)self)->posted = xfer;
}

static void abort_tag(struct tci_transport *self, const struct tci_key *key, int peer)
{
    (void)key;
    ((struct lower *)self)->aborted_peer = peer;
}

static void notify(struct tci_transport *self, uint32_t peer, const struct tci_notice *notice,
                   bool may_link)
{
    struct lower *low = (struct lower *)self;

    low->notified++;
    low->told_peer = peer;
    low->told = *notice;
    low->told_may_link = may_link;
}

static void review(struct tci_transport *self, tci_review_fn *keep, void *arg)
{
    struct lower *low = (struct lower *)self;
    unsigned kept = 0;

    for (unsigned i = 0; i < low->early_count; i++) {
        if (!keep(arg, low->early_from[i], &low->early[i], &call))
            continue;
        low->early[kept] = low->early[i];
        low->early_from[kept++] = low->early_from[i];
    }
    low->early_count = kept;
}

static void leave_peer(struct tci_transport *self, uint32_t peer)
{
    ((struct lower *)self)->left_of[peer]++;
}

static void leave(struct tci_transport *self)
{
    ((struct lower *)self)->leaves++;
}

static void part(struct tci_transport *self)
{
    ((struct lower *)self)->parts++;
}

static void close_lower(struct tci_transport *self)
{
    ((struct lower *)self)->closes++;
}

static const struct tci_transport_ops lower_ops = {.name = "lower",
                                                   .post_send = post,
                                                   .post_recv = post,
                                                   .abort = abort_tag,
                                                   .notify = notify,
                                                   .review = review,
                                                   .leave = leave,
                                                   .leave_peer = leave_peer,
                                                   .part = part,
                                                   .close = close_lower};

/* A message comes; true when it was kept, as early. */
static bool comes(uint32_t from, uint64_t group)
{
    struct tci_key key = {.tag = 1, .group = group};

    if (!lower.base.sink->admit(lower.base.sink, from, &key, &call))
        return false;
    assert_true(lower.early_count < EARLY_MAX);
    lower.early[lower.early_count] = key;
    lower.early_from[lower.early_count++] = from;
    return true;
}

static void is_told(uint32_t from, uint64_t group, int culprit)
{
    struct tci_notice notice = {
        .kind = TCI_NOTICE_LOST, .culprit = culprit, .key = {.group = group}};

    lower.base.sink->notice(lower.base.sink, from, &notice);
}

/* ---- Above ---------------------------------------------------------------------------------- */

static bool on_admit(struct tci_transport_sink *sink, uint32_t peer, const struct tci_key *key,
                     const struct tci_call *of)
{
    struct upper *up = (struct upper *)sink;

    (void)key, (void)of;
    up->admits++;
    up->peer = peer;
    return !up->refuses;
}

static void on_notice(struct tci_transport_sink *sink, uint32_t peer,
                      const struct tci_notice *notice)
{
    struct upper *up = (struct upper *)sink;

    up->notices++;
    up->peer = peer;
    up->notice = *notice;
}

static void on_lost(struct tci_transport_sink *sink, uint32_t peer, tc_reason_t reason,
                    const char *how)
{
    struct upper *up = (struct upper *)sink;

    assert_string_equal(how, "fell");
    assert_int_equal(reason, TC_REASON_EXITED);
    up->losses++;
    up->peer = peer;
}

static void on_left(struct tci_transport_sink *sink)
{
    ((struct upper *)sink)->lefts++;
}

static void stand(struct upper *up, struct tci_transport *view)
{
    assert_non_null(view);
    *up = (struct upper){
        .sink = {.admit = on_admit, .notice = on_notice, .lost = on_lost, .left = on_left},
        .view = view};
    view->sink = &up->sink;
}

static uint32_t *copy_of(const uint32_t *ranks, uint32_t size)
{
    uint32_t *copy = tci_alloc_array(size, sizeof(*copy));

    if (copy != NULL)
        memcpy(copy, ranks, size * sizeof(*copy));
    return copy;
}

static void add_view(int i, uint64_t group, const uint32_t *ranks, uint32_t size)
{
    stand(&uppers[i], tci_mux_view(mux, group, copy_of(ranks, size), size));
}

/* Group 70 is 5, 2, 0; group 71 is 2, 5. */
static const uint32_t of_70[] = {5, 2, 0}, of_71[] = {2, 5};

static int open_mux(void **state)
{
    (void)state;
    live_before = tci_alloc_live();
    fake_exec_init(&exec);
    lower = (struct lower){.base = {.ops = &lower_ops}};
    stand(&uppers[0], tci_mux_open(&exec.exec, &lower.base, ME, SIZE));
    mux = tci_mux_of(uppers[0].view);
    tci_mux_expect(mux);
    add_view(1, 70, of_70, 3);
    add_view(2, 71, of_71, 2);
    tci_mux_expect_end(mux);
    return 0;
}

static void close_view(int i)
{
    uppers[i].view->ops->close(uppers[i].view);
    uppers[i].view = NULL;
}

static int close_mux(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        if (uppers[i].view != NULL)
            close_view(i);
    assert_int_equal(lower.closes, 1);
    assert_int_equal(lower.early_count, 0);
    fake_exec_fini(&exec);
    memset(uppers, 0, sizeof(uppers));
    assert_int_equal(tci_alloc_live(), live_before);
    return 0;
}

/* ---- Down ----------------------------------------------------------------------------------- */

static void ranks_of_a_group_are_put_into_those_below(void **state)
{
    struct tci_notice notice = {.kind = TCI_NOTICE_ASK, .culprit = 1};
    struct tci_transport *view = uppers[1].view;
    struct tci_key key = {.group = 70};
    struct tci_xfer xfer = {.peer = 2};

    (void)state;
    view->ops->post_send(view, &xfer);
    assert_ptr_equal(lower.posted, &xfer);
    assert_int_equal(xfer.peer, 0);
    xfer.peer = 0;
    view->ops->post_recv(view, &xfer);
    assert_int_equal(xfer.peer, 5);
    view->ops->abort(view, &key, 2);
    assert_int_equal(lower.aborted_peer, 0);
    view->ops->abort(view, &key, TCI_ALL_PEERS);
    assert_int_equal(lower.aborted_peer, TCI_ALL_PEERS);
    view->ops->notify(view, 0, &notice, false);
    assert_int_equal(lower.told_peer, 5);
    assert_int_equal(lower.told.key.group, 70);
    assert_int_equal(lower.told.culprit, 1);
    assert_false(lower.told_may_link);
    assert_int_equal(tci_view_below(view, 1), ME);
    assert_int_equal(tci_view_below(uppers[0].view, 4), 4);
}

/* ---- Up ------------------------------------------------------------------------------------- */

static void messages_reach_the_group_that_they_name(void **state)
{
    (void)state;
    assert_true(comes(5, 70));
    assert_int_equal(uppers[1].admits, 1);
    assert_int_equal(uppers[1].peer, 0);
    assert_true(comes(0, 70));
    assert_int_equal(uppers[1].peer, 2);
    assert_true(comes(5, 71));
    assert_int_equal(uppers[2].peer, 1);
    assert_true(comes(3, TCI_MUX_WORLD));
    assert_int_equal(uppers[0].peer, 3);
    uppers[1].refuses = true;
    assert_false(comes(5, 70));
    is_told(0, 70, 0);
    assert_int_equal(uppers[1].notices, 1);
    assert_int_equal(uppers[1].peer, 2);
    assert_int_equal(uppers[1].notice.culprit, 0);
    assert_int_equal(uppers[0].notices + uppers[2].notices, 0);
}

static void strangers_and_unknown_groups_are_not_heard(void **state)
{
    static const uint64_t unknown[] = {0, 2, 69, UINT64_MAX, UINT64_C(70) << 32, 72};

    (void)state;
    assert_false(comes(1, 70)); /* not a member */
    assert_false(comes(0, 71));
    is_told(1, 70, 0);
    is_told(5, 70, 3); /* blames no rank of the group */
    is_told(3, TCI_MUX_WORLD, SIZE);
    for (size_t i = 0; i < TCI_LEN(unknown); i++) {
        assert_false(comes(5, unknown[i]));
        is_told(5, unknown[i], 0);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(uppers[i].admits + uppers[i].notices, 0);
    assert_int_equal(mux->held_count, 0);
}

static void a_lost_rank_is_told_to_its_groups_alone(void **state)
{
    (void)state;
    lower.base.sink->lost(lower.base.sink, 0, TC_REASON_EXITED, "fell");
    assert_int_equal(uppers[0].losses, 1);
    assert_int_equal(uppers[1].losses, 1);
    assert_int_equal(uppers[1].peer, 2);
    assert_int_equal(uppers[2].losses, 0);
    lower.base.sink->lost(lower.base.sink, 3, TC_REASON_EXITED, "fell");
    assert_int_equal(uppers[0].losses, 2);
    assert_int_equal(uppers[1].losses, 1);
}

/* ---- Groups to come ------------------------------------------------------------------------- */

static void what_comes_before_its_group_is_kept_for_it(void **state)
{
    (void)state;
    lower.base.sink->lost(lower.base.sink, 0, TC_REASON_EXITED, "fell");
    tci_mux_expect(mux); /* two splits */
    tci_mux_expect(mux);
    assert_true(comes(5, 80));
    assert_true(comes(5, 81));
    assert_true(comes(3, 80)); /* will not be a member */
    is_told(5, 80, 1);
    is_told(5, 81, 0);
    is_told(5, 90, 0);
    assert_int_equal(mux->held_count, 3);

    add_view(3, 80, (const uint32_t[]){0, ME, 5}, 3);
    tci_mux_expect_end(mux);

    assert_int_equal(uppers[3].admits, 1);
    assert_int_equal(uppers[3].notices, 1);
    assert_int_equal(uppers[3].peer, 0); /* of the loss, which was before */
    assert_int_equal(uppers[3].losses, 1);
    assert_int_equal(lower.early_count, 2);
    assert_int_equal(mux->held_count, 2);
    assert_int_equal(uppers[0].admits + uppers[1].admits + uppers[2].admits, 0);

    tci_mux_expect_end(mux); /* it failed */

    assert_int_equal(lower.early_count, 1);
    assert_int_equal(lower.early[0].group, 80);
    assert_int_equal(mux->held_count, 0);
    assert_int_equal(uppers[3].admits + uppers[3].notices + uppers[3].losses, 3);
    assert_false(comes(5, 81));
}

static void notices_for_groups_to_come_are_bounded(void **state)
{
    uint64_t live = tci_alloc_live();

    (void)state;
    tci_mux_expect(mux);
    for (uint64_t g = 0; g < 100000; g++)
        is_told(5, g << 20 | 0xabc, 0);
    assert_int_equal(mux->held_count, 1024);
    assert_int_equal(tci_alloc_live(), live + 1024);
    tci_mux_expect_end(mux);
    assert_int_equal(tci_alloc_live(), live);
    tci_mux_expect(mux);
    is_told(5, 100, 0); /* still there when all ends */
}

static void a_group_that_is_gone_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_true(comes(5, 70));
    assert_true(comes(5, 71));
    tci_mux_expect(mux);
    close_view(1);
    assert_int_equal(lower.early_count, 1);
    assert_int_equal(lower.early[0].group, 71);
    assert_true(comes(5, 70)); /* it might be one to come */
    tci_mux_expect_end(mux);
    assert_int_equal(lower.early_count, 1);
    assert_false(comes(5, 70));
}

static void who_has_no_memory_for_a_group_says_so(void **state)
{
    (void)state;
    tci_mux_decline(mux, 80, of_70, 1, 3, "says no");
    assert_string_equal(lower.told.text, "rank 1 says no");
    assert_int_equal(lower.notified, 2);
    assert_int_equal(lower.told.kind, TCI_NOTICE_LOST);
    assert_int_equal(lower.told.culprit, 1);
    assert_int_equal(lower.told.key.group, 80);
    assert_int_equal(lower.told_peer, 0);
    assert_true(lower.told_may_link);
}

/* ---- Numbers -------------------------------------------------------------------------------- */

static void numbers_are_given_once(void **state)
{
    uint32_t first = tci_mux_count(mux), second = tci_mux_count(mux), size = SIZE;

    (void)state;
    assert_true(first > TCI_MUX_WORLD);
    assert_int_equal(second, first + 1);
    assert_int_not_equal(tci_mux_number(1, first), tci_mux_number(2, first));
    assert_int_equal(tci_mux_number(0, TCI_MUX_WORLD), TCI_MUX_WORLD);
    add_view(3, tci_mux_number(ME, 3), of_70, 3);
    mux->next = UINT32_MAX;
    assert_int_equal(tci_mux_count(mux), UINT32_MAX);
    assert_int_equal(tci_mux_count(mux), 2); /* past 0 and the first group's */
    assert_int_equal(tci_mux_count(mux), 4); /* past one in use */
    assert_null(tci_mux_view(mux, 70, copy_of(of_70, 3), 3));
    assert_null(tci_mux_view(mux, TCI_MUX_WORLD, NULL, size));
}

/* ---- Goodbyes ------------------------------------------------------------------------------- */

static void leave_view(int i)
{
    uppers[i].view->ops->leave(uppers[i].view);
    assert_int_equal(uppers[i].lefts, 0); /* not from the verb */
    fake_exec_run(&exec);
}

static void a_peer_is_left_when_no_group_needs_it(void **state)
{
    (void)state;
    leave_view(0);
    assert_int_equal(uppers[0].lefts, 1);
    assert_int_equal(lower.left_of[1] + lower.left_of[3] + lower.left_of[4], 3);
    assert_int_equal(lower.left_of[0] + lower.left_of[2] + lower.left_of[5], 0);
    close_view(0);
    leave_view(1);
    assert_int_equal(lower.left_of[0], 1);
    assert_int_equal(lower.left_of[5], 0);
    assert_int_equal(lower.leaves, 0);
    leave_view(2);
    assert_int_equal(lower.leaves, 1);
    assert_int_equal(uppers[2].lefts, 0); /* the links have to end */
    close_view(1);
    lower.base.sink->left(lower.base.sink);
    assert_int_equal(uppers[2].lefts, 1);
    assert_int_equal(lower.closes, 0);
    close_view(2);
}

static void what_is_closed_at_once_or_broken_leaves_too(void **state)
{
    (void)state;
    close_view(0);
    assert_int_equal(lower.left_of[1] + lower.left_of[3] + lower.left_of[4], 3);
    uppers[1].view->ops->part(uppers[1].view);
    fake_exec_run(&exec);
    assert_int_equal(uppers[1].lefts, 1);
    assert_int_equal(lower.parts, 0);
    uppers[2].view->ops->part(uppers[2].view);
    assert_int_equal(lower.parts, 1);
    close_view(2);
    lower.base.sink->left(lower.base.sink); /* too late for anybody */
    assert_int_equal(lower.closes, 0);
    close_view(1);
}

static void a_group_alone_leaves_the_links(void **state)
{
    (void)state;
    close_view(1);
    close_view(2);
    leave_view(0);
    assert_int_equal(lower.leaves, 1);
    lower.base.sink->left(lower.base.sink);
    assert_int_equal(uppers[0].lefts, 1);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void without_memory_there_is_no_view(void **state)
{
    struct tci_transport *view;

    (void)state;
    live_before = tci_alloc_live();
    fake_exec_init(&exec);
    for (uint64_t n = 1;; n++) {
        lower = (struct lower){.base = {.ops = &lower_ops}};
        tci_alloc_fail_at(n, 0);
        view = tci_mux_open(&exec.exec, &lower.base, ME, SIZE);
        tci_alloc_fail_at(0, 0);
        if (view != NULL)
            break;
        assert_int_equal(lower.closes, 1);
        assert_int_equal(tci_alloc_live(), live_before);
    }
    stand(&uppers[0], view);
    mux = tci_mux_of(view);
    for (uint64_t n = 1;; n++) {
        uint32_t *ranks = copy_of(of_70, 3);

        tci_alloc_fail_at(n, 0);
        view = tci_mux_view(mux, 70, ranks, 3);
        tci_alloc_fail_at(0, 0);
        if (view != NULL)
            break;
    }
    stand(&uppers[1], view);
    tci_mux_expect(mux);
    tci_alloc_fail_at(1, 1);
    is_told(5, 80, 0); /* not kept, and no harm done */
    lower.base.sink->lost(lower.base.sink, 0, TC_REASON_EXITED, "fell");
    tci_alloc_fail_at(0, 0);
    assert_int_equal(uppers[1].losses, 1);
    tci_mux_expect_end(mux);
}

int main(void)
{
#define MUX(test) cmocka_unit_test_setup_teardown(test, open_mux, close_mux)
    const struct CMUnitTest tests[] = {
        MUX(ranks_of_a_group_are_put_into_those_below),
        MUX(messages_reach_the_group_that_they_name),
        MUX(strangers_and_unknown_groups_are_not_heard),
        MUX(a_lost_rank_is_told_to_its_groups_alone),
        MUX(what_comes_before_its_group_is_kept_for_it),
        MUX(notices_for_groups_to_come_are_bounded),
        MUX(a_group_that_is_gone_leaves_nothing_behind),
        MUX(who_has_no_memory_for_a_group_says_so),
        MUX(numbers_are_given_once),
        MUX(a_peer_is_left_when_no_group_needs_it),
        MUX(what_is_closed_at_once_or_broken_leaves_too),
        MUX(a_group_alone_leaves_the_links),
        cmocka_unit_test_teardown(without_memory_there_is_no_view, close_mux),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
