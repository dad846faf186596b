/* cell.c - one run: a group of processes, a fault, a moment, and what came of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "chaos/cell.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chaos/lab.h"
#include "tcdist/tcdist.h"

enum { TIMEOUT_MS = 3000, PATIENCE_MS = 30000, READY_MS = 60000, REST_MS = 200 };

const char *const chaos_fault_names[FAULTS] = {"kill", "exit",  "stop",   "pause",  "unplug",
                                               "drop", "deaf",  "mute",   "apart",  "halves",
                                               "far",  "close", "memory", "limited"};
const char *const chaos_moment_names[MOMENTS] = {"forming", "idle", "busy", "closing"};

#define BIT(reason) (1u << (reason))

/* Why the victim is at fault, as the others may put it; 0: anything, nobody else could know. */
static const unsigned reasons[FAULTS] = {
    [FAULT_KILL] = BIT(TC_REASON_EXITED),
    [FAULT_EXIT] = BIT(TC_REASON_EXITED),
    [FAULT_STOP] = BIT(TC_REASON_LOOP_STALLED),
    [FAULT_UNPLUG] = BIT(TC_REASON_MACHINE_SILENT) | BIT(TC_REASON_LINK_DEAD),
    [FAULT_DROP] = BIT(TC_REASON_MACHINE_SILENT) | BIT(TC_REASON_LINK_DEAD),
    [FAULT_DEAF] = BIT(TC_REASON_MACHINE_SILENT) | BIT(TC_REASON_LINK_DEAD),
    [FAULT_MUTE] = BIT(TC_REASON_MACHINE_SILENT) | BIT(TC_REASON_LINK_DEAD),
    [FAULT_APART] = BIT(TC_REASON_LINK_DEAD),
    [FAULT_HALVES] = BIT(TC_REASON_MACHINE_SILENT),
    [FAULT_CLOSE] = BIT(TC_REASON_EXITED) | BIT(TC_REASON_LINK_DEAD),
};

bool chaos_is_possible(enum chaos_fault fault, enum chaos_moment moment)
{
    /* A line is long from the beginning, and an application that has no memory fails by itself. */
    if (fault == FAULT_FAR)
        return moment == MOMENT_BUSY;
    return fault != FAULT_LIMITED || moment != MOMENT_FORMING;
}

static bool is_harmless(enum chaos_fault fault)
{
    return fault == FAULT_PAUSE || fault == FAULT_FAR || fault == FAULT_LIMITED;
}

struct child {
    pid_t pid, line;
    int from, to; /* reports, orders */
    bool is_ready, is_done, has_ended;
};

struct scene {
    const struct chaos_cell *cell;
    struct chaos_outcome *outcome;
    struct child children[CHAOS_RANKS_MAX];
    int other;         /* of two who are apart */
    int named[2];      /* by those of a side; -1: nobody has failed so far */
    bool zero_failed;  /* rank 0 has */
    bool third_failed; /* where two are apart, one that hears both */
    bool was_alone;    /* one of the two says so: see is_of_the_last_two */
    int failed[2];     /* of each side */
    bool was_last[2];  /* one of a side says so: see is_the_last_of_its_side */
};

static void nap(unsigned ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&span, &span) != 0)
        ;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- Birth and death of the processes -------------------------------------------------------- */

static void become_rank(const struct scene *scene, int rank, int in, int out)
{
    struct chaos_rank self = {.rank = rank,
                              .size = scene->cell->size,
                              .timeout_ms = TIMEOUT_MS,
                              .moment = scene->cell->moment,
                              .url = "tcp://10.77.0.1:29500",
                              .in = in,
                              .out = out};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_DFL);
    if (is_harmless(scene->cell->fault))
        self.timeout_ms = PATIENCE_MS;
    for (int r = 0; r < rank; r++) {
        close(scene->children[r].from);
        close(scene->children[r].to);
    }
    chaos_rank_run(&self);
}

