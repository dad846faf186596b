/* survey.c - the middle of a survey: starts an agent on each host, and passes on what they say. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "survey.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "remote.h"
#include "roundtable.h"

enum { NOISE_MAX = 65536 };

/* A process that speaks with an agent, or is one. */
struct line {
    pid_t pid;
    int in, out, words; /* -1: not there */
};

bool survey_init(struct survey *survey, const struct hosts *hosts)
{
    size_t size = hosts->count;

    *survey = (struct survey){.size = (int)size, .hosts = hosts};
    survey->is_here = calloc(size, 1);
    survey->why = calloc(size, sizeof *survey->why);
    survey->facts = calloc(size, sizeof *survey->facts);
    survey->tried = calloc(size * size, sizeof *survey->tried);
    return survey->is_here != NULL && survey->why != NULL && survey->facts != NULL &&
           survey->tried != NULL;
}

void survey_fini(struct survey *survey)
{
    free(survey->is_here);
    free(survey->why);
    free(survey->facts);
    free(survey->tried);
    *survey = (struct survey){.size = 0};
}

const struct tried *survey_tried(const struct survey *survey, int from, int to)
{
    return &survey->tried[(size_t)from * (size_t)survey->size + (size_t)to];
}

/* ---- Processes ------------------------------------------------------------------------------- */

_Noreturn static void become(char *const *command, const int fds[3], pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    for (int i = 0; i < 3; i++)
        dup2(fds[i], i);
    (void)signal(SIGPIPE, SIG_DFL);
    execvp(command[0], command);
    dprintf(STDERR_FILENO, "cannot run '%s': %s", command[0], strerror(errno));
    _exit(127);
}

static bool start(struct line *line, char *const *command)
{
    int in[2], out[2], err[2];
    pid_t self = getpid();

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        return false;
    line->pid = fork();
    if (line->pid == 0)
        become(command, (int[]){in[0], out[1], err[1]}, self);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    line->in = in[1];
    line->out = out[0];
    line->words = err[0];
    fcntl(line->in, F_SETFL, O_NONBLOCK);
    fcntl(line->out, F_SETFL, O_NONBLOCK);
    fcntl(line->words, F_SETFL, O_NONBLOCK);
    return line->pid > 0;
}

/* The agent of a host: this program here, or by ssh there. */
static bool start_agent(const struct options *options, const char *host, const char *option,
                        struct line *line)
{
    struct remote remote = {.ssh = options->ssh,
                            .host = host,
                            .program = "tcconfig",
                            .path = options->remote_tcconfig,
                            .option = option,
                            .connect_s = CONNECT_S};
    char self[] = "/proc/self/exe";
    char *here[] = {self, (char *)option, NULL};
    char **there = NULL;
    bool is_good;

    if (hosts_is_own(host))
        return start(line, here);
    there = remote_command(&remote);
    is_good = there != NULL && start(line, there);
    remote_free_command(there);
    return is_good;
}

