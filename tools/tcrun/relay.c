/* relay.c - the process that speaks with the agent of another host, through ssh. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect.h"
#include "guard.h"
#include "keep.h"
#include "link.h"
#include "tcdist/version.h"
#include "tunnel.h"
#include "variables.h"

enum {
    TURN_MS = 250,
    LEAVE_MS = 200, /* for ssh to end by itself, so that its exit code is known */
    WORDS = 240
};

struct relay {
    const struct link *link;
    int control;
    struct relay_rank *ranks;
    struct tunnel tunnel;
    pid_t ssh;      /* 0: it has ended */
    int ssh_status; /* how; -1: it had to be killed, or has not */
    int64_t ssh_ended_ns;
    int words; /* what ssh says on its standard error; -1: it says no more */
    char last_words[WORDS];
    size_t words_len; /* of the line that is not complete */
    char line[WORDS];
    bool is_ready;   /* the agent has said hello */
    bool is_started; /* it has its order */
    bool is_done;    /* it has nothing more to say */
    int64_t begun_ns;
    struct pollfd *fds;
    char why[LINK_TEXT]; /* that it is lost; "": see the tunnel */
};

static tunnel_heard_fn hear;

static void tell(const struct relay *relay, struct link_message *message)
{
    send(relay->control, message, sizeof *message, MSG_NOSIGNAL);
}

__attribute__((format(printf, 3, 4))) static void tell_text(const struct relay *relay,
                                                            enum link_event event,
                                                            const char *format, ...)
{
    struct link_message message = {.event = event};
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message.text, sizeof message.text, format, args);
    va_end(args);
    tell(relay, &message);
}

/* ---- ssh ------------------------------------------------------------------------------------- */

_Noreturn static void become_ssh(const struct link *link, const int fds[3], pid_t relay)
{
    char **command =
        relay_command(link->options, link->options->world.machines[link->machine].name);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != relay || command == NULL)
        _exit(127);
    for (int i = 0; i < 3; i++)
        dup2(fds[i], i);
    keep_descriptors((int[]){0, 1, 2}, 3);
    setrlimit(RLIMIT_NOFILE, &link->inherited->files);
    sigaction(SIGPIPE, &link->inherited->sigpipe, NULL);
    sigaction(SIGCHLD, &link->inherited->sigchld, NULL);
    sigprocmask(SIG_SETMASK, &link->inherited->mask, NULL);
    execvp(command[0], command);
    dprintf(STDERR_FILENO, "cannot run '%s': %s\n", command[0], strerror(errno));
    _exit(127);
}

static bool start_ssh(struct relay *relay)
{
    int in[2], out[2], err[2];
    pid_t self = getpid();

    if (launch_pipe(in, true) != 0 || launch_pipe(out, false) != 0 || launch_pipe(err, false) != 0)
        return false;
    relay->ssh = fork();
    if (relay->ssh < 0)
        return false;
    if (relay->ssh == 0)
        become_ssh(relay->link, (int[]){in[1], out[1], err[1]}, self);
    close(in[1]);
    close(out[1]);
    close(err[1]);
    relay->words = err[0];
    tunnel_init(&relay->tunnel, out[0], in[0], hear, relay);
    relay->tunnel.awaits_start = true;
    return true;
}

static void end_line(struct relay *relay)
{
    size_t len = relay->words_len;

    while (len > 0 && (relay->line[len - 1] == '\r' || relay->line[len - 1] == ' '))
        len--;
    relay->line[len] = '\0';
    relay->words_len = 0;
    if (len == 0)
        return;
    (void)snprintf(relay->last_words, sizeof relay->last_words, "%s", relay->line);
    if (relay->is_ready || relay->link->options->is_verbose)
        tell_text(relay, LINK_SAID, "%s", relay->line);
}

static void read_words(struct relay *relay)
{
    char buf[1024];
    ssize_t n = read(relay->words, buf, sizeof buf);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        end_line(relay);
        close(relay->words);
        relay->words = -1;
    }
    for (ssize_t i = 0; i < n; i++) {
        bool is_text = (unsigned char)buf[i] >= ' ' && buf[i] != 127;

        if (buf[i] == '\n')
            end_line(relay);
        else if (relay->words_len + 1 < sizeof relay->line)
            relay->line[relay->words_len++] = is_text ? buf[i] : ' ';
    }
}

/* ---- What the agent says --------------------------------------------------------------------- */

