/* agent.c - tcrun on another host: starts ranks as it is told to, and watches over them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect.h"
#include "guard.h"
#include "launch.h"
#include "options.h"
#include "order.h"
#include "rendezvous.h"
#include "tcdist/version.h"
#include "tunnel.h"

enum { TURN_MS = 250, FILE_PIECE = 65536 };

struct agent {
    struct tunnel tunnel;
    struct inherited inherited;
    struct rendezvous rendezvous;
    char *block; /* owned; what the order points into */
    struct order order;
    struct launched *ranks; /* owned; one a rank of the order; sock is -1 when its guard is gone */
    struct processors processors;
    char *traces;                     /* owned; NULL: none */
    char *files[ORDER_FILES_MAX + 2]; /* owned; NAME=VALUE, NULL at the end */
    struct pollfd *fds;               /* owned */
};

static void say(struct agent *agent, const char *text)
{
    tunnel_say(&agent->tunnel, TUNNEL_SAY, 0, 0, text, strlen(text));
}

static void say_hello(struct agent *agent)
{
    char bytes[64];

    tunnel_put32(bytes, TUNNEL_VERSION);
    (void)snprintf(bytes + 4, sizeof bytes - 4, "%s", tc_version());
    tunnel_say(&agent->tunnel, TUNNEL_HELLO, 0, 0, bytes, 4 + strlen(bytes + 4) + 1);
}

