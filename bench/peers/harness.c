/* harness.c - the ranks of a run: their command line, memory, and how they meet. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <argp.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static const char *const set_names[HARNESS_SETS] = {"all_reduce", "collectives", "types",  "many",
                                                    "urgent",     "overlap",     "waiting"};

_Noreturn void harness_die(const char *what)
{
    perror(what);
    exit(3);
}

double harness_now_us(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* ---- Command line --------------------------------------------------------------------------- */

enum {
    KEY_CONTROL = 256,
    KEY_VARIANT,
    KEY_BUDGET,
    KEY_MIN_BYTES,
    KEY_MAX_BYTES,
    KEY_SIZES,
    KEY_SETS,
    KEY_PIN
};

static const struct argp_option options[] = {
    {"ranks", 'n', "N", 0, "number of ranks (2)", 0},
    {"variant", KEY_VARIANT, "NAME", 0, "which way of the library to measure", 0},
    {"budget", KEY_BUDGET, "SECONDS", 0, "time for one line (0.1)", 0},
    {"min-bytes", KEY_MIN_BYTES, "BYTES", 0, "leave smaller sizes out (0)", 0},
    {"max-bytes", KEY_MAX_BYTES, "BYTES", 0, "leave larger sizes out (67108864)", 0},
    {"sizes", KEY_SIZES, "BYTES,...", 0, "measure these sizes alone, of those that a set has", 0},
    {"sets", KEY_SETS, "NAME,...", 0,
     "all_reduce, collectives, types, many, urgent, overlap, waiting, or all (all_reduce)", 0},
    {"pin", KEY_PIN, NULL, 0, "keep each rank on one processor, dealt out in turn", 0},
    {"control", KEY_CONTROL, "FILE", 0,
     "a file that the ranks share, for ranks that are started "
     "by others",
     0},
    {0},
};

