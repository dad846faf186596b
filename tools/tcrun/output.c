/* output.c - brings the lines of all ranks to tcrun's own outputs, never one inside another. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A line that is longer than the buffers is passed on in pieces, and its stream holds the lane
 * meanwhile.  It may not do so for ever: the rank may be waiting for another one whose output waits
 * for the lane.  So while others wait, a line is broken after a second of silence in its middle or
 * at 16 MiB, which is longer than anything a person reads. */
enum { HOLD_MS = 1000, HOLD_BYTES = 16 << 20, PREFIX_MAX = 16, SAY_MAX = 1024 };

static bool is_same_file(int a, int b)
{
    struct stat sa;
    struct stat sb;

    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

bool output_init(struct output *output, unsigned ranks, bool has_prefix)
{
    size_t own_bytes;

    output->ranks = ranks;
    output->has_prefix = has_prefix;
    output->stream_count = (size_t)ranks * OUTPUT_COUNT + 1;
    output->streams = calloc(output->stream_count, sizeof *output->streams);
    if (output->streams == NULL)
        return false;

    /* tcrun says a handful of lines about each rank and some about the whole. */
    own_bytes = STREAM_BYTES + (size_t)ranks * 256;
    for (size_t i = 0; i < output->stream_count; i++) {
        bool is_own = i + 1 == output->stream_count;

        if (!stream_init(&output->streams[i], is_own ? own_bytes : STREAM_BYTES))
            return false;
    }

    output->lane_count = is_same_file(STDOUT_FILENO, STDERR_FILENO) ? 1 : 2;
    sink_init(&output->lanes[0].sink, STDOUT_FILENO);
    if (output->lane_count == 2)
        sink_init(&output->lanes[1].sink, STDERR_FILENO);
    return true;
}

void output_fini(struct output *output)
{
    for (unsigned i = 0; i < output->lane_count; i++)
        sink_fini(&output->lanes[i].sink);
    for (size_t i = 0; output->streams != NULL && i < output->stream_count; i++)
        stream_fini(&output->streams[i]);
    free(output->streams);
    output->streams = NULL;
}

void output_attach(struct output *output, unsigned rank, unsigned which, int fd)
{
    stream_open(&output->streams[(size_t)rank * OUTPUT_COUNT + which], fd);
}

static struct stream *own_stream(const struct output *output)
{
    return &output->streams[output->stream_count - 1];
}

void output_say(struct output *output, const char *format, ...)
{
    char line[SAY_MAX] = "tcrun: ";
    size_t len = strlen(line);
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line + len, sizeof line - len, format, args);
    va_end(args);
    if (n < 0)
        return;
    len += (size_t)n;
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    line[len++] = '\n';
    stream_add(own_stream(output), line, len);
}

void output_expect_end(struct output *output, unsigned rank)
{
    for (unsigned which = 0; which < OUTPUT_COUNT; which++)
        stream_expect_end(&output->streams[(size_t)rank * OUTPUT_COUNT + which]);
}

/* ---- From streams to a lane -------------------------------------------------------------- */

static unsigned lane_index(const struct output *output, size_t stream)
{
    unsigned which = stream + 1 == output->stream_count ? OUTPUT_STDERR : stream % OUTPUT_COUNT;

    return output->lane_count == 1 ? 0 : which;
}

/* The stream whose line comes next: tcrun's own lines first, the ranks in turn; NULL: nobody has
 * one.  `except` is not asked. */
static struct stream *find_ready(const struct output *output, unsigned lane, size_t turn,
                                 const struct stream *except)
{
    size_t count = output->stream_count;

    for (size_t i = 0; i < count; i++) {
        size_t index = i == 0 ? count - 1 : (turn + i - 1) % (count - 1);
        struct stream *stream = &output->streams[index];

        if (stream == except || stream->len == 0 || lane_index(output, index) != lane)
            continue;
        if (stream_ready(stream, false) > 0)
            return stream;
    }
    return NULL;
}

static void begin_line(struct output *output, struct lane *lane, struct stream *stream)
{
    size_t index = (size_t)(stream - output->streams);
    char prefix[PREFIX_MAX];
    char last[PREFIX_MAX];
    int width;
    int n;

    lane->holder = stream;
    lane->held_bytes = 0;
    if (stream == own_stream(output))
        return;
    lane->turn = (index + 1) % (output->stream_count - 1);
    if (!output->has_prefix)
        return;
    width = snprintf(last, sizeof last, "%u", output->ranks - 1);
    n = snprintf(prefix, sizeof prefix, "[%*u] ", width, (unsigned)(index / OUTPUT_COUNT));
    sink_add(&lane->sink, prefix, (size_t)n);
}

