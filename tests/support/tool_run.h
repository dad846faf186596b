/* tool_run.h - runs one of the built tools for a test, with a deadline and without leftovers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TOOL_RUN_H
#define TEST_TOOL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Each wait in here fails the test after this time. */
enum { TOOL_DEADLINE_MS = 60000 };

/* What differs from the usual: pipes on 0, 1 and 2, nothing on standard input. */
struct tool_setup {
    const char *input;          /* written to standard input; NULL: empty */
    int out_fd;                 /* used as standard output; 0: a pipe */
    bool is_joined;             /* standard error goes where standard output goes */
    void (*prepare)(void *arg); /* called in the new process, last before exec; NULL: nothing */
    void *arg;
};

struct tool_text {
    char *data; /* owned; ends with a zero byte */
    size_t len;
    size_t room; /* bytes allocated */
};

struct tool_run {
    pid_t pid;
    int pidfd;  /* owned, as the others */
    int life;   /* a pipe that every descendant holds open: it ends when the last of them has */
    int out_fd; /* -1 after the end */
    int err_fd;
    struct tool_text out;
    struct tool_text err;
    int exit_code; /* after tool_finish(); a shell's view: 128 plus the signal if one ended it */
};

/* The path of a built tool: $TCDIST_TEST_BIN_DIR/tools/NAME, or ../tools/NAME seen from this
 * program.  A static string. */
const char *tool_path(const char *name);

/* Starts argv, which ends with NULL; argv[0] is a name of a tool. */
void tool_start(struct tool_run *run, const struct tool_setup *setup, const char *const argv[]);

/* Reads until the output contains the text. */
void tool_wait_out(struct tool_run *run, const char *text);
void tool_wait_err(struct tool_run *run, const char *text);

/* Reads what is there, or waits for `what`. */
void tool_read(struct tool_run *run, const char *what);

/* The number that follows the text in the output, which must be there. */
int tool_number_after(const struct tool_run *run, const char *text);

void tool_kill(const struct tool_run *run, int sig);

/* Reads all output, waits for the end and for the end of all descendants. */
void tool_finish(struct tool_run *run);

/* Frees everything. */
void tool_close(struct tool_run *run);

/* Waits until fd is readable or at its end. */
void tool_wait_readable(int fd);

size_t tool_count(const char *text, const char *part);

/* Fails the test, with all that was said, where the text is not in the output, or in the errors. */
void tool_says(const struct tool_run *run, const char *text);
void tool_errs(const struct tool_run *run, const char *text);

/* A command line that is wrong: exit code 2, and it is said why. */
void tool_refuses(const char *const argv[]);

#endif
