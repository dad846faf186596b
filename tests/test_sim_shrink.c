/* test_sim_shrink.c - survivors agree on a new group while more of them end, in virtual time. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/alloc.h"
#include "core/base.h"
#include "group/group.h"
#include "sim/world_sim.h"
#include "support/reduce_oracle.h"

enum { RANKS_MAX = 9, TIMEOUT_MS = 1000, ROUNDS_MAX = 8, FUTURES_MAX = 4 * ROUNDS_MAX };

/* What one rank of the world has in its hands. */
struct hand {
    struct scene *scene;
    uint32_t rank;
    tc_dist_ctx *group, *next; /* now; what shrinking it gives */
    tc_dist_ctx *old;          /* which was shrunk */
    tc_future *future;
    uint64_t bits, of_all;
    bool closes; /* the old group, as soon as it has the new one */
};

struct scene {
    struct sim_world *world;
    uint32_t size;
    uint64_t live, random;
    struct hand hands[RANKS_MAX];
    tc_future *old[RANKS_MAX * FUTURES_MAX];
    size_t old_count;
    char what[160]; /* for the message of a failure */
};

static void open_scene(struct scene *scene, uint32_t size, double jitter, uint64_t seed)
{
    struct sim_world_config config;

    memset(scene, 0, sizeof(*scene));
    scene->live = tci_alloc_live();
    scene->random = seed + 1;
    scene->size = size;
    sim_world_config_default(&config);
    config.timeout_ms = TIMEOUT_MS;
    config.has_groups = true;
    config.net.jitter = jitter;
    config.net.seed = seed + 1;
    scene->world = sim_world_new(size, &config);
    assert_non_null(scene->world);
    for (uint32_t r = 0; r < size; r++)
        scene->hands[r] =
            (struct hand){.scene = scene, .rank = r, .group = sim_group(scene->world, r)};
}

static bool is_dead(const struct scene *scene, uint32_t rank)
{
    return scene->world->execs[rank].is_dead;
}

static void forget(struct scene *scene, struct hand *hand)
{
    if (hand->future == NULL)
        return;
    assert_true(scene->old_count < TCI_LEN(scene->old));
    scene->old[scene->old_count++] = hand->future;
    hand->future = NULL;
}

static void close_scene(struct scene *scene)
{
    for (uint32_t r = 0; r < scene->size; r++) {
        forget(scene, &scene->hands[r]);
        sim_net_kill_at_notice(scene->world->net, r, 0);
    }
    sim_world_free(scene->world);
    for (size_t f = 0; f < scene->old_count; f++) {
        assert_int_not_equal(tc_future_test(scene->old[f]), TC_PENDING);
        tc_future_release(scene->old[f]);
    }
    assert_int_equal(tci_alloc_live(), scene->live);
}

static void pass_ms(struct scene *scene, uint64_t ms)
{
    uint64_t end = scene->world->clock.now_ns + ms * TCI_NS_PER_MS;

    while (sim_clock_step(&scene->world->clock, end))
        ;
    if (scene->world->clock.now_ns < end)
        scene->world->clock.now_ns = end;
}

static void have_shrunk(tc_future *future, void *arg)
{
    struct hand *hand = arg;

    if (hand->closes && tc_future_test(future) == TC_OK) {
        assert_int_equal(tc_dist_close(hand->old), TC_OK);
        if (hand->group == hand->old)
            hand->group = NULL;
    }
}

static void close_hand(void *arg)
{
    struct hand *hand = arg;

    assert_int_equal(tc_dist_close(hand->group), TC_OK);
    hand->group = NULL;
}

static void start_shrink(void *arg)
{
    struct hand *hand = arg;

    hand->next = NULL;
    hand->old = hand->group;
    hand->future = tc_dist_shrink_async(hand->group, &hand->next);
    assert_int_equal(tc_future_then(hand->future, have_shrunk, hand), TC_OK);
}

