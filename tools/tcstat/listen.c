/* listen.c - gives the counts to whoever asks for them over HTTP, on this host alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "look.h"

/* One question at a time, each within this time: who is slow keeps others waiting no longer. */
enum { PATIENCE_S = 2, REQUEST_MAX = 4096 };

static int open_door(const struct options *options)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)options->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(fd, 16) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &len) != 0) {
        fprintf(stderr, "tcstat: cannot listen at 127.0.0.1:%d: %s\n", options->port,
                strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    printf("http://127.0.0.1:%d/metrics\n", ntohs(addr.sin_port));
    fflush(stdout);
    return fd;
}

/* The head of a request, as far as an empty line; false: it is none. */
static bool read_request(int fd, char request[REQUEST_MAX + 1])
{
    size_t len = 0;

    while (len < REQUEST_MAX) {
        ssize_t more = recv(fd, request + len, REQUEST_MAX - len, 0);

        if (more <= 0)
            return false;
        len += (size_t)more;
        request[len] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL || strstr(request, "\n\n") != NULL)
            return true;
    }
    return false;
}

static void send_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t done = send(fd, text, len, MSG_NOSIGNAL);

        if (done <= 0)
            return;
        text += done;
        len -= (size_t)done;
    }
}

static void answer(int fd, const struct options *options, const char *request)
{
    static const char not_here[] = "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    bool is_asked = strncmp(request, "GET /metrics ", 13) == 0;
    struct trace_files files;
    char *text = NULL, head[160];
    size_t len = 0;
    FILE *memory = is_asked ? open_memstream(&text, &len) : NULL;

    if (memory == NULL) {
        send_all(fd, not_here, sizeof(not_here) - 1);
        return;
    }
    (void)look(options, &files);
    prometheus_print(&files, memory);
    trace_files_fini(&files);
    if (fclose(memory) == 0) {
        snprintf(head, sizeof(head),
                 "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 len);
        send_all(fd, head, strlen(head));
        send_all(fd, text, len);
    }
    free(text);
}

int listen_and_tell(const struct options *options)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    char request[REQUEST_MAX + 1];
    int door = open_door(options);

    while (door >= 0) {
        int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) {
            fprintf(stderr, "tcstat: cannot accept: %s\n", strerror(errno));
            close(door);
            break;
        }
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        if (read_request(fd, request))
            answer(fd, options, request);
        close(fd);
    }
    return EXIT_TROUBLE;
}
