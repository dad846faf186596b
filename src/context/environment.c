/* environment.c - the variables that are read; a misspelt one is told of. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base.h"
#include "core/log.h"

#define PREFIX      "TCDIST_"
#define TEST_PREFIX "TCDIST_TEST_" /* the test suite's own */

enum { NAME_MAX_LEN = 48 };

const char *const tci_environment[] = {
    "TCDIST_ADVERTISE",
    "TCDIST_ALGORITHM",
    "TCDIST_BACKEND",
    "TCDIST_CHECK",
    "TCDIST_CONNECTIONS",
    "TCDIST_DUMP_DIR",
    "TCDIST_EAGER_BYTES",
    "TCDIST_ENCRYPTION",
    "TCDIST_HEAL",
    "TCDIST_HOSTS",
    "TCDIST_INTERFACE",
    "TCDIST_KEY",
    "TCDIST_LOCAL_RANK",
    "TCDIST_LOCAL_SIZE",
    "TCDIST_LOG",
    "TCDIST_LOOP_MODE",
    "TCDIST_NUMERICS",
    "TCDIST_PREVIOUS_KEY",
    "TCDIST_RANK",
    "TCDIST_RDMA",
    "TCDIST_REDIS_PASSWORD",
    "TCDIST_RENDEZVOUS",
    "TCDIST_RENDEZVOUS_FD",
    "TCDIST_RENDEZVOUS_UP",
    "TCDIST_SEGMENT_BYTES",
    "TCDIST_SHM",
    "TCDIST_SHM_CMA",
    "TCDIST_SPIN_US",
    "TCDIST_START_TIMEOUT",
    "TCDIST_TIMEOUT",
    "TCDIST_TRACE_ALL",
    "TCDIST_TRACE_DIR",
    "TCDIST_TRACE_EVENTS",
    "TCDIST_TUNE",
    "TCDIST_TUNE_EVERY",
    "TCDIST_WORLD_SIZE",
    NULL,
};

const struct tci_environment_idle tci_environment_idle[] = {
    {"MLX_METAL_FAST_SYNCH", "it is about waiting for a GPU, and memory of devices is not carried"},
    {"MLX_MPI_LIBNAME", "no library of MPI is loaded: tcdist carries messages itself"},
    {"CUDA_VISIBLE_DEVICES", "memory of devices is not carried"},
    {NULL, NULL},
};

extern char **environ; /* no header of POSIX has it */

/* Letters to change, add or leave out (Levenshtein). */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LEN + 1], len = strlen(b);

    if (strlen(a) > NAME_MAX_LEN || len > NAME_MAX_LEN)
        return SIZE_MAX;
    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            row[j] = tci_min(changed, 1 + tci_min(row[j], row[j - 1]));
        }
    }
    return row[len];
}

const char *tci_environment_nearest(const char *name)
{
    const char *nearest = NULL;
    size_t least = SIZE_MAX;

    for (const char *const *known = tci_environment; *known != NULL; known++) {
        bool is_begun = strlen(name) > strlen(PREFIX) && strncmp(name, *known, strlen(name)) == 0;
        size_t away = is_begun ? 1 : distance(name, *known);

        if (away < least) {
            least = away;
            nearest = *known;
        }
    }
    /* Half of the letters behind the prefix may be wrong. */
    return least <= (strlen(name) - tci_min(strlen(name), strlen(PREFIX))) / 2 + 1 ? nearest : NULL;
}

static bool is_known(const char *name)
{
    for (const char *const *known = tci_environment; *known != NULL; known++)
        if (strcmp(name, *known) == 0)
            return true;
    return strncmp(name, TEST_PREFIX, strlen(TEST_PREFIX)) == 0;
}

/* The name of a setting of the environment, if it is an unknown one of ours. */
static bool get_unknown(const char *setting, char name[NAME_MAX_LEN + 1])
{
    size_t len = strcspn(setting, "=");

    if (strncmp(setting, PREFIX, strlen(PREFIX)) != 0)
        return false;
    len = tci_min(len, NAME_MAX_LEN);
    memcpy(name, setting, len);
    name[len] = '\0';
    return !is_known(name);
}

/* Which unknown ones there are, as a number; 0: none. */
static uint64_t hash_unknown(void)
{
    uint64_t hash = 0;
    char name[NAME_MAX_LEN + 1];

    for (char **at = environ; at != NULL && *at != NULL; at++)
        if (get_unknown(*at, name))
            for (const char *c = name; *c != '\0'; c++)
                hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211) + 1;
    return hash;
}

void tci_environment_tell_idle(void)
{
    for (const struct tci_environment_idle *idle = tci_environment_idle; idle->name != NULL; idle++)
        if (getenv(idle->name) != NULL)
            tci_log(TC_LOG_INFO, "%s is set, and has no effect here: %s", idle->name, idle->why);
}

void tci_environment_check(void)
{
    static _Atomic uint64_t told;
    char name[NAME_MAX_LEN + 1];
    uint64_t hash = hash_unknown();

    /* relaxed: it guards nothing but a second warning */
    if (atomic_exchange_explicit(&told, hash, memory_order_relaxed) == hash)
        return;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        const char *nearest;

        if (!get_unknown(*at, name))
            continue;
        nearest = tci_environment_nearest(name);
        if (nearest != NULL)
            tci_log(TC_LOG_WARN, "%s is set, but nothing reads it: is %s meant?", name, nearest);
        else
            tci_log(TC_LOG_WARN, "%s is set, but nothing reads it", name);
    }
}
