/* test_paths.c - ranks with several addresses, as MLX's host files have them: one a connection. */
/* SPDX-License-Identifier: Apache-2.0 */
/* test: timeout 300 */
#include <arpa/inet.h>
#include <netinet/in.h>
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

#include "net/paths.h"
#include "tcdist/tcdist.h"

enum { RANKS = 2, PATHS = 3, BYTES = 8 << 20, TRIES = 5, EXIT_TAKEN = 9 };

static char hostfile[] = "/tmp/tcdist-paths-XXXXXX";
static uint16_t ports[RANKS][PATHS];

/* Free just now: whoever takes one before the ranks do makes them try again with others. */
static void choose_ports(void)
{
    int fds[RANKS * PATHS];
    FILE *file = fopen(hostfile, "w");

    assert_non_null(file);
    for (int i = 0; i < RANKS * PATHS; i++) {
        uint32_t host = INADDR_LOOPBACK + (uint32_t)(i % PATHS);
        struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
        socklen_t len = sizeof(addr);

        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(fds[i], (struct sockaddr *)&addr, len), 0);
        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&addr, &len), 0);
        ports[i / PATHS][i % PATHS] = ntohs(addr.sin_port);
    }
    for (int rank = 0; rank < RANKS; rank++)
        fprintf(file, "%s[\"127.0.0.1:%u\", \"127.0.0.2:%u\", \"127.0.0.3:%u\"]%s",
                rank == 0 ? "[" : ", ", ports[rank][0], ports[rank][1], ports[rank][2],
                rank == RANKS - 1 ? "]" : "");
    fclose(file);
    for (int i = 0; i < RANKS * PATHS; i++)
        close(fds[i]);
}

/* Whether a connection stands at that address of this host. */
static int is_connected(int path, uint16_t port)
{
    FILE *file = fopen("/proc/net/tcp", "r");
    char line[512], want[64];
    int found = 0;

    snprintf(want, sizeof(want), "%08X:%04X", htonl(INADDR_LOOPBACK + (unsigned)path), port);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char local[64], remote[64];
        unsigned state;

        if (sscanf(line, " %*d: %63s %63s %x", local, remote, &state) == 3 && state == 1 &&
            strcmp(local, want) == 0)
            found++;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* A rank in a process of its own; rank 0 dials the further connections of a link. */
static int be_rank(int rank)
{
    static unsigned char bytes[BYTES];
    tc_context *context = NULL;
    tc_dist_ctx *group = NULL;
    char text[16];
    int result = 0;

    snprintf(text, sizeof(text), "%d", rank);
    setenv("MLX_RANK", text, 1);
    setenv("MLX_HOSTFILE", hostfile, 1);
    setenv("TCDIST_SHM", "0", 1);
    if (tc_init(&context) != TC_OK)
        return 1;
    if (tc_dist_init_env(context, &group) != TC_OK)
        return strstr(tc_last_error()->message, "Address already in use") != NULL ? EXIT_TAKEN : 2;
    /* The further connections are made when the link stands: large messages go over all then. */
    for (int round = 0; round < 200 && result == 0; round++) {
        unsigned char more = 0;
        tc_future *sent;

        memset(bytes, rank == 0 ? round + 1 : 0, BYTES);
        sent = tc_broadcast_async(group, 1, bytes, BYTES, TC_DTYPE_U8, 0, NULL);
        if (tc_future_wait(sent, -1) != TC_OK || bytes[0] != (unsigned char)(round + 1) ||
            bytes[BYTES - 1] != (unsigned char)(round + 1))
            result = 3;
        tc_future_release(sent);
        for (int path = 1; path < PATHS && rank == 1; path++)
            more |= is_connected(path, ports[1][path]) != 1;
        sent = tc_broadcast_async(group, 2, &more, 1, TC_DTYPE_U8, 1, NULL);
        if (tc_future_wait(sent, -1) != TC_OK)
            result = 4;
        tc_future_release(sent);
        if (more == 0)
            break;
        usleep(20000);
        if (round == 199)
            result = 5;
    }
    if (result == 0 && tc_dist_finalize(group) != TC_OK)
        result = 6;
    tc_shutdown(context);
    return result;
}

static void each_connection_has_an_address_of_its_own(void **state)
{
    int worst = EXIT_TAKEN;
    int fd = mkstemp(hostfile);

    (void)state;
    close(fd);
    for (int try = 0; try < TRIES && worst == EXIT_TAKEN; try++) {
        pid_t children[RANKS];

        choose_ports();
        worst = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            children[rank] = fork();
            if (children[rank] == 0)
                _exit(be_rank(rank));
        }
        for (int rank = 0; rank < RANKS; rank++) {
            int status;

            assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
            if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && worst != EXIT_TAKEN))
                worst = WIFEXITED(status) ? WEXITSTATUS(status) : 99;
        }
    }
    unlink(hostfile);
    assert_int_equal(worst, 0);
}

static void an_address_that_is_taken_is_named(void **state)
{
    struct tci_error error = {.pub = {.status = TC_OK}};
    struct tci_paths first, second;

    (void)state;
    assert_true(tci_paths_init(&first, 1, 1));
    assert_true(tci_paths_init(&second, 1, 1));
    assert_true(tci_addr_from_text("127.0.0.1", 0, tci_paths_at(&first, 0, 0)));
    assert_int_equal(tci_paths_listen(&first, 0, &error), TC_OK);
    assert_true(tci_addr_from_text("192.0.2.200", 4100, tci_paths_at(&second, 0, 0)));
    assert_int_equal(tci_paths_listen(&second, 0, &error), TC_ERR_RENDEZVOUS);
    assert_non_null(strstr(error.text, "rank 0 cannot use the address of its connection 1"));
    tci_paths_fini(&first);
    tci_paths_fini(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_connection_has_an_address_of_its_own),
        cmocka_unit_test(an_address_that_is_taken_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
