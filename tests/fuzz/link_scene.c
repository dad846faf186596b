/* link_scene.c - one rank of two, with calls of all kinds begun, linked by a socket pair. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/link_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* After the end of the peer, and of the group. */
enum { SETTLE_MS = 1000 };

void link_want(bool holds)
{
    if (!holds)
        abort();
}

static void hear_nothing(tc_log_level_t level, const char *line, void *arg)
{
    (void)level, (void)line, (void)arg;
}

static tc_future *form(struct link_scene *scene)
{
    tc_dist_options options;
    char url[32];
    int ends[2];

    link_want(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    scene->peer = ends[1];
    (void)snprintf(url, sizeof(url), "fd://%d", ends[0]);
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.rank = scene->rank;
    options.rendezvous_url = url;
    options.timeout_ms = 60000;
    return tc_dist_init_async(scene->context, &options, &scene->group);
}

void link_scene_open(struct link_scene *scene, int rank)
{
    tc_config config;

    *scene = (struct link_scene){.rank = rank};
    tc_log_set_sink(hear_nothing, NULL);
    tc_config_default(&config);
    config.loop_mode = TC_LOOP_MANUAL;
    config.eager_bytes = LINK_EAGER;
    config.segment_bytes = LINK_EAGER;
    config.trace_events = 64;
    config.tune = "off";
    config.timeout_ms = 60000;
    link_want(tc_init_config(&config, &scene->context) == TC_OK);
    scene->data = calloc((size_t)LINK_CALLS * LINK_LARGE, sizeof(*scene->data));
    link_want(scene->data != NULL);
    scene->formed = form(scene);
    (void)tc_dispatch(scene->context);
}

void link_scene_start(struct link_scene *scene)
{
    tc_dist_ctx *group = scene->group;
    int other = 1 - scene->rank;
    float *data[LINK_CALLS];
    tc_options fast;

    for (int i = 0; i < LINK_CALLS; i++)
        data[i] = scene->data + (size_t)i * LINK_LARGE;
    tc_options_default(&fast);
    fast.numerics = TC_NUMERICS_FAST;
    scene->futures[0] = tc_allreduce_async(group, 1, data[0], data[0], LINK_SMALL, TC_DTYPE_F32,
                                           TC_REDUCE_SUM, NULL);
    scene->futures[1] = tc_allreduce_async(group, 2, data[1], data[1], LINK_LARGE, TC_DTYPE_F32,
                                           TC_REDUCE_SUM, &fast);
    if (scene->rank == 0) {
        scene->futures[2] = tc_recv_async(group, 3, data[2], LINK_LARGE, TC_DTYPE_F32, other, NULL);
        scene->futures[3] = tc_send_async(group, 4, data[3], LINK_LARGE, TC_DTYPE_F32, other, NULL);
    } else {
        scene->futures[2] = tc_send_async(group, 3, data[2], LINK_LARGE, TC_DTYPE_F32, other, NULL);
        scene->futures[3] = tc_recv_async(group, 4, data[3], LINK_LARGE, TC_DTYPE_F32, other, NULL);
    }
    scene->futures[4] = tc_barrier_async(group, TC_TAG_ORDERED, NULL);
    scene->futures[5] =
        tc_allgather_async(group, 6, data[4], data[5], LINK_SMALL, TC_DTYPE_F32, NULL);
    scene->futures[6] = tc_broadcast_async(group, 7, data[6], LINK_LARGE, TC_DTYPE_F32, 1, NULL);
    scene->futures[7] = tc_broadcast_async(group, 8, data[7], LINK_SMALL, TC_DTYPE_F32, 0, NULL);
    (void)tc_dispatch(scene->context);
}

bool link_scene_is_settled(const struct link_scene *scene)
{
    for (int i = 0; i < LINK_CALLS; i++)
        if (scene->futures[i] != NULL && tc_future_test(scene->futures[i]) == TC_PENDING)
            return false;
    return true;
}

static void check_future(tc_future *future)
{
    tc_status_t status = tc_future_wait(future, SETTLE_MS);
    const tc_error *error = tc_future_error(future);

    link_want(status != TC_PENDING && (status == TC_OK) == (error == NULL));
    link_want(error == NULL || (error->message != NULL && error->message[0] != '\0'));
    tc_future_release(future);
}

void link_scene_close(struct link_scene *scene)
{
    close(scene->peer);
    check_future(scene->formed);
    if (scene->group != NULL)
        (void)tc_dist_close(scene->group); /* says what became of it, and leaves in any case */
    for (int i = 0; i < LINK_CALLS; i++)
        if (scene->futures[i] != NULL)
            check_future(scene->futures[i]);
    link_want(tc_shutdown(scene->context) == TC_OK);
    free(scene->data);
}
