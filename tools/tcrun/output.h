/* output.h - brings the lines of all ranks to tcrun's own outputs, never one inside another. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_OUTPUT_H
#define TCRUN_OUTPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "sink.h"
#include "stream.h"

enum { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_COUNT };

/* A place where whole lines go: an output with the streams that compete for it. */
struct lane {
    struct sink sink;
    struct stream
        *holder;       /* borrowed from output; inside a line of this stream; NULL: between lines */
    int64_t moved_ms;  /* when the holder last gave a byte */
    size_t held_bytes; /* bytes of the holder's line so far */
    size_t turn;       /* the stream that is asked first, so that all get their turn */
};

struct output {
    struct lane lanes[OUTPUT_COUNT];
    unsigned lane_count;    /* 1 when stdout and stderr are the same file, which is then one lane */
    struct stream *streams; /* owned; OUTPUT_COUNT a rank, then tcrun's own lines */
    size_t stream_count;
    unsigned ranks;
    bool has_prefix;
};

/* *output must be zero.  False: out of memory. */
bool output_init(struct output *output, unsigned ranks, bool has_prefix);
void output_fini(struct output *output);

/* Takes the read end of a pipe over; it must be non-blocking. */
void output_attach(struct output *output, unsigned rank, unsigned which, int fd);

/* Adds one of tcrun's own lines, `tcrun: …`, to stderr. */
__attribute__((format(printf, 2, 3))) void output_say(struct output *output, const char *format,
                                                      ...);

/* Nobody who could write for this rank is alive. */
void output_expect_end(struct output *output, unsigned rank);

/* Appends what to wait for and returns how many entries that were: at most output_poll_max(). */
size_t output_poll_max(const struct output *output);
size_t output_poll(const struct output *output, struct pollfd *fds);

/* Reads, sorts and writes once what can be; false when all that remains has to wait. */
bool output_turn(struct output *output, int64_t now_ms);

/* When output_turn() is due even if no descriptor becomes ready; INT64_MAX: never. */
int64_t output_due_ms(const struct output *output);

/* The errno of an output that can't be written any more; 0 while all is well. */
int output_error(const struct output *output);

/* Every stream has ended and everything is written, or can't be. */
bool output_is_done(const struct output *output);

#endif
