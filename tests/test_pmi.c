/* test_pmi.c - a process manager that is played by the test: right, garbled, silent, gone. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, waits */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tcdist/tcdist.h"

enum { RANKS = 2, LINE = 2048 };

/* What the manager does otherwise than it should, and when. */
struct play {
    const char *on;      /* the command that it answers so; NULL: none */
    const char *answer;  /* NULL: it closes the connection */
    const char *timeout; /* of the ranks, in seconds, for one that has failed */
    unsigned late_s;     /* rank 0, for the second group */
};

/* The manager of two ranks, each over a socket of its own, in one thread: it answers line by line,
 * and lets go of the barrier when both have come. */
struct manager {
    pthread_t thread;
    int fds[RANKS];
    struct play play;
    char card[LINE];
};

static void say(int fd, const char *line)
{
    (void)!write(fd, line, strlen(line));
}

/* False: the rank has ended its part, or is gone. */
static int hear(int fd, char line[LINE])
{
    size_t len = 0;

    while (len + 1 < LINE && read(fd, line + len, 1) == 1)
        if (line[len++] == '\n')
            break;
    line[len] = '\0';
    return len > 0 && line[len - 1] == '\n';
}

static int is(const char *line, const char *command)
{
    size_t len = strlen(command);

    return strncmp(line, "cmd=", 4) == 0 && strncmp(line + 4, command, len) == 0;
}

/* Answer until the rank comes to the barrier, or, behind it, until its last word. */
static int serve(struct manager *manager, int fd)
{
    char line[LINE], answer[LINE + 64];

    while (hear(fd, line)) {
        if (manager->play.on != NULL && is(line, manager->play.on)) {
            if (manager->play.answer == NULL)
                return 0;
            say(fd, manager->play.answer);
        } else if (is(line, "barrier_in")) {
            return 1;
        } else if (is(line, "init")) {
            say(fd, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
        } else if (is(line, "get_my_kvsname")) {
            say(fd, "cmd=my_kvsname kvsname=kvs_1\n");
        } else if (is(line, "put")) {
            snprintf(manager->card, sizeof(manager->card), "%s", strstr(line, "value=") + 6);
            say(fd, "cmd=put_result rc=0 msg=success\n");
        } else if (is(line, "get")) {
            snprintf(answer, sizeof(answer), "cmd=get_result rc=0 msg=success value=%s",
                     manager->card);
            say(fd, answer);
        } else if (is(line, "finalize")) {
            say(fd, "cmd=finalize_ack\n");
            return 1;
        }
    }
    return 0;
}

static void *manage(void *arg)
{
    struct manager *manager = arg;
    int has_come[RANKS];

    for (int rank = 0; rank < RANKS; rank++)
        has_come[rank] = serve(manager, manager->fds[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        if (has_come[0] && has_come[1])
            say(manager->fds[rank], "cmd=barrier_out\n");
    for (int rank = 0; rank < RANKS; rank++) {
        if (has_come[0] && has_come[1])
            (void)serve(manager, manager->fds[rank]);
        close(manager->fds[rank]);
    }
    return NULL;
}

/* A rank in a process of its own: 0, or what its error says goes to `out`. */
static int be_rank(int rank, int fd, int out, const struct play *play)
{
    tc_context *context = NULL;
    tc_dist_ctx *group = NULL;
    char text[16];
    int result = 1;

    snprintf(text, sizeof(text), "%d", fd);
    setenv("PMI_FD", text, 1);
    snprintf(text, sizeof(text), "%d", rank);
    setenv("PMI_RANK", text, 1);
    setenv("PMI_SIZE", "2", 1);
    setenv("MPI_LOCALNRANKS", "2", 1); /* all are on this host */
    setenv("TCDIST_TIMEOUT", play->timeout, 1);
    for (int group_count = 0; group_count < 2; group_count++) { /* a second one as the first */
        result = 1;
        if (group_count > 0 && rank == 0)
            (void)sleep(play->late_s);
        if ((context == NULL && tc_init(&context) != TC_OK) ||
            tc_dist_init_env(context, &group) != TC_OK)
            break;
        result = tc_dist_world_size(group) == RANKS ? 0 : 2;
        if (tc_dist_finalize(group) != TC_OK)
            result = 3;
    }
    if (result != 0)
        dprintf(out, "%s", tc_last_error()->message);
    tc_shutdown(context);
    return result;
}

/* Play, and give what the ranks said that failed. */
static int run(struct play play, char *said, size_t room)
{
    struct manager manager = {.play = play};
    int pair[2], out[2], worst = 0;
    pid_t children[RANKS];
    size_t len = 0;
    ssize_t got;

    assert_int_equal(pipe(out), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        children[rank] = fork();
        if (children[rank] == 0) {
            for (int other = 0; other < rank; other++)
                close(manager.fds[other]);
            close(pair[0]);
            close(out[0]);
            _exit(be_rank(rank, pair[1], out[1], &play));
        }
        close(pair[1]);
        manager.fds[rank] = pair[0];
    }
    close(out[1]);
    assert_int_equal(pthread_create(&manager.thread, NULL, manage, &manager), 0);
    while (len + 1 < room && (got = read(out[0], said + len, room - 1 - len)) > 0)
        len += (size_t)got;
    said[len] = '\0';
    close(out[0]);
    for (int rank = 0; rank < RANKS; rank++) {
        int status;

        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        worst |= WIFEXITED(status) ? WEXITSTATUS(status) : 99;
    }
    pthread_join(manager.thread, NULL);
    return worst;
}

/* What was handed round says nothing of whether rank 0 is there the second time. */
static void ranks_meet_by_the_manager_and_again(void **state)
{
    char said[LINE];

    (void)state;
    if (run((struct play){.timeout = "60", .late_s = 5}, said, sizeof(said)) != 0)
        fail_msg("%s", said);
}

static void a_manager_that_is_wrong_is_told_of(void **state)
{
    static const struct {
        struct play play;
        const char *says;
    } rows[] = {
        {{"init", "cmd=response_to_init rc=-1\n", "60", 0}, "does not answer as PMI has it"},
        {{"init", "HTTP/1.1 400 Bad Request\n", "60", 0}, "HTTP/1.1 400"},
        {{"init", NULL, "60", 0}, "it has closed the connection"},
        {{"get_my_kvsname", "cmd=my_kvsname\n", "60", 0}, "it names no space of keys"},
        {{"get kvsname", "cmd=get_result rc=-1 msg=not_found value=unknown\n", "1", 0}, "rc=-1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char said[LINE];

        assert_int_not_equal(run(rows[i].play, said, sizeof(said)), 0);
        if (strstr(said, rows[i].says) == NULL)
            fail_msg("row %zu: %s", i, said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_meet_by_the_manager_and_again),
        cmocka_unit_test(a_manager_that_is_wrong_is_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
