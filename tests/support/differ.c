/* differ.c - calls of one tag that differ in one field, and what every rank is to be told. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/differ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base.h"
#include "sim/world_sim.h"

tc_dist_ctx *group_of(struct place *place, int rank)
{
    return place->sim != NULL ? sim_group(place->sim, (uint32_t)rank) : place->tcp.group[rank];
}

tc_status_t wait_for(struct place *place, tc_future *future)
{
    if (place->sim == NULL)
        return world_wait(&place->tcp, future);
    assert_true(sim_world_run(place->sim, &future, 1, TCI_NEVER));
    return tc_future_test(future);
}

/* ---- The table ------------------------------------------------------------------------------ */

bool is_rooted(int kind)
{
    return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
           kind == COLL_SCATTER;
}

static bool folds(int kind)
{
    return kind != KIND_BARRIER && coll_folds((enum coll_kind)kind);
}

/* Two algorithms of a kind; false where it has one. */
static bool algorithms_of(int kind, const char **one, const char **other)
{
    *one = "direct";
    switch (kind) {
    case COLL_ALLREDUCE:
    case COLL_BROADCAST:
    case COLL_REDUCE:
        *other = "oneshot";
        return true;
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
    case COLL_REDUCE_SCATTER:
        *other = "ring";
        return true;
    default:
        return false;
    }
}

/* The call of the most and that of the odd rank; false where the kind has no such field. */
static bool make_pair(int kind, enum field field, struct coll_case pair[2])
{
    const char *other;

    pair[1] = pair[0];
    switch (field) {
    case BY_KIND:
        pair[1].kind = (enum coll_kind)((kind + 1) % KINDS);
        return true;
    case BY_DTYPE:
        pair[1].dtype = TC_DTYPE_I32;
        return kind != KIND_BARRIER;
    case BY_OP:
        pair[1].op = TC_REDUCE_MAX;
        return folds(kind);
    case BY_COUNT:
        pair[1].count += 4; /* of which the v-forms make quarters */
        return kind != KIND_BARRIER;
    case BY_ROOT:
        pair[1].root = 1;
        return is_rooted(kind);
    case BY_ALGORITHM:
        if (!algorithms_of(kind, &pair[0].algorithm, &other))
            return false;
        pair[1].algorithm = other;
        pair[0].numerics = pair[1].numerics = TC_NUMERICS_FAST;
        return true;
    default:
        pair[1].numerics = TC_NUMERICS_FAST;
        return folds(kind);
    }
}

/* Only the two ranks of a pair know how much it exchanges: the error shows that. */
static bool is_by_pair(enum field field, const struct coll_case *what)
{
    return field == BY_COUNT && what->kind == COLL_ALLTOALLV;
}

/* What the error must show of both calls. */
static void words_of(enum field field, const struct coll_case pair[2], char says[2][32])
{
    static const char *const names[] = {"allreduce(",       "reduce_scatter(", "broadcast(",
                                        "allgather(",       "reduce(",         "gather(",
                                        "scatter(",         "alltoall(",       "allgatherv(",
                                        "reduce_scatterv(", "alltoallv(",      "barrier("};

    for (int i = 0; i < 2; i++) {
        const struct coll_case *what = &pair[i];

        says[i][0] = '\0';
        if (field == BY_KIND)
            snprintf(says[i], 32, "calls %s", names[what->kind]);
        else if (field == BY_DTYPE)
            snprintf(says[i], 32, "%s", i == 0 ? "x f32" : "x i32");
        else if (field == BY_OP)
            snprintf(says[i], 32, ", %s", i == 0 ? "sum" : "max");
        else if (field == BY_COUNT && what->kind < COLL_ALLGATHERV)
            snprintf(says[i], 32, "(%zu x", what->count);
        else if (field == BY_ROOT)
            snprintf(says[i], 32, ", root %d", what->root);
        else if (field == BY_ALGORITHM)
            snprintf(says[i], 32, ", %s, fast)", what->algorithm);
        else if (field == BY_NUMERICS && i == 1)
            snprintf(says[i], 32, ", fast)");
    }
}

/* ---- One case ------------------------------------------------------------------------------- */

