/* test_inbox.c - tasks from many threads, and completions in their queue. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "core/base.h"
#include "core/inbox.h"
#include "core/transport.h"
#include "support/fake_exec.h"

static void tasks_come_out_in_the_order_they_went_in(void **state)
{
    struct tci_inbox inbox;
    struct tci_task tasks[3], *out;
    (void)state;

    tci_inbox_init(&inbox);
    assert_true(tci_inbox_is_empty(&inbox));
    assert_true(tci_inbox_push(&inbox, &tasks[0]));
    assert_false(tci_inbox_push(&inbox, &tasks[1]));
    assert_false(tci_inbox_push(&inbox, &tasks[2]));
    out = tci_inbox_take(&inbox);

    for (size_t i = 0; i < TCI_LEN(tasks); i++, out = out->next)
        assert_ptr_equal(out, &tasks[i]);
    assert_null(out);
    assert_null(tci_inbox_take(&inbox));
    assert_true(tci_inbox_push(&inbox, &tasks[0]));
}

#define PRODUCERS 8
#define EACH      5000u

struct numbered {
    struct tci_task task;
    unsigned producer, number;
};

struct producer {
    struct tci_inbox *inbox;
    struct numbered tasks[EACH];
};

static void *produce(void *arg)
{
    struct producer *producer = arg;

    for (unsigned i = 0; i < EACH; i++)
        tci_inbox_push(producer->inbox, &producer->tasks[i].task);
    return NULL;
}

static void each_threads_tasks_arrive_once_and_in_order(void **state)
{
    static struct producer producers[PRODUCERS];
    unsigned next[PRODUCERS] = {0}, taken = 0;
    pthread_t threads[PRODUCERS];
    struct tci_inbox inbox;
    (void)state;

    tci_inbox_init(&inbox);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        producers[p].inbox = &inbox;
        for (unsigned i = 0; i < EACH; i++)
            producers[p].tasks[i] = (struct numbered){.producer = p, .number = i};
        assert_int_equal(pthread_create(&threads[p], NULL, produce, &producers[p]), 0);
    }
    while (taken < PRODUCERS * EACH) {
        struct tci_task *task = tci_inbox_take(&inbox);

        if (task == NULL)
            sched_yield();
        for (; task != NULL; task = task->next, taken++) {
            struct numbered *got = tci_container_of(task, struct numbered, task);

            assert_int_equal(got->number, next[got->producer]);
            next[got->producer]++;
        }
    }

    for (unsigned p = 0; p < PRODUCERS; p++)
        pthread_join(threads[p], NULL);
    assert_true(tci_inbox_is_empty(&inbox));
}

static unsigned reads, ends;

static void read_cq(struct tci_task *task)
{
    struct tci_cq *cq = tci_container_of(task, struct tci_cq, task);

    reads++;
    while (tci_cq_pull(cq) != NULL)
        ends++;
}

static void completions_post_their_reader_once(void **state)
{
    struct tci_xfer xfers[3] = {
        {.status = TC_PENDING}, {.status = TC_PENDING}, {.status = TC_PENDING}};
    struct fake_exec fake;
    struct tci_cq cq;
    (void)state;

    reads = ends = 0;
    fake_exec_init(&fake);
    tci_cq_init(&cq, &fake.exec, read_cq);
    tci_cq_push(&cq, &xfers[0], TC_OK);
    tci_cq_push(&cq, &xfers[1], TC_ERR_CLOSED);
    fake_exec_run(&fake);

    assert_int_equal(reads, 1);
    assert_int_equal(ends, 2);
    assert_int_equal(xfers[1].status, TC_ERR_CLOSED);
    tci_cq_push(&cq, &xfers[2], TC_OK);
    fake_exec_run(&fake);
    assert_int_equal(reads, 2);
    assert_int_equal(ends, 3);
    fake_exec_fini(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_come_out_in_the_order_they_went_in),
        cmocka_unit_test(each_threads_tasks_arrive_once_and_in_order),
        cmocka_unit_test(completions_post_their_reader_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
