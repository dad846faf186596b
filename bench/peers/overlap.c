/* overlap.c - what an operation costs a rank that computes meanwhile, or that waits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "control.h"

/* As OSU's tests of non-blocking collectives count: the operation alone, the computing alone and
 * both together, where the computing is made as long as the operation; hidden is what of the
 * operation's time the two together do not show. */

enum { SAMPLES = 15 };

/* ---- Places: one core for the computing, one for all else --------------------------------------
 *
 * Where computing leaves a core, that one is all that the operation has; so it must have no more
 * where it is timed alone, or the difference in cores would count as not hidden. */

enum { CORE_COMPUTING = 0, CORE_LEFT = 1 };

static cpu_set_t only(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    return set;
}

/* All threads of this process; the library's are not known by name. */
static void keep_all_to(const cpu_set_t *set)
{
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *thread;

    if (threads == NULL)
        harness_die("list the threads");
    while ((thread = readdir(threads)) != NULL) {
        pid_t id = (pid_t)strtol(thread->d_name, NULL, 10);

        if (id > 0 && sched_setaffinity(id, sizeof *set, set) != 0)
            harness_die("keep a thread to a core");
    }
    closedir(threads);
}

static void keep_caller_to(const cpu_set_t *set)
{
    if (sched_setaffinity(0, sizeof *set, set) != 0)
        harness_die("keep a thread to a core");
}

/* ---- Computing ------------------------------------------------------------------------------ */

/* Turns of arithmetic in registers: it needs a core and no memory. */
static void compute(long turns)
{
    static volatile double sink;
    double a = 1.0, b = 0.5;

    for (long i = 0; i < turns; i++) {
        a = a * 0.999999 + b;
        b = b * 0.999998 + 0.25;
    }
    sink = a + b;
    (void)sink;
}

static double time_compute(long turns)
{
    double begin = harness_now_us();

    compute(turns);
    return harness_now_us() - begin;
}

static long turns_for(double us)
{
    enum { TURNS = 100000 };
    double least = INFINITY;

    for (int i = 0; i < 9; i++) {
        double time = time_compute(TURNS);

        least = time < least ? time : least;
    }
    return (long)(us / least * TURNS);
}

/* A rank that does not count leaves 0. */
static void note(struct harness *harness, int at, double value)
{
    harness->control->times[at][harness->rank] = value;
}

static double median_worst(struct harness *harness)
{
    double worst[SAMPLES];
    double median;

    harness_meet(harness);
    (void)sample_worst(harness, SAMPLES, worst);
    median = worst[SAMPLES / 2];
    harness_meet(harness);
    return median;
}

static double time_alone(struct harness *harness, const struct harness_call *call)
{
    for (int i = -2; i < SAMPLES; i++) {
        double begin;

        harness_meet(harness);
        begin = harness_now_us();
        harness->start(harness->library_arg, call);
        harness->wait(harness->library_arg, call->slot);
        note(harness, i < 0 ? 0 : i, harness_now_us() - begin);
    }
    return median_worst(harness);
}

static double time_compute_alone(struct harness *harness, long turns, bool computes)
{
    for (int i = 0; i < SAMPLES; i++) {
        harness_meet(harness);
        note(harness, i, computes ? time_compute(turns) : 0);
    }
    return median_worst(harness);
}

/* Both together: the time of all, and of the computing within. */
static void time_both(struct harness *harness, const struct harness_call *call, long turns,
                      double *total_out, double *within_out)
{
    double within[SAMPLES] = {0};
    bool computes = turns > 0;

    for (int i = 0; i < SAMPLES; i++) {
        double begin;

        harness_meet(harness);
        begin = harness_now_us();
        harness->start(harness->library_arg, call);
        within[i] = computes ? time_compute(turns) : 0;
        harness->wait(harness->library_arg, call->slot);
        note(harness, i, computes ? harness_now_us() - begin : 0);
    }
    *total_out = median_worst(harness);
    for (int i = 0; i < SAMPLES; i++)
        note(harness, i, within[i]);
    *within_out = median_worst(harness);
}

static void sample(struct harness *harness, const struct harness_call *call, bool is_beside)
{
    bool computes = !is_beside || harness->rank == 0;
    double alone = time_alone(harness, call);
    cpu_set_t core = only(CORE_COMPUTING);
    double computing, total, within, hidden;
    long turns;

    if (is_beside && computes)
        keep_caller_to(&core);
    turns = harness_agree(harness, harness->rank == 0 ? turns_for(alone) : 0);
    computing = time_compute_alone(harness, turns, computes);
    time_both(harness, call, computes ? turns : 0, &total, &within);
    hidden = 100 * (1 - (total - computing) / alone);
    hidden = hidden < 0 ? 0 : hidden > 100 ? 100 : hidden;
    sample_print(harness, call, is_beside ? "hidden_beside" : "hidden", SAMPLES, hidden, hidden);
    sample_print(harness, call, is_beside ? "slowdown_beside" : "slowdown", SAMPLES,
                 100 * (within / computing - 1), 100 * (within / computing - 1));
}

void sample_overlap(struct harness *harness, const struct harness_call *call, bool is_beside)
{
    cpu_set_t before, left = only(CORE_LEFT);

    if (is_beside && sysconf(_SC_NPROCESSORS_ONLN) <= CORE_LEFT)
        return;
    if (sched_getaffinity(0, sizeof before, &before) != 0)
        harness_die("ask where a thread may run");
    if (is_beside)
        keep_all_to(&left);
    sample(harness, call, is_beside);
    harness_meet(harness);
    if (is_beside)
        keep_all_to(&before);
    harness_meet(harness);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

static double processor_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return ((double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec) * 1e6 +
           (double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec;
}

void sample_waiting(struct harness *harness, const struct harness_call *call)
{
    enum { WAITS = 3, LATE_MS = 500 };
    double worst[WAITS];

    for (int i = 0; i < WAITS; i++) {
        struct timespec late = {.tv_nsec = LATE_MS * 1000000L};
        double begin, used;

        harness_meet(harness);
        begin = harness_now_us();
        used = processor_us();
        if (harness->rank == 0)
            nanosleep(&late, NULL);
        harness->call(harness->library_arg, call);
        used = 100 * (processor_us() - used) / (harness_now_us() - begin);
        note(harness, i, harness->rank == 0 ? 0 : used);
    }
    harness_meet(harness);
    (void)sample_worst(harness, WAITS, worst);
    sample_print(harness, call, "wait_cpu", WAITS, worst[WAITS / 2], worst[0]);
    harness_meet(harness);
}
