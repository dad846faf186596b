/* test_sim_reasons.c - every kind of fault at many moments: all name one rank, for one reason. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, single */
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
#include "sim/world_sim.h"
#include "support/world.h"

enum { RANKS_MAX = 8, COUNT = 20000, MORE = 200000, TIMEOUT_MS = 30000 };

/* A fault of a rank, or of it and another; at a time, with or without work. */
struct fault {
    uint32_t size, rank, other;
    uint64_t at_ns;
    bool is_idle; /* nothing runs when it happens; one call follows */
    size_t count;
};

struct kind {
    const char *name;
    tc_status_t status;
    tc_reason_t reason;
    uint32_t size_min; /* with fewer nobody can tell */
    bool is_of_pair;
    bool is_mourned; /* the rank at fault is in no state to say anything */
    bool is_busy;    /* only while operations run */
    bool is_anyone;  /* all are as much at fault; but all name the same one */
    int timeout_ms;  /* 0: the usual one */
    void (*happen)(struct sim_world *world, const struct fault *fault);
};

static void be_killed(struct sim_world *world, const struct fault *fault)
{
    sim_world_kill_at(world, fault->rank, fault->at_ns);
}

static void be_silent(struct sim_world *world, const struct fault *fault)
{
    for (uint32_t r = 0; r < fault->size; r++)
        if (r != fault->rank) {
            sim_world_break_at(world, fault->rank, r, fault->at_ns, TCI_NEVER);
            sim_world_break_at(world, r, fault->rank, fault->at_ns, TCI_NEVER);
        }
}

static void be_deaf(struct sim_world *world, const struct fault *fault)
{
    for (uint32_t r = 0; r < fault->size; r++)
        if (r != fault->rank)
            sim_world_break_at(world, r, fault->rank, fault->at_ns, TCI_NEVER);
}

static void lose_a_path(struct sim_world *world, const struct fault *fault)
{
    sim_world_break_at(world, fault->rank, fault->other, fault->at_ns, TCI_NEVER);
    sim_world_break_at(world, fault->other, fault->rank, fault->at_ns, TCI_NEVER);
}

static void lose_one_way(struct sim_world *world, const struct fault *fault)
{
    sim_world_break_at(world, fault->rank, fault->other, fault->at_ns, TCI_NEVER);
}

static void stand_still(struct sim_world *world, const struct fault *fault)
{
    sim_world_stall_at(world, fault->rank, fault->at_ns, 100000 * TCI_NS_PER_MS);
}

static void do_nothing(struct sim_world *world, const struct fault *fault)
{
    (void)world, (void)fault;
}

/* By the silence of a path, and by a deadline that comes sooner. */
static const struct kind kinds[] = {
    {.name = "exited",
     .status = TC_ERR_PEER_LOST,
     .reason = TC_REASON_EXITED,
     .size_min = 2,
     .is_mourned = true,
     .happen = be_killed},
    {.name = "machine silent",
     .status = TC_ERR_PEER_LOST,
     .reason = TC_REASON_MACHINE_SILENT,
     .size_min = 3,
     .happen = be_silent},
    {.name = "  at a deadline",
     .status = TC_ERR_PEER_LOST,
     .reason = TC_REASON_MACHINE_SILENT,
     .size_min = 3,
     .timeout_ms = 2000,
     .is_busy = true,
     .happen = be_silent},
    {.name = "machine deaf",
     .status = TC_ERR_PEER_LOST,
     .reason = TC_REASON_MACHINE_SILENT,
     .size_min = 3,
     .happen = be_deaf},
    {.name = "path dead",
     .status = TC_ERR_PEER_LOST,
     .reason = TC_REASON_LINK_DEAD,
     .size_min = 3,
     .is_of_pair = true,
     .happen = lose_a_path},
    {.name = "  one way",
     .status = TC_ERR_PEER_LOST,
     .reason = TC_REASON_LINK_DEAD,
     .size_min = 3,
     .is_of_pair = true,
     .happen = lose_one_way},
    {.name = "  at a deadline",
     .status = TC_ERR_PEER_LOST,
     .reason = TC_REASON_LINK_DEAD,
     .size_min = 3,
     .timeout_ms = 2000,
     .is_of_pair = true,
     .is_busy = true,
     .happen = lose_a_path},
    {.name = "loop stalled",
     .status = TC_ERR_TIMEOUT,
     .reason = TC_REASON_LOOP_STALLED,
     .size_min = 2,
     .is_mourned = true,
     .is_busy = true,
     .happen = stand_still},
    {.name = "not entered",
     .status = TC_ERR_TIMEOUT,
     .reason = TC_REASON_NOT_ENTERED,
     .size_min = 2,
     .is_mourned = true,
     .is_busy = true,
     .happen = do_nothing},
    {.name = "slow",
     .status = TC_ERR_TIMEOUT,
     .reason = TC_REASON_SLOW,
     .size_min = 2,
     .timeout_ms = 2000,
     .is_anyone = true,
     .is_busy = true,
     .happen = do_nothing},
};

