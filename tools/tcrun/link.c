/* link.c - tcrun's side of another host: its ranks look as if they ran here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "remote.h"

char **relay_command(const struct options *options, const char *host)
{
    char option[32];
    struct remote remote = {
        .ssh = options->ssh,
        .host = host,
        .program = "tcrun",
        .path = options->remote_tcrun,
        .option = option,
        .connect_s = options->connect_ms / 1000,
    };

    (void)snprintf(option, sizeof option, "--agent=%u", options->beat_ms);
    return remote_command(&remote);
}

static const struct relay_rank no_rank = {.sock = -1, .out = -1, .err = -1, .in = -1};
static const struct launched not_launched = {.sock = -1, .out = -1, .err = -1, .in = -1};

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Pipes and a socket between tcrun and the relay. */
static int open_rank(struct launched *here, struct relay_rank *there, bool has_input)
{
    int sock[2], out[2], err[2], in[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) != 0)
        return errno;
    here->sock = sock[0];
    there->sock = sock[1];
    if (launch_pipe(out, false) != 0)
        return errno;
    here->out = out[0];
    there->out = out[1];
    if (launch_pipe(err, false) != 0)
        return errno;
    here->err = err[0];
    there->err = err[1];
    if (!has_input)
        return 0;
    if (launch_pipe(in, true) != 0)
        return errno;
    here->in = in[0];
    there->in = in[1];
    return 0;
}

static void close_there(struct relay_rank *rank)
{
    close_all((int[]){rank->sock, rank->out, rank->err, rank->in}, 4);
    *rank = no_rank;
}

static void close_here(struct launched *rank)
{
    close_all((int[]){rank->sock, rank->out, rank->err, rank->in}, 4);
    *rank = not_launched;
}

static bool has_input(const struct options *options, unsigned rank)
{
    return options->input == INPUT_ALL || (options->input == INPUT_FIRST && rank == 0);
}

static int open_ranks(const struct link *link, struct launched *const *ranks,
                      struct relay_rank *there)
{
    int error = 0;

    for (unsigned i = 0; i < link->rank_count; i++) {
        there[i] = no_rank;
        *ranks[link->ranks[i]] = not_launched;
    }
    for (unsigned i = 0; i < link->rank_count && error == 0; i++)
        error =
            open_rank(ranks[link->ranks[i]], &there[i], has_input(link->options, link->ranks[i]));
    return error;
}

/* Signals are for tcrun, who tells the relay what matters. */
_Noreturn static void become_relay(const struct link *link, int control, struct relay_rank *ranks)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "tcrelay");
    relay_run(link, control, ranks);
}

static bool list_ranks(struct link *link)
{
    const struct world *world = &link->options->world;

    link->ranks = calloc(world->machines[link->machine].ranks, sizeof *link->ranks);
    for (unsigned rank = 0; link->ranks != NULL && rank < world->ranks; rank++)
        if (world->places[rank].machine == link->machine)
            link->ranks[link->rank_count++] = rank;
    return link->ranks != NULL;
}

int link_open(struct link *link, struct launched *const *ranks)
{
    struct relay_rank *there = NULL;
    int control[2] = {-1, -1};
    int error = ENOMEM;

    link->control = -1;
    if (list_ranks(link))
        there = calloc(link->rank_count, sizeof *there);
    if (there != NULL)
        error = open_ranks(link, ranks, there);
    if (error == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0)
        error = errno;
    if (error == 0) {
        link->relay = fork();
        error = link->relay < 0 ? errno : 0;
    }
    if (error == 0 && link->relay == 0)
        become_relay(link, control[1], there);
    for (unsigned i = 0; there != NULL && i < link->rank_count; i++) {
        close_there(&there[i]);
        if (error != 0)
            close_here(ranks[link->ranks[i]]);
    }
    free(there);
    close_all(&control[1], 1);
    link->control = control[0];
    if (error != 0) {
        close_all(&control[0], 1);
        link->control = -1;
    }
    return error;
}

void link_close(struct link *link)
{
    if (link->control >= 0)
        close(link->control);
    link->control = -1;
    if (link->relay > 0)
        waitpid(link->relay, NULL, 0);
    free(link->ranks);
    link->ranks = NULL;
}

void link_tell(const struct link *link, enum link_event event, const char *text)
{
    struct link_message message = {.event = event};

    (void)snprintf(message.text, sizeof message.text, "%s", text);
    if (link->control >= 0)
        send(link->control, &message, sizeof message, MSG_NOSIGNAL);
}

bool link_hear(struct link *link, struct link_message *message)
{
    ssize_t n;

    if (link->control < 0)
        return false;
    n = recv(link->control, message, sizeof *message, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof *message)
        return true;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    close(link->control);
    link->control = -1;
    waitpid(link->relay, NULL, 0);
    link->relay = 0;
    return false;
}

void link_kill(const struct link *link)
{
    if (link->control >= 0)
        kill(link->relay, SIGKILL);
}