static bool start(struct scene *scene, int rank)
{
    struct child *child = &scene->children[rank];
    int up[2], down[2];

    if (pipe2(up, O_CLOEXEC) != 0)
        return false;
    if (pipe2(down, O_CLOEXEC) != 0) {
        close(up[0]);
        close(up[1]);
        return false;
    }
    child->pid = fork();
    if (child->pid == 0) {
        close(up[0]);
        close(down[1]);
        become_rank(scene, rank, down[0], up[1]);
    }
    close(up[1]);
    close(down[0]);
    child->from = up[0];
    child->to = down[1];
    return child->pid > 0;
}

static void order(struct scene *scene, int rank, char what)
{
    if (write(scene->children[rank].to, &what, 1) < 0)
        scene->children[rank].has_ended = true;
}

static void order_all(struct scene *scene, char what)
{
    for (int r = 0; r < scene->cell->size; r++)
        order(scene, r, what);
}

/* ---- What they say --------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void note(struct scene *scene, const char *fmt, ...)
{
    va_list args;

    if (scene->outcome->why[0] != '\0')
        return;
    va_start(args, fmt);
    (void)vsnprintf(scene->outcome->why, sizeof(scene->outcome->why), fmt, args);
    va_end(args);
}

/* Those who hear each other have to name one rank.  Two who are alone with each other are two
 * sides, and so are the halves. */
static int side_of(const struct scene *scene, int rank)
{
    int size = scene->cell->size;

    if (scene->cell->fault == FAULT_HALVES)
        return rank >= size / 2;
    return scene->cell->fault == FAULT_APART && size == 2 ? rank : 0;
}

static int size_of_side(const struct scene *scene, int rank)
{
    int count = 0;

    for (int r = 0; r < scene->cell->size; r++)
        count += side_of(scene, r) == side_of(scene, rank);
    return count;
}

/* Whom a rank has to name: see docs/failures.md. */
static bool is_guilty(const struct scene *scene, int rank, const struct chaos_report *report)
{
    const struct chaos_cell *cell = scene->cell;
    bool is_alone = size_of_side(scene, rank) == 1;
    int culprit = report->culprit;

    if (culprit < 0)
        return false;
    if (cell->fault == FAULT_HALVES || (cell->fault == FAULT_APART && cell->size == 2))
        return (is_alone && cell->size > 2 && culprit == rank) ||
               side_of(scene, culprit) != side_of(scene, rank);
    if (cell->fault == FAULT_CLOSE && report->reason == TC_REASON_LINK_DEAD)
        return true; /* from outside that is a path, and the higher end is named */
    if (cell->fault == FAULT_APART)
        return culprit == (cell->victim > scene->other ? cell->victim : scene->other);
    return culprit == cell->victim;
}

static bool is_apart(const struct scene *scene, int rank)
{
    return scene->cell->fault == FAULT_APART &&
           (rank == scene->cell->victim || rank == scene->other);
}

/* Who cannot reach rank 0 while it gathers all hears no other, and takes it for the cause. */
static bool is_outside(const struct scene *scene, int rank, int culprit)
{
    return scene->cell->moment == MOMENT_FORMING && culprit == 0 && rank != 0 &&
           is_apart(scene, rank) && is_apart(scene, 0);
}

/* All others have said goodbye, and can tell nothing more: then two are as two alone.  That no
 * other has failed shows at the end. */
static bool is_of_the_last_two(const struct scene *scene, int rank,
                               const struct chaos_report *report)
{
    return scene->cell->moment == MOMENT_CLOSING && is_apart(scene, rank) &&
           report->culprit != rank && is_apart(scene, report->culprit) &&
           report->reason == TC_REASON_MACHINE_SILENT;
}

/* All others of its half have said goodbye: it hears nobody, which is to be cut off.  That no other
 * of that half has failed shows at the end. */