static unsigned parse_sets(const char *names, struct argp_state *state)
{
    unsigned sets = 0;

    while (*names != '\0') {
        size_t len = strcspn(names, ",");
        unsigned before = sets;

        for (unsigned i = 0; i < HARNESS_SETS; i++)
            if (strlen(set_names[i]) == len && memcmp(set_names[i], names, len) == 0)
                sets |= 1U << i;
        if (len == 3 && memcmp(names, "all", 3) == 0)
            sets |= (1U << HARNESS_SETS) - 1;
        if (sets == before)
            argp_error(state, "'%.*s' is no set, or is there twice", (int)len, names);
        names += len + (names[len] == ',');
    }
    return sets;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct harness *harness = state->input;

    switch (key) {
    case 'n':
        harness->ranks = atoi(arg);
        if (harness->ranks < 1 || harness->ranks > RANKS_MAX)
            argp_error(state, "'%s' is no number of ranks from 1 to %d", arg, RANKS_MAX);
        return 0;
    case KEY_VARIANT:
        harness->variant = arg;
        return 0;
    case KEY_BUDGET:
        harness->budget_s = atof(arg);
        return 0;
    case KEY_MIN_BYTES:
        harness->bytes_min = strtoull(arg, NULL, 10);
        return 0;
    case KEY_MAX_BYTES:
        harness->bytes_max = strtoull(arg, NULL, 10);
        return 0;
    case KEY_SIZES:
        harness->sizes = arg;
        return 0;
    case KEY_SETS:
        harness->sets = parse_sets(arg, state);
        return 0;
    case KEY_PIN:
        harness->is_pinned = true;
        return 0;
    case KEY_CONTROL:
        harness->control_path = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void harness_parse(struct harness *harness, int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .doc = "Times of operations on tensors, up to 64 MiB: lines of CSV."};

    harness->ranks = 2;
    harness->variant = harness->variant == NULL ? "default" : harness->variant;
    harness->budget_s = 0.1;
    harness->bytes_max = (size_t)64 << 20;
    harness->sets = 1U << HARNESS_SET_ALL_REDUCE;
    argp_parse(&argp, argc, argv, 0, NULL, harness);
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

static void *map_control(const struct harness *harness)
{
    int flags = MAP_SHARED | (harness->control_path == NULL ? MAP_ANONYMOUS : 0);
    int fd = -1;
    void *map;

    if (harness->control_path != NULL) {
        fd = open(harness->control_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, sizeof(struct harness_control)) != 0)
            harness_die(harness->control_path);
    }
    map = mmap(NULL, sizeof(struct harness_control), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (map == MAP_FAILED)
        harness_die("map the control block");
    if (fd >= 0)
        close(fd);
    return map;
}

bool harness_fork(struct harness *harness, int *exit_code_out)
{
    pid_t children[RANKS_MAX];

    harness->control = map_control(harness);
    for (int rank = 0; rank < harness->ranks; rank++) {
        children[rank] = fork();
        if (children[rank] < 0)
            harness_die("fork");
        if (children[rank] == 0) {
            harness->rank = rank;
            return true;
        }
    }

    *exit_code_out = 0;
    for (int rank = 0; rank < harness->ranks; rank++) {
        int status = 0;

        if (waitpid(children[rank], &status, 0) != children[rank] || status != 0)
            *exit_code_out = 1;
    }
    return false;
}

/* Huge pages, touched before anything is measured: a fault costs more than a small call. */
static void *alloc_buffer(size_t bytes)
{
    size_t len = (bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    void *buffer = aligned_alloc(HUGE_PAGE, len);

    if (buffer == NULL)
        harness_die("allocate the buffer");
    madvise(buffer, len, MADV_HUGEPAGE);
    memset(buffer, 0, len);
    return buffer;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void harness_open(struct harness *harness)
{
    int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);

    harness->is_crowded = harness->ranks > processors;
    if (harness->control == NULL)
        harness->control = map_control(harness);
    for (size_t at = 0; at < sizeof(struct harness_control); at += 4096)
        (void)((volatile char *)harness->control)[at];
    if (harness->is_pinned) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET((size_t)(harness->rank % processors), &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    harness->memory_len = harness->bytes_max;
    /* 64 of 256 KiB; and what is urgent beside the bulk that it overtakes. */
    if ((harness->sets & 1U << HARNESS_SET_MANY) != 0)
        harness->memory_len = larger(harness->memory_len, HARNESS_SLOTS * ((size_t)256 << 10));
    if ((harness->sets & 1U << HARNESS_SET_URGENT) != 0 && harness->has_priority)
        harness->memory_len = larger(harness->memory_len, ((size_t)256 << 20) + HUGE_PAGE);
    for (int i = 0; i < 2; i++)
        harness->memory[i] = alloc_buffer(harness->memory_len);
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* One turn of waiting.  A crowded rank gives its processor away: it yields if it has to turn the
 * library's loop, and sleeps if the library has threads for that. */
static void wait_once(struct harness *harness, uint32_t generation, unsigned turn)
{
    /* The first turns only look: the others are about to come, and a call would delay the start. */
    enum { TURNS_QUIET = 20000, TURNS_BETWEEN = 1024 };

    if (!harness->is_crowded) {
        if (harness->progress != NULL && turn > TURNS_QUIET && turn % TURNS_BETWEEN == 0)
            harness->progress(harness->library_arg);
        if (harness->has_threads)
            sched_yield();
        else
            relax();
    } else if (harness->progress != NULL) {
        if (turn % 16 == 0)
            harness->progress(harness->library_arg);
        sched_yield();
    } else {
        futex(&harness->control->generation, FUTEX_WAIT, generation);
    }
}

void harness_meet(struct harness *harness)
{
    struct harness_control *control = harness->control;
    uint32_t generation;

    if (harness->settle != NULL)
        harness->settle(harness->library_arg);
    generation = atomic_load_explicit(&control->generation, memory_order_acquire);
    if (atomic_fetch_add(&control->arrived, 1) + 1 == (uint32_t)harness->ranks) {
        atomic_store(&control->arrived, 0);
        /* release: pairs with the acquire of those that wait */
        atomic_fetch_add_explicit(&control->generation, 1, memory_order_release);
        if (harness->is_crowded)
            futex(&control->generation, FUTEX_WAKE, INT_MAX);
        return;
    }
    for (unsigned turn = 1;
         atomic_load_explicit(&control->generation, memory_order_acquire) == generation; turn++)
        wait_once(harness, generation, turn);
}

long harness_agree(struct harness *harness, long value)
{
    long agreed;

    if (harness->rank == 0)
        atomic_store(&harness->control->planned, value);
    harness_meet(harness);
    agreed = atomic_load(&harness->control->planned);
    harness_meet(harness); /* nobody says the next thing before all have heard this one */
    return agreed;
}
