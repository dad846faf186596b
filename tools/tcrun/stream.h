/* stream.h - one output pipe of one rank, read into a bounded buffer and cut into lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_STREAM_H
#define TCRUN_STREAM_H

#include <stdbool.h>
#include <stddef.h>

/* 64 KiB: the size of a pipe, so a full buffer and a full pipe together stop a rank after 128 KiB
 * that nobody has read. */
#define STREAM_BYTES ((size_t)65536)

struct stream {
    int fd;    /* owned; -1 before it is opened and after it has ended */
    char *buf; /* owned; capacity bytes, filled from head to head + len */
    size_t capacity;
    size_t head;
    size_t len;
    size_t scanned; /* bytes from head that are known to hold no line end */
    bool has_ended; /* nothing follows what buf holds */
    bool is_last;   /* every writer is known to be dead: only what the pipe still holds follows */
    size_t left;    /* with is_last: how many bytes that can be at most */
};

/* Without a descriptor until stream_open().  False: out of memory. */
bool stream_init(struct stream *stream, size_t capacity);
void stream_fini(struct stream *stream);

/* Takes fd over, the non-blocking end of a pipe. */
void stream_open(struct stream *stream, int fd);

/* Reads once what is there and fits; true when that changed anything. */
bool stream_read(struct stream *stream);

/* Adds text without reading; text that does not fit is dropped. */
void stream_add(struct stream *stream, const char *text, size_t len);

/* From here on a pipe that runs empty has ended, whoever may still hold it open. */
void stream_expect_end(struct stream *stream);

bool stream_wants_input(const struct stream *stream);

/* How many bytes may go out now: a line, a piece of a line longer than the buffer, the rest before
 * the end, or anything at all when `is_inside_line`. */
size_t stream_ready(struct stream *stream, bool is_inside_line);

void stream_consume(struct stream *stream, size_t len);

#endif