/* Every rank that lives calls it within `spread_ns`. */
static void call_all(struct scene *scene, uint64_t spread_ns)
{
    for (uint32_t r = 0; r < scene->size; r++)
        if (!is_dead(scene, r) && scene->hands[r].group != NULL)
            sim_world_at(scene->world, r,
                         scene->world->clock.now_ns + 1 +
                             (spread_ns > 0 ? sim_random(&scene->random) % spread_ns : 0),
                         start_shrink, &scene->hands[r]);
}

static bool is_pending(const struct scene *scene)
{
    for (uint32_t r = 0; r < scene->size; r++)
        if (!is_dead(scene, r) && scene->hands[r].future != NULL &&
            tc_future_test(scene->hands[r].future) == TC_PENDING)
            return true;
    return false;
}

static void settle_all(struct scene *scene, const char *what)
{
    while (is_pending(scene))
        if (!sim_clock_step(&scene->world->clock, TCI_NEVER))
            fail_msg("%s: %s hangs", scene->what, what);
}

/* ---- What must hold -------------------------------------------------------------------------- */

/* All survivors have the same new group; gives its size. */
static uint32_t check_same(struct scene *scene)
{
    uint64_t number = 0;
    int size = 0, before = -1;

    for (uint32_t r = 0; r < scene->size; r++) {
        struct hand *hand = &scene->hands[r];

        if (is_dead(scene, r) || hand->future == NULL)
            continue;
        if (tc_future_test(hand->future) != TC_OK)
            fail_msg("%s: rank %u: %s", scene->what, r, tc_future_error(hand->future)->message);
        assert_non_null(hand->next);
        if (number == 0) {
            number = hand->next->comm.group;
            size = tc_dist_world_size(hand->next);
        }
        if (hand->next->comm.group != number || tc_dist_world_size(hand->next) != size ||
            tc_dist_rank(hand->next) <= before)
            fail_msg("%s: rank %u is %d of %d in group %" PRIx64 ", not of %d in %" PRIx64,
                     scene->what, r, tc_dist_rank(hand->next), tc_dist_world_size(hand->next),
                     hand->next->comm.group, size, number);
        before = tc_dist_rank(hand->next);
    }
    return (uint32_t)size;
}

static void take_over(struct scene *scene)
{
    for (uint32_t r = 0; r < scene->size; r++) {
        struct hand *hand = &scene->hands[r];

        if (hand->future != NULL && tc_future_test(hand->future) == TC_OK && !is_dead(scene, r))
            hand->group = hand->next;
        forget(scene, hand);
    }
}

/* Whether all survivors can be used together, and nobody else is a member. */
static bool can_use(struct scene *scene)
{
    uint64_t living = 0;
    bool is_well = true;

    for (uint32_t r = 0; r < scene->size; r++) {
        struct hand *hand = &scene->hands[r];

        if (is_dead(scene, r))
            continue;
        living |= UINT64_C(1) << r;
        hand->bits = UINT64_C(1) << r;
        hand->future = tc_allreduce_async(hand->group, 5, &hand->bits, &hand->of_all, 1,
                                          TC_DTYPE_U64, TC_REDUCE_BOR, NULL);
    }
    settle_all(scene, "a sum");
    for (uint32_t r = 0; r < scene->size; r++) {
        struct hand *hand = &scene->hands[r];

        if (!is_dead(scene, r) && tc_future_test(hand->future) == TC_OK)
            assert_int_equal(hand->of_all, living);
        else if (!is_dead(scene, r))
            is_well = false;
        forget(scene, hand);
    }
    return is_well;
}

/* Shrink until the survivors stand together; gives the rounds. */
static int shrink_until_well(struct scene *scene, uint64_t spread_ns)
{
    int rounds = 0;

    do {
        if (rounds++ == ROUNDS_MAX)
            fail_msg("%s: no group is whole after %d rounds", scene->what, ROUNDS_MAX);
        call_all(scene, spread_ns);
        while (sim_clock_step(&scene->world->clock, scene->world->clock.now_ns + spread_ns + 2))
            ;
        settle_all(scene, "a shrink");
        (void)check_same(scene);
        take_over(scene);
        pass_ms(scene, 50);
    } while (!can_use(scene));
    return rounds;
}

/* ---- One more ends at every step ------------------------------------------------------------- */

