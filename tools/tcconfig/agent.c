/* agent.c - one host of a survey: says what it has, and tries the others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"
#include "roundtable.h"
#include "survey.h"
#include "tcdist/version.h"

/* Both sides have the same structs, or do not speak. */
const char *agent_version(void)
{
    static char text[64];

    (void)snprintf(text, sizeof text, "%s %zu %zu", tc_version(), sizeof(struct facts),
                   sizeof(struct tried));
    return text;
}

/* In turns of one peer each. */
static bool try_each(struct table *table, const struct facts *me, const struct facts *all,
                     struct tried *tried, size_t bytes, int try_ms)
{
    char *nothing = calloc((size_t)table->size, 1);
    bool is_good = nothing != NULL;

    for (int turn = 1; turn < table->size && is_good; turn++) {
        int peer = (table->rank + turn) % table->size;

        if (table->is_here[peer] != 0 && bytes > 0)
            probe_each(me, &all[peer], &tried[peer], bytes, try_ms);
        is_good = table_exchange(table, "", 1, nothing, EXCHANGE_MS);
    }
    free(nothing);
    return is_good;
}

static bool answer(struct table *table, int try_ms, size_t bytes)
{
    size_t size = (size_t)table->size;
    struct facts mine, *all = calloc(size, sizeof *all);
    struct tried *tried = calloc(size, sizeof *tried), *others = calloc(size * size, sizeof *tried);
    struct probe *probe;
    bool is_good;

    facts_gather(&mine, table->rank, table->size, "tcconfig");
    probe = probe_open(mine.nonce, &mine.probe_port);
    is_good = probe != NULL && all != NULL && tried != NULL && others != NULL &&
              table_exchange(table, &mine, sizeof mine, all, EXCHANGE_MS);
    for (int i = 0; is_good && i < table->size; i++)
        if (table->is_here[i] != 0 && !facts_check(&all[i], i, table->size))
            table->is_here[i] = 0;
    if (is_good) {
        probe_reach(all, table->is_here, table->rank, tried, try_ms);
        is_good = try_each(table, &mine, all, tried, bytes, try_ms) &&
                  table_exchange(table, tried, size * sizeof *tried, others, EXCHANGE_MS);
    }
    if (probe != NULL)
        probe_close(probe);
    free(all);
    free(tried);
    free(others);
    return is_good;
}

int agent_run(const char *place)
{
    struct table table;
    int rank, size, try_ms, end = 0, out;
    unsigned long bytes;
    bool is_good;

    (void)signal(SIGPIPE, SIG_IGN);
    if (sscanf(place, "%d/%d/%d/%lu%n", &rank, &size, &try_ms, &bytes, &end) != 4 ||
        place[end] != '\0' || rank < 0 || rank >= size || size > RANKS_MAX || try_ms <= 0) {
        fprintf(stderr,
                "tcconfig: --agent=%.80s is no place in a survey: it is for tcconfig itself, which "
                "starts it on each host; see tcconfig --help\n",
                place);
        return EXIT_TROUBLE;
    }
    out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (out < 0) {
        fprintf(stderr, "tcconfig: the agent of host %d has no descriptor: %s\n", rank,
                strerror(errno));
        return EXIT_TROUBLE;
    }
    /* What else is printed must not get between. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    dprintf(out, "%s%s\n", AGENT_START, agent_version());
    if (!table_open_pipes(&table, rank, size, dup(STDIN_FILENO), out))
        return EXIT_TROUBLE;
    is_good = answer(&table, try_ms, bytes);
    table_close(&table);
    return is_good ? 0 : EXIT_TROUBLE;
}
