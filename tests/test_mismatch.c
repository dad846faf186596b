/* test_mismatch.c - calls of one tag that differ in one field: every rank is told. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/base.h"
#include "sim/world_sim.h"
#include "support/coll_case.h"

enum { SMALL = 10, LARGE = 9000, EAGER_BYTES = 8192, OTHER_TAG = 5000, TAG = 6 };

/* Where the ranks live: simulated, or in this process over TCP. */
struct place {
    int size;
    struct sim_world *sim; /* NULL: TCP */
    struct world tcp;
    bool is_told; /* TCP: a rank was done before it heard */
};

static tc_dist_ctx *group_of(struct place *place, int rank)
{
    return place->sim != NULL ? sim_group(place->sim, (uint32_t)rank) : place->tcp.group[rank];
}

static tc_status_t wait_for(struct place *place, tc_future *future)
{
    if (place->sim == NULL)
        return world_wait(&place->tcp, future);
    assert_true(sim_world_run(place->sim, &future, 1, TCI_NEVER));
    return tc_future_test(future);
}

/* ---- The table ------------------------------------------------------------------------------ */

/* COLL_KINDS stands for the barrier. */
enum { KIND_BARRIER = COLL_KINDS, KINDS };

enum field { BY_KIND, BY_DTYPE, BY_OP, BY_COUNT, BY_ROOT, BY_ALGORITHM, BY_NUMERICS, FIELDS };

static bool is_rooted(int kind)
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

struct scene {
    struct place *place;
    enum field field;
    struct coll_case pair[2];
    int odd;
    bool is_ordered;
    struct coll_run runs[2]; /* of the most, of the odd one */
    tc_future *futures[WORLD_MAX], *others[WORLD_MAX];
    float values[WORLD_MAX];
};

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
    /* In real time a rank may not have entered yet when it is asked. */
    if (scene->place->sim != NULL && scene->place->size > 2 && error->rank != scene->odd)
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

/* `first` begins: whoever comes last meets what the others have said. */
static void differ(struct scene *scene, int first)
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

/* Fill the scene for a case; false: there is no such case. */
static bool set_scene(struct scene *scene, struct place *place, int kind, enum field field,
                      bool is_large, bool is_ordered)
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

static const int sizes[] = {2, 3, 5};

static void in_the_simulator(int kind, enum field field, bool is_large, bool is_ordered)
{
    struct sim_world_config config;
    struct scene scene;

    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    for (size_t s = 0; s < TCI_LEN(sizes); s++)
        for (int odd = 0; odd < sizes[s]; odd++) {
            struct place place = {.size = sizes[s]};
            uint64_t live = tci_alloc_live();

            if (!set_scene(&scene, &place, kind, field, is_large, is_ordered))
                return;
            config.net.jitter = odd * 3;
            place.sim = sim_world_new((uint32_t)sizes[s], &config);
            scene.odd = odd;
            differ(&scene, 0);
            /* Nobody waited for a deadline. */
            assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
            sim_world_free(place.sim);
            assert_int_equal(tci_alloc_live(), live);
        }
}

static void one_field_differs_in_the_simulator(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int field = 0; field < FIELDS; field++)
            for (int i = 0; i < 4; i++)
                in_the_simulator(kind, (enum field)field, i % 2 == 1, i / 2 == 1);
}

/* ---- Send and receive ------------------------------------------------------------------------ */

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

        if (wait_for(place, futures[r]) == TC_OK && r == 1 && count == SMALL)
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

static void exchange_each(struct place *place)
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

static void a_receive_differs_from_its_send(void **state)
{
    struct place place = {.size = 3};
    struct sim_world_config config;
    uint64_t live = tci_alloc_live();
    tc_config tcp;

    (void)state;
    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    place.sim = sim_world_new(3, &config);
    exchange_each(&place);
    assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
    sim_world_free(place.sim);
    place.sim = NULL;
    tc_config_default(&tcp);
    tcp.eager_bytes = EAGER_BYTES;
    world_open(&place.tcp, 3, &tcp);
    exchange_each(&place);
    world_close(&place.tcp);
    assert_int_equal(tci_alloc_live(), live);
}

/* Both are roots, and done when they have sent: whom its future did not tell is told at the end. */
static void roots_that_only_send_are_told_by_finalize(void **state)
{
    struct place place = {.size = 2};
    tc_future *futures[2], *left[2];
    float value = 0;

    (void)state;
    world_open(&place.tcp, 2, NULL);
    for (int r = 0; r < 2; r++)
        futures[r] = tc_broadcast_async(place.tcp.group[r], TC_TAG_ORDERED, &value, 1, TC_DTYPE_F32,
                                        r, NULL);
    for (int r = 0; r < 2; r++) {
        (void)wait_for(&place, futures[r]);
        left[r] = tc_dist_finalize_async(place.tcp.group[r]);
        place.tcp.group[r] = NULL;
    }
    for (int r = 0; r < 2; r++) {
        bool is_done = tc_future_test(futures[r]) == TC_OK;
        tc_future *told = is_done ? left[r] : futures[r];

        assert_int_equal(wait_for(&place, left[r]), is_done ? TC_ERR_MISMATCH : TC_OK);
        assert_int_equal(tc_future_test(told), TC_ERR_MISMATCH);
        assert_non_null(strstr(tc_future_error(told)->message, "rank 0 calls broadcast("));
        assert_non_null(strstr(tc_future_error(told)->message, "rank 1 calls broadcast("));
    }
    for (int r = 0; r < 2; r++) {
        tc_future_release(futures[r]);
        tc_future_release(left[r]);
    }
    world_close(&place.tcp);
}

