/* supervisor.c - starts workers, kills some, and writes down who took part in what. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rng.h"
#include "worker.h"

enum { POLL_MS = 20, DELAY_US_MAX = 3000, JOIN_US_MAX = 30000 };

/* A worker is gone for good once it was killed; its number is not given again. */
struct started {
    pid_t pid; /* 0: it has ended */
    bool is_killed;
};

struct supervisor {
    const struct options *options;
    struct outcome *outcome;
    struct started *workers; /* owned, by number */
    uint32_t count, alive;
    int reports[2], answers[2];
    size_t next_kill; /* step */
    struct rng rng;
    struct members members; /* of the last step that was told */
    bool may_disturb;
    bool has_failed;
};

static bool start_worker(struct supervisor *supervisor, struct place *place)
{
    struct started *grown = realloc(supervisor->workers, (supervisor->count + 1) * sizeof *grown);

    if (grown == NULL)
        return false;
    supervisor->workers = grown;
    place->id = supervisor->count;
    place->reports = supervisor->reports[1];
    place->answers = supervisor->answers[0];
    grown[supervisor->count] = (struct started){.pid = fork()};
    if (grown[supervisor->count].pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(supervisor->reports[0]);
        (void)close(supervisor->answers[1]);
        if (place->rank != 0 && place->listen_fd >= 0)
            (void)close(place->listen_fd);
        if (place->rank != 0)
            place->listen_fd = -1;
        exit(worker_run(supervisor->options, place));
    }
    if (grown[supervisor->count].pid < 0)
        return false;
    supervisor->count++;
    supervisor->alive++;
    return true;
}

static bool start_founders(struct supervisor *supervisor)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct place place = {.size = (int)supervisor->options->ranks, .is_founder = true};
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_well = fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof addr) == 0 &&
                   listen(fd, RANKS_MAX) == 0 &&
                   getsockname(fd, (struct sockaddr *)&addr, &len) == 0;

    (void)snprintf(place.url, sizeof place.url, "tcp://127.0.0.1:%d", ntohs(addr.sin_port));
    place.listen_fd = fd;
    for (; is_well && place.rank < place.size; place.rank++)
        is_well = start_worker(supervisor, &place);
    if (fd >= 0)
        (void)close(fd);
    return is_well;
}

/* At a moment of the steps to come that nobody knows. */
static void kill_one(struct supervisor *supervisor, const struct members *members)
{
    uint32_t victim = members->ids[rng_below(&supervisor->rng, members->count)];
    struct timespec delay = {.tv_nsec = 1000 * (long)rng_below(&supervisor->rng, DELAY_US_MAX)};

    (void)nanosleep(&delay, NULL);
    if (victim >= supervisor->count || supervisor->workers[victim].pid == 0)
        return;
    supervisor->workers[victim].is_killed = true;
    (void)kill(supervisor->workers[victim].pid, SIGKILL);
    supervisor->outcome->killed++;
    supervisor->may_disturb =
        supervisor->next_kill + 2 * supervisor->options->kill_every < supervisor->options->steps;
    if (!supervisor->options->is_quiet)
        printf("after step %zu of %zu: worker %" PRIu32 " is killed\n", supervisor->next_kill,
               supervisor->options->steps, victim);
}

/* Nobody is missing, and nobody is on the way in or out: what is told may be some steps old. */
static bool are_all_there(const struct supervisor *supervisor, const struct members *members)
{
    bool has_newest = false;

    for (uint32_t r = 0; r < members->count; r++) {
        if (members->ids[r] >= supervisor->count || supervisor->workers[members->ids[r]].is_killed)
            return false;
        has_newest = has_newest || members->ids[r] + 1 == supervisor->count;
    }
    return has_newest && members->count == supervisor->options->ranks;
}

static void on_step(struct supervisor *supervisor, const struct report *report)
{
    size_t every = supervisor->options->kill_every;
    bool is_due = every > 0 && report->waits && report->step + 1 >= supervisor->next_kill &&
                  are_all_there(supervisor, &report->members) &&
                  report->step + 1 + every < supervisor->options->steps;

    supervisor->members = report->members;
    if (report->step < supervisor->options->steps)
        supervisor->outcome->history[report->step] = report->members;
    if (report->waits)
        (void)!write(supervisor->answers[1], "", 1);
    if (!is_due)
        return;
    supervisor->next_kill = report->step + 1;
    kill_one(supervisor, &report->members);
    supervisor->next_kill += every;
}

