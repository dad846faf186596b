/* input.h - carries the standard input to the ranks that read it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_INPUT_H
#define TCRUN_INPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Each rank reads all of it at a pace of its own.  What one has read and another has not is kept in
 * a file without a name, so that nobody waits for a rank that does not read. */
struct input_reader {
    int fd; /* owned, non-blocking; -1: it reads no more */
    off_t sent;
    int at; /* its place among the descriptors of poll(); -1: none */
};

struct input {
    struct input_reader *readers; /* owned; one a rank */
    unsigned count, open;
    int file; /* owned, or STDIN_FILENO where that is a file */
    off_t len;
    off_t dropped; /* so much of the file is read by all, and given back */
    bool is_file, is_terminal;
    bool has_ended; /* len is all there is */
    int error;      /* errno: what ranks have yet to read can't be kept */
    bool has_reader_waiting;
    int at;
};

/* *input must be zero.  Returns 0 or an errno. */
int input_init(struct input *input, unsigned ranks);
void input_fini(struct input *input);

/* Takes the write end of a rank's pipe over. */
void input_attach(struct input *input, unsigned rank, int fd);
/* All who read are attached: it begins. */
void input_begin(struct input *input);

size_t input_poll_max(const struct input *input);
size_t input_poll(struct input *input, struct pollfd *fds);

/* Reads and writes what can be, after poll(). */
void input_turn(struct input *input, const struct pollfd *fds);

/* When to look again, since nobody tells when tcrun comes into the foreground; INT64_MAX: never. */
int64_t input_due_ms(const struct input *input, int64_t now_ms);

#endif
