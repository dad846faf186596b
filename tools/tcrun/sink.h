/* sink.h - one of tcrun's own outputs, written without ever blocking. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_SINK_H
#define TCRUN_SINK_H

#include <stdbool.h>
#include <stddef.h>

#define SINK_BYTES ((size_t)65536) /* as STREAM_BYTES: one read becomes about one write */

struct sink {
    int fd; /* owned if is_owned */
    bool is_owned;
    bool never_blocks; /* writes of any size are safe; otherwise only PIPE_BUF bytes after a poll */
    int error;         /* errno of the write that failed; nothing is written after it */
    size_t head;
    size_t len;
    char buf[SINK_BYTES]; /* filled from head to head + len */
};

/* Writes to fd from now on; the rest of *sink must be zero. */
void sink_init(struct sink *sink, int fd);
void sink_fini(struct sink *sink);

size_t sink_room(struct sink *sink);

/* Adds at most sink_room() bytes; after an error they are forgotten. */
void sink_add(struct sink *sink, const char *text, size_t len);

/* Writes what can be written now; true when that changed anything. */
bool sink_flush(struct sink *sink);

#endif
