/* main.c - tcdoctor examines a job, from inside of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "facts.h"
#include "options.h"
#include "probe.h"
#include "roundtable.h"
#include "tcdist/tcdist.h"
#include "verdict.h"
#include "work.h"

struct doctor {
    const struct options *options;
    tc_dist_env env;
    tc_context *context;
    tc_dist_ctx *group; /* NULL: it does not stand (yet) */
    struct table table;
    struct facts mine, *facts; /* owned, as those below: of all ranks */
    int64_t *ahead_ns;
    struct tried *tried;
    struct worked work, *worked;
};

/* ---- By itself ------------------------------------------------------------------------------- */

/* tcrun, where this program is or on the path, starts this one as ranks. */
static int become_tcrun(const struct options *options)
{
    char self[PATH_MAX] = "", path[PATH_MAX + 16], numbers[3][40], trouble[32];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    char **argv = calloc(options->tcrun_count + 13, sizeof *argv), *slash;
    size_t n = 0;

    if (len <= 0 || argv == NULL)
        return EXIT_TROUBLE;
    (void)snprintf(path, sizeof path, "%s", self);
    slash = strrchr(path, '/');
    (void)snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "tcrun");
    (void)snprintf(numbers[0], sizeof numbers[0], "--timeout=%g", options->timeout_ms / 1000.0);
    (void)snprintf(numbers[1], sizeof numbers[1], "--try=%g", options->try_ms / 1000.0);
    (void)snprintf(numbers[2], sizeof numbers[2], "--large=%g",
                   (double)options->large_bytes / 1048576);
    /* 1 is what rank 0 ends with when it has found something. */
    (void)snprintf(trouble, sizeof trouble, "--trouble-exit=%d", EXIT_TROUBLE);
    argv[n++] = (char *)"tcrun";
    argv[n++] = (char *)"--no-prefix";
    argv[n++] = (char *)"--stdin=none";
    argv[n++] = trouble;
    for (size_t i = 0; i < options->tcrun_count; i++)
        argv[n++] = options->tcrun[i];
    argv[n++] = (char *)"--";
    argv[n++] = self;
    for (size_t i = 0; i < 3; i++)
        argv[n++] = numbers[i];
    if (options->is_quiet)
        argv[n++] = (char *)"--quiet";
    execv(path, argv);
    execvp("tcrun", argv);
    fprintf(stderr, "tcdoctor: cannot run tcrun: %s\n", strerror(errno));
    free(argv);
    return EXIT_TROUBLE;
}

/* ---- In a job -------------------------------------------------------------------------------- */

static bool is_tcp(const char *url)
{
    return strncmp(url, "tcp://", 6) == 0 || strncmp(url, "gloo+tcp://", 11) == 0;
}

/* Where the ranks can meet by themselves they do, since then it is known who is missing and why;
 * else the group is needed for that. */
static bool meet(struct doctor *doctor)
{
    char why[200] = "";

    if (is_tcp(doctor->env.rendezvous) || doctor->env.world_size == 1) {
        if (table_open(&doctor->table, &doctor->env, doctor->options->timeout_ms, why, sizeof why))
            return true;
        fprintf(stderr, "tcdoctor: rank %d of %d cannot reach rank 0 at %s: %s\n", doctor->env.rank,
                doctor->env.world_size, doctor->env.rendezvous, why);
        return false;
    }
    doctor->group = work_form(doctor->context, &doctor->work);
    if (doctor->group != NULL && table_open_group(&doctor->table, doctor->group))
        return true;
    fprintf(stderr, "tcdoctor: rank %d of %d: the group does not form at %s: %s\n",
            doctor->env.rank, doctor->env.world_size, doctor->env.rendezvous, doctor->work.error);
    return false;
}

static bool reserve(struct doctor *doctor)
{
    size_t size = (size_t)doctor->env.world_size;

    doctor->facts = calloc(size, sizeof *doctor->facts);
    doctor->ahead_ns = calloc(size, sizeof *doctor->ahead_ns);
    doctor->tried = calloc(size * (size + 1), sizeof *doctor->tried);
    doctor->worked = calloc(size, sizeof *doctor->worked);
    return doctor->facts != NULL && doctor->ahead_ns != NULL && doctor->tried != NULL &&
           doctor->worked != NULL;
}

static bool exchange(struct doctor *doctor, const void *mine, size_t len, void *all)
{
    /* Others may still try addresses that do not answer. */
    int timeout_ms =
        doctor->options->timeout_ms + 2 * doctor->options->try_ms * doctor->env.world_size;

    return table_exchange(&doctor->table, mine, len, all, timeout_ms);
}

/* In turns of one peer each, so that links are measured one by one. */
static bool try_large(struct doctor *doctor, struct tried *mine)
{
    int size = doctor->env.world_size, rank = doctor->env.rank;
    char *nothing = calloc((size_t)size, 1);
    bool is_good = nothing != NULL;

    for (int turn = 1; turn < size && is_good && doctor->options->large_bytes > 0; turn++) {
        int peer = (rank + turn) % size;

        if (doctor->table.is_here[peer] != 0)
            probe_large(&doctor->mine, &doctor->facts[peer], &mine[peer],
                        doctor->options->large_bytes, doctor->options->try_ms);
        is_good = exchange(doctor, "", 1, nothing);
    }
    free(nothing);
    return is_good;
}

