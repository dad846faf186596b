/* shm_trial.c - the better of two ways, by trial. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shm_trial.h"

#include "core/base.h"

enum phase { REST, OWN, OTHER, DUE };

/* In laps.  A trial has four of them, two of which go the dearer way: once in 1,024 that is less
 * than one in a hundred where that way costs five times as much. */
enum { REST_FIRST = 16, REST_MAX = 1024, PATIENCE = 32 };

/* The other way has to cost less than so many 16ths. */
enum { BETTER = 15, WINS = 2 };

void tci_shm_trial_init(struct tci_shm_trial *trial, uint8_t way, uint64_t lap)
{
    *trial = (struct tci_shm_trial){.way = way, .lap = lap, .left = lap, .rest = REST_FIRST * lap};
}

static void go_to_rest(struct tci_shm_trial *trial, uint64_t left)
{
    trial->phase = REST;
    trial->left = left;
}

static uint64_t longer(const struct tci_shm_trial *trial)
{
    return tci_min(4 * trial->rest, REST_MAX * trial->lap);
}

static void begin(struct tci_shm_trial *trial)
{
    trial->phase = OWN;
    trial->left = PATIENCE * trial->lap;
    trial->warm = trial->lap;
    trial->ns[0] = trial->ns[1] = trial->bytes[0] = trial->bytes[1] = 0;
}

static uint8_t tried(const struct tci_shm_trial *trial)
{
    return trial->phase == OTHER ? 1 - trial->way : trial->way;
}

struct tci_shm_try tci_shm_trial_take(struct tci_shm_trial *trial, uint64_t len)
{
    struct tci_shm_try next = {.way = trial->way};

    if (trial->left > len) {
        trial->left -= len;
    } else if (trial->phase == REST) {
        begin(trial);
        next.begins = true;
    } else { /* given up: what it costs is not told */
        trial->wins = 0;
        go_to_rest(trial, trial->rest);
        trial->rest = longer(trial);
    }
    if (trial->phase == OWN || trial->phase == OTHER) {
        next.way = tried(trial);
        next.is_told = true;
        next.is_measured = trial->warm == 0;
    }
    return next;
}

uint64_t tci_shm_trial_most(uint64_t len)
{
    return 2 * len;
}

bool tci_shm_trial_tell(struct tci_shm_trial *trial, uint8_t way, uint64_t len, uint64_t ns)
{
    if ((trial->phase != OWN && trial->phase != OTHER) || way != tried(trial))
        return false;
    if (trial->warm > 0) {
        trial->warm -= tci_min(trial->warm, len);
        return false;
    }
    trial->ns[way] += tci_min(ns, tci_shm_trial_most(len));
    trial->bytes[way] += len;
    if (trial->bytes[way] < trial->lap)
        return false;
    trial->phase++;
    trial->warm = trial->lap;
    return trial->phase == DUE;
}

bool tci_shm_trial_is_due(const struct tci_shm_trial *trial)
{
    return trial->phase == DUE;
}

/* Of 64 KiB.  A peer may say anything: that is no cost of more than a message can count. */
static uint64_t rate(uint64_t ns, uint64_t bytes)
{
    return bytes == 0 ? 0 : tci_min(ns, tci_shm_trial_most(bytes)) * 65536 / bytes;
}

void tci_shm_trial_judge(struct tci_shm_trial *trial, const uint64_t *ns, const uint64_t *bytes)
{
    uint64_t cost[2];
    uint8_t other = 1 - trial->way;

    for (int way = 0; way < 2; way++)
        cost[way] =
            rate(trial->ns[way], trial->bytes[way]) + (ns != NULL ? rate(ns[way], bytes[way]) : 0);
    if (cost[other] * 16 >= cost[trial->way] * BETTER) {
        trial->wins = 0;
        go_to_rest(trial, trial->rest);
        trial->rest = longer(trial);
        return;
    }
    if (++trial->wins == WINS) {
        trial->way = other;
        trial->wins = 0;
        trial->rest = REST_FIRST * trial->lap;
    }
    go_to_rest(trial, trial->lap);
}
