/* tool_run.c - runs one of the built tools for a test, with a deadline and without leftovers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/tool_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/close_range.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

const char *tool_path(const char *name)
{
    static char path[PATH_MAX + 64];
    const char *dir = getenv("TCDIST_TEST_BIN_DIR");
    char self[PATH_MAX] = "";

    if (dir != NULL) {
        (void)snprintf(path, sizeof path, "%s/tools/%s", dir, name);
        return path;
    }
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    *strrchr(self, '/') = '\0';
    (void)snprintf(path, sizeof path, "%s/../tools/%s", self, name);
    return path;
}

static void open_pipe(int pair[2])
{
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
}

/* Only the three standard descriptors and `life` reach the tool. */
_Noreturn static void become_tool(const struct tool_setup *setup, const char *path,
                                  const char *const argv[], const int fds[3], int life)
{
    sigset_t none;

    /* A script's background job, which a test may be part of, ignores SIGINT. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    for (int i = 0; i < 3; i++)
        dup2(fds[i], i);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    fcntl(life, F_SETFD, 0);
    if (setup->prepare != NULL)
        setup->prepare(setup->arg);
    execv(path, (char *const *)argv);
    perror(path);
    _exit(125);
}

void tool_start(struct tool_run *run, const struct tool_setup *setup, const char *const argv[])
{
    static const struct tool_setup usual;
    const char *path = tool_path(argv[0]);
    int in[2];
    int out[2];
    int err[2];
    int life[2];

    if (setup == NULL)
        setup = &usual;
    open_pipe(in);
    open_pipe(out);
    open_pipe(err);
    open_pipe(life);
    *run = (struct tool_run){.out_fd = out[0], .err_fd = err[0], .life = life[0], .exit_code = -1};
    run->out.data = calloc(1, 1);
    run->err.data = calloc(1, 1);

    run->pid = fork();
    assert_true(run->pid >= 0);
    if (run->pid == 0) {
        int out_fd = setup->out_fd > 0 ? setup->out_fd : out[1];

        become_tool(setup, path, argv, (int[]){in[0], out_fd, setup->is_joined ? out_fd : err[1]},
                    life[1]);
    }
    run->pidfd = pidfd_open(run->pid, 0);
    assert_true(run->pidfd >= 0);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    close(life[1]);
    if (setup->input != NULL)
        assert_int_equal(write(in[1], setup->input, strlen(setup->input)), strlen(setup->input));
    close(in[1]);
}

static void fail_late(struct tool_run *run, const char *what)
{
    kill(run->pid, SIGKILL);
    fail_msg("too late: %s\nstandard output so far:\n%.2000s\nstandard error so far:\n%.2000s",
             what, run->out.data, run->err.data);
}

static void read_text(int *fd, struct tool_text *text)
{
    char buf[65536];
    ssize_t n = read(*fd, buf, sizeof buf);

    assert_true(n >= 0);
    if (n == 0) {
        close(*fd);
        *fd = -1;
        return;
    }
    if (text->len + (size_t)n >= text->room) {
        text->room = 2 * (text->len + sizeof buf);
        text->data = realloc(text->data, text->room);
        assert_non_null(text->data);
    }
    memcpy(text->data + text->len, buf, (size_t)n);
    text->len += (size_t)n;
    text->data[text->len] = '\0';
}

void tool_read(struct tool_run *run, const char *what)
{
    struct pollfd fds[] = {{.fd = run->out_fd, .events = POLLIN},
                           {.fd = run->err_fd, .events = POLLIN}};

    if (poll(fds, 2, TOOL_DEADLINE_MS) == 0)
        fail_late(run, what);
    if (fds[0].revents != 0)
        read_text(&run->out_fd, &run->out);
    if (fds[1].revents != 0)
        read_text(&run->err_fd, &run->err);
}

/* Looks only at what is new: the output may be long. */
static void wait_text(struct tool_run *run, const struct tool_text *in, const int *fd,
                      const char *text)
{
    size_t len = strlen(text);
    size_t start = 0;

    while (memmem(in->data + start, in->len - start, text, len) == NULL) {
        start = in->len > len ? in->len - len : 0;
        if (*fd < 0)
            fail_late(run, text);
        tool_read(run, text);
    }
}

void tool_wait_out(struct tool_run *run, const char *text)
{
    wait_text(run, &run->out, &run->out_fd, text);
}

void tool_wait_err(struct tool_run *run, const char *text)
{
    wait_text(run, &run->err, &run->err_fd, text);
}

int tool_number_after(const struct tool_run *run, const char *text)
{
    const char *found = strstr(run->out.data, text);

    assert_non_null(found);
    return (int)strtol(found + strlen(text), NULL, 10);
}

void tool_kill(const struct tool_run *run, int sig)
{
    assert_int_equal(kill(run->pid, sig), 0);
}

void tool_wait_readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&wait, 1, TOOL_DEADLINE_MS), 1);
}

void tool_finish(struct tool_run *run)
{
    int status;
    char byte;

    while (run->out_fd >= 0 || run->err_fd >= 0)
        tool_read(run, "the end of the output");
    tool_wait_readable(run->pidfd);
    assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
    run->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

    tool_wait_readable(run->life);
    assert_int_equal(read(run->life, &byte, 1), 0);
}

void tool_close(struct tool_run *run)
{
    if (run->out_fd >= 0)
        close(run->out_fd);
    if (run->err_fd >= 0)
        close(run->err_fd);
    close(run->pidfd);
    close(run->life);
    free(run->out.data);
    free(run->err.data);
}

size_t tool_count(const char *text, const char *part)
{
    size_t count = 0;

    /* A sanitizer's strstr() measures the whole text at each call, its strchr() does not. */
    for (const char *at = strchr(text, *part); at != NULL; at = strchr(at + 1, *part))
        count += strncmp(at, part, strlen(part)) == 0;
    return count;
}

static void expect(const struct tool_run *run, bool is_there, const char *where, const char *text)
{
    if (!is_there)
        fail_msg("no '%s' on standard %s.  Standard output:\n%s\nStandard error:\n%s", text, where,
                 run->out.data, run->err.data);
}

void tool_says(const struct tool_run *run, const char *text)
{
    expect(run, strstr(run->out.data, text) != NULL, "output", text);
}

void tool_errs(const struct tool_run *run, const char *text)
{
    expect(run, strstr(run->err.data, text) != NULL, "error", text);
}

void tool_refuses(const char *const argv[])
{
    struct tool_run run;

    tool_start(&run, NULL, argv);
    tool_finish(&run);
    assert_int_equal(run.exit_code, 2);
    assert_true(run.err.len > 0);
    tool_close(&run);
}
