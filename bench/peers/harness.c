/* harness.c - measures an all-reduce in the same way for every library. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <argp.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS_MAX = 16,
    SAMPLES_MAX = 4000,
    BATCHES = 11,
    BATCH_MAX = 3000,
    LIMIT_S = 60 /* a rank that takes longer is stuck and ends itself */
};

/* Beyond this size the start of a call is a small part of it: back to back tells nothing new. */
#define BACK_TO_BACK_BYTES_MAX ((size_t)1 << 20)
#define HUGE_PAGE              ((size_t)2 << 20)

static const size_t sizes[] = {4,       1 << 10, 16 << 10, 64 << 10, 256 << 10,
                               1 << 20, 4 << 20, 16 << 20, 64 << 20};

/* Arrivals, generations and plans on cache lines of their own. */
struct harness_control {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation;
    _Alignas(64) _Atomic int planned; /* samples, or calls of a batch: rank 0 decides for all */
    _Atomic int wrong;
    _Alignas(64) double times[SAMPLES_MAX][RANKS_MAX];
};

_Noreturn static void die(const char *what)
{
    perror(what);
    exit(3);
}

static double now_us(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* ---- Command line --------------------------------------------------------------------------- */

enum { KEY_CONTROL = 256, KEY_VARIANT, KEY_BUDGET, KEY_MIN_BYTES, KEY_MAX_BYTES, KEY_PIN };

static const struct argp_option options[] = {
    {"ranks", 'n', "N", 0, "number of ranks (2)", 0},
    {"variant", KEY_VARIANT, "NAME", 0, "which way of the library to measure", 0},
    {"budget", KEY_BUDGET, "SECONDS", 0, "time for one line (0.1)", 0},
    {"min-bytes", KEY_MIN_BYTES, "BYTES", 0, "leave smaller sizes out (0)", 0},
    {"max-bytes", KEY_MAX_BYTES, "BYTES", 0, "leave larger sizes out (67108864)", 0},
    {"pin", KEY_PIN, NULL, 0, "keep each rank on one processor, if there are enough", 0},
    {"control", KEY_CONTROL, "FILE", 0,
     "a file that the ranks share, for ranks that are started "
     "by others",
     0},
    {0},
};

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
        .doc = "Time of an f32 sum all-reduce, in place, from 4 bytes to 64 MiB."};

    harness->ranks = 2;
    harness->variant = harness->variant == NULL ? "default" : harness->variant;
    harness->budget_s = 0.1;
    harness->bytes_max = sizes[sizeof sizes / sizeof *sizes - 1];
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
            die(harness->control_path);
    }
    map = mmap(NULL, sizeof(struct harness_control), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (map == MAP_FAILED)
        die("map the control block");
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
            die("fork");
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
static float *alloc_buffer(size_t bytes)
{
    size_t len = (bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    void *buffer = aligned_alloc(HUGE_PAGE, len);

    if (buffer == NULL)
        die("allocate the buffer");
    madvise(buffer, len, MADV_HUGEPAGE);
    memset(buffer, 0, len);
    return (float *)buffer;
}

void harness_open(struct harness *harness)
{
    int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);

    alarm(LIMIT_S);
    harness->is_crowded = harness->ranks > processors;
    if (harness->control == NULL)
        harness->control = map_control(harness);
    for (size_t at = 0; at < sizeof(struct harness_control); at += 4096)
        (void)((volatile char *)harness->control)[at];
    if (harness->is_pinned && !harness->is_crowded) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET((size_t)harness->rank, &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    harness->buffer = alloc_buffer(harness->bytes_max);
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

/* ---- Measuring ------------------------------------------------------------------------------ */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_line(const struct harness *harness, const char *mode, size_t bytes, int samples,
                       int calls)
{
    static double worst[SAMPLES_MAX];

    for (int i = 0; i < samples; i++) {
        worst[i] = 0;
        for (int rank = 0; rank < harness->ranks; rank++)
            if (harness->control->times[i][rank] > worst[i])
                worst[i] = harness->control->times[i][rank];
    }
    qsort(worst, (size_t)samples, sizeof *worst, compare_doubles);
    printf("%s,%s,%s,%d,%zu,%d,%.3f,%.3f\n", harness->library, harness->variant, mode,
           harness->ranks, bytes, samples * calls, worst[samples / 2], worst[0]);
    fflush(stdout);
}

static void call_many(struct harness *harness, size_t count, int calls)
{
    for (int i = 0; i < calls; i++)
        harness->call(harness->library_arg, count);
}

/* Rank 0 says how many calls fit into seconds_us, the others hear it when they meet. */
static int plan_calls(struct harness *harness, double call_us, double seconds_us, int low, int high)
{
    if (harness->rank == 0) {
        double calls = seconds_us / (call_us > 0.2 ? call_us : 0.2);

        atomic_store(&harness->control->planned, calls < low    ? low
                                                 : calls > high ? high
                                                                : (int)calls);
    }
    harness_meet(harness);
    return atomic_load(&harness->control->planned);
}

static double probe_call(struct harness *harness, size_t count)
{
    enum { PROBES = 4 };
    double begin;

    for (int i = 0; i < 2; i++) {
        harness_meet(harness);
        call_many(harness, count, 1);
    }
    harness_meet(harness);
    begin = now_us();
    for (int i = 0; i < PROBES; i++) {
        harness_meet(harness);
        call_many(harness, count, 1);
    }
    harness_meet(harness);
    return (now_us() - begin) / PROBES;
}

static void measure(struct harness *harness, const char *mode, size_t count, int samples, int calls)
{
    /* A tenth of the work again, so that queues, windows and caches are as they will be. */
    int warm = samples * calls / 10 + 1;

    for (int i = 0; i < (warm < 200 ? warm : 200); i++) {
        harness_meet(harness);
        call_many(harness, count, 1);
    }
    for (int i = 0; i < samples; i++) {
        double begin;

        harness_meet(harness);
        begin = now_us();
        call_many(harness, count, calls);
        harness->control->times[i][harness->rank] = (now_us() - begin) / calls;
    }
    harness_meet(harness);
    if (harness->rank == 0)
        print_line(harness, mode, count * sizeof(float), samples, calls);
    harness_meet(harness);
}

/* Small whole numbers: their sum is exact in every order. */
static void check(struct harness *harness, size_t count)
{
    int ranks = harness->ranks;
    size_t wrong = 0;

    for (size_t i = 0; i < count; i++)
        harness->buffer[i] = (float)(harness->rank + 1 + (int)(i % 7));
    harness_meet(harness);
    call_many(harness, count, 1);
    for (size_t i = 0; i < count; i++)
        wrong += harness->buffer[i] != (float)(ranks * (ranks + 1) / 2 + ranks * (int)(i % 7));
    memset(harness->buffer, 0, count * sizeof(float));
    if (wrong == 0)
        return;
    fprintf(stderr, "%s %s: rank %d: %zu of %zu elements are wrong\n", harness->library,
            harness->variant, harness->rank, wrong, count);
    atomic_store(&harness->control->wrong, 1);
}

int harness_run(struct harness *harness)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t count = sizes[i] / sizeof(float);
        double call_us;
        int planned;

        if (sizes[i] < harness->bytes_min || sizes[i] > harness->bytes_max)
            continue;
        if (harness->prepare != NULL)
            harness->prepare(harness->library_arg, count);
        check(harness, count);
        call_us = probe_call(harness, count);
        planned = plan_calls(harness, call_us, harness->budget_s * 1e6, 7, SAMPLES_MAX);
        measure(harness, "synced", count, planned, 1);
        if (sizes[i] > BACK_TO_BACK_BYTES_MAX)
            continue;
        planned = plan_calls(harness, call_us, harness->budget_s * 1e6 / BATCHES, 1, BATCH_MAX);
        measure(harness, "back_to_back", count, BATCHES, planned);
    }
    harness_meet(harness);
    return atomic_load(&harness->control->wrong);
}