/* ---- One run -------------------------------------------------------------------------------- */

struct run {
    struct sim_world *world;
    tc_future *futures[RANKS_MAX];
    float *data;
};

static void enter(struct run *run, const struct fault *fault, uint64_t tag, int absent)
{
    for (uint32_t r = 0; r < fault->size; r++) {
        float *data = run->data + (size_t)r * MORE;

        tc_future_release(run->futures[r]);
        run->futures[r] = NULL;
        if ((int)r != absent)
            run->futures[r] = tc_allreduce_async(sim_group(run->world, r), tag, data, data,
                                                 fault->count, TC_DTYPE_F32, TC_REDUCE_SUM, NULL);
    }
}

/* What became of it: true when all say the same, and what they should. */
struct verdict {
    bool is_same, is_right;
    char text[400];
};

static struct verdict compare(struct run *run, const struct kind *kind, const struct fault *fault)
{
    int expected = (int)(kind->is_of_pair ? tci_max(fault->rank, fault->other) : fault->rank);
    struct verdict verdict = {.is_same = true, .is_right = true};

    for (uint32_t r = 0; r < fault->size; r++) {
        const tc_error *error;
        tc_status_t status;

        if (kind->is_mourned && r == fault->rank)
            continue;
        status = tc_future_test(run->futures[r]);
        if (kind->status == TC_ERR_TIMEOUT && status == TC_OK)
            continue; /* it had all that it needed before */
        error = tc_future_error(run->futures[r]);
        if (kind->is_anyone && error != NULL && r == 0)
            expected = error->rank;
        if (error == NULL || error->rank != expected || status != kind->status)
            verdict.is_same = false;
        if (error == NULL || tc_error_reason(error) != kind->reason)
            verdict.is_right = false;
        if (verdict.text[0] == 0 && (!verdict.is_same || !verdict.is_right))
            snprintf(verdict.text, sizeof(verdict.text), "rank %u: %s, %s: %s", r,
                     tc_status_string(status),
                     error == NULL ? "-" : tc_reason_string(tc_error_reason(error)),
                     error == NULL ? "-" : error->message);
    }
    return verdict;
}

static struct verdict happen(const struct kind *kind, const struct fault *fault, uint64_t seed)
{
    struct run run = {.data = calloc((size_t)RANKS_MAX * MORE, sizeof(float))};
    int timeout_ms = kind->timeout_ms != 0 ? kind->timeout_ms : TIMEOUT_MS;
    uint64_t live = tci_alloc_live(), end;
    struct sim_world_config config;
    struct verdict verdict;