/* True when the second one did end: there is another step to try. */
static bool dies_at(uint32_t size, uint32_t first, uint32_t second, uint32_t step, bool closes)
{
    struct scene scene;
    bool has_died;

    open_scene(&scene, size, 0, step);
    snprintf(scene.what, sizeof(scene.what), "%u ranks, %u dead, %u dies at its notice %u%s", size,
             first, second, step, closes ? ", old groups closed at once" : "");
    for (uint32_t r = 0; r < size; r++)
        scene.hands[r].closes = closes;
    sim_net_kill(scene.world->net, first);
    pass_ms(&scene, 200);
    sim_net_kill_at_notice(scene.world->net, second, step);
    call_all(&scene, 0);
    pass_ms(&scene, 1);
    settle_all(&scene, "a shrink");
    pass_ms(&scene, 50);
    has_died = is_dead(&scene, second);
    (void)check_same(&scene);
    sim_net_kill_at_notice(scene.world->net, second, 0);
    take_over(&scene);
    if (!can_use(&scene))
        shrink_until_well(&scene, 0);
    close_scene(&scene);
    return has_died;
}

static void survivors_agree_whenever_one_more_ends(void **state)
{
    uint32_t size_max = oracle_effort() == 0 ? 4 : 6;
    unsigned cases = 0;

    (void)state;
    for (uint32_t size = 3; size <= size_max; size++)
        for (uint32_t first = 0; first < size; first++)
            for (uint32_t second = 0; second < size; second++)
                for (uint32_t step = 1; first != second; step++) {
                    cases += 2;
                    (void)dies_at(size, first, second, step, true);
                    if (!dies_at(size, first, second, step, false))
                        break;
                }
    print_message("%u cases\n", cases);
}

/* ---- Storms ---------------------------------------------------------------------------------- */

static uint64_t below(struct scene *scene, uint64_t end)
{
    return sim_random(&scene->random) % end;
}

/* Ranks end at any time, callers come at different times, messages take theirs. */
static void storm(uint64_t seed, int *rounds)
{
    struct scene scene;
    uint32_t size = 2 + (uint32_t)(seed % (RANKS_MAX - 1)), deaths;
    uint64_t spread_ns;

    open_scene(&scene, size, 3, seed);
    snprintf(scene.what, sizeof(scene.what), "seed %" PRIu64 ", %u ranks", seed, size);
    deaths = (uint32_t)below(&scene, size);
    spread_ns = below(&scene, 3) * TCI_NS_PER_MS;
    for (uint32_t d = 0; d < deaths; d++)
        sim_world_kill_at(scene.world, (uint32_t)below(&scene, size),
                          scene.world->clock.now_ns + 1 + below(&scene, 400 * TCI_NS_PER_US));
    for (uint32_t r = 0; r < size; r++) {
        scene.hands[r].closes = below(&scene, 2) == 0;
        if (below(&scene, 4) == 0)
            sim_net_kill_at_notice(scene.world->net, r, 1 + (uint32_t)below(&scene, 12));
    }
    sim_net_kill_at_notice(scene.world->net, (uint32_t)below(&scene, size), 0);
    *rounds += shrink_until_well(&scene, spread_ns);
    close_scene(&scene);
}

static void storms_of_deaths_leave_one_group(void **state)
{
    int seeds = oracle_effort() == 0 ? 300 : oracle_effort() == 1 ? 2000 : 100000, rounds = 0;

    (void)state;
    for (int seed = 0; seed < seeds; seed++)
        storm((uint64_t)seed, &rounds);
    print_message("%d storms, %d rounds\n", seeds, rounds);
    assert_true(rounds > seeds); /* some groups are broken from the beginning */
}

/* ---- Who comes late, while the others end ---------------------------------------------------- */

/* One group at most, whose living members all stand in it; whoever is left out is told.  Gives the
 * ranks that stand. */