static bool is_the_last_of_its_side(const struct scene *scene, int rank,
                                    const struct chaos_report *report)
{
    return scene->cell->moment == MOMENT_CLOSING && scene->cell->fault == FAULT_HALVES &&
           scene->cell->size > 2 && report->culprit == rank &&
           report->reason == TC_REASON_MACHINE_SILENT;
}

/* Why, as it may put it; 0: anything. */
static unsigned reasons_for(const struct scene *scene)
{
    unsigned wanted = reasons[scene->cell->fault];

    if (scene->cell->fault == FAULT_APART && scene->cell->size == 2)
        wanted = BIT(TC_REASON_MACHINE_SILENT); /* of two it cannot be told apart */
    if (wanted != 0 && scene->cell->moment == MOMENT_FORMING)
        wanted |= BIT(TC_REASON_NEVER_STARTED); /* it may not have come yet */
    if (scene->cell->fault == FAULT_APART && scene->cell->moment == MOMENT_FORMING)
        wanted |= BIT(TC_REASON_MACHINE_SILENT); /* nobody else is asked yet */
    return wanted;
}

static void judge_failure(struct scene *scene, int rank, const struct chaos_report *report)
{
    struct chaos_outcome *outcome = scene->outcome;
    unsigned wanted = reasons_for(scene);
    int *named = &scene->named[side_of(scene, rank)];

    if (is_harmless(scene->cell->fault) &&
        (scene->cell->fault != FAULT_LIMITED || rank != scene->cell->victim)) {
        outcome->is_alarm = true;
        note(scene, "rank %d: %s: %s", rank, report->what, report->text);
        return;
    }
    /* A rank that is cut off cannot know that it is the one, and one that harms itself does. */
    if (rank == scene->cell->victim && scene->cell->fault != FAULT_APART &&
        scene->cell->fault != FAULT_HALVES)
        return;
    if (is_outside(scene, rank, report->culprit))
        return;
    /* Who comes when rank 0 has given up finds nobody, and cannot know why. */
    if (scene->cell->moment == MOMENT_FORMING && report->culprit == 0 && scene->zero_failed)
        return;
    scene->zero_failed = scene->zero_failed || rank == 0;
    outcome->failed++;
    if (scene->cell->size > 2 && is_of_the_last_two(scene, rank, report)) {
        scene->was_alone = true;
        outcome->reasons_right++;
        return;
    }
    scene->failed[side_of(scene, rank)]++;
    if (is_the_last_of_its_side(scene, rank, report)) {
        scene->was_last[side_of(scene, rank)] = true;
        outcome->reasons_right++;
        return;
    }
    scene->third_failed = scene->third_failed || !is_apart(scene, rank);
    outcome->reasons_right += wanted == 0 || (wanted & BIT(report->reason)) != 0;
    if (!is_guilty(scene, rank, report) || (*named >= 0 && *named != report->culprit)) {
        if (outcome->is_named && outcome->is_settled)
            outcome->why[0] = '\0'; /* it was only a reason */
        outcome->is_named = false;
        note(scene, "rank %d: %s blames %d: %s", rank, report->what, report->culprit, report->text);
    }
    *named = report->culprit;
    if (wanted != 0 && (wanted & BIT(report->reason)) == 0)
        note(scene, "rank %d: %s: reason %s: %s", rank, report->what,
             tc_reason_string((tc_reason_t)report->reason), report->text);
}

static void hear(struct scene *scene, int rank)
{
    struct child *child = &scene->children[rank];
    struct chaos_outcome *outcome = scene->outcome;
    struct chaos_report report;

    if (read(child->from, &report, sizeof(report)) != (ssize_t)sizeof(report)) {
        child->has_ended = true;
        return;
    }
    switch (report.said) {
    case SAID_DONE:
        child->is_done = true;
        break;
    case SAID_HUNG:
        outcome->is_settled = false;
        note(scene, "rank %d: %s does not end", rank, report.what);
        break;
    case SAID_SETTLED:
        outcome->late_ms = report.late_ms > outcome->late_ms ? report.late_ms : outcome->late_ms;
        if (report.late_ms > CHAOS_SLACK_MS) {
            outcome->is_settled = false;
            note(scene, "rank %d: %s ends %.0f ms after its deadline: %s", rank, report.what,
                 report.late_ms, report.text);
        }
        judge_failure(scene, rank, &report);
        break;
    default:
        child->is_ready = true;
    }
}