static void end_line(struct lane *lane)
{
    sink_add(&lane->sink, "\n", 1);
    lane->holder = NULL;
}

static bool has_held_too_long(const struct lane *lane, int64_t now_ms)
{
    if (lane->held_bytes >= HOLD_BYTES)
        return true;
    return lane->holder->len == 0 && lane->sink.len == 0 && now_ms - lane->moved_ms >= HOLD_MS;
}

/* Moves one piece of the holder's line; the lane has room for a byte at least. */
static bool move_piece(struct output *output, unsigned index, int64_t now_ms)
{
    struct lane *lane = &output->lanes[index];
    struct stream *stream = lane->holder;
    size_t len = stream_ready(stream, true);
    size_t room = sink_room(&lane->sink);
    const char *start = stream->buf + stream->head;

    if (lane->held_bytes > 0 && has_held_too_long(lane, now_ms) &&
        find_ready(output, index, lane->turn, stream) != NULL) {
        end_line(lane);
        return true;
    }
    if (len == 0 && stream->has_ended) {
        end_line(lane);
        return true;
    }
    if (len > room)
        len = room;
    if (len == 0)
        return false;

    sink_add(&lane->sink, start, len);
    lane->moved_ms = now_ms;
    lane->held_bytes += len;
    if (start[len - 1] == '\n')
        lane->holder = NULL;
    stream_consume(stream, len);
    return true;
}

static bool fill_lane(struct output *output, unsigned index, int64_t now_ms)
{
    struct lane *lane = &output->lanes[index];
    bool moved = false;

    while (sink_room(&lane->sink) > PREFIX_MAX) {
        if (lane->holder == NULL) {
            struct stream *stream = find_ready(output, index, lane->turn, NULL);

            if (stream == NULL)
                break;
            begin_line(output, lane, stream);
        }
        if (!move_piece(output, index, now_ms))
            break;
        moved = true;
    }
    return moved;
}

/* ---- The loop's side ---------------------------------------------------------------------- */

size_t output_poll_max(const struct output *output)
{
    return output->stream_count + output->lane_count;
}

size_t output_poll(const struct output *output, struct pollfd *fds)
{
    size_t n = 0;

    for (size_t i = 0; i < output->stream_count; i++) {
        if (stream_wants_input(&output->streams[i]))
            fds[n++] = (struct pollfd){.fd = output->streams[i].fd, .events = POLLIN};
    }
    for (unsigned i = 0; i < output->lane_count; i++) {
        const struct sink *sink = &output->lanes[i].sink;

        if (sink->len > 0)
            fds[n++] = (struct pollfd){.fd = sink->fd, .events = POLLOUT};
    }
    return n;
}

bool output_turn(struct output *output, int64_t now_ms)
{
    bool moved = false;

    for (size_t i = 0; i < output->stream_count; i++) {
        if (stream_wants_input(&output->streams[i]))
            moved |= stream_read(&output->streams[i]);
    }
    for (unsigned i = 0; i < output->lane_count; i++) {
        moved |= fill_lane(output, i, now_ms);
        moved |= sink_flush(&output->lanes[i].sink);
    }
    return moved;
}

int64_t output_due_ms(const struct output *output)
{
    int64_t due = INT64_MAX;

    for (unsigned i = 0; i < output->lane_count; i++) {
        const struct lane *lane = &output->lanes[i];

        if (lane->holder == NULL || lane->holder->len > 0 || lane->sink.len > 0)
            continue;
        if (lane->moved_ms + HOLD_MS < due &&
            find_ready(output, i, lane->turn, lane->holder) != NULL)
            due = lane->moved_ms + HOLD_MS;
    }
    return due;
}

int output_error(const struct output *output)
{
    for (unsigned i = 0; i < output->lane_count; i++) {
        if (output->lanes[i].sink.error != 0)
            return output->lanes[i].sink.error;
    }
    return 0;
}

bool output_is_done(const struct output *output)
{
    for (size_t i = 0; i < output->stream_count; i++) {
        const struct stream *stream = &output->streams[i];

        if (stream->fd >= 0 || stream->len > 0)
            return false;
    }
    for (unsigned i = 0; i < output->lane_count; i++) {
        if (output->lanes[i].holder != NULL || output->lanes[i].sink.len > 0)
            return false;
    }
    return true;
}