static uint32_t check_undivided(struct scene *scene)
{
    uint64_t number = 0;
    uint32_t standing = 0;

    for (uint32_t r = 0; r < scene->size; r++) {
        struct hand *hand = &scene->hands[r];
        const tc_error *error = hand->future == NULL ? NULL : tc_future_error(hand->future);

        if (is_dead(scene, r) || hand->future == NULL)
            continue;
        if (error != NULL && (error->status != TC_ERR_PEER_LOST || error->rank != (int)r))
            fail_msg("%s: rank %u: %s", scene->what, r, error->message);
        if (error != NULL)
            continue;
        if (standing++ == 0)
            number = hand->next->comm.group;
        if (hand->next->comm.group != number)
            fail_msg("%s: rank %u is in group %" PRIx64 " of %d, another in %" PRIx64, scene->what,
                     r, hand->next->comm.group, tc_dist_world_size(hand->next), number);
    }
    return standing;
}

/* The others leave one out, which then comes; meanwhile another one ends, or two. */
static void leave_out(uint64_t seed)
{
    struct scene scene;
    uint32_t size = 3 + (uint32_t)(seed % 4), late, other, living = 0;
    uint64_t called_ns;

    open_scene(&scene, size, 3, seed);
    late = (uint32_t)below(&scene, size);
    snprintf(scene.what, sizeof(scene.what), "seed %" PRIu64 ", %u ranks, %u late", seed, size,
             late);
    for (uint32_t r = 0; r < size; r++) {
        scene.hands[r].closes = below(&scene, 2) == 0;
        if (r != late)
            start_shrink(&scene.hands[r]);
    }
    pass_ms(&scene, TIMEOUT_MS - 20);
    for (uint32_t deaths = 1 + (uint32_t)below(&scene, 2); deaths > 0; deaths--) {
        other = (late + 1 + (uint32_t)below(&scene, size - 1)) % size;
        sim_net_kill_at_notice(scene.world->net, other, 1 + (uint32_t)below(&scene, 4 * size));
    }
    called_ns = scene.world->clock.now_ns + 1 + below(&scene, 60 * TCI_NS_PER_MS);
    sim_world_at(scene.world, late, called_ns, start_shrink, &scene.hands[late]);
    pass_ms(&scene, 100);
    settle_all(&scene, "a shrink");
    for (uint32_t r = 0; r < size; r++) {
        sim_net_kill_at_notice(scene.world->net, r, 0);
        living += r != late && !is_dead(&scene, r);
    }
    if (check_undivided(&scene) == 0 && living > 0)
        fail_msg("%s: nobody stands in a new group", scene.what);
    close_scene(&scene);
}

static void who_is_left_out_divides_nobody(void **state)
{
    uint64_t seeds = oracle_effort() == 0 ? 300 : oracle_effort() == 1 ? 4000 : 100000;

    (void)state;
    for (uint64_t seed = 0; seed < seeds; seed++)
        leave_out(seed);
}

/* ---- Who does not come ----------------------------------------------------------------------- */

static void a_whole_group_gives_an_equal_one(void **state)
{
    struct scene scene;

    (void)state;
    for (uint32_t size = 1; size <= RANKS_MAX; size++) {
        open_scene(&scene, size, 0, 0);
        snprintf(scene.what, sizeof(scene.what), "%u whole ranks", size);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(shrink_until_well(&scene, 0), 1);
            assert_int_equal(tc_dist_world_size(scene.hands[0].group), size);
        }
        assert_int_equal(tc_dist_health(sim_group(scene.world, 0), NULL), TC_OK);
        close_scene(&scene);
    }
}

static void whoever_does_not_come_is_left_out_and_told(void **state)
{
    struct scene scene;

    (void)state;
    for (uint32_t absent = 0; absent < 5; absent++) {
        open_scene(&scene, 5, 0, 0);
        snprintf(scene.what, sizeof(scene.what), "rank %u comes late", absent);
        for (uint32_t r = 0; r < 5; r++)
            if (r != absent)
                start_shrink(&scene.hands[r]);
        settle_all(&scene, "a shrink");
        assert_int_equal(check_same(&scene), 4);
        assert_true(scene.world->clock.now_ns <= (2 * TIMEOUT_MS + 1000) * TCI_NS_PER_MS);
        start_shrink(&scene.hands[absent]);
        settle_all(&scene, "a late shrink");
        assert_int_equal(tc_future_test(scene.hands[absent].future), TC_ERR_PEER_LOST);
        assert_int_equal(tc_future_error(scene.hands[absent].future)->rank, absent);
        close_scene(&scene);
    }
}

