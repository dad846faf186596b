/* test_meet.c - ranks that meet where rank 0 leaves a card: files, leftovers, keys, cancels. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300, waits, long */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base.h"
#include "meet/card.h"
#include "net/host.h"
#include "support/world.h"

enum { RANKS_MAX = 4, MS = 60000 };

static char folder[64], path[96], url[128];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tcdist-meet-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/card", folder);
    snprintf(url, sizeof(url), "file://%s", path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    /* Nothing else is left in it, a little later: a thread may be writing what was cancelled. */
    for (int wait = 0; rmdir(folder) != 0 && wait < 6000; wait++)
        usleep(10000);
    return access(folder, F_OK) == 0 ? -1 : 0;
}

struct job {
    tc_context *context[RANKS_MAX];
    tc_dist_ctx *group[RANKS_MAX];
    tc_future *joined[RANKS_MAX];
    int size;
};

static void open_rank(struct job *job, int rank, const char *key)
{
    tc_config config;

    tc_config_default(&config);
    config.key = key;
    config.key_bytes = key == NULL ? 0 : strlen(key);
    assert_int_equal(tc_init_config(&config, &job->context[rank]), TC_OK);
}

static void join_rank(struct job *job, int rank, int timeout_ms)
{
    tc_dist_options options;

    tc_dist_options_default(&options);
    options.world_size = job->size;
    options.rank = rank;
    options.rendezvous_url = url;
    options.timeout_ms = timeout_ms;
    job->joined[rank] = tc_dist_init_async(job->context[rank], &options, &job->group[rank]);
}

static void wait_and_leave(struct job *job)
{
    tc_future *left[RANKS_MAX];

    for (int rank = 0; rank < job->size; rank++) {
        if (tc_future_wait(job->joined[rank], 2 * MS) != TC_OK)
            fail_msg("rank %d: %s", rank, tc_future_error(job->joined[rank])->message);
        tc_future_release(job->joined[rank]);
    }
    for (int rank = 0; rank < job->size; rank++)
        left[rank] = tc_dist_finalize_async(job->group[rank]);
    for (int rank = 0; rank < job->size; rank++) {
        assert_int_equal(tc_future_wait(left[rank], MS), TC_OK);
        tc_future_release(left[rank]);
    }
}

static void close_job(struct job *job)
{
    for (int rank = 0; rank < job->size; rank++)
        tc_shutdown(job->context[rank]);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Several groups, one after the other, by the same file: the last rank comes first. */
static void meet_there(const char *key, int groups)
{
    struct job job = {.size = 3};

    for (int rank = 0; rank < job.size; rank++)
        open_rank(&job, rank, key);
    for (int group = 0; group < groups; group++) {
        for (int rank = job.size - 1; rank >= 0; rank--)
            join_rank(&job, rank, MS);
        wait_and_leave(&job);
        assert_int_equal(access(path, F_OK), -1); /* the card is gone before the group stands */
    }
    close_job(&job);
}

static void ranks_meet_by_a_file_again_and_again(void **state)
{
    (void)state;
    meet_there(NULL, 3);
}

static void a_key_holds_by_a_file_too(void **state)
{
    struct job job = {.size = 2};

    (void)state;
    meet_there("0123456789abcdef", 1);
    open_rank(&job, 0, "0123456789abcdef");
    open_rank(&job, 1, "fedcba9876543210");
    for (int rank = 0; rank < 2; rank++)
        join_rank(&job, rank, 1500);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(tc_future_wait(job.joined[rank], MS), TC_ERR_AUTH);
        tc_future_release(job.joined[rank]);
    }
    close_job(&job);
}

/* A card of a process that is gone, whose port nobody has, or of another host. */
static void leave_card(bool is_here)
{
    struct tci_card card;
    char text[TCI_CARD_TEXT];
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, &status, 0), child);
    tci_card_init(&card, tci_host_id() + (is_here ? 0 : 1), 3);
    card.pid = (uint64_t)child;
    card.born = 0; /* not known: that there is no such process says it */
    assert_true(tci_card_add(&card, "127.0.0.1:1"));
    tci_card_print(&card, text);
    write_file(text);
}

static void what_a_dead_job_has_left_does_no_harm(void **state)
{
    (void)state;
    for (int is_here = 0; is_here < 2; is_here++) {
        leave_card(is_here != 0);
        meet_there(NULL, 1);
    }
    write_file(""); /* as mktemp makes one */
    meet_there(NULL, 1);
}

static void expect(tc_future *future, tc_status_t status, const char *says)
{
    tc_status_t got = tc_future_wait(future, MS);

    if (got != status || strstr(tc_future_error(future)->message, says) == NULL)
        fail_msg("%d: %s", got, got == TC_OK ? "" : tc_future_error(future)->message);
    tc_future_release(future);
}