static void check_all(struct doctor *doctor)
{
    for (int i = 0; i < doctor->env.world_size; i++)
        if (doctor->table.is_here[i] != 0 &&
            !facts_check(&doctor->facts[i], i, doctor->env.world_size))
            doctor->table.is_here[i] = 0;
    facts_check_tried(doctor->tried,
                      (size_t)doctor->env.world_size * (size_t)doctor->env.world_size);
    facts_check_worked(doctor->worked, (size_t)doctor->env.world_size);
}

static bool is_complete(const struct doctor *doctor)
{
    return memchr(doctor->table.is_here, 0, (size_t)doctor->env.world_size) == NULL;
}

static bool examine(struct doctor *doctor)
{
    size_t size = (size_t)doctor->env.world_size;
    struct tried *mine = doctor->tried + size * size;
    struct probe *probe;
    bool is_good;

    facts_gather(&doctor->mine, doctor->env.rank, doctor->env.world_size, doctor->env.launcher);
    probe = probe_open(doctor->mine.nonce, &doctor->mine.probe_port);
    if (probe == NULL) {
        fprintf(stderr, "tcdoctor: rank %d cannot listen: %s\n", doctor->env.rank, strerror(errno));
        return false;
    }
    is_good =
        exchange(doctor, &doctor->mine, sizeof doctor->mine, doctor->facts) &&
        exchange(doctor, &doctor->table.ahead_ns, sizeof doctor->table.ahead_ns, doctor->ahead_ns);
    if (is_good) {
        check_all(doctor);
        probe_reach(doctor->facts, doctor->table.is_here, doctor->env.rank, mine,
                    doctor->options->try_ms);
        is_good =
            try_large(doctor, mine) && exchange(doctor, mine, size * sizeof *mine, doctor->tried);
    }
    /* Without all of them no group forms, which needs no proof. */
    doctor->work.is_right = !is_complete(doctor);
    if (is_good && doctor->group == NULL && is_complete(doctor))
        doctor->group = work_form(doctor->context, &doctor->work);
    if (is_good && doctor->group != NULL)
        work_try(doctor->group, &doctor->work);
    is_good = is_good && exchange(doctor, &doctor->work, sizeof doctor->work, doctor->worked);
    probe_close(probe);
    if (is_good)
        check_all(doctor);
    else
        fprintf(stderr, "tcdoctor: rank %d: rank 0 is gone\n", doctor->env.rank);
    return is_good;
}

/* Rank 0 speaks for all. */
static int conclude(const struct doctor *doctor)
{
    struct known known = {
        .size = doctor->env.world_size,
        .facts = doctor->facts,
        .is_here = doctor->table.is_here,
        .ahead_ns = doctor->ahead_ns,
        .tried = doctor->tried,
        .worked = doctor->worked,
        .url = doctor->env.rendezvous,
        .timeout_ms = doctor->options->timeout_ms,
    };
    int found;

    if (doctor->env.rank > 0)
        return 0;
    if (!doctor->options->is_quiet)
        report_write(stdout, &known);
    found = verdict_write(stdout, &known);
    if (found == 0 && !doctor->options->is_quiet && known.size == 1)
        printf("all is well: the collective has the right result; this rank was alone: to examine "
               "more, give -n N, --hosts or --hostfile, or let a launcher start tcdoctor\n");
    else if (found == 0 && !doctor->options->is_quiet)
        printf("all is well: every rank reaches every other one, and the collective has the right "
               "result\n");
    return found > 0 ? EXIT_FOUND : 0;
}

static int run(const struct options *options)
{
    struct doctor doctor = {.options = options};
    tc_config config;
    int exit_code = EXIT_TROUBLE;

    tc_config_default(&config);
    config.timeout_ms = options->timeout_ms;
    if (tc_dist_env_read(&doctor.env) != TC_OK ||
        tc_init_config(&config, &doctor.context) != TC_OK) {
        fprintf(stderr, "tcdoctor: %s\n", tc_last_error()->message);
        return EXIT_TROUBLE;
    }
    if (doctor.env.world_size > RANKS_MAX)
        fprintf(stderr, "tcdoctor: more than %d ranks\n", RANKS_MAX);
    else if (!reserve(&doctor))
        fprintf(stderr, "tcdoctor: out of memory\n");
    else if (meet(&doctor) && examine(&doctor))
        exit_code = conclude(&doctor);
    if (doctor.group != NULL)
        (void)tc_dist_finalize(doctor.group);
    table_close(&doctor.table);
    tc_shutdown(doctor.context);
    free(doctor.facts);
    free(doctor.ahead_ns);
    free(doctor.tried);
    free(doctor.worked);
    return exit_code;
}

int main(int argc, char **argv)
{
    struct options options;
    int exit_code;

    (void)signal(SIGPIPE, SIG_IGN);
    options_parse(&options, argc, argv);
    exit_code = options.is_launched ? become_tcrun(&options) : run(&options);
    options_fini(&options);
    return exit_code;
}