static void whoever_leaves_the_group_is_not_waited_for(void **state)
{
    struct scene scene;
    tc_dist_ctx *subs[4];
    tc_future *splits[4];

    (void)state;
    for (uint32_t quits = 0; quits < 4; quits++) {
        open_scene(&scene, 4, 0, 0);
        snprintf(scene.what, sizeof(scene.what), "rank %u quits", quits);
        for (uint32_t r = 0; r < 4; r++)
            splits[r] = tc_dist_split_async(scene.hands[r].group, 0, 0, &subs[r]);
        assert_true(sim_world_run(scene.world, splits, 4, TCI_NEVER));
        for (uint32_t r = 0; r < 4; r++) {
            tc_future_release(splits[r]);
            scene.hands[r].group = subs[r]; /* the links stay when it is closed */
        }
        for (uint32_t r = 0; r < 4; r++)
            if (r != quits)
                start_shrink(&scene.hands[r]);
        if (quits % 2 == 0)
            pass_ms(&scene, 5);
        sim_world_at(scene.world, quits, scene.world->clock.now_ns + 1, close_hand,
                     &scene.hands[quits]);
        settle_all(&scene, "a shrink");
        assert_int_equal(check_same(&scene), 3);
        assert_true(scene.world->clock.now_ns < TIMEOUT_MS / 2 * TCI_NS_PER_MS);
        close_scene(&scene);
    }
}

static void of_two_that_cannot_meet_the_lower_one_stays(void **state)
{
    struct scene scene;

    (void)state;
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = a + 1; b < 4; b++) {
            open_scene(&scene, 4, 0, 0);
            snprintf(scene.what, sizeof(scene.what), "link %u-%u cut", a, b);
            sim_net_cut(scene.world->net, a, b);
            pass_ms(&scene, 100);
            call_all(&scene, 0);
            pass_ms(&scene, 1);
            settle_all(&scene, "a shrink");
            for (uint32_t r = 0; r < 4; r++) {
                if (r == b) {
                    assert_int_not_equal(tc_future_test(scene.hands[r].future), TC_OK);
                    forget(&scene, &scene.hands[r]);
                }
            }
            assert_int_equal(check_same(&scene), 3);
            close_scene(&scene);
        }
}

static void ends_by_close_and_cancel_and_refuses_a_second(void **state)
{
    struct scene scene;
    tc_future *second;
    tc_dist_ctx *other = NULL;

    (void)state;
    open_scene(&scene, 3, 0, 0);
    start_shrink(&scene.hands[1]);
    second = tc_dist_shrink_async(scene.hands[1].group, &other);
    assert_true(sim_world_run(scene.world, &second, 1, TCI_NEVER));
    assert_int_equal(tc_future_test(second), TC_ERR_BUSY);
    tc_future_release(second);
    tc_future_cancel(scene.hands[1].future);
    settle_all(&scene, "a cancelled shrink");
    assert_int_equal(tc_future_test(scene.hands[1].future), TC_ERR_CANCELLED);
    forget(&scene, &scene.hands[1]);
    start_shrink(&scene.hands[2]);
    pass_ms(&scene, 1);
    sim_world_at(scene.world, 2, scene.world->clock.now_ns + 1, close_hand, &scene.hands[2]);
    settle_all(&scene, "a closed shrink");
    assert_int_equal(tc_future_test(scene.hands[2].future), TC_ERR_CLOSED);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storms_of_deaths_leave_one_group),
        cmocka_unit_test(who_is_left_out_divides_nobody),
        cmocka_unit_test(a_whole_group_gives_an_equal_one),
        cmocka_unit_test(whoever_does_not_come_is_left_out_and_told),
        cmocka_unit_test(whoever_leaves_the_group_is_not_waited_for),
        cmocka_unit_test(of_two_that_cannot_meet_the_lower_one_stays),
        cmocka_unit_test(ends_by_close_and_cancel_and_refuses_a_second),
        cmocka_unit_test(survivors_agree_whenever_one_more_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
