/* test_buffer.c - memory for tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/memories.h"
#include "core/pages.h"
#include "support/loop_room.h"
#include "tcdist/buffer.h"

static tc_context *context;

static int open_context(void **state)
{
    (void)state;
    context = context_open(TC_LOOP_MANUAL);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    return tc_shutdown(context) == TC_OK ? 0 : -1;
}

static void allocated_memory_is_zeroed_aligned_and_writable(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000, (size_t)4 << 20};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)state;
    for (size_t i = 0; i < TCI_LEN(sizes); i++) {
        tc_buffer *buffer = NULL;
        unsigned char *data = NULL;
        size_t dirty = 0;

        assert_int_equal(tc_buffer_alloc(context, sizes[i], &buffer), TC_OK);
        assert_int_equal(tc_buffer_map(buffer, (void **)&data), TC_OK);
        for (size_t k = 0; k < sizes[i]; k++)
            dirty += data[k] != 0;
        if (sizes[i] != 0)
            memset(data, 0xa5, sizes[i]);

        assert_int_equal(dirty, 0);
        assert_int_equal((uintptr_t)data % page, 0);
        assert_int_equal(tc_buffer_size(buffer), sizes[i]);
        assert_int_equal(tc_buffer_free(context, buffer), TC_OK);
    }
}

/* Others map it, with huge pages or not at all: some systems give these to nobody. */
static void large_memory_that_is_lent_is_seen_by_whoever_maps_it(void **state)
{
    const size_t bytes = ((size_t)4 << 20) + 8192;
    struct tci_memory memory = {.fd = -1};
    tc_buffer *buffer = NULL;
    unsigned char *data = NULL, *seen = NULL;

    (void)state;
    assert_int_equal(tc_buffer_alloc(context, bytes, &buffer), TC_OK);
    assert_int_equal(tc_buffer_map(buffer, (void **)&data), TC_OK);
    assert_true(tci_memories_find(data, bytes, &memory));
    if (memory.fd >= 0) {
        seen = tci_pages_map(memory.fd, bytes, PROT_READ);
        assert_non_null(seen);
        for (size_t at = 0; at < bytes; at += 4099) {
            assert_int_equal(seen[at], 0);
            data[at] = (unsigned char)(at / 4099);
            assert_int_equal(seen[at], data[at]);
        }
        munmap(seen, bytes);
    }
    assert_int_equal(tc_buffer_free(context, buffer), TC_OK);
}

static void wrapped_memory_stays_the_applications(void **state)
{
    float own[3] = {1, 2, 3};
    tc_buffer *buffer = NULL;
    void *data = NULL;

    (void)state;
    assert_int_equal(tc_buffer_from_ptr(context, own, sizeof(own), &buffer), TC_OK);
    assert_int_equal(tc_buffer_map(buffer, &data), TC_OK);
    assert_int_equal(tc_buffer_size(buffer), sizeof(own));
    assert_int_equal(tc_buffer_free(context, buffer), TC_OK);

    assert_ptr_equal(data, own);
    assert_true(own[2] == 3);
}

static void what_makes_no_sense_is_refused(void **state)
{
    tc_buffer *buffer = NULL;
    void *data;

    (void)state;
    assert_int_equal(tc_buffer_alloc(NULL, 1, &buffer), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_buffer_alloc(context, 1, NULL), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_buffer_alloc(context, SIZE_MAX, &buffer), TC_ERR_ALLOC);
    assert_int_equal(tc_buffer_alloc(context, SIZE_MAX / 4, &buffer), TC_ERR_ALLOC);
    assert_int_equal(tc_buffer_from_ptr(context, NULL, 1, &buffer), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_buffer_map(NULL, &data), TC_ERR_INVALID_ARG);
    assert_int_equal(tc_buffer_size(NULL), 0);
    assert_int_equal(tc_buffer_free(context, NULL), TC_OK);
    assert_null(buffer);
}

static void without_memory_a_buffer_fails_and_leaves_nothing(void **state)
{
    uint64_t live = tci_alloc_live();
    tc_buffer *buffer = NULL;

    (void)state;
    tci_alloc_fail_at(1, 1);
    assert_int_equal(tc_buffer_alloc(context, 1, &buffer), TC_ERR_ALLOC);
    assert_int_equal(tc_buffer_from_ptr(context, &live, 8, &buffer), TC_ERR_ALLOC);
    tci_alloc_fail_at(0, 0);

    assert_null(buffer);
    assert_int_equal(tci_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocated_memory_is_zeroed_aligned_and_writable),
        cmocka_unit_test(large_memory_that_is_lent_is_seen_by_whoever_maps_it),
        cmocka_unit_test(wrapped_memory_stays_the_applications),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(without_memory_a_buffer_fails_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, open_context, close_context);
}