/* ---- Many ranks ------------------------------------------------------------------------------ */

/* The news is told once to each rank, not by each to each. */
static void one_of_many_ranks_is_found_and_named(void **state)
{
    static const int kinds[] = {COLL_ALLREDUCE, COLL_BROADCAST, COLL_GATHER, COLL_REDUCE};
    struct place place = {.size = WORLD_MAX};
    struct scene scene;

    (void)state;
    for (size_t k = 0; k < TCI_LEN(kinds); k++)
        for (int i = 0; i < 4; i++) {
            enum field field = is_rooted(kinds[k]) ? BY_ROOT : BY_OP;

            assert_true(set_scene(&scene, &place, kinds[k], field, i % 2 == 1, i / 2 == 1));
            scene.odd = 37;
            place.sim = sim_world_new(WORLD_MAX, NULL);
            differ(&scene, 0);
            assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
            sim_world_free(place.sim);
        }
}

/* ---- Algorithms ------------------------------------------------------------------------------ */

static const struct {
    enum tci_coll coll;
    enum coll_kind kind;
} kinds_of_plans[] = {
    {TCI_COLL_ALLREDUCE, COLL_ALLREDUCE}, {TCI_COLL_BROADCAST, COLL_BROADCAST},
    {TCI_COLL_ALLGATHER, COLL_ALLGATHER}, {TCI_COLL_REDUCE_SCATTER, COLL_REDUCE_SCATTER},
    {TCI_COLL_REDUCE, COLL_REDUCE},       {TCI_COLL_GATHER, COLL_GATHER},
    {TCI_COLL_SCATTER, COLL_SCATTER},     {TCI_COLL_ALLTOALL, COLL_ALLTOALL}};

/* Two plans of one collective. */
static void differ_in_plan(enum coll_kind kind, const struct tci_plan *one,
                           const struct tci_plan *other, bool is_large)
{
    struct sim_world_config config;
    struct scene scene;

    sim_world_config_default(&config);
    config.net.eager_max = EAGER_BYTES;
    for (size_t s = 0; s < TCI_LEN(sizes); s++) {
        struct place place = {.size = sizes[s]};

        (void)set_scene(&scene, &place, (int)kind, BY_DTYPE, is_large, false);
        scene.field = BY_ALGORITHM;
        scene.pair[1] = scene.pair[0];
        scene.pair[0].numerics = scene.pair[1].numerics = TC_NUMERICS_FAST;
        scene.pair[0].algorithm = one->name;
        scene.pair[1].algorithm = other->name;
        scene.odd = (int)(one->id + other->id) % sizes[s];
        place.sim = sim_world_new((uint32_t)sizes[s], &config);
        differ(&scene, 0);
        assert_true(place.sim->clock.now_ns < 2000 * TCI_NS_PER_MS);
        sim_world_free(place.sim);
    }
}

static void every_two_algorithms_differ(void **state)
{
    (void)state;
    for (size_t k = 0; k < TCI_LEN(kinds_of_plans); k++)
        for (const struct tci_plan *const *one = tci_plans; *one != NULL; one++)
            for (const struct tci_plan *const *other = tci_plans; *other != NULL; other++)
                for (int i = 0; i < 2 && one != other; i++)
                    if ((*one)->coll == kinds_of_plans[k].coll &&
                        (*other)->coll == kinds_of_plans[k].coll)
                        differ_in_plan(kinds_of_plans[k].kind, *one, *other, i == 1);
}

/* One group for all cases of a size: what one leaves behind must not disturb the next. */
static void one_field_differs_over_tcp(void **state)
{
    int every = test_effort() == 0 ? 7 : test_effort() == 1 ? 2 : 1, at = 0;
    struct scene scene;
    tc_config config;

    (void)state;
    tc_config_default(&config);
    config.eager_bytes = EAGER_BYTES;
    for (size_t s = 0; s < TCI_LEN(sizes); s++) {
        struct place place = {.size = sizes[s]};
        int told = 0;

        world_open(&place.tcp, sizes[s], &config);
        for (int kind = 0; kind < KINDS; kind++)
            for (int field = 0; field < FIELDS; field++)
                for (int i = 0; i < 4; i++) {
                    if (at++ % every != 0 ||
                        !set_scene(&scene, &place, kind, (enum field)field, i % 2 == 1, i / 2 == 1))
                        continue;
                    scene.odd = at % sizes[s];
                    differ(&scene, at / 2 % sizes[s]);
                }
        for (int r = 0; r < sizes[s]; r++)
            told += tc_dist_health(place.tcp.group[r], NULL) == TC_ERR_MISMATCH;
        assert_true(!place.is_told || told > 0);
        world_close(&place.tcp);
    }
}

/* What the log is to say is tested elsewhere; here it would say it thousands of times. */
static void hush(tc_log_level_t level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_field_differs_in_the_simulator),
        cmocka_unit_test(every_two_algorithms_differ),
        cmocka_unit_test(one_field_differs_over_tcp),
        cmocka_unit_test(a_receive_differs_from_its_send),
        cmocka_unit_test(roots_that_only_send_are_told_by_finalize),
        cmocka_unit_test(one_of_many_ranks_is_found_and_named),
    };

    tc_log_set_sink(hush, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
