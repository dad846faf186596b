/* input.c - carries the standard input to the ranks that read it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOREGROUND_CHECK_MS = 500, PIECE = 65536, DROP_BYTES = 4 << 20 };

/* A file that has no name; memory where no file is to be had. */
static int open_spool(void)
{
    const char *dir = getenv("TMPDIR");
    int fd = open(dir != NULL && *dir == '/' ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    return fd >= 0 ? fd : memfd_create("input", MFD_CLOEXEC);
}

int input_init(struct input *input, unsigned ranks)
{
    struct stat st;

    input->file = -1;
    input->readers = calloc(ranks, sizeof *input->readers);
    if (input->readers == NULL)
        return ENOMEM;
    input->count = ranks;
    for (unsigned i = 0; i < ranks; i++)
        input->readers[i].fd = -1;
    input->is_terminal = isatty(STDIN_FILENO) != 0;
    input->is_file = fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode);
    return 0;
}

static void close_reader(struct input *input, struct input_reader *reader)
{
    if (reader->fd < 0)
        return;
    close(reader->fd);
    reader->fd = -1;
    input->open--;
}

void input_fini(struct input *input)
{
    for (unsigned i = 0; i < input->count; i++)
        close_reader(input, &input->readers[i]);
    free(input->readers);
    input->readers = NULL;
    input->count = 0;
    if (input->file > STDIN_FILENO)
        close(input->file);
    input->file = -1;
}

void input_attach(struct input *input, unsigned rank, int fd)
{
    input->readers[rank] = (struct input_reader){.fd = fd, .at = -1};
    input->open++;
}

void input_begin(struct input *input)
{
    off_t at;

    if (input->open == 0)
        return;
    input->file = input->is_file ? STDIN_FILENO : open_spool();
    input->has_ended = input->file < 0;
    input->error = input->file < 0 ? errno : 0;
    if (!input->is_file)
        return;
    at = lseek(STDIN_FILENO, 0, SEEK_CUR);
    for (unsigned i = 0; i < input->count; i++)
        input->readers[i].sent = at > 0 ? at : 0;
    input->dropped = input->len = at > 0 ? at : 0;
}

/* In the background a read would stop tcrun, as it stops every job. */
static bool is_in_foreground(void)
{
    pid_t group = tcgetpgrp(STDIN_FILENO);

    return group < 0 || group == getpgrp();
}

static bool may_read(const struct input *input)
{
    return input->open > 0 && !input->has_ended && input->file >= 0 && input->has_reader_waiting &&
           (!input->is_terminal || is_in_foreground());
}

size_t input_poll_max(const struct input *input)
{
    return 1 + input->count;
}

size_t input_poll(struct input *input, struct pollfd *fds)
{
    size_t n = 0;

    input->at = -1;
    input->has_reader_waiting = false;
    for (unsigned i = 0; i < input->count; i++) {
        struct input_reader *reader = &input->readers[i];

        reader->at = -1;
        if (reader->fd < 0)
            continue;
        if (reader->sent == input->len && !input->has_ended)
            input->has_reader_waiting = true;
        reader->at = (int)n;
        /* One that has all is still looked at: whether it has closed its end. */
        fds[n++] =
            (struct pollfd){.fd = reader->fd, .events = reader->sent < input->len ? POLLOUT : 0};
    }
    if (may_read(input)) {
        input->at = (int)n;
        fds[n++] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    }
    return n;
}

static void read_input(struct input *input)
{
    char buf[PIECE];
    ssize_t n = input->is_file ? pread(STDIN_FILENO, buf, sizeof buf, input->len)
                               : read(STDIN_FILENO, buf, sizeof buf);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        input->has_ended = true;
        return;
    }
    if (!input->is_file && pwrite(input->file, buf, (size_t)n, input->len) != n) {
        input->error = errno != 0 ? errno : ENOSPC;
        input->has_ended = true;
        return;
    }
    input->len += n;
}

static void write_reader(struct input *input, struct input_reader *reader)
{
    char buf[PIECE];
    size_t left = (size_t)(input->len - reader->sent);
    ssize_t n = pread(input->file, buf, left < sizeof buf ? left : sizeof buf, reader->sent);

    if (n > 0)
        n = write(reader->fd, buf, (size_t)n);
    if (n > 0)
        reader->sent += n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_reader(input, reader); /* it reads no more */
}

/* What everyone has read need not be kept. */
static void drop(struct input *input)
{
    off_t least = input->len;

    for (unsigned i = 0; i < input->count; i++)
        if (input->readers[i].fd >= 0 && input->readers[i].sent < least)
            least = input->readers[i].sent;
    if (input->is_file || least - input->dropped < DROP_BYTES)
        return;
    fallocate(input->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, input->dropped,
              least - input->dropped);
    input->dropped = least;
}

void input_turn(struct input *input, const struct pollfd *fds)
{
    for (unsigned i = 0; i < input->count; i++) {
        struct input_reader *reader = &input->readers[i];
        short revents = reader->fd >= 0 && reader->at >= 0 ? fds[reader->at].revents : 0;

        if ((revents & POLLOUT) != 0 && reader->sent < input->len)
            write_reader(input, reader);
        else if ((revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
            close_reader(input, reader);
    }
    if (input->at >= 0 && fds[input->at].revents != 0)
        read_input(input);
    for (unsigned i = 0; input->has_ended && i < input->count; i++)
        if (input->readers[i].sent >= input->len)
            close_reader(input, &input->readers[i]);
    drop(input);
}

int64_t input_due_ms(const struct input *input, int64_t now_ms)
{
    if (input->open == 0 || input->has_ended || !input->is_terminal || is_in_foreground())
        return INT64_MAX;
    return now_ms + FOREGROUND_CHECK_MS;
}