static void start(struct scene *scene, int rank)
{
    struct coll_run *run = &scene->runs[rank == scene->odd];
    tc_dist_ctx *group = group_of(scene->place, rank);

    if (run->what.kind == (enum coll_kind)KIND_BARRIER) {
        scene->futures[rank] = tc_barrier_async(group, run->what.tag, NULL);
        return;
    }
    coll_start(run, group, rank);
    scene->futures[rank] = run->future[rank];
}

static void start_other(struct scene *scene, int rank)
{
    scene->values[rank] = (float)rank;
    scene->others[rank] =
        tc_allreduce_async(group_of(scene->place, rank), OTHER_TAG, &scene->values[rank],
                           &scene->values[rank], 1, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
}

static void fail_in_words(const struct scene *scene, int rank, const char *what)
{
    const tc_error *error = tc_future_error(scene->futures[rank]);

    fail_msg("kind %d, field %d, count %zu, %d ranks, odd %d, %s, %s: rank %d: %s: %s",
             (int)scene->pair[0].kind, (int)scene->field, scene->pair[0].count, scene->place->size,
             scene->odd, scene->is_ordered ? "ordered" : "tagged",
             scene->place->sim != NULL ? "simulated" : "TCP", rank, what,
             error == NULL ? "no error" : error->message);
}

static void check_error(const struct scene *scene, int rank)
{
    const tc_error *error = tc_future_error(scene->futures[rank]);
    const char *first = strstr(error->message, " calls ");
    char says[2][32], odd[32];

    words_of(scene->field, scene->pair, says);
    snprintf(odd, sizeof(odd), "rank %d calls ", scene->odd);
    if (error->status != TC_ERR_MISMATCH || error->rank < 0 || error->rank >= scene->place->size)
        fail_in_words(scene, rank, "not a mismatch");
    if (is_by_pair(scene->field, &scene->pair[0])) {
        if (strstr(error->message, "make the counts of the two agree") == NULL)
            fail_in_words(scene, rank, "does not show the lengths");
        return;
    }
    if (first == NULL || strstr(first + 1, " calls ") == NULL ||
        strstr(error->message, says[0]) == NULL || strstr(error->message, says[1]) == NULL)
        fail_in_words(scene, rank, "does not show both calls");
    if (strstr(error->message, odd) == NULL)
        fail_in_words(scene, rank, "does not show the odd rank");
    if (scene->place->size > 2 && error->rank != scene->odd)
        fail_in_words(scene, rank, "does not blame the odd rank");
}

/* Every rank that takes part fails; but one that needs nothing of the odd one's may be done, and
 * its group knows. */
static void check(struct scene *scene)
{
    struct place *place = scene->place;
    int size = place->size, failed = 0;

    for (int r = 0; r < size; r++)
        (void)wait_for(place, scene->futures[r]);
    if (place->sim != NULL)
        sim_world_idle(place->sim);
    for (int r = 0; r < size; r++) {
        if (tc_future_test(scene->futures[r]) != TC_OK) {
            failed++;
            check_error(scene, r);
        } else if (place->is_full) {
            fail_in_words(scene, r, "is done, though all is checked");
        } else if (!is_rooted((int)scene->pair[r == scene->odd].kind) &&
                   !is_by_pair(scene->field, &scene->pair[0])) {
            fail_in_words(scene, r, "is done");
        } else if (place->sim == NULL) {
            place->is_told = true;
        } else if (tc_dist_health(group_of(place, r), NULL) != TC_ERR_MISMATCH) {
            fail_in_words(scene, r, "is done and never hears");
        }
    }
    if (failed == 0 && scene->pair[0].count * sizeof(float) > EAGER_BYTES)
        fail_in_words(scene, 0, "nobody has failed");
}

/* The other tag goes on, and this one is as good as new. */
static void check_rest(struct scene *scene)
{
    struct place *place = scene->place;
    int size = place->size;

    for (int r = 0; r < size; r++) {
        if (wait_for(place, scene->others[r]) != TC_OK)
            fail_in_words(scene, r, "the other tag has failed");
        assert_true(scene->values[r] == (float)(size * (size - 1) / 2));
        tc_future_release(scene->others[r]);
    }
    for (int r = 0; r < size; r++)
        scene->others[r] =
            tc_barrier_async(group_of(place, r), scene->is_ordered ? TC_TAG_ORDERED : TAG, NULL);
    for (int r = 0; r < size; r++) {
        if (wait_for(place, scene->others[r]) != TC_OK)
            fail_in_words(scene, r, tc_future_error(scene->others[r])->message);
        tc_future_release(scene->others[r]);
    }
}

void differ(struct scene *scene, int first)
{
    int size = scene->place->size;

    for (int i = 0; i < 2; i++) {
        scene->runs[i] = (struct coll_run){.what = scene->pair[i]};
        if (scene->pair[i].kind != (enum coll_kind)KIND_BARRIER)
            coll_prepare(&scene->runs[i], &scene->pair[i], size);
    }
    for (int i = 0; i < size; i++) {
        start_other(scene, (first + i) % size);
        start(scene, (first + i) % size);
    }
    check(scene);
    check_rest(scene);
    for (int r = 0; r < size; r++)
        tc_future_release(scene->futures[r]);
    for (int i = 0; i < 2; i++) {
        memset(scene->runs[i].future, 0, sizeof(scene->runs[i].future));
        if (scene->pair[i].kind != (enum coll_kind)KIND_BARRIER)
            coll_drop(&scene->runs[i]);
    }
}

bool set_scene(struct scene *scene, struct place *place, int kind, enum field field, bool is_large,
               bool is_ordered)
{
    *scene = (struct scene){.place = place, .field = field, .is_ordered = is_ordered};
    scene->pair[0] = (struct coll_case){.kind = (enum coll_kind)kind,
                                        .count = is_large ? LARGE : SMALL,
                                        .dtype = TC_DTYPE_F32,
                                        .op = TC_REDUCE_SUM,
                                        .numerics = TC_NUMERICS_CANONICAL,
                                        .tag = is_ordered ? TC_TAG_ORDERED : TAG};
    return make_pair(kind, field, scene->pair);
}

/* From rank 1 to rank 0: what is received differs in count or type.  The sender of a small message
 * may be done. */
static void exchange(struct place *place, size_t count, size_t received, tc_dtype_t dtype,
                     uint64_t tag, bool is_sender_first)
{
    static float from[LARGE + 1], to[LARGE + 1];
    tc_future *futures[2] = {NULL, NULL};

    for (int i = 0; i < 2; i++)
        if ((i == 0) == is_sender_first)
            futures[1] = tc_send_async(group_of(place, 1), tag, from, count, TC_DTYPE_F32, 0, NULL);
        else
            futures[0] = tc_recv_async(group_of(place, 0), tag, to, received, dtype, 1, NULL);
    for (int r = 0; r < 2; r++) {
        const tc_error *error;

        if (wait_for(place, futures[r]) == TC_OK && r == 1 && count == SMALL && !place->is_full)
            continue;
        error = tc_future_error(futures[r]);
        assert_non_null(error);
        assert_int_equal(error->status, TC_ERR_MISMATCH);
        assert_non_null(strstr(error->message, "rank 0 calls send/recv("));
        assert_non_null(strstr(error->message, "rank 1 calls send/recv("));
    }
    if (place->sim != NULL)
        sim_world_idle(place->sim);
    if (place->sim != NULL && tc_future_test(futures[1]) == TC_OK)
        assert_int_equal(tc_dist_health(group_of(place, 1), NULL), TC_ERR_MISMATCH);
    tc_future_release(futures[0]);
    tc_future_release(futures[1]);
}

void exchange_each(struct place *place)
{
    for (int i = 0; i < 16; i++) {
        size_t count = i & 1 ? LARGE : SMALL;
        uint64_t tag = i & 2 ? TC_TAG_ORDERED : TAG;

        if (i & 4)
            exchange(place, count, count + 1, TC_DTYPE_F32, tag, (i & 8) != 0);
        else
            exchange(place, count, count, TC_DTYPE_I32, tag, (i & 8) != 0);
    }
}

static void hush(tc_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

void hush_log(void)
{
    tc_log_set_sink(hush, NULL);
}