static bool hear_hello(struct relay *relay, const char *bytes, size_t len)
{
    struct link_message message = {.event = LINK_READY};

    if (len < 5 || bytes[len - 1] != '\0')
        return false;
    if (tunnel_get32(bytes) != TUNNEL_VERSION) {
        (void)snprintf(relay->why, sizeof relay->why,
                       "tcrun there is of another version: %.20s there, %s here", bytes + 4,
                       tc_version());
        return false;
    }
    relay->is_ready = true;
    relay->tunnel.silence_ms = relay->link->options->beat_ms;
    tell(relay, &message);
    return true;
}

static bool hear_listening(struct relay *relay, const char *bytes, size_t len)
{
    struct link_message message = {.event = LINK_LISTENING};

    if (len != 8)
        return false;
    message.value = (int)tunnel_get32(bytes);
    message.port = tunnel_get32(bytes + 4);
    tell(relay, &message);
    return message.port <= 65535;
}

/* What a guard says goes on to tcrun, with our clock. */
static bool hear_guard(struct relay *relay, unsigned index, const char *bytes, size_t len)
{
    struct relay_rank *rank = index < relay->link->rank_count ? &relay->ranks[index] : NULL;
    struct guard_message message;

    if (rank == NULL || len != 16 || tunnel_get32(bytes) > GUARD_LOST)
        return false;
    message.event = (enum guard_event)tunnel_get32(bytes);
    message.value = (int)tunnel_get32(bytes + 4);
    message.when_ns = tunnel_now_ns();
    if (relay->tunnel.round_ns < INT64_MAX)
        message.when_ns = (int64_t)(tunnel_get64(bytes + 8) - (uint64_t)relay->tunnel.ahead_ns);
    if (message.event == GUARD_ENDED || message.event == GUARD_FORK_FAILED)
        rank->has_ended = true;
    if (rank->sock >= 0)
        send(rank->sock, &message, sizeof message, MSG_NOSIGNAL);
    return true;
}

static bool hear_gone(struct relay *relay, unsigned index)
{
    if (index >= relay->link->rank_count)
        return false;
    if (relay->ranks[index].sock >= 0)
        close(relay->ranks[index].sock);
    relay->ranks[index].sock = -1;
    return true;
}

static bool hear(void *owner, const struct tunnel *tunnel, enum tunnel_type type, unsigned rank,
                 const char *bytes, size_t len)
{
    struct relay *relay = owner;

    (void)tunnel;
    if (!relay->is_ready)
        return type == TUNNEL_HELLO && hear_hello(relay, bytes, len);
    switch (type) {
    case TUNNEL_LISTENING:
        return hear_listening(relay, bytes, len);
    case TUNNEL_GUARD:
        return hear_guard(relay, rank, bytes, len);
    case TUNNEL_GONE:
        return hear_gone(relay, rank);
    case TUNNEL_SAY:
        tell_text(relay, LINK_SAID, "%.*s", (int)(len < 400 ? len : 400), bytes);
        return true;
    case TUNNEL_FILE:
        return collect_append(relay->link->traces, relay->link->machine, bytes, len);
    case TUNNEL_DONE:
        relay->is_done = true;
        relay->tunnel.is_over = true;
        return true;
    default:
        return false;
    }
}

/* ---- What tcrun says ------------------------------------------------------------------------- */

static bool fill_order(const struct relay *relay, struct order *order, const char *url)
{
    const struct link *link = relay->link;
    int files = variables_files(link->options, order->files);

    order->file_count = files > 0 ? (unsigned)files : 0;
    order->ranks = calloc(link->rank_count, sizeof *order->ranks);
    if (order->ranks == NULL || files < 0)
        return false;
    for (unsigned i = 0; i < link->rank_count; i++) {
        order->ranks[i].rank = link->ranks[i];
        order->ranks[i].env = variables_make(link->options, link->ranks[i], url);
        if (order->ranks[i].env == NULL)
            return false;
    }
    order->rank_count = link->rank_count;
    return true;
}