    assert_non_null(run.data);
    sim_world_config_default(&config);
    config.timeout_ms = timeout_ms;
    if (kind->is_anyone) { /* more than fits in the time, in pieces that let notices through */
        config.net.byte_ns = 5e3 / (fault->size - 1);
        config.segment_bytes = 4096;
    }
    config.net.seed = seed;
    config.net.is_sparse = true;
    config.net.jitter = 1;
    run.world = sim_world_new(fault->size, &config);
    kind->happen(run.world, fault);
    if (fault->is_idle) {
        while (sim_clock_step(&run.world->clock, fault->at_ns + 20000 * TCI_NS_PER_MS))
            ;
    }
    /* Some are done before it happens; the next call is not. */
    for (uint64_t tag = 0; tag < 40; tag++) {
        bool is_over = false;

        end = run.world->clock.now_ns + (uint64_t)(timeout_ms + 1000) * TCI_NS_PER_MS;
        enter(&run, fault, tag,
              kind->reason == TC_REASON_NOT_ENTERED && tag == 3 ? (int)fault->rank : -1);
        for (uint32_t r = 0; r < fault->size; r++) {
            if (kind->is_mourned && r == fault->rank)
                continue;
            if (!sim_world_run(run.world, &run.futures[r], 1, end))
                fail_msg("%s: rank %u of %u waits beyond its deadline: at %llu of %u, %u",
                         kind->name, r, fault->size, (unsigned long long)fault->at_ns, fault->rank,
                         fault->other);
            is_over = is_over || tc_future_test(run.futures[r]) != TC_OK;
        }
        if (is_over)
            break;
    }
    if (kind->status == TC_ERR_PEER_LOST) { /* what ended well before is refused from now on */
        sim_world_idle(run.world);
        enter(&run, fault, 99, -1);
        for (uint32_t r = 0; r < fault->size; r++)
            if (!kind->is_mourned || r != fault->rank)
                assert_true(sim_world_run(run.world, &run.futures[r], 1, TCI_NEVER));
    }
    verdict = compare(&run, kind, fault);
    sim_world_free(run.world);
    for (uint32_t r = 0; r < fault->size; r++)
        tc_future_release(run.futures[r]);
    free(run.data);
    assert_int_equal(tci_alloc_live(), live);
    return verdict;
}

/* ---- All of them ---------------------------------------------------------------------------- */

struct tally {
    unsigned runs, same, right;
    char first[500]; /* that went wrong */
};

static void try(struct tally *tally, const struct kind *kind, const struct fault *fault)
{
    struct verdict verdict = happen(kind, fault, tally->runs + 1);

    tally->runs++;
    tally->same += verdict.is_same;
    tally->right += verdict.is_right;
    if (tally->first[0] == 0 && !(verdict.is_same && verdict.is_right))
        snprintf(tally->first, sizeof(tally->first), "%u ranks, %u and %u at %llu ns%s: %s",
                 fault->size, fault->rank, fault->other, (unsigned long long)fault->at_ns,
                 fault->is_idle ? ", idle" : "", verdict.text);
}

static void try_moments(struct tally *tally, const struct kind *kind, struct fault *fault)
{
    static const size_t counts[] = {10, COUNT};
    unsigned moments = test_effort() == 0 ? 2 : test_effort() == 1 ? 6 : 40;

    for (size_t c = 0; c < TCI_LEN(counts); c++)
        for (unsigned m = 0; m < moments && (c == 1 || !kind->is_anyone); m++) {
            fault->count = kind->is_anyone ? MORE : counts[c];
            fault->is_idle = false;
            fault->at_ns = 1 + m * (c == 0 ? UINT64_C(150000) : UINT64_C(600000)) / moments;
            try(tally, kind, fault);
        }
    fault->is_idle = true;
    if (!kind->is_busy)
        try(tally, kind, fault);
}

