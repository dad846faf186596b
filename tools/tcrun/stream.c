/* stream.c - one output pipe of one rank, read into a bounded buffer and cut into lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool stream_init(struct stream *stream, size_t capacity)
{
    *stream = (struct stream){.fd = -1, .capacity = capacity};
    stream->buf = malloc(capacity);
    return stream->buf != NULL;
}

void stream_fini(struct stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    free(stream->buf);
    *stream = (struct stream){.fd = -1};
}

void stream_open(struct stream *stream, int fd)
{
    stream->fd = fd;
}

static void end_stream(struct stream *stream)
{
    close(stream->fd);
    stream->fd = -1;
    stream->has_ended = true;
}

/* Moves the content to the front and returns the room behind it. */
static size_t make_room(struct stream *stream)
{
    if (stream->head > 0) {
        memmove(stream->buf, stream->buf + stream->head, stream->len);
        stream->head = 0;
    }
    return stream->capacity - stream->len;
}

bool stream_read(struct stream *stream)
{
    size_t room = make_room(stream);
    ssize_t n;

    if (stream->is_last && stream->left < room)
        room = stream->left;
    n = room > 0 ? read(stream->fd, stream->buf + stream->len, room) : 0;
    if (n < 0 && (errno == EINTR || (errno == EAGAIN && !stream->is_last)))
        return false;
    if (n <= 0) {
        end_stream(stream);
        return true;
    }
    stream->len += (size_t)n;
    if (stream->is_last)
        stream->left -= (size_t)n;
    return true;
}

void stream_add(struct stream *stream, const char *text, size_t len)
{
    if (len > make_room(stream))
        return;
    memcpy(stream->buf + stream->len, text, len);
    stream->len += len;
}

void stream_expect_end(struct stream *stream)
{
    int size;

    if (stream->fd < 0)
        return;
    size = fcntl(stream->fd, F_GETPIPE_SZ);
    stream->is_last = true;
    stream->left = size > 0 ? (size_t)size : STREAM_BYTES;
}

bool stream_wants_input(const struct stream *stream)
{
    return stream->fd >= 0 && stream->len < stream->capacity;
}

size_t stream_ready(struct stream *stream, bool is_inside_line)
{
    const char *start = stream->buf + stream->head;
    const char *end = memchr(start + stream->scanned, '\n', stream->len - stream->scanned);

    if (end != NULL) {
        stream->scanned = (size_t)(end - start);
        return stream->scanned + 1;
    }
    stream->scanned = stream->len;
    if (is_inside_line || stream->has_ended || stream->len == stream->capacity)
        return stream->len;
    return 0;
}

void stream_consume(struct stream *stream, size_t len)
{
    stream->head += len;
    stream->len -= len;
    stream->scanned = stream->scanned > len ? stream->scanned - len : 0;
}