/* The last thing that was said on standard error; a word is waited for a moment. */
static void read_words(const struct line *line, char why[WHY_ROOM])
{
    char text[4096];
    size_t len = 0, start = 0;
    ssize_t n;

    while (len < sizeof text - 1) {
        struct pollfd wait = {.fd = line->words, .events = POLLIN};

        if (poll(&wait, 1, 300) <= 0)
            break;
        n = read(line->words, text + len, sizeof text - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            start = i + 1;
        else if (text[i] < ' ' || text[i] > '~')
            text[i] = ' ';
    }
    if (len > start)
        (void)snprintf(why, WHY_ROOM, "%.*s", (int)(len - start < 200 ? len - start : 200),
                       text + start);
}

static void end(struct line *line)
{
    if (line->pid <= 0)
        return;
    close(line->in);
    close(line->out);
    close(line->words);
    kill(line->pid, SIGKILL);
    waitpid(line->pid, NULL, 0);
    line->pid = 0;
}

/* ---- What agents say ------------------------------------------------------------------------- */

/* Reads the agent's first words and its version; false: why says what came instead. */
static bool hear_start(const struct line *line, int64_t deadline_ms, char why[WHY_ROOM])
{
    static const char start_text[] = AGENT_START;
    char version[80], byte;
    size_t at = 0, len = 0;

    for (size_t noise = 0; at < sizeof start_text - 1; noise++) {
        if (noise > NOISE_MAX || !table_recv(line->out, &byte, 1, deadline_ms)) {
            (void)snprintf(why, WHY_ROOM, "no answer");
            read_words(line, why);
            return false;
        }
        at = byte == start_text[at] ? at + 1 : byte == start_text[0] ? 1 : 0;
    }
    while (len < sizeof version - 1 && table_recv(line->out, &byte, 1, deadline_ms) && byte != '\n')
        version[len++] = byte;
    version[len] = '\0';
    if (strcmp(version, agent_version()) == 0)
        return true;
    (void)snprintf(why, WHY_ROOM, "tcconfig there is of another version: %.*s there, %.*s here",
                   (int)strcspn(version, " "), version, (int)strcspn(agent_version(), " "),
                   agent_version());
    return false;
}

static void lose(struct survey *survey, struct line *lines, int i, const char *why)
{
    if (survey->is_here[i] == 0)
        return;
    survey->is_here[i] = 0;
    if (survey->why[i][0] == '\0')
        (void)snprintf(survey->why[i], WHY_ROOM, "%s", why);
    end(&lines[i]);
}

/* As table_exchange() of rank 0, which has nothing of its own to add. */
static void exchange(struct survey *survey, struct line *lines, void *all, size_t len)
{
    int64_t deadline_ms = table_now_ms() + EXCHANGE_MS;
    size_t size = (size_t)survey->size;

    memset(all, 0, len * size);
    for (int i = 0; i < survey->size; i++)
        if (survey->is_here[i] != 0 &&
            !table_recv(lines[i].out, (char *)all + (size_t)i * len, len, deadline_ms))
            lose(survey, lines, i, "it has gone while it was asked");
    for (int i = 0; i < survey->size; i++)
        if (survey->is_here[i] != 0 &&
            (!table_send(lines[i].in, survey->is_here, size, deadline_ms) ||
             !table_send(lines[i].in, all, len * size, deadline_ms)))
            lose(survey, lines, i, "it has gone while it was asked");
}

static void ask(struct survey *survey, struct line *lines)
{
    size_t size = (size_t)survey->size;
    char *nothing = calloc(size, 1);

    exchange(survey, lines, survey->facts, sizeof *survey->facts);
    for (int i = 0; i < survey->size; i++)
        if (survey->is_here[i] != 0 && !facts_check(&survey->facts[i], i, survey->size))
            lose(survey, lines, i, "what it says makes no sense");
    for (int turn = 1; turn < survey->size && nothing != NULL; turn++)
        exchange(survey, lines, nothing, 1);
    exchange(survey, lines, survey->tried, size * sizeof *survey->tried);
    facts_check_tried(survey->tried, size * size);
    free(nothing);
}

void survey_run(struct survey *survey, const struct options *options)
{
    struct line *lines = calloc((size_t)survey->size, sizeof *lines);
    int64_t deadline_ms = table_now_ms() + 2 * CONNECT_S * 1000;
    char option[96];

    for (int i = 0; lines != NULL && i < survey->size; i++) {
        (void)snprintf(option, sizeof option, "--agent=%d/%d/%d/%zu", i, survey->size,
                       options->try_ms, options->large_bytes);
        survey->why[i][0] = '\0';
        survey->is_here[i] = start_agent(options, survey->hosts->at[i].name, option, &lines[i]);
        if (survey->is_here[i] == 0)
            (void)snprintf(survey->why[i], WHY_ROOM, "%s", strerror(errno));
    }
    for (int i = 0; lines != NULL && i < survey->size; i++)
        if (survey->is_here[i] != 0 && !hear_start(&lines[i], deadline_ms, survey->why[i]))
            lose(survey, lines, i, "no answer");
    if (lines != NULL)
        ask(survey, lines);
    for (int i = 0; lines != NULL && i < survey->size; i++)
        end(&lines[i]);
    free(lines);
}

/* ---- Commands -------------------------------------------------------------------------------- */

bool survey_command(const struct options *options, const char *host, const char *command)
{
    struct remote remote = {.ssh = options->ssh,
                            .host = host,
                            .program = "sh",
                            .path = "sh",
                            .option = command,
                            .connect_s = CONNECT_S};
    char **there = hosts_is_own(host) ? NULL : remote_command(&remote);
    char *here[] = {(char *)"sh", (char *)"-c", NULL, NULL};
    char script[4096];
    int status = -1;
    pid_t pid;

    (void)snprintf(script, sizeof script, "exec sh %s", command);
    here[2] = script;
    if (there == NULL && !hosts_is_own(host))
        return false;
    pid = fork();
    if (pid == 0) {
        char *const *argv = there != NULL ? there : here;

        execvp(argv[0], argv);
        _exit(127);
    }
    remote_free_command(there);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}