/* ---- By an all-gather of the caller's own --------------------------------------------------- */

/* What an all-gather does instead of gathering. */
enum wrong { NOTHING_WRONG, FAILS, TURNS_ORDER, FIRST_EVERYWHERE, EMPTY_FIRST, ENDLESS_FIRST };

struct side {
    pthread_barrier_t *all; /* of the ranks of one group */
    char (*cards)[TCI_CARD_TEXT];
    int rank;
    enum wrong wrong;
    atomic_int calls; /* that have ended */
};

/* Each rank's call is made by a thread of its own. */
static int gather(void *arg, const void *send, void *recv, size_t bytes)
{
    struct side *side = arg;
    const int size = 3;
    int result;

    if (bytes != TCI_CARD_TEXT)
        return -1;
    memcpy(side->cards[side->rank], send, bytes);
    (void)pthread_barrier_wait(side->all);
    for (int r = 0; r < size; r++) {
        int of = side->wrong == TURNS_ORDER        ? size - 1 - r
                 : side->wrong == FIRST_EVERYWHERE ? 0
                                                   : r;

        memcpy((char *)recv + (size_t)r * bytes, side->cards[of], bytes);
    }
    if (side->wrong == EMPTY_FIRST || side->wrong == ENDLESS_FIRST)
        memset(recv, side->wrong == ENDLESS_FIRST ? 'x' : 0, bytes);
    result = side->wrong == FAILS ? 7 : 0;
    side->calls++; /* the last that is done with it */
    return result;
}

static void wait_for_call(struct side *side)
{
    while (side->calls == 0)
        usleep(1000);
    assert_int_equal(side->calls, 1);
}

static void join_by_side(struct job *job, int rank, struct side *side, const char *at)
{
    tc_dist_options options;

    tc_dist_options_default(&options);
    options.world_size = job->size;
    options.rank = rank;
    options.rendezvous_url = at;
    options.timeout_ms = side != NULL && side->wrong == NOTHING_WRONG ? MS : 1500;
    options.side_allgather = side != NULL ? gather : NULL;
    options.side_arg = side;
    job->joined[rank] = tc_dist_init_async(job->context[rank], &options, &job->group[rank]);
}

static void ranks_meet_by_an_allgather_of_the_callers_own(void **state)
{
    char cards[3][TCI_CARD_TEXT];
    pthread_barrier_t all;
    struct job job = {.size = 3};

    (void)state;
    assert_int_equal(pthread_barrier_init(&all, NULL, 3), 0);
    for (int rank = 0; rank < job.size; rank++)
        open_rank(&job, rank, "0123456789abcdef");
    for (int group = 0; group < 2; group++) {
        struct side sides[3];

        for (int rank = 0; rank < job.size; rank++) {
            sides[rank] = (struct side){.all = &all, .cards = cards, .rank = rank};
            join_by_side(&job, rank, &sides[rank], NULL);
        }
        wait_and_leave(&job);
        for (int rank = 0; rank < job.size; rank++)
            wait_for_call(&sides[rank]);
    }
    close_job(&job);
    pthread_barrier_destroy(&all);
}

/* Of two that wait for a third.  Rank 0 may hear that rank 1 left before it is told to leave. */
static void cancel_one_by_one(struct job *job)
{
    tc_status_t status;

    tc_future_cancel(job->joined[1]);
    assert_int_equal(tc_future_wait(job->joined[1], MS), TC_ERR_CANCELLED);
    tc_future_cancel(job->joined[0]);
    status = tc_future_wait(job->joined[0], MS);
    if (status == TC_ERR_PEER_LOST)
        assert_int_equal(tc_future_error(job->joined[0])->rank, 1);
    else
        assert_int_equal(status, TC_ERR_CANCELLED);
    for (int rank = 0; rank < 2; rank++)
        tc_future_release(job->joined[rank]);
}

/* One rank's fails, or gives it other than what each rank gave: that rank says so, and the others
 * do not wait for ever. */
static void an_allgather_that_does_not_gather_is_told(void **state)
{
    for (int wrong = FAILS; wrong <= ENDLESS_FIRST; wrong++) {
        char cards[3][TCI_CARD_TEXT];
        pthread_barrier_t all;
        struct job job = {.size = 3};
        struct side sides[3];

        (void)state;
        assert_int_equal(pthread_barrier_init(&all, NULL, 3), 0);
        for (int rank = 0; rank < job.size; rank++) {
            open_rank(&job, rank, NULL);
            sides[rank] = (struct side){.all = &all, .cards = cards, .rank = rank};
        }
        sides[2].wrong = (enum wrong)wrong;
        for (int rank = 0; rank < job.size; rank++)
            join_by_side(&job, rank, &sides[rank], NULL);
        expect(job.joined[2], TC_ERR_INVALID_ARG,
               wrong == FAILS ? "side_allgather gave 7" : "in the order of ranks");
        cancel_one_by_one(&job);
        close_job(&job);
        for (int rank = 0; rank < 3; rank++)
            wait_for_call(&sides[rank]);
        pthread_barrier_destroy(&all);
    }
}

