/* sink.c - one of tcrun's own outputs, written without ever blocking. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK belongs to the open file, which the shell and others share, so it is not ours to set.
 * Pipes and terminals are opened a second time instead.  Files on disk never block, and a second
 * opening would have its own position.  What remains (sockets, pipes of another user) is written
 * in pieces that fit whenever poll() reports room. */
void sink_init(struct sink *sink, int fd)
{
    char path[64];
    struct stat st;
    int again = -1;

    sink->fd = fd;
    if (fstat(fd, &st) != 0)
        return;
    if (S_ISREG(st.st_mode)) {
        sink->never_blocks = true;
        return;
    }
    if (S_ISFIFO(st.st_mode) || isatty(fd)) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        again = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    }
    if (again >= 0) {
        sink->fd = again;
        sink->is_owned = true;
        sink->never_blocks = true;
    }
}

void sink_fini(struct sink *sink)
{
    if (sink->is_owned)
        close(sink->fd);
    sink->fd = -1;
}

size_t sink_room(struct sink *sink)
{
    if (sink->head > 0) {
        memmove(sink->buf, sink->buf + sink->head, sink->len);
        sink->head = 0;
    }
    return SINK_BYTES - sink->len;
}

void sink_add(struct sink *sink, const char *text, size_t len)
{
    if (sink->error != 0)
        return;
    memcpy(sink->buf + sink->head + sink->len, text, len);
    sink->len += len;
}

static ssize_t write_some(struct sink *sink)
{
    struct pollfd wait = {.fd = sink->fd, .events = POLLOUT};
    size_t len = sink->len;

    if (!sink->never_blocks) {
        if (poll(&wait, 1, 0) <= 0) {
            errno = EAGAIN;
            return -1;
        }
        if (len > PIPE_BUF)
            len = PIPE_BUF;
    }
    return write(sink->fd, sink->buf + sink->head, len);
}

bool sink_flush(struct sink *sink)
{
    bool moved = false;

    while (sink->len > 0 && sink->error == 0) {
        ssize_t n = write_some(sink);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return moved;
        moved = true;
        if (n < 0) {
            sink->error = errno;
            sink->len = 0;
            return true;
        }
        sink->head += (size_t)n;
        sink->len -= (size_t)n;
    }
    if (sink->len == 0)
        sink->head = 0;
    return moved;
}
