/* world.c - forms and ends groups whose ranks are contexts of this process. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/world.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_S = 60 };

int test_effort(void)
{
    const char *text = getenv("TCDIST_TEST_EFFORT");

    if (text != NULL && strcmp(text, "quick") == 0)
        return 0;
    return text != NULL && strcmp(text, "full") == 0 ? 2 : 1;
}

int world_listen(char *url, size_t url_bytes)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 128), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    snprintf(url, url_bytes, "tcp://127.0.0.1:%d", ntohs(addr.sin_port));
    return fd;
}

static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

tc_status_t world_wait(struct world *world, tc_future *future)
{
    time_t end = now_s() + PATIENCE_S;

    if (world->mode == TC_LOOP_THREAD) {
        tc_status_t status = tc_future_wait(future, PATIENCE_S * 1000);
        assert_int_not_equal(status, TC_PENDING);
        return status;
    }
    while (tc_future_test(future) == TC_PENDING) {
        for (int r = 0; r < world->size; r++)
            if (world->context[r] != NULL)
                assert_int_equal(tc_poll(world->context[r], 0), TC_OK);
        assert_true(now_s() < end);
    }
    return tc_future_test(future);
}

/* To form a group: short deadlines of a test are for what it does then. */
enum { FORM_MS = 60 * 1000 };

void world_open(struct world *world, int size, const tc_config *config)
{
    tc_future *futures[WORLD_MAX];
    tc_dist_options options;
    tc_config defaults;
    char url[64];
    int fd = size > 1 ? world_listen(url, sizeof(url)) : -1;

    memset(world, 0, sizeof(*world));
    tc_config_default(&defaults);
    if (config == NULL)
        config = &defaults;
    world->size = size;
    world->mode = config->loop_mode < 0 ? TC_LOOP_THREAD : config->loop_mode;
    for (int r = 0; r < size; r++) {
        tc_status_t status = tc_init_config(config, &world->context[r]);
        if (status != TC_OK)
            fail_msg("context of rank %d: %s", r, tc_last_error()->message);
        tc_dist_options_default(&options);
        options.world_size = size;
        options.rank = r;
        options.rendezvous_url = size > 1 ? url : NULL;
        options.listen_fd = r == 0 ? fd : -1;
        options.timeout_ms = FORM_MS;
        futures[r] = tc_dist_init_async(world->context[r], &options, &world->group[r]);
    }
    for (int r = 0; r < size; r++) {
        if (world_wait(world, futures[r]) != TC_OK)
            fail_msg("group of rank %d: %s", r, tc_future_error(futures[r])->message);
        tc_future_release(futures[r]);
    }
}

struct leaver {
    pthread_t thread;
    tc_dist_ctx *group;
    tc_context *context;
};

static void *leave(void *arg)
{
    struct leaver *leaver = arg;

    if (leaver->group != NULL)
        tc_dist_finalize(leaver->group);
    tc_shutdown(leaver->context);
    return NULL;
}

void world_close(struct world *world)
{
    struct leaver leavers[WORLD_MAX] = {{0}};

    /* Each in a thread, since finalizing waits for the others. */
    for (int r = 0; r < world->size; r++) {
        leavers[r].group = world->group[r];
        leavers[r].context = world->context[r];
        assert_int_equal(pthread_create(&leavers[r].thread, NULL, leave, &leavers[r]), 0);
    }
    for (int r = 0; r < world->size; r++)
        pthread_join(leavers[r].thread, NULL);
    memset(world, 0, sizeof(*world));
}