/* Those who still have something to say: a stopped one does not. */
static bool is_awaited(const struct scene *scene, int rank)
{
    const struct child *child = &scene->children[rank];
    enum chaos_fault fault = scene->cell->fault;
    bool is_gone = fault == FAULT_KILL || fault == FAULT_EXIT || fault == FAULT_STOP;

    return !child->has_ended && !child->is_done && (rank != scene->cell->victim || !is_gone);
}

/* Hear all until each has said that it is ready (or all that it has to say); false: not in time. */
static bool hear_until(struct scene *scene, bool ready, int limit_ms)
{
    uint64_t limit = now_ms() + (uint64_t)limit_ms;

    for (;;) {
        struct pollfd polled[CHAOS_RANKS_MAX];
        int left = 0;

        for (int r = 0; r < scene->cell->size; r++) {
            const struct child *child = &scene->children[r];
            bool is_heard = ready ? !child->has_ended && !child->is_done : is_awaited(scene, r);

            left += is_heard && !(ready && child->is_ready);
            polled[r] = (struct pollfd){.fd = is_heard ? child->from : -1, .events = POLLIN};
        }
        if (left == 0)
            return true;
        if (now_ms() >= limit)
            return false;
        (void)poll(polled, (nfds_t)scene->cell->size, 100);
        for (int r = 0; r < scene->cell->size; r++)
            if (polled[r].fd >= 0 && polled[r].revents != 0)
                hear(scene, r);
    }
}

static bool hear_ready(struct scene *scene)
{
    bool is_well;

    for (int r = 0; r < scene->cell->size; r++)
        scene->children[r].is_ready = false;
    is_well = hear_until(scene, true, READY_MS);
    for (int r = 0; r < scene->cell->size; r++)
        is_well = is_well && scene->children[r].is_ready;
    return is_well;
}

/* ---- The fault ------------------------------------------------------------------------------- */

static void limit(pid_t pid)
{
    struct rlimit none = {0, RLIM_INFINITY};

    (void)prlimit(pid, RLIMIT_AS, &none, NULL);
    (void)prlimit(pid, RLIMIT_NOFILE, &none, NULL);
}

/* False: the world could not be changed that way. */
static bool strike(struct scene *scene)
{
    int victim = scene->cell->victim;
    pid_t pid = scene->children[victim].pid;

    switch (scene->cell->fault) {
    case FAULT_KILL:
        return kill(pid, SIGKILL) == 0;
    case FAULT_EXIT:
        return kill(pid, CHAOS_EXIT) == 0;
    case FAULT_STOP:
        return kill(pid, SIGSTOP) == 0;
    case FAULT_PAUSE:
        (void)kill(pid, SIGSTOP);
        nap((unsigned)scene->cell->pause_ms);
        return kill(pid, SIGCONT) == 0;
    case FAULT_UNPLUG:
        return lab_host_unplug(victim);
    case FAULT_DROP:
        return lab_host_drop(pid, true, -1) && lab_host_drop(pid, false, -1);
    case FAULT_DEAF:
        return lab_host_drop(pid, true, -1);
    case FAULT_MUTE:
        return lab_host_drop(pid, false, -1);
    case FAULT_APART:
        return lab_host_drop(pid, true, scene->other) && lab_host_drop(pid, false, scene->other);
    case FAULT_HALVES:
        return lab_split(scene->cell->size / 2, scene->cell->size);
    case FAULT_CLOSE:
        return kill(pid, CHAOS_CLOSE) == 0;
    case FAULT_MEMORY:
        return kill(pid, CHAOS_MEMORY) == 0;
    case FAULT_LIMITED:
        limit(pid);
        return true;
    default:
        nap(REST_MS);
        return true;
    }
}

