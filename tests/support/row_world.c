/* row_world.c - ranks as threads, linked by socket pairs that the test makes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/row_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static void pair(int ends[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void link_ring(struct row_rank *ranks, int size)
{
    int left[ROW_RANKS_MAX], right[ROW_RANKS_MAX];

    for (int r = 0; r < size; r++) {
        int ends[2];

        pair(ends);
        right[r] = ends[0];
        left[(r + 1) % size] = ends[1];
    }
    for (int r = 0; r < size; r++)
        snprintf(ranks[r].url, ROW_URL_BYTES, "fd://%d,%d", left[r], right[r]);
}

static void link_all(struct row_rank *ranks, int size)
{
    int fds[ROW_RANKS_MAX][ROW_RANKS_MAX];

    for (int r = 0; r < size; r++)
        for (int other = 0; other < r; other++) {
            int ends[2];

            pair(ends);
            fds[r][other] = ends[0];
            fds[other][r] = ends[1];
        }
    for (int r = 0; r < size; r++) {
        size_t len = (size_t)snprintf(ranks[r].url, ROW_URL_BYTES, "fd://");

        for (int other = 0; other < size; other++) {
            len += (size_t)snprintf(ranks[r].url + len, ROW_URL_BYTES - len, other > 0 ? "," : "");
            if (other == r)
                len += (size_t)snprintf(ranks[r].url + len, ROW_URL_BYTES - len, "-");
            else
                len +=
                    (size_t)snprintf(ranks[r].url + len, ROW_URL_BYTES - len, "%d", fds[r][other]);
        }
    }
}

void row_world_link(struct row_rank *ranks, int size, enum row_form form)
{
    assert_true(size <= ROW_RANKS_MAX);
    memset(ranks, 0, (size_t)size * sizeof *ranks);
    for (int r = 0; r < size; r++) {
        ranks[r].rank = r;
        ranks[r].size = size;
        ranks[r].timeout_ms = 20000;
        ranks[r].is_right = true;
    }
    if (form == ROW_RING)
        link_ring(ranks, size);
    else
        link_all(ranks, size);
}

static void *live(void *arg)
{
    struct row_rank *self = arg;

    self->status =
        tc_dist_init(self->context, TC_DIST_RING, self->size, self->rank, self->url, &self->group);
    if (self->status == TC_OK && self->body != NULL)
        self->body(self);
    if (self->status == TC_OK)
        self->status = tc_dist_finalize(self->group);
    if (self->status != TC_OK && tc_last_error() != NULL) {
        self->culprit = tc_last_error()->rank;
        snprintf(self->why, sizeof self->why, "%s", tc_last_error()->message);
    }
    tc_shutdown(self->context);
    return NULL;
}

void (*row_world_before)(void);

void row_world_run(struct row_rank *ranks, int size)
{
    for (int r = 0; r < size; r++) {
        tc_config config;

        tc_config_default(&config);
        config.numerics = ranks[r].numerics;
        config.timeout_ms = ranks[r].timeout_ms;
        config.key = ranks[r].key;
        config.key_bytes = ranks[r].key != NULL ? strlen(ranks[r].key) : 0;
        config.encryption = ranks[r].encryption != 0 ? ranks[r].encryption : -1;
        ranks[r].culprit = -1;
        assert_int_equal(tc_init_config(&config, &ranks[r].context), TC_OK);
    }
    if (row_world_before != NULL)
        row_world_before();
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, live, &ranks[r]), 0);
    for (int r = 0; r < size; r++)
        pthread_join(ranks[r].thread, NULL);
}

void row_world_run_well(struct row_rank *ranks, int size)
{
    row_world_run(ranks, size);
    for (int r = 0; r < size; r++) {
        if (ranks[r].status != TC_OK)
            fail_msg("rank %d: %s: %s", r, tc_status_string(ranks[r].status), ranks[r].why);
        assert_true(ranks[r].is_right);
    }
}

void row_world_want(struct row_rank *self, bool holds, int line)
{
    if (holds)
        return;
    print_error("rank %d of %d: line %d does not hold\n", self->rank, self->size, line);
    self->is_right = false;
}
