/* shm_trial.h - which of two ways costs less: found out by trying the other one now and then. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCI_SHM_TRIAL_H
#define TCI_SHM_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

/*   rest --so many bytes--> the present way --measured--> the other --measured--> judged
 *     ^                                                                             |
 *     +-----------------------------------------------------------------------------+
 *
 * What a way of copying costs depends on the machine, and on where the system has put the two
 * processes this very moment; so it is measured, with messages that are under way anyway.  Each is
 * taken for a lap before it is measured for another, since the caches hold what the last way has
 * left.  The other way is taken on when it has been cheaper twice running; where it is not, it is
 * tried ever more rarely.  Between trials nothing is measured. */
struct tci_shm_trial {
    uint64_t ns[2], bytes[2]; /* measured in this trial, by way */
    uint64_t lap;             /* bytes */
    uint64_t left;            /* until the next trial, or until this one is given up */
    uint64_t rest;            /* from a trial to the next one */
    uint64_t warm;            /* bytes still to go before this lap is measured */
    uint8_t way;              /* the better one as far as is known: 0 or 1 */
    uint8_t phase, wins;
};

/* How the next message goes. */
struct tci_shm_try {
    uint8_t way;
    bool begins;      /* a trial */
    bool is_told;     /* what it costs is to be told */
    bool is_measured; /* and counts */
};

/* With the way that is taken until it is known better. */
void tci_shm_trial_init(struct tci_shm_trial *trial, uint8_t way, uint64_t lap);
struct tci_shm_try tci_shm_trial_take(struct tci_shm_trial *trial, uint64_t len);
/* The cost of a message that took this way.  True: both have been measured, judge them. */
bool tci_shm_trial_tell(struct tci_shm_trial *trial, uint8_t way, uint64_t len, uint64_t ns);
/* Whether both have been measured. */
bool tci_shm_trial_is_due(const struct tci_shm_trial *trial);
/* `ns` in `bytes` is what each way costs besides what was told; NULL: nothing. */
void tci_shm_trial_judge(struct tci_shm_trial *trial, const uint64_t *ns, const uint64_t *bytes);
/* The most that the cost of a message may count: it was interrupted. */
uint64_t tci_shm_trial_most(uint64_t len);

#endif