/* Once after each kill: one of those who have trained, of whom some have to be left, or the one who
 * comes in. */
static void disturb(struct supervisor *supervisor)
{
    struct timespec delay = {.tv_nsec = 1000 * (long)rng_below(&supervisor->rng, JOIN_US_MAX)};
    const struct members *members = &supervisor->members;
    uint32_t victim = supervisor->count - 1, there[RANKS_MAX], count = 0;

    for (uint32_t r = 0; r < members->count; r++)
        if (!supervisor->workers[members->ids[r]].is_killed)
            there[count++] = members->ids[r];
    if (count > 2 && rng_below(&supervisor->rng, 3) > 0)
        victim = there[rng_below(&supervisor->rng, count)];
    (void)nanosleep(&delay, NULL);
    supervisor->may_disturb = false;
    supervisor->workers[victim].is_killed = true;
    (void)kill(supervisor->workers[victim].pid, SIGKILL);
    supervisor->outcome->killed++;
    if (!supervisor->options->is_quiet)
        printf("                    worker %" PRIu32 " is killed meanwhile\n", victim);
}

static void on_room(struct supervisor *supervisor, const struct report *report)
{
    struct place place = {.size = (int)report->members.count,
                          .rank = (int)report->members.count - 1,
                          .timeout_ms = report->timeout_ms,
                          .listen_fd = -1};

    memcpy(place.url, report->url, sizeof place.url);
    if (!supervisor->options->is_quiet)
        printf("                    worker %" PRIu32 " joins, as rank %d of %d\n",
               supervisor->count, place.rank, place.size);
    if (!start_worker(supervisor, &place))
        supervisor->has_failed = true;
    else if (supervisor->options->disturbs && supervisor->may_disturb)
        disturb(supervisor);
}

static void on_end(struct supervisor *supervisor, const struct report *report)
{
    struct outcome *outcome = supervisor->outcome;

    if (outcome->ended++ > 0 && outcome->hash != report->hash) {
        fprintf(stderr, "elastic: workers have different weights\n");
        supervisor->has_failed = true;
    }
    outcome->hash = report->hash;
}

static void on_report(struct supervisor *supervisor, const struct report *report)
{
    switch (report->kind) {
    case REPORT_STEP:
        on_step(supervisor, report);
        break;
    case REPORT_ROOM:
        on_room(supervisor, report);
        break;
    case REPORT_END:
        on_end(supervisor, report);
        break;
    }
}

static void bury(struct supervisor *supervisor)
{
    pid_t pid;
    int how;

    while (supervisor->alive > 0 && (pid = waitpid(-1, &how, WNOHANG)) > 0)
        for (uint32_t w = 0; w < supervisor->count; w++) {
            struct started *worker = &supervisor->workers[w];

            if (worker->pid != pid)
                continue;
            worker->pid = 0;
            supervisor->alive--;
            if (WIFEXITED(how) && WEXITSTATUS(how) == EXIT_NOT_JOINED)
                worker->is_killed = true; /* somebody ended while it came in */
            if (!worker->is_killed && (!WIFEXITED(how) || WEXITSTATUS(how) != 0)) {
                fprintf(stderr, "elastic: worker %" PRIu32 " ended with status %x\n", w,
                        (unsigned)how);
                supervisor->has_failed = true;
            }
        }
}

static void watch(struct supervisor *supervisor)
{
    struct pollfd poller = {.fd = supervisor->reports[0], .events = POLLIN};
    struct report report;

    while (supervisor->alive > 0 || poll(&poller, 1, 0) > 0) {
        if (poll(&poller, 1, POLL_MS) > 0 &&
            read(poller.fd, &report, sizeof report) == (ssize_t)sizeof report)
            on_report(supervisor, &report);
        bury(supervisor);
    }
}

bool supervise(const struct options *options, struct outcome *outcome)
{
    struct supervisor supervisor = {
        .options = options, .outcome = outcome, .next_kill = options->kill_every};

    *outcome = (struct outcome){.history = calloc(options->steps, sizeof *outcome->history)};
    rng_init(&supervisor.rng, options->seed, 7);
    if (outcome->history == NULL || pipe(supervisor.reports) != 0 ||
        pipe(supervisor.answers) != 0 || !start_founders(&supervisor)) {
        perror("elastic: start workers");
        supervisor.has_failed = true;
    }
    watch(&supervisor);
    free(supervisor.workers);
    return !supervisor.has_failed && outcome->ended > 0;
}
