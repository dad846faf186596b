/* ranks.h - what the programs here share: checks, ports that stay free, ranks as processes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPAT_RANKS_H
#define COMPAT_RANKS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 8, URL_BYTES = 64, PATIENCE_S = 90 };

/* Says what does not hold, and counts it in `failures`. */
static int failures __attribute__((unused));
#define CHECK(rank, what)                                                                          \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #what);              \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

/* A loopback URL whose port is nobody else's: the socket that is given back is bound to it and
 * never listens, so the library may bind it too, both saying SO_REUSEADDR.  -1: no such address
 * here. */
static inline int reserve_url(int family, const char *scheme, char url[URL_BYTES])
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t len = family == AF_INET ? sizeof v4 : sizeof v6;
    int yes = 1, fd = socket(family, SOCK_STREAM, 0);

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 || bind(fd, at, len) != 0 ||
        getsockname(fd, at, &len) != 0) {
        close(fd);
        return -1;
    }
    snprintf(url, URL_BYTES, family == AF_INET ? "%s://127.0.0.1:%d" : "%s://[::1]:%d", scheme,
             ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port));
    return fd;
}

/* Runs ranks 1 … size - 1 as children and rank 0 here; gives how many ranks have failed. */
static inline int run_ranks(int size, int (*run)(int rank, void *arg), void *arg)
{
    pid_t children[RANKS_MAX];
    int failed = 0;

    fflush(stdout);
    for (int rank = 1; rank < size; rank++) {
        children[rank] = fork();
        if (children[rank] == 0) {
            alarm(PATIENCE_S);
            _exit(run(rank, arg) == 0 ? 0 : 1);
        }
    }
    failed += run(0, arg) != 0;
    for (int rank = 1; rank < size; rank++) {
        int status = 0;

        failed += children[rank] < 0 || waitpid(children[rank], &status, 0) < 0 ||
                  !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}

#endif
