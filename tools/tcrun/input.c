/* input.c - carries what is typed at a terminal to rank 0. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

enum { FOREGROUND_CHECK_MS = 500 };

void input_init(struct input *input, int fd)
{
    *input = (struct input){.fd = fd};
}

void input_fini(struct input *input)
{
    if (input->fd >= 0)
        close(input->fd);
    input->fd = -1;
}

/* In the background a read would stop tcrun, as it stops every job. */
static bool is_in_foreground(void)
{
    pid_t group = tcgetpgrp(STDIN_FILENO);

    return group < 0 || group == getpgrp();
}

size_t input_poll(const struct input *input, struct pollfd *fds)
{
    if (input->fd < 0)
        return 0;
    if (input->len > 0)
        fds[0] = (struct pollfd){.fd = input->fd, .events = POLLOUT};
    else if (is_in_foreground())
        fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    else
        return 0;
    return 1;
}

static void read_terminal(struct input *input)
{
    ssize_t n = read(STDIN_FILENO, input->buf, sizeof input->buf);

    if (n > 0) {
        input->head = 0;
        input->len = (size_t)n;
    } else if (n == 0 || errno != EINTR) {
        input_fini(input); /* rank 0 sees the end too */
    }
}

static void write_rank(struct input *input)
{
    ssize_t n = write(input->fd, input->buf + input->head, input->len);

    if (n > 0) {
        input->head += (size_t)n;
        input->len -= (size_t)n;
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        input_fini(input); /* rank 0 reads no more */
    }
}

void input_turn(struct input *input, const struct pollfd *fds, size_t n)
{
    if (n == 0 || fds[0].revents == 0 || input->fd < 0)
        return;
    if (input->len == 0)
        read_terminal(input);
    else
        write_rank(input);
}

int64_t input_due_ms(const struct input *input, int64_t now_ms)
{
    if (input->fd < 0 || input->len > 0 || is_in_foreground())
        return INT64_MAX;
    return now_ms + FOREGROUND_CHECK_MS;
}
