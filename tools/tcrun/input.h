/* input.h - carries what is typed at a terminal to rank 0. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_INPUT_H
#define TCRUN_INPUT_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

/* Rank 0 inherits a file or a pipe as it is.  A terminal it could not read: its process group is
 * not the terminal's foreground group.  So tcrun reads the terminal for it. */
struct input {
    int fd; /* owned, non-blocking; to rank 0; -1: there is nothing to carry */
    size_t head;
    size_t len;
    char buf[4096]; /* a line of a terminal is no longer */
};

enum { INPUT_POLL_MAX = 1 };

/* Takes fd over; -1: rank 0 needs no help. */
void input_init(struct input *input, int fd);
void input_fini(struct input *input);

size_t input_poll(const struct input *input, struct pollfd *fds);

/* Reads and writes what can be; fds are those of input_poll(), n of them, after poll(). */
void input_turn(struct input *input, const struct pollfd *fds, size_t n);

/* When to look again, since nobody tells when tcrun comes into the foreground; INT64_MAX: never. */
int64_t input_due_ms(const struct input *input, int64_t now_ms);

#endif