static void end(struct scene *scene)
{
    for (int r = 0; r < scene->cell->size; r++) {
        struct child *child = &scene->children[r];
        int status;

        if (child->pid <= 0 || waitpid(child->pid, &status, WNOHANG) != child->pid)
            continue;
        child->pid = 0;
        if ((WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) ||
            (WIFEXITED(status) && WEXITSTATUS(status) != 0)) {
            scene->outcome->is_settled = false;
            scene->outcome->why[0] = '\0';
            note(scene, "rank %d: ended by %s %d", r, WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
    for (int r = 0; r < scene->cell->size; r++) {
        struct child *child = &scene->children[r];
        pid_t pids[] = {child->pid, child->line};

        for (int p = 0; p < 2; p++)
            if (pids[p] > 0) {
                (void)kill(pids[p], SIGKILL);
                (void)waitpid(pids[p], NULL, 0);
            }
        close(child->from);
        close(child->to);
    }
    lab_clear();
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* The first step that fails, in words; NULL: none. */
static const char *build(struct scene *scene)
{
    const struct chaos_cell *cell = scene->cell;

    for (int r = 0; r < cell->size; r++)
        if (!start(scene, r))
            return "a process cannot be started";
    if (!hear_ready(scene))
        return "a process gets no network of its own";
    for (int r = 0; r < cell->size; r++) {
        struct child *child = &scene->children[r];

        if (cell->fault == FAULT_FAR && r == cell->victim)
            child->line = lab_host_link_far(r, child->pid, 20000, 10000);
        else if (!lab_host_link(r, child->pid))
            return "a host cannot be linked";
        if (child->line < 0)
            return "a host cannot be linked by a long line";
    }
    order_all(scene, ORDER_GO);
    return hear_ready(scene) ? NULL : "the group is not formed";
}

void chaos_cell_run(const struct chaos_cell *cell, struct chaos_outcome *outcome)
{
    struct scene scene = {.cell = cell, .outcome = outcome, .named = {-1, -1}};
    const char *wrong;
    int limit_ms = 2 * (is_harmless(cell->fault) ? PATIENCE_MS : TIMEOUT_MS) + READY_MS;

    *outcome = (struct chaos_outcome){.is_settled = true, .is_named = true};
    scene.other = (cell->victim + 1) % cell->size;
    wrong = build(&scene);
    if (wrong != NULL)
        note(&scene, "%s", wrong);
    outcome->is_built = wrong == NULL;
    if (outcome->is_built) {
        nap((unsigned)(cell->random % (cell->moment == MOMENT_BUSY ? 150 : 40)));
        /* Who has left already cannot be harmed any more. */
        if (!strike(&scene) && cell->moment != MOMENT_CLOSING) {
            outcome->is_built = false;
            note(&scene, "the fault cannot be made");
        }
        nap(cell->moment == MOMENT_IDLE ? REST_MS : 0);
        order_all(&scene, cell->moment == MOMENT_IDLE ? ORDER_ON : ORDER_END);
        if (!hear_until(&scene, false, limit_ms)) {
            outcome->is_settled = false;
            note(&scene, "someone says nothing any more");
        }
    }
    for (int r = 0; outcome->is_built && r < cell->size; r++)
        if (scene.children[r].has_ended && !scene.children[r].is_done && is_awaited(&scene, r)) {
            outcome->is_settled = false;
            note(&scene, "rank %d has ended in the middle", r);
        }
    if (scene.was_alone && scene.third_failed) {
        outcome->is_named = false;
        note(&scene, "one of the two names the other as silent, though others were there to ask");
    }
    for (int side = 0; side < 2; side++)
        if (scene.was_last[side] && scene.failed[side] > 1) {
            outcome->is_named = false;
            note(&scene, "a rank names itself as cut off, though others of its half were there");
        }
    end(&scene);
}