static void start(struct relay *relay, const char *url)
{
    const struct options *options = relay->link->options;
    struct order order = {
        .command = options->command,
        .needs_cwd = options->cwd != NULL,
        .has_input = options->input == INPUT_ALL ||
                     (options->input == INPUT_FIRST && relay->link->ranks[0] == 0),
        .binds = options->bind == BIND_CORES,
        .tells = options->is_verbose,
        .keeps_traces = relay->link->traces != NULL,
        .has_listener = relay->link->ranks[0] == 0 && options->rendezvous == NULL,
    };
    char cwd[PATH_MAX], *block = NULL;
    size_t len = 0;

    order.first_alone = options->input == INPUT_FIRST;
    order.cwd = getcwd(cwd, sizeof cwd) != NULL ? cwd : "/";
    if (options->cwd != NULL && *options->cwd == '/')
        order.cwd = options->cwd; /* as it is called, not where links lead to here */
    if (fill_order(relay, &order, url))
        block = order_write(&order, &len);
    if (block == NULL || len > TUNNEL_FRAME_MAX) {
        (void)snprintf(relay->why, sizeof relay->why,
                       block == NULL ? "out of memory" : "what it would be told is too long");
        relay->tunnel.broken = relay->why;
    } else {
        tunnel_say(&relay->tunnel, TUNNEL_ORDER, 0, 0, block, len);
    }
    relay->is_started = true;
    variables_free_files(order.files, (int)order.file_count);
    for (unsigned i = 0; i < order.rank_count; i++)
        variables_free(order.ranks[i].env);
    free(order.ranks);
    free(block);
}

static void read_control(struct relay *relay)
{
    struct link_message message;
    ssize_t n = recv(relay->control, &message, sizeof message, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof message) /* tcrun is gone, or does not need us any more */
        _exit(0);
    if (message.event == LINK_LISTEN)
        tunnel_say(&relay->tunnel, TUNNEL_LISTEN, 0, 0, message.text, strlen(message.text) + 1);
    else if (message.event == LINK_START)
        start(relay, message.text);
}

