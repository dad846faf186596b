/* copies.c - counts the payload bytes that are copied on their way to their place. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks in this process all-reduce over loopback.  What is copied is what came before its
 * receive was posted, or in one read with its neighbours: messages up to the eager limit, never
 * longer ones.  A line a size; exit status 1 when a message above the limit was copied.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "loopback.h"
#include "tcdist/tcdist.h"

enum { RANKS = 2, ROUNDS = 20 };

static const size_t sizes[] = {1024, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20};

static tc_context *contexts[RANKS];
static tc_dist_ctx *groups[RANKS];

static void give_up(const char *doing)
{
    const tc_error *error = tc_last_error();

    fprintf(stderr, "copies: %s: %s\n", doing, error == NULL ? "failed" : error->message);
    exit(1);
}

static void form_group(void)
{
    tc_future *futures[RANKS];
    tc_dist_options options;
    char url[64];
    int fd = listen_on_loopback(RANKS, url, sizeof(url));

    if (fd < 0)
        give_up("listening on loopback");
    for (int r = 0; r < RANKS; r++) {
        if (tc_init(&contexts[r]) != TC_OK)
            give_up("a context");
        tc_dist_options_default(&options);
        options.world_size = RANKS;
        options.rank = r;
        options.rendezvous_url = url;
        options.listen_fd = r == 0 ? fd : -1;
        futures[r] = tc_dist_init_async(contexts[r], &options, &groups[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        if (tc_future_wait(futures[r], -1) != TC_OK)
            give_up("a group");
        tc_future_release(futures[r]);
    }
}

/* Payload copied so far, on both ranks; nothing is in flight. */
static uint64_t copied(void)
{
    uint64_t sum = 0;

    for (int r = 0; r < RANKS; r++) {
        struct tci_transport *transport = tci_comm_of(groups[r])->transport;
        struct tci_transport_stats stats;
        transport->ops->stats(transport, &stats);
        sum += stats.bytes_copied;
    }
    return sum;
}

static void all_reduce(float *const data[RANKS], size_t bytes)
{
    tc_future *futures[RANKS];

    for (int r = 0; r < RANKS; r++)
        futures[r] = tc_allreduce_async(groups[r], 1, data[r], data[r], bytes / sizeof(float),
                                        TC_DTYPE_F32, TC_REDUCE_MAX, NULL);
    for (int r = 0; r < RANKS; r++) {
        if (tc_future_wait(futures[r], -1) != TC_OK)
            give_up("an all-reduce");
        tc_future_release(futures[r]);
    }
}

int main(void)
{
    size_t largest = sizes[sizeof(sizes) / sizeof(sizes[0]) - 1], eager;
    float *data[RANKS];
    int status = 0;

    form_group();
    eager = tci_comm_of(groups[0])->eager_max;
    for (int r = 0; r < RANKS; r++) {
        data[r] = calloc(1, largest);
        if (data[r] == NULL)
            give_up("memory");
    }
    printf("%12s %22s  %s\n", "bytes", "copied per byte sent", "target above the eager limit: 0");
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint64_t before = copied();
        for (int i = 0; i < ROUNDS; i++)
            all_reduce(data, sizes[s]);
        uint64_t more = copied() - before;
        /* From twice the limit on the halves that travel are above it. */
        bool is_bound = sizes[s] > 2 * eager, is_met = !is_bound || more == 0;
        printf("%12zu %22.3f  %s\n", sizes[s], (double)more / ((double)sizes[s] * ROUNDS * RANKS),
               !is_bound ? "-"
               : is_met  ? "met"
                         : "missed");
        if (!is_met)
            status = 1;
    }
    for (int r = 0; r < RANKS; r++) {
        tc_dist_close(groups[r]);
        tc_shutdown(contexts[r]);
        free(data[r]);
    }
    return status;
}
