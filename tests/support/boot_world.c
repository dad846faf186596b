/* boot_world.c - ranks of one rendezvous on one loop, for tests. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "support/boot_world.h"

enum { TURNS_MAX = 100000, TURN_MS = 1000 };

struct tci_loop *boot_loop;
struct boot_place boot_places[BOOT_PLACES];
char boot_url[TCI_ADDR_TEXT + 8];
struct tci_addr boot_meeting; /* where rank 0 listens */

int boot_world_setup(void **state)
{
    const tc_config config = {.abi_version = TC_CONFIG_ABI_VERSION, .loop_mode = TC_LOOP_MANUAL};
    struct tci_error error = {.text = ""};

    (void)state;
    memset(boot_places, 0, sizeof boot_places);
    boot_loop = tci_loop_new(&config, &error);
    return boot_loop != NULL ? 0 : -1;
}

static void cancel_now(void *boot)
{
    tci_boot_cancel(boot);
}

void boot_world_cancel(struct boot_place *place)
{
    tci_loop_call(boot_loop, cancel_now, place->boot);
    place->boot = NULL;
}

int boot_world_teardown(void **state)
{
    (void)state;
    for (size_t k = 0; k < TCI_LEN(boot_places); k++) {
        if (boot_places[k].boot != NULL && !boot_places[k].is_done)
            boot_world_cancel(&boot_places[k]);
        if (boot_places[k].is_done && boot_places[k].status == TC_OK)
            tci_boot_result_fini(&boot_places[k].result);
        tci_keyring_unref(boot_places[k].keyring);
    }
    tci_loop_free(boot_loop);
    boot_loop = NULL;
    return 0;
}

static void on_done(void *arg, tc_status_t status, const struct tci_error *error,
                    struct tci_boot_result *result)
{
    struct boot_place *place = arg;

    assert_false(place->is_done);
    assert_int_equal(status == TC_OK, result != NULL);
    place->is_done = true;
    place->status = status;
    if (status == TC_OK)
        place->result = *result;
    else
        tci_error_copy(&place->error, error);
}

bool boot_world_is_at(int first, int last)
{
    for (int rank = first; rank <= last; rank++) {
        if (!boot_places[rank].is_done)
            return false;
    }
    return true;
}

/* Turn until the ranks from first to last are done. */
void boot_world_run(int first, int last)
{
    for (int turn = 0; turn < TURNS_MAX && !boot_world_is_at(first, last); turn++)
        assert_int_equal(tci_loop_turn(boot_loop, TURN_MS), TC_OK);
    assert_true(boot_world_is_at(first, last));
}

void boot_world_turn(int turns)
{
    for (int turn = 0; turn < turns; turn++)
        assert_int_equal(tci_loop_turn(boot_loop, 1), TC_OK);
}

int boot_world_listen(const char *host)
{
    struct tci_error error = {.text = ""};
    struct tci_addr addr;
    char text[TCI_ADDR_TEXT];
    int fd;

    assert_true(tci_addr_from_text(host, 0, &addr));
    if (tci_sock_listen(&addr, &fd, &boot_meeting, &error) != TC_OK)
        return -1;
    (void)snprintf(boot_url, sizeof boot_url, "tcp://%s", tci_addr_print(&boot_meeting, text));
    return fd;
}

struct beginning {
    struct tci_boot_config config;
    uint64_t timeout_ms;
    struct boot_place *place;
};

static void start_now(void *arg)
{
    struct beginning *beginning = arg;
    struct tci_exec *exec = tci_loop_exec(boot_loop);

    beginning->config.deadline_ns = exec->ops->now_ns(exec) + beginning->timeout_ms * TCI_NS_PER_MS;
    beginning->place->boot =
        tci_boot_start(boot_loop, &beginning->config, on_done, beginning->place);
}

bool boot_world_start_at(int place, int rank, int size, int fd, uint64_t timeout_ms)
{
    struct beginning beginning = {
        .timeout_ms = timeout_ms,
        .place = &boot_places[place],
        .config = {.rank = rank,
                   .size = size,
                   .url = boot_url,
                   .listen_fd = fd,
                   .listen_url = boot_places[place].listen_url,
                   .meeting = boot_places[place].meeting,
                   .keyring = boot_places[place].keyring,
                   .advertise = boot_places[place].advertise},
    };
    struct tci_agreed *mine = &beginning.config.mine;

    *mine = (struct tci_agreed){
        .segment_bytes = 1000 + (uint64_t)rank, .eager_bytes = 7, .numerics = 1};
    (void)snprintf(mine->algorithm, sizeof mine->algorithm, "ring-%d", rank % 1000);
    /* Bound to two processors, one of which the next rank has, too. */
    for (int cpu = rank; cpu <= rank + 1 && rank >= 0; cpu++)
        beginning.config.cpus.words[cpu / 64 % (TCI_CPUS / 64)] |= UINT64_C(1) << (cpu % 64);
    tci_loop_call(boot_loop, start_now, &beginning);
    return boot_places[place].boot != NULL;
}

void boot_world_start(int rank, int size, int fd)
{
    assert_true(boot_world_start_at(rank, rank, size, fd, 30000));
}

int boot_world_knock(const char *says, size_t len)
{
    int fd = socket(boot_meeting.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&boot_meeting.sa, boot_meeting.len), 0);
    if (len > 0)
        assert_int_equal(send(fd, says, len, MSG_NOSIGNAL), (ssize_t)len);
    return fd;
}

int boot_world_knock_text(const char *says)
{
    return boot_world_knock(says, strlen(says));
}

void boot_world_check_text(int place, tc_status_t status, int rank, const char *says)
{
    if (strstr(boot_places[place].error.text, says) == NULL)
        fail_msg("place %d says \"%s\", not \"%s\"", place, boot_places[place].error.text, says);
    assert_int_equal(boot_places[place].status, status);
    assert_int_equal(boot_places[place].error.pub.status, status);
    assert_int_equal(boot_places[place].error.pub.rank, rank);
}