/* A rank 0 whose card leads to a port of this host that nobody has: there will be no other card. */
static int give_card(void *arg, const void *send, void *recv, size_t bytes)
{
    struct tci_card card;
    char at[64], address[80];

    (void)arg;
    close(world_listen(at, sizeof(at)));
    snprintf(address, sizeof(address), "%s", strstr(at, "://") + 3);
    tci_card_init(&card, tci_host_id(), 2);
    assert_true(tci_card_add(&card, address));
    memset(recv, 0, bytes);
    tci_card_print(&card, recv);
    memcpy((char *)recv + bytes, send, bytes);
    return 0;
}

static void a_card_that_leads_nowhere_and_is_the_only_one_ends_soon(void **state)
{
    struct job job = {.size = 2};
    tc_dist_options options;

    (void)state;
    open_rank(&job, 1, NULL);
    tc_dist_options_default(&options);
    options.world_size = 2;
    options.rank = 1;
    options.side_allgather = give_card;
    job.joined[1] = tc_dist_init_async(job.context[1], &options, &job.group[1]);
    expect(job.joined[1], TC_ERR_RENDEZVOUS, "rank 0 has listened there since before");
    tc_shutdown(job.context[1]);
}

static void an_allgather_and_an_url_exclude_each_other(void **state)
{
    struct job job = {.size = 2};
    struct side side = {.rank = 0};

    (void)state;
    open_rank(&job, 0, NULL);
    join_by_side(&job, 0, &side, url);
    expect(job.joined[0], TC_ERR_INVALID_ARG, "not by both");
    join_by_side(&job, 0, NULL, "side://");
    expect(job.joined[0], TC_ERR_INVALID_ARG, "side:// needs side_allgather");
    assert_int_equal(side.calls, 0);
    job.size = 1;
    close_job(&job);
}

static void a_file_that_is_none_of_ours_is_left_alone(void **state)
{
    struct job job = {.size = 2};
    struct stat status;

    (void)state;
    write_file("my thesis\n");
    for (int rank = 0; rank < 2; rank++)
        open_rank(&job, rank, NULL);
    join_rank(&job, 0, MS);
    expect(job.joined[0], TC_ERR_INVALID_ARG, "holds something else than a card");
    join_rank(&job, 1, 300);
    expect(job.joined[1], TC_ERR_TIMEOUT, "is no card of a rank 0");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 10);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    join_rank(&job, 1, 300);
    expect(job.joined[1], TC_ERR_TIMEOUT, "is no file of this user's");
    close_job(&job);
}

/* A card that has taken the place of its own meanwhile is another job's.  Here it leads to the same
 * rank 0, so that the group stands when that has taken away what is its own. */
static void rank_0_takes_no_card_away_but_its_own(void **state)
{
    struct job job = {.size = 2};
    struct tci_card card;
    char text[TCI_CARD_TEXT] = "", again[TCI_CARD_TEXT] = "";
    struct stat status;
    FILE *file = NULL;

    (void)state;
    for (int rank = 0; rank < 2; rank++)
        open_rank(&job, rank, NULL);
    join_rank(&job, 0, MS);
    while ((file = fopen(path, "r")) == NULL)
        usleep(1000);
    assert_non_null(fgets(text, sizeof(text), file));
    assert_int_equal(fstat(fileno(file), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    fclose(file);
    assert_true(tci_card_parse(text, &card));
    assert_int_not_equal(card.born, 0);
    card.born = 0;
    tci_card_print(&card, text);
    write_file(text);
    join_rank(&job, 1, MS);
    wait_and_leave(&job);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(again, sizeof(again), file));
    fclose(file);
    assert_string_equal(again, text);
    close_job(&job);
}

/* Where everybody may leave files, one of somebody else's could lead the ranks anywhere. */
static void a_file_of_somebody_elses_is_not_believed(void **state)
{
    struct job job = {.size = 2};
    struct stat status;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root, who can give a file away\n");
        skip();
    }
    leave_card(true);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(chmod(folder, S_ISVTX | 0777), 0);
    for (int rank = 0; rank < 2; rank++)
        open_rank(&job, rank, NULL);
    join_rank(&job, 1, 300);
    expect(job.joined[1], TC_ERR_TIMEOUT, "is no file of this user's");
    join_rank(&job, 0, 300);
    expect(job.joined[0], TC_ERR_TIMEOUT, "rank 0 has left no word for the others at file://");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_uid, 65534); /* its own is not there */
    close_job(&job);
    assert_int_equal(chmod(folder, 0700), 0);
    meet_there(NULL, 1); /* nobody but the owner leaves files there */
}