static void try_kind(const struct kind *kind)
{
    struct tally tally = {0};

    for (uint32_t size = kind->size_min; size <= RANKS_MAX; size++)
        for (uint32_t rank = 0; rank < size; rank++)
            for (uint32_t other = 0; other < size; other++) {
                struct fault fault = {.size = size, .rank = rank, .other = other};

                if (kind->is_of_pair ? rank == other : other != 0)
                    continue;
                if (test_effort() < 2 && size > 4 && kind->is_of_pair &&
                    (rank + 3 * other) % 5 != 0)
                    continue;
                try_moments(&tally, kind, &fault);
            }
    print_message("%-18s %5u runs, the same rank in %u, the right reason in %u\n", kind->name,
                  tally.runs, tally.same, tally.right);
    if (tally.same != tally.runs || tally.right != tally.runs)
        fail_msg("%s: %s", kind->name, tally.first);
}

static void all_name_one_rank_for_one_reason(void **state)
{
    (void)state;
    for (size_t k = 0; k < TCI_LEN(kinds); k++)
        try_kind(&kinds[k]);
}

/* ---- No false alarm ------------------------------------------------------------------------- */

/* Lines that say who is waited for. */
static unsigned warnings;
static char last_warning[256];
static unsigned held_up;

static void hear(tc_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    if (level != TC_LOG_WARN || strstr(line, "waiting") == NULL)
        return;
    warnings++;
    snprintf(last_warning, sizeof(last_warning), "%s", line);
}

static void stall_for_a_while(struct sim_world *world, const struct fault *fault)
{
    sim_world_stall_at(world, fault->rank, fault->at_ns, 10500 * TCI_NS_PER_MS);
}

static void lose_a_path_for_a_while(struct sim_world *world, const struct fault *fault)
{
    sim_world_break_at(world, fault->rank, fault->other, fault->at_ns, 10500 * TCI_NS_PER_MS);
    sim_world_break_at(world, fault->other, fault->rank, fault->at_ns, 10500 * TCI_NS_PER_MS);
}

/* All ends well, and the log says once an operation who was waited for. */
static void hold_up(void (*fault_fn)(struct sim_world *world, const struct fault *fault),
                    const struct fault *fault)
{
    struct run run = {.data = calloc((size_t)RANKS_MAX * MORE, sizeof(float))};
    struct sim_world_config config;

    assert_non_null(run.data);
    sim_world_config_default(&config);
    run.world = sim_world_new(fault->size, &config);
    fault_fn(run.world, fault);
    warnings = 0;
    for (uint64_t tag = 0; tag < 5; tag++) {
        enter(&run, fault, tag, -1);
        assert_true(sim_world_run(run.world, run.futures, fault->size, TCI_NEVER));
        for (uint32_t r = 0; r < fault->size; r++)
            if (tc_future_test(run.futures[r]) != TC_OK)
                fail_msg("%s", tc_future_error(run.futures[r])->message);
    }
    assert_true(warnings <= fault->size);
    if (warnings > 0)
        assert_non_null(strstr(last_warning, ": waiting 1"));
    held_up += warnings;
    sim_world_free(run.world);
    for (uint32_t r = 0; r < fault->size; r++)
        tc_future_release(run.futures[r]);
    free(run.data);
}

static void who_is_held_up_for_10_s_of_30_fails_nobody(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 5; size++)
        for (uint32_t rank = 0; rank < size; rank++)
            for (uint64_t at = 0; at < 200000; at += 30000) {
                struct fault fault = {.size = size, .rank = rank, .at_ns = at, .count = COUNT};

                fault.other = (rank + 1) % size;
                hold_up(stall_for_a_while, &fault);
                hold_up(lose_a_path_for_a_while, &fault);
            }
    assert_true(held_up > 0);
}

static int listen_to_log(void **state)
{
    (void)state;
    warnings = 0;
    tc_log_set_sink(hear, NULL);
    return 0;
}

static int listen_no_more(void **state)
{
    (void)state;
    tc_log_set_sink(NULL, NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_name_one_rank_for_one_reason, listen_to_log,
                                        listen_no_more),
        cmocka_unit_test_setup_teardown(who_is_held_up_for_10_s_of_30_fails_nobody, listen_to_log,
                                        listen_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
