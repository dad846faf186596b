/* traced_ranks.c - ranks that are processes and leave traces in a folder of the test's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/traced_ranks.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/context.h"
#include "loop/loop.h"
#include "support/world.h"

enum { PATIENCE_MS = 60000, EXIT_SAYS = 3 };

/* A rank's own end: what it says fails the test. */
_Noreturn static void give_up(struct traced_rank *self, const char *doing)
{
    const tc_error *error = tc_last_error();

    dprintf(self->out, "rank %d: %s: %s\n", self->rank, doing,
            error == NULL ? "no error" : error->message);
    _exit(EXIT_SAYS);
}

void traced_wait(struct traced_rank *self, tc_future *future)
{
    if (tc_future_wait(future, PATIENCE_MS) != TC_OK)
        give_up(self,
                tc_future_error(future) == NULL ? "too slow" : tc_future_error(future)->message);
    tc_future_release(future);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* A loop counts an operation before it shows what that waits for, in one call. */
void traced_entered(struct traced_rank *self, uint64_t operations)
{
    tc_stats stats = {0};

    while (stats.operations_begun < operations) {
        struct timespec nap = {.tv_nsec = 1000000};

        if (tc_context_stats(self->context, TC_STATS_ABI_VERSION, &stats) != TC_OK)
            give_up(self, "stats");
        nanosleep(&nap, NULL);
    }
    tci_loop_call(tci_loop_of(self->context->exec), nothing, NULL);
}

static void form(struct traced_rank *self, const struct traced_ranks *ranks, const char *url,
                 int listen_fd)
{
    tc_dist_options options;
    tc_config config;

    tc_config_default(&config);
    config.trace_dir = ranks->dir;
    config.timeout_ms = -1;
    if (tc_init_config(&config, &self->context) != TC_OK)
        give_up(self, "a context");
    tc_dist_options_default(&options);
    options.world_size = ranks->size;
    options.rank = self->rank;
    options.rendezvous_url = ranks->urls[self->rank] != NULL ? ranks->urls[self->rank] : url;
    options.listen_fd = self->rank == 0 && ranks->urls[0] == NULL ? listen_fd : -1;
    traced_wait(self, tc_dist_init_async(self->context, &options, &self->group));
}

_Noreturn static void play(struct traced_rank *self, traced_body *body, bool stays)
{
    body(self);
    if (!stays && (tc_dist_finalize(self->group) != TC_OK || tc_shutdown(self->context) != TC_OK))
        give_up(self, "leaving");
    if (dprintf(self->out, "+") != 1)
        _exit(EXIT_SAYS);
    while (stays)
        pause();
    _exit(0);
}

void traced_init(struct traced_ranks *ranks, int size)
{
    *ranks = (struct traced_ranks){.size = size, .dir = "/tmp/tcdist-traces-XXXXXX"};
    assert_non_null(mkdtemp(ranks->dir));
}

void traced_start(struct traced_ranks *ranks, traced_body *body, bool stays)
{
    char url[64];
    int fd = world_listen(url, sizeof(url));

    for (int r = 0; r < ranks->size; r++) {
        int pair[2];

        assert_int_equal(pipe(pair), 0);
        fflush(NULL);
        ranks->pids[r] = fork();
        assert_true(ranks->pids[r] >= 0);
        if (ranks->pids[r] == 0) {
            struct traced_rank self = {.rank = r, .size = ranks->size, .out = pair[1]};

            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(pair[0]);
            if (r != 0 || ranks->urls[0] != NULL)
                close(fd);
            form(&self, ranks, url, fd);
            play(&self, body, stays);
        }
        close(pair[1]);
        ranks->reports[r] = pair[0];
    }
    close(fd);
}

void traced_await(struct traced_ranks *ranks, bool stays)
{
    for (int r = 0; r < ranks->size; r++) {
        char text[600] = "";
        int status;

        if (read(ranks->reports[r], text, 1) != 1)
            fail_msg("rank %d ended without a word", r);
        if (text[0] != '+') {
            ssize_t len = read(ranks->reports[r], text + 1, sizeof(text) - 2);

            text[len > 0 ? len + 1 : 1] = '\0';
            fail_msg("%s", text);
        }
        if (stays)
            continue;
        assert_int_equal(waitpid(ranks->pids[r], &status, 0), ranks->pids[r]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        ranks->pids[r] = 0;
    }
}

void traced_fini(struct traced_ranks *ranks)
{
    DIR *folder = opendir(ranks->dir);
    const struct dirent *entry;
    char path[400];

    for (int r = 0; r < ranks->size; r++) {
        if (ranks->pids[r] > 0) {
            kill(ranks->pids[r], SIGKILL);
            waitpid(ranks->pids[r], NULL, 0);
        }
        close(ranks->reports[r]);
    }
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", ranks->dir, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (folder != NULL)
        closedir(folder);
    rmdir(ranks->dir);
}

void traced_path(const struct traced_ranks *ranks, int rank, char path[128])
{
    char host[64] = "";

    gethostname(host, sizeof(host) - 1);
    snprintf(path, 128, "%.40s/tcdist-%.40s-%d-1.trace", ranks->dir, host, (int)ranks->pids[rank]);
}