static void a_path_in_use_is_said_with_the_process(void **state)
{
    struct job job = {.size = 2};
    struct tci_card card;
    char text[TCI_CARD_TEXT];

    (void)state;
    tci_card_init(&card, tci_host_id(), 2);
    card.pid = (uint64_t)getppid();
    card.born = 0; /* whoever it is: it lives */
    assert_true(tci_card_add(&card, "127.0.0.1:1"));
    tci_card_print(&card, text);
    write_file(text);
    for (int rank = 0; rank < 2; rank++)
        open_rank(&job, rank, NULL);
    join_rank(&job, 0, MS);
    expect(job.joined[0], TC_ERR_BUSY, "is in use: process");
    close_job(&job);
}

static void who_comes_alone_says_what_it_saw(void **state)
{
    struct job job = {.size = 2};

    (void)state;
    for (int rank = 0; rank < 2; rank++)
        open_rank(&job, rank, NULL);
    join_rank(&job, 1, 300);
    expect(job.joined[1], TC_ERR_TIMEOUT, "rank 1 has found no word of rank 0 at file://");
    leave_card(true);
    join_rank(&job, 1, 500);
    expect(job.joined[1], TC_ERR_TIMEOUT, "which has ended");
    unlink(path);
    join_rank(&job, 0, 300);
    expect(job.joined[0], TC_ERR_TIMEOUT, "rank 1 of 2 has not come to file://");
    for (int wait = 0; access(path, F_OK) == 0 && wait < 1000; wait++)
        usleep(10000); /* its card goes a little later */
    strcat(url, "/in/no/folder");
    join_rank(&job, 0, MS);
    expect(job.joined[0], TC_ERR_INVALID_ARG, "rank 0 cannot leave word");
    close_job(&job);
}

/* Who has said how long it may take waits for it; else nobody waits for what is misspelt. */
static void a_folder_that_is_not_there_is_named(void **state)
{
    char nowhere[128];
    struct job job = {.size = 2};

    (void)state;
    snprintf(nowhere, sizeof(nowhere), "there is no folder %s here", path);
    strcat(url, "/x");
    for (int rank = 0; rank < 2; rank++)
        open_rank(&job, rank, NULL);
    join_rank(&job, 0, 0);
    expect(job.joined[0], TC_ERR_INVALID_ARG, "rank 0 cannot leave word");
    join_rank(&job, 1, 2000);
    expect(job.joined[1], TC_ERR_TIMEOUT, nowhere);
    join_rank(&job, 1, 0);
    expect(job.joined[1], TC_ERR_RENDEZVOUS, nowhere);

    join_rank(&job, 1, MS);
    usleep(100000);
    assert_int_equal(mkdir(path, 0700), 0); /* it comes late */
    join_rank(&job, 0, MS);
    wait_and_leave(&job);
    close_job(&job);
    assert_int_equal(rmdir(path), 0);
}

static void a_cancel_and_a_shutdown_end_it_at_once(void **state)
{
    struct job job = {.size = 2};

    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        open_rank(&job, rank, NULL);
        join_rank(&job, rank, MS);
        tc_future_cancel(job.joined[rank]);
        assert_int_not_equal(tc_future_wait(job.joined[rank], MS), TC_PENDING);
        tc_future_release(job.joined[rank]);
    }
    job.size = 3; /* one is missing */
    for (int rank = 0; rank < 2; rank++)
        join_rank(&job, rank, MS);
    job.size = 2;
    close_job(&job);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(tc_future_wait(job.joined[rank], MS), TC_ERR_CLOSED);
        tc_future_release(job.joined[rank]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranks_meet_by_a_file_again_and_again, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_key_holds_by_a_file_too, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_a_dead_job_has_left_does_no_harm, make_folder,
                                        remove_folder),
        cmocka_unit_test(ranks_meet_by_an_allgather_of_the_callers_own),
        cmocka_unit_test(an_allgather_that_does_not_gather_is_told),
        cmocka_unit_test(a_card_that_leads_nowhere_and_is_the_only_one_ends_soon),
        cmocka_unit_test(an_allgather_and_an_url_exclude_each_other),
        cmocka_unit_test_setup_teardown(a_file_that_is_none_of_ours_is_left_alone, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(rank_0_takes_no_card_away_but_its_own, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_of_somebody_elses_is_not_believed, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_path_in_use_is_said_with_the_process, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(who_comes_alone_says_what_it_saw, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_is_named, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_cancel_and_a_shutdown_end_it_at_once, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