static void say_guard(struct agent *agent, unsigned index, const struct guard_message *message)
{
    char bytes[16];

    tunnel_put32(bytes, (uint32_t)message->event);
    tunnel_put32(bytes + 4, (uint32_t)message->value);
    tunnel_put64(bytes + 8, (uint64_t)message->when_ns);
    tunnel_say(&agent->tunnel, TUNNEL_GUARD, 0, index, bytes, sizeof bytes);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static bool listen_at(struct agent *agent, const char *address, size_t len)
{
    unsigned port = 0;
    char bytes[8];
    int error;

    if (len == 0 || address[len - 1] != '\0' || agent->rendezvous.fd >= 0)
        return false;
    error = rendezvous_listen(&agent->rendezvous, address, &port);
    tunnel_put32(bytes, (uint32_t)error);
    tunnel_put32(bytes + 4, port);
    tunnel_say(&agent->tunnel, TUNNEL_LISTENING, 0, 0, bytes, sizeof bytes);
    return true;
}

/* Variables that only this host can give: where files are. */
static int make_files(struct agent *agent)
{
    const struct order *order = &agent->order;
    unsigned count = 0;

    for (; count < order->file_count; count++) {
        int fd;

        agent->files[count] =
            launch_file(order->files[count].variable, order->files[count].text, &fd);
        if (agent->files[count] == NULL)
            return errno;
    }
    if (!order->keeps_traces)
        return 0;
    agent->traces = collect_open();
    if (agent->traces == NULL ||
        asprintf(&agent->files[count], ENV_TRACE_DIR "=%s", agent->traces) < 0)
        return errno;
    return 0;
}

static int enter_folder(struct agent *agent)
{
    char text[512];
    int error;

    if (chdir(agent->order.cwd) == 0)
        return 0;
    error = errno;
    if (!agent->order.needs_cwd) {
        (void)snprintf(text, sizeof text, "there is no '%.300s' here (%s): the ranks run in %s",
                       agent->order.cwd, strerror(error), getenv("HOME") ? "HOME" : "/");
        say(agent, text);
        return 0;
    }
    (void)snprintf(text, sizeof text, "cannot change to '%.300s': %s", agent->order.cwd,
                   strerror(error));
    say(agent, text);
    return error;
}

static void tell_share(struct agent *agent, unsigned rank, struct share share)
{
    char *list = processors_text(&agent->processors, share), text[512];

    (void)snprintf(text, sizeof text, "rank %u is bound to processors %.400s", rank,
                   list != NULL ? list : "of its own");
    free(list);
    say(agent, text);
}

static int start_rank(struct agent *agent, unsigned index)
{
    const struct order *order = &agent->order;
    bool has_input = order->has_input && (index == 0 || !order->first_alone);
    struct launch launch = {
        .inherited = &agent->inherited,
        .command = order->command,
        .env = order->ranks[index].env,
        .more_env = agent->files,
        .listener = index == 0 && order->has_listener ? agent->rendezvous.fd : -1,
        .input = has_input ? LAUNCH_PIPE : LAUNCH_NO_INPUT,
    };
    struct launched *rank = &agent->ranks[index];
    int error;

    if (order->binds) {
        launch.processors = &agent->processors;
        launch.share = processors_share(&agent->processors, index, order->rank_count);
        if (order->tells)
            tell_share(agent, order->ranks[index].rank, launch.share);
    }
    error = launch_rank(&launch, rank);
    if (error != 0)
        return error;
    tunnel_attach(&agent->tunnel, index, TUNNEL_OUT, rank->out);
    tunnel_attach(&agent->tunnel, index, TUNNEL_ERR, rank->err);
    if (rank->in >= 0)
        tunnel_attach(&agent->tunnel, index, TUNNEL_IN, rank->in);
    return 0;
}

static void start_ranks(struct agent *agent)
{
    unsigned count = agent->order.rank_count;
    char shortage[PROCESSORS_TEXT];
    int error = enter_folder(agent);

    if (error == 0)
        error = make_files(agent);
    if (error == 0 && agent->order.binds)
        error = processors_read(&agent->processors);
    if (error == 0 && agent->order.binds &&
        processors_are_short(&agent->processors, count, shortage))
        say(agent, shortage);
    launch_raise_limit(count, &agent->inherited);
    for (unsigned i = 0; i < count; i++) {
        agent->ranks[i].sock = -1;
        if (error == 0)
            error = start_rank(agent, i);
        if (error != 0) {
            struct guard_message message = {
                .event = GUARD_FORK_FAILED, .value = error, .when_ns = tunnel_now_ns()};

            say_guard(agent, i, &message);
            tunnel_say(&agent->tunnel, TUNNEL_GONE, 0, i, NULL, 0);
            tunnel_say(&agent->tunnel, TUNNEL_CLOSE, TUNNEL_OUT, i, NULL, 0);
            tunnel_say(&agent->tunnel, TUNNEL_CLOSE, TUNNEL_ERR, i, NULL, 0);
        }
    }
    rendezvous_close(&agent->rendezvous);
}

static bool follow(struct agent *agent, const char *bytes, size_t len)
{
    size_t room;

    if (agent->block != NULL)
        return false;
    agent->block = malloc(len + 1);
    if (agent->block == NULL)
        return false;
    memcpy(agent->block, bytes, len);
    if (!order_read(&agent->order, agent->block, len) ||
        (agent->order.has_listener && agent->rendezvous.fd < 0) ||
        !tunnel_set_ranks(&agent->tunnel, agent->order.rank_count))
        return false;
    room = tunnel_poll_max(&agent->tunnel) + agent->order.rank_count;
    agent->ranks = calloc(agent->order.rank_count, sizeof *agent->ranks);
    free(agent->fds);
    agent->fds = calloc(room, sizeof *agent->fds);
    if (agent->ranks == NULL || agent->fds == NULL)
        return false;
    start_ranks(agent);
    return true;
}

/* ---- Watching -------------------------------------------------------------------------------- */

static bool hear(void *owner, const struct tunnel *tunnel, enum tunnel_type type, unsigned rank,
                 const char *bytes, size_t len)
{
    struct agent *agent = owner;
    int sock =
        agent->ranks != NULL && rank < agent->order.rank_count ? agent->ranks[rank].sock : -1;
    int sig;

    (void)tunnel;
    switch (type) {
    case TUNNEL_LISTEN:
        return listen_at(agent, bytes, len);
    case TUNNEL_ORDER:
        return follow(agent, bytes, len);
    case TUNNEL_SIGNAL:
        sig = len == 4 ? (int)tunnel_get32(bytes) : 0;
        if (sig <= 0 || sig >= NSIG)
            return false;
        if (sock >= 0)
            send(sock, &sig, sizeof sig, MSG_NOSIGNAL | MSG_DONTWAIT);
        return true;
    case TUNNEL_KILL:
        if (sock >= 0)
            shutdown(sock, SHUT_WR);
        return true;
    default:
        return false;
    }
}

static void read_guard(struct agent *agent, unsigned index)
{
    struct launched *rank = &agent->ranks[index];
    struct guard_message message;
    ssize_t n;

    while ((n = recv(rank->sock, &message, sizeof message, MSG_DONTWAIT)) > 0) {
        if (message.event == GUARD_ENDED)
            agent->order.ranks[index].has_ended = true;
        say_guard(agent, index, &message);
    }
    if (n != 0)
        return;

    /* As tcrun does with guards of its own: what was in the group is gone with it. */
    message = (struct guard_message){.event = GUARD_ENDED, .when_ns = tunnel_now_ns()};
    kill(-rank->guard, SIGKILL);
    waitpid(rank->guard, &message.value, 0);
    if (!agent->order.ranks[index].has_ended)
        say_guard(agent, index, &message);
    close(rank->sock);
    rank->sock = -1;
    tunnel_say(&agent->tunnel, TUNNEL_GONE, 0, index, NULL, 0);
    tunnel_expect_end(&agent->tunnel, index);
}

static bool is_over(const struct agent *agent)
{
    if (agent->ranks == NULL)
        return false;
    for (unsigned i = 0; i < agent->order.rank_count; i++)
        if (agent->ranks[i].sock >= 0)
            return false;
    return tunnel_is_drained(&agent->tunnel);
}

static void turn(struct agent *agent)
{
    unsigned count = agent->ranks != NULL ? agent->order.rank_count : 0;
    struct pollfd *fds = agent->fds;

    for (unsigned i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = agent->ranks[i].sock, .events = POLLIN};
    if (poll(fds, (nfds_t)tunnel_poll(&agent->tunnel, fds, count), TURN_MS) < 0)
        return;
    for (unsigned i = 0; i < count; i++)
        if (fds[i].revents != 0)
            read_guard(agent, i);
    tunnel_turn(&agent->tunnel, fds);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Goes on until no more than `backlog` bytes wait to be sent. */
static void flush(struct agent *agent, size_t backlog)
{
    while (agent->tunnel.broken == NULL && tunnel_backlog(&agent->tunnel) > backlog)
        turn(agent);
}

static void send_file(struct agent *agent, int dir, const char *name)
{
    char bytes[NAME_MAX + 1 + FILE_PIECE];
    size_t name_len = strlen(name) + 1;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return;
    memcpy(bytes, name, name_len);
    while ((n = read(fd, bytes + name_len, FILE_PIECE)) > 0 && agent->tunnel.broken == NULL) {
        tunnel_say(&agent->tunnel, TUNNEL_FILE, 0, 0, bytes, name_len + (size_t)n);
        flush(agent, (size_t)4 * FILE_PIECE);
    }
    close(fd);
}

static void send_traces(struct agent *agent)
{
    DIR *dir = opendir(agent->traces);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            send_file(agent, dirfd(dir), entry->d_name);
    if (dir != NULL)
        closedir(dir);
}

static void agent_fini(struct agent *agent)
{
    if (agent->traces != NULL)
        collect_remove(agent->traces);
    for (size_t i = 0; agent->files[i] != NULL; i++)
        free(agent->files[i]);
    free(agent->traces);
    processors_fini(&agent->processors);
    order_fini(&agent->order);
    free(agent->block);
    free(agent->ranks);
    free(agent->fds);
    rendezvous_close(&agent->rendezvous);
    tunnel_fini(&agent->tunnel);
}

/* The tunnel has standard input and output for itself, and nothing else gets in between. */
static bool open_tunnel(struct agent *agent, unsigned beat_ms)
{
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
        out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (in < 0 || out < 0 || null < 0)
        return false;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    close(null);
    if (write(out, TUNNEL_START, sizeof TUNNEL_START - 1) != (ssize_t)(sizeof TUNNEL_START - 1))
        return false;
    tunnel_init(&agent->tunnel, in, out, hear, agent);
    agent->tunnel.silence_ms = beat_ms;
    agent->fds = calloc(tunnel_poll_max(&agent->tunnel), sizeof *agent->fds);
    return agent->fds != NULL;
}

int agent_run(unsigned beat_ms)
{
    struct agent agent = {.rendezvous = {.fd = -1}};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, initial = {.sa_handler = SIG_DFL};
    bool is_good;

    launch_fill_descriptors();
    sigaction(SIGPIPE, &ignore, &agent.inherited.sigpipe);
    sigaction(SIGCHLD, &initial, &agent.inherited.sigchld);
    sigprocmask(SIG_SETMASK, NULL, &agent.inherited.mask);
    if (!open_tunnel(&agent, beat_ms))
        return EXIT_TROUBLE;
    say_hello(&agent);
    while (agent.tunnel.broken == NULL && !is_over(&agent))
        turn(&agent);
    if (agent.tunnel.broken == NULL && agent.traces != NULL)
        send_traces(&agent);
    tunnel_say(&agent.tunnel, TUNNEL_DONE, 0, 0, NULL, 0);
    flush(&agent, 0);
    is_good = agent.tunnel.broken == NULL;
    /* The guards see the end of our sockets, and kill. */
    agent_fini(&agent);
    return is_good ? 0 : EXIT_TROUBLE;
}