static void read_rank(struct relay *relay, unsigned index)
{
    struct relay_rank *rank = &relay->ranks[index];
    char bytes[4];
    int sig;
    ssize_t n;

    while ((n = recv(rank->sock, &sig, sizeof sig, MSG_DONTWAIT)) == (ssize_t)sizeof sig) {
        tunnel_put32(bytes, (uint32_t)sig);
        if (relay->is_started)
            tunnel_say(&relay->tunnel, TUNNEL_SIGNAL, 0, index, bytes, sizeof bytes);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    rank->is_killed = true;
    if (relay->is_started) {
        tunnel_say(&relay->tunnel, TUNNEL_KILL, 0, index, NULL, 0);
        return;
    }
    close(rank->sock); /* it has not been started, and will not be */
    rank->sock = -1;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void wait_for_events(struct relay *relay)
{
    struct pollfd *fds = relay->fds;
    unsigned count = relay->link->rank_count;
    size_t n = 2 + count;

    fds[0] = (struct pollfd){.fd = relay->control, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = relay->words, .events = POLLIN};
    for (unsigned i = 0; i < count; i++)
        fds[2 + i] = (struct pollfd){.fd = relay->ranks[i].is_killed ? -1 : relay->ranks[i].sock,
                                     .events = POLLIN};
    n = tunnel_poll(&relay->tunnel, fds, n);
    if (poll(fds, (nfds_t)n, TURN_MS) < 0)
        return;
    if (fds[0].revents != 0)
        read_control(relay);
    if (fds[1].revents != 0)
        read_words(relay);
    for (unsigned i = 0; i < count; i++)
        if (fds[2 + i].revents != 0 && relay->ranks[i].sock >= 0)
            read_rank(relay, i);
    tunnel_turn(&relay->tunnel, fds);
}

static bool is_unwanted(const struct relay *relay)
{
    if (relay->is_started)
        return false;
    for (unsigned i = 0; i < relay->link->rank_count; i++)
        if (relay->ranks[i].sock >= 0)
            return false;
    return true;
}

static bool is_late(const struct relay *relay)
{
    return !relay->is_ready &&
           tunnel_now_ns() - relay->begun_ns > (int64_t)relay->link->options->connect_ms * 1000000;
}

/* What holds our pipes may outlive what was called ssh; without that it is no connection. */
static void watch_ssh(struct relay *relay)
{
    if (relay->ssh > 0 && waitpid(relay->ssh, &relay->ssh_status, WNOHANG) == relay->ssh) {
        relay->ssh = 0;
        relay->ssh_ended_ns = tunnel_now_ns();
    }
    if (relay->ssh == 0 && !relay->is_done && !tunnel_is_readable(&relay->tunnel) &&
        tunnel_now_ns() - relay->ssh_ended_ns > LEAVE_MS * INT64_C(1000000))
        relay->tunnel.broken = "the connection has ended";
}

static void loop(struct relay *relay)
{
    while (relay->tunnel.broken == NULL && !is_unwanted(relay)) {
        if (relay->is_done && tunnel_is_drained(&relay->tunnel))
            return;
        if (is_late(relay)) {
            (void)snprintf(relay->why, sizeof relay->why, "ssh has not reached it within %u s",
                           relay->link->options->connect_ms / 1000);
            return;
        }
        wait_for_events(relay);
        watch_ssh(relay);
    }
}

/* Waits a moment for ssh to say how it ends. */
static void end_ssh(struct relay *relay)
{
    int64_t deadline_ns = tunnel_now_ns() + LEAVE_MS * INT64_C(1000000);
    struct pollfd wait = {.events = POLLIN};

    while (relay->ssh > 0 && waitpid(relay->ssh, &relay->ssh_status, WNOHANG) == 0) {
        if (tunnel_now_ns() > deadline_ns) {
            kill(relay->ssh, SIGKILL);
            waitpid(relay->ssh, NULL, 0);
            relay->ssh_status = -1;
            break;
        }
        wait.fd = relay->words;
        if (poll(&wait, 1, 20) > 0)
            read_words(relay);
    }
    wait.fd = relay->words;
    while (relay->words >= 0 && poll(&wait, 1, 0) > 0) {
        read_words(relay);
        wait.fd = relay->words;
    }
}

static void tell_lost(struct relay *relay)
{
    int status = relay->ssh_status;
    const char *words = relay->last_words;
    char how[64] = "";

    if (relay->why[0] == '\0' && !relay->is_ready && status >= 0 && WIFEXITED(status))
        (void)snprintf(relay->why, sizeof relay->why, "cannot be reached by ssh");
    if (relay->why[0] == '\0')
        (void)snprintf(relay->why, sizeof relay->why, "%s", relay->tunnel.broken);
    if (status >= 0 && WIFSIGNALED(status))
        (void)snprintf(how, sizeof how, ", ssh was killed by signal %d", WTERMSIG(status));
    else if (status >= 0 && WEXITSTATUS(status) != 0)
        (void)snprintf(how, sizeof how, ", ssh ended with code %d", WEXITSTATUS(status));
    tell_text(relay, LINK_LOST, "%s%s%s%s", relay->why, how, words[0] != '\0' ? ": " : "", words);
    for (unsigned i = 0; i < relay->link->rank_count; i++) {
        struct relay_rank *rank = &relay->ranks[i];

        if (rank->sock >= 0 && !rank->has_ended)
            guard_report(rank->sock, GUARD_LOST, 0);
    }
}

/* Everything else is let go of: a guard, or a reader of tcrun's output, would wait for its end. */
static bool keep_own(const struct relay *relay)
{
    unsigned count = relay->link->rank_count;
    int *fds = calloc(4 + 4 * (size_t)count, sizeof *fds);
    size_t n = 0;

    if (fds == NULL)
        return false;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        fds[n++] = fd;
    fds[n++] = relay->control;
    for (unsigned i = 0; i < count; i++) {
        const struct relay_rank *rank = &relay->ranks[i];

        fds[n++] = rank->sock;
        fds[n++] = rank->out;
        fds[n++] = rank->err;
        fds[n++] = rank->in;
    }
    keep_descriptors(fds, n);
    free(fds);
    keep_no_standard();
    return true;
}

static bool open_relay(struct relay *relay)
{
    unsigned count = relay->link->rank_count;

    if (!keep_own(relay) || !start_ssh(relay) || !tunnel_set_ranks(&relay->tunnel, count))
        return false;
    for (unsigned i = 0; i < count; i++) {
        const struct relay_rank *rank = &relay->ranks[i];

        tunnel_attach(&relay->tunnel, i, TUNNEL_OUT, rank->out);
        tunnel_attach(&relay->tunnel, i, TUNNEL_ERR, rank->err);
        if (rank->in >= 0)
            tunnel_attach(&relay->tunnel, i, TUNNEL_IN, rank->in);
    }
    relay->fds = calloc(2 + count + tunnel_poll_max(&relay->tunnel), sizeof *relay->fds);
    return relay->fds != NULL;
}

_Noreturn void relay_run(const struct link *link, int control, struct relay_rank *ranks)
{
    struct relay relay = {.link = link, .control = control, .ranks = ranks, .words = -1};

    relay.ssh_status = -1;
    relay.begun_ns = tunnel_now_ns();
    if (!open_relay(&relay)) {
        (void)snprintf(relay.why, sizeof relay.why, "cannot start ssh: %s", strerror(errno));
        tell_lost(&relay);
        _exit(1);
    }
    loop(&relay);
    if (relay.is_done && relay.tunnel.broken == NULL)
        _exit(0);
    if (is_unwanted(&relay) && relay.why[0] == '\0' && relay.tunnel.broken == NULL)
        _exit(0);
    end_ssh(&relay);
    tell_lost(&relay);
    _exit(1);
}
