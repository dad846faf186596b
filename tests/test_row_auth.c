/* test_row_auth.c - ranks that are linked by descriptors prove their key over them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "support/row_world.h"

static const char key_a[] = "0123456789abcdef0123456789abcdef", key_b[] = "another key of 16+";
static struct row_rank ranks[ROW_RANKS_MAX];

enum { COUNT = 200000 };

static tc_status_t wait_for(tc_future *future)
{
    tc_status_t status = tc_future_wait(future, -1);

    tc_future_release(future);
    return status;
}

/* Small and large at once, the moment that the group stands. */
static void work(struct row_rank *self)
{
    int right = (self->rank + 1) % self->size, left = (self->rank + self->size - 1) % self->size;
    float *data = malloc(COUNT * sizeof(*data));
    int32_t in = -1;
    tc_future *sent, *got, *sum;

    if (data == NULL) {
        WANT(false);
        return;
    }
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(self->rank + i % 7);
    sent = tc_send_async(self->group, 1, &self->rank, 1, TC_DTYPE_I32, right, NULL);
    sum = tc_allreduce_async(self->group, 2, data, data, COUNT, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    got = tc_recv_async(self->group, 1, &in, 1, TC_DTYPE_I32, left, NULL);
    WANT(wait_for(got) == TC_OK && in == left);
    WANT(wait_for(sent) == TC_OK);
    WANT(wait_for(sum) == TC_OK);
    for (int i = 0; i < COUNT; i += 1001)
        WANT(data[i] == (float)(self->size * (self->size - 1) / 2 + self->size * (i % 7)));
    free(data);
}

static void set_all(int size, enum row_form form, const char *key, int encryption)
{
    row_world_link(ranks, size, form);
    for (int r = 0; r < size; r++) {
        ranks[r].body = work;
        ranks[r].key = key;
        ranks[r].encryption = encryption;
    }
}

static void ranks_with_a_key_form_a_group(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++)
        for (int i = 0; i < 4; i++) {
            set_all(size, i % 2 == 0 ? ROW_RING : ROW_FULL, key_a, i / 2 == 0 ? -1 : 1);
            row_world_run_well(ranks, size);
        }
}

/* Wherever the odd rank sits, all hear of it. */
static void each_mistake_is_told_to_all(void **state)
{
    static const struct {
        const char *first, *odd;
        int encryption;
        const char *says;
    } rows[] = {{key_a, key_b, -1, "have different keys"},
                {key_a, NULL, -1, "has no key, rank"},
                {NULL, key_a, -1, "has a key, rank"},
                {key_a, key_a, 1, "is set to encrypt, the other is not"}};

    (void)state;
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
        for (int odd = 0; odd < 4; odd++)
            for (int form = ROW_RING; form <= ROW_FULL; form++) {
                set_all(4, (enum row_form)form, rows[k].first, -1);
                ranks[odd].key = rows[k].odd;
                ranks[odd].encryption = rows[k].encryption;
                row_world_run(ranks, 4);
                for (int r = 0; r < 4; r++) {
                    bool is_told = strstr(ranks[r].why, rows[k].says) != NULL ||
                                   strstr(ranks[r].why, "has no key, rank") != NULL ||
                                   strstr(ranks[r].why, "has a key, rank") != NULL;

                    if (ranks[r].status != TC_ERR_AUTH || !is_told ||
                        strstr(ranks[r].why, "456789") != NULL)
                        fail_msg("\"%s\", odd %d, rank %d: %s: %s", rows[k].says, odd, r,
                                 tc_status_string(ranks[r].status), ranks[r].why);
                }
            }
}

static uint64_t fail_at;

static void begin_to_fail(void)
{
    tci_alloc_fail_at(fail_at, 0);
}

static void missing_memory_ends_the_group_for_all(void **state)
{
    uint64_t before = tci_alloc_live();
    bool is_whole = false;

    (void)state;
    row_world_before = begin_to_fail;
    for (fail_at = 1; !is_whole; fail_at++) {
        assert_true(fail_at < 1000);
        set_all(3, ROW_RING, key_a, 1);
        for (int r = 0; r < 3; r++) {
            ranks[r].timeout_ms = 10000;
            ranks[r].body = NULL;
        }
        row_world_run(ranks, 3);
        tci_alloc_fail_at(0, 0);
        is_whole = true;
        for (int r = 0; r < 3; r++) {
            is_whole = is_whole && ranks[r].status == TC_OK;
            assert_int_not_equal(ranks[r].status, TC_ERR_TIMEOUT);
        }
        assert_int_equal(tci_alloc_live(), before);
    }
    row_world_before = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_with_a_key_form_a_group),
        cmocka_unit_test(each_mistake_is_told_to_all),
        cmocka_unit_test(missing_memory_ends_the_group_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
