/* net_hosts.c - hosts of a network of the test's own, and ranks on them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/net_hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tcdist/tcdist.h"

enum { COUNT = 300000 }; /* large messages: many buffers of whoever carries them */

/* Number of the cable of each host: a new one each time, since an old one goes some time after its
 * host. */
static unsigned cables;

/* ---- Programs that do the work -------------------------------------------------------------- */

/* Run a program with text to read, in this network or that of a process (not 0). */
static bool run(pid_t where, const char *const *argv, const char *input)
{
    int pipes[2], status = -1;
    char path[64];
    pid_t pid;

    if (pipe2(pipes, O_CLOEXEC) != 0)
        return false;
    pid = fork();
    if (pid == 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC), net = -1;

        (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)where);
        if (where != 0)
            net = open(path, O_RDONLY | O_CLOEXEC);
        if (nowhere < 0 || (where != 0 && (net < 0 || setns(net, CLONE_NEWNET) != 0)))
            _exit(126);
        (void)dup2(pipes[0], STDIN_FILENO);
        (void)dup2(nowhere, STDOUT_FILENO);
        if (getenv("TCDIST_TEST_VERBOSE") == NULL)
            (void)dup2(nowhere, STDERR_FILENO);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(pipes[0]);
    if (write(pipes[1], input, strlen(input)) < 0)
        status = -1; /* the program has ended: its status says it */
    close(pipes[1]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

__attribute__((format(printf, 2, 3))) static bool ip(pid_t where, const char *fmt, ...)
{
    const char *argv[] = {"ip", "-batch", "-", NULL};
    char text[2048];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return run(where, argv, text);
}

static bool nft(pid_t where, const char *commands)
{
    const char *argv[] = {"nft", "-f", "-", NULL};

    return run(where, argv, commands);
}

const char *net_hosts_open(void)
{
    const char *version[] = {"ip", "-V", NULL}, *rules[] = {"nft", "-v", NULL};

    if (geteuid() != 0)
        return "it needs root, for networks of its own";
    if (!run(0, version, "") || !run(0, rules, ""))
        return "there is no ip(8) or no nft(8) here (Debian: iproute2, nftables)";
    if (unshare(CLONE_NEWNET) != 0)
        return "the system gives no network of its own (unshare)";
    if (!ip(0, "link set lo up\nlink add lan0 type bridge\nlink add lan1 type bridge\n"
               "link set lan0 up\nlink set lan1 up\n"))
        return "the system makes no bridge";
    return NULL;
}

/* ---- A rank --------------------------------------------------------------------------------- */

static int log_fd;

static void on_log(tc_log_level_t level, const char *line, void *arg)
{
    (void)arg;
    (void)level;
    dprintf(log_fd, "%s\n", line);
}

static void set_env(const char *text)
{
    char copy[512], *rest = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", text == NULL ? "" : text);
    for (char *at = strtok_r(copy, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(at, '=');

        *value++ = '\0';
        (void)setenv(at, value, 1);
    }
}

/* All to all, so that each pair of ranks is linked; then a sum. */
static const char *exchange(tc_dist_ctx *group, int ranks, int rank)
{
    static char why[512];
    static int send[NET_RANKS * COUNT], recv[NET_RANKS * COUNT];
    tc_future *future;
    tc_status_t status;

    for (int r = 0; r < ranks; r++)
        for (int k = 0; k < COUNT; k++)
            send[r * COUNT + k] = 1000 * rank + r;
    future = tc_alltoall_async(group, 7, send, recv, COUNT, TC_DTYPE_I32, NULL);
    status = tc_future_wait(future, -1);
    if (status == TC_OK)
        for (int r = 0; r < ranks; r++)
            if (recv[r * COUNT + COUNT - 1] != 1000 * r + rank)
                status = TC_ERR_INTERNAL;
    if (status != TC_OK)
        (void)snprintf(why, sizeof(why), "%s",
                       tc_future_error(future) != NULL ? tc_future_error(future)->message
                                                       : "wrong numbers");
    tc_future_release(future);
    return why;
}

/* Rank 0 is gone once all have come here; what waits for it fails, and the others agree on a group
 * of their own. */
static const char *go_on_without_root(tc_dist_ctx **group, bool is_late, int rank)
{
    tc_dist_ctx *rest = NULL;
    tc_status_t status;

    if (!is_late)
        (void)tc_barrier(*group); /* where it fails rank 0 has been through it, and ended */
    if (rank == 0)
        return "";
    do { /* until the loss is known */
        status = tc_barrier(*group);
    } while (status == TC_OK);
    if (tc_dist_shrink(*group, &rest) != TC_OK)
        return tc_last_error()->message;
    (void)tc_dist_close(*group);
    *group = rest;
    return exchange(rest, tc_dist_world_size(rest), tc_dist_rank(rest));
}

static tc_status_t join(const struct net_case *net, tc_context *context, int rank,
                        tc_dist_ctx **group)
{
    char text[16];

    if (!net->is_from_env)
        return tc_dist_init(context, TC_DIST_ANY, net->ranks, rank, net->url, group);
    (void)snprintf(text, sizeof(text), "%d", rank);
    (void)setenv("TCDIST_RANK", text, 1);
    (void)snprintf(text, sizeof(text), "%d", net->ranks);
    (void)setenv("TCDIST_WORLD_SIZE", text, 1);
    (void)setenv("TCDIST_RENDEZVOUS", net->url, 1);
    return tc_dist_init_env(context, group);
}

static void be_rank(const struct net_case *net, int rank, int out, int log)
{
    tc_context *context;
    tc_dist_ctx *group = NULL;
    char text[512] = "";
    char timeout[32];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_env(net->rank[rank].env);
    (void)snprintf(timeout, sizeof(timeout), "%d.%03d", net->timeout_ms / 1000,
                   net->timeout_ms % 1000);
    (void)setenv("TCDIST_TIMEOUT", timeout, 1);
    log_fd = log;
    tc_log_set_sink(on_log, NULL);
    tc_log_set_level(TC_LOG_INFO);
    if (tc_init(&context) != TC_OK || join(net, context, rank, &group) != TC_OK)
        (void)snprintf(text, sizeof(text), "%s", tc_last_error()->message);
    else if (!net->is_late)
        (void)snprintf(text, sizeof(text), "%s", exchange(group, net->ranks, rank));
    if (group != NULL && text[0] == '\0' && net->loses_root)
        (void)snprintf(text, sizeof(text), "%s", go_on_without_root(&group, net->is_late, rank));
    if (write(out, text, sizeof(text)) != (ssize_t)sizeof(text))
        _exit(3);
    if (net->loses_root && rank == 0)
        _exit(0);
    if (group != NULL)
        (void)tc_dist_finalize(group);
    (void)tc_shutdown(context);
    _exit(0);
}

/* ---- A host --------------------------------------------------------------------------------- */

struct host {
    pid_t pid;
    int says, hears; /* of the host: a byte each way */
};

/* A file of the system's with another text, for the processes of this host. */
__attribute__((format(printf, 2, 3))) static bool replace(const char *file, const char *fmt, ...)
{
    char path[] = "/tmp/net_hosts_XXXXXX";
    int fd = mkstemp(path);
    va_list args;
    bool is_done;

    if (fd < 0)
        return false;
    va_start(args, fmt);
    (void)vdprintf(fd, fmt, args);
    va_end(args);
    close(fd);
    is_done = mount(path, file, NULL, MS_BIND, NULL) == 0;
    (void)unlink(path);
    return is_done;
}

static bool name_hosts(const struct net_host *host)
{
    const char *names = host->names == NULL ? "" : host->names;

    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           replace("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n%s\n", names) &&
           replace("/etc/nsswitch.conf", "hosts: files%s\n", host->has_name_server ? " dns" : "") &&
           replace("/etc/resolv.conf", "nameserver 10.77.0.9\n");
}

static bool switch_off_ipv6(void)
{
    int fd = open("/proc/sys/net/ipv6/conf/all/disable_ipv6", O_WRONLY | O_CLOEXEC);
    bool is_done = fd >= 0 && write(fd, "1", 1) == 1;

    if (fd >= 0)
        close(fd);
    return is_done;
}

/* Somebody else's server; ends with this process. */
static void serve(int fd, const char *says)
{
    int peer;

    if (fork() != 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((peer = accept(fd, NULL, NULL)) >= 0) {
        (void)!write(peer, says, strlen(says));
        (void)shutdown(peer, SHUT_WR);
    }
    _exit(0);
}

static void take_port(const char *says)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(NET_PORT)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)bind(fd, (struct sockaddr *)&at, sizeof(at));
    (void)listen(fd, 1);
    if (says != NULL)
        serve(fd, says);
}

/* In the process of a host: a network, then, at a sign, ranks. */
static void be_host(const struct net_case *net, int n, const struct host *self, const int *outs,
                    const int *logs)
{
    char byte;
    int ranks = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 || !name_hosts(&net->hosts[n]) ||
        (net->hosts[n].has_no_ipv6 && !switch_off_ipv6()) || write(self->says, "r", 1) != 1 ||
        read(self->hears, &byte, 1) != 1)
        _exit(1);
    if (net->hosts[n].has_busy_port || net->hosts[n].busy_says != NULL)
        take_port(net->hosts[n].busy_says);
    for (int r = 0; r < net->ranks; r++) {
        if (net->rank[r].host != n)
            continue;
        ranks++;
        if (fork() == 0)
            be_rank(net, r, outs[r], logs[r]);
    }
    for (int r = 0; r < ranks; r++)
        (void)wait(NULL);
    /* Its network stays until no rank of another host needs it. */
    (void)!write(self->says, "d", 1);
    (void)!read(self->hears, &byte, 1);
    _exit(0);
}

static bool start_host(const struct net_case *net, int n, struct host *host, const int *outs,
                       const int *logs)
{
    int up[2], down[2];
    struct host self;
    char byte;

    if (pipe2(up, O_CLOEXEC) != 0 || pipe2(down, O_CLOEXEC) != 0)
        return false;
    self = (struct host){.says = up[1], .hears = down[0]};
    *host = (struct host){.pid = fork(), .says = down[1], .hears = up[0]};
    if (host->pid == 0)
        be_host(net, n, &self, outs, logs);
    close(up[1]);
    close(down[0]);
    return host->pid > 0 && read(host->hears, &byte, 1) == 1;
}

static bool connect_host(const struct net_case *net, int n, pid_t pid)
{
    const struct net_host *host = &net->hosts[n];
    unsigned cable = ++cables;
    int at = n + 1;

    if (!ip(0,
            "link add a%u type veth peer name eth0 netns %d\nlink set a%u master lan0 up\n"
            "link add b%u type veth peer name eth1 netns %d\nlink set b%u master lan1 up\n",
            cable, (int)pid, cable, cable, (int)pid, cable) ||
        !ip(pid,
            "link set lo up\nlink set eth0 up\nlink set eth1 up\n"
            "addr add 10.77.0.%d/24 dev eth0\naddr add 10.78.0.%d/24 dev eth1\n",
            at, at))
        return false;
    if (!host->has_no_ipv6 && !ip(pid,
                                  "addr add fd77::%d/64 dev eth0 nodad\n"
                                  "addr add fd78::%d/64 dev eth1 nodad\n"
                                  "addr add fe80::%d/64 dev eth0 nodad\n",
                                  at, at, at))
        return false;
    return (host->ip == NULL || ip(pid, "%s", host->ip)) &&
           (host->nft == NULL || nft(pid, host->nft));
}

/* ---- A case --------------------------------------------------------------------------------- */

static void read_all(int fd, char *text, size_t room)
{
    size_t len = 0;
    ssize_t got;

    while (len + 1 < room && (got = read(fd, text + len, room - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
}

static bool make_hosts(const struct net_case *net, struct host *hosts, const int *outs,
                       const int *logs)
{
    for (int n = 0; n < NET_HOSTS; n++)
        if (!start_host(net, n, &hosts[n], outs, logs) || !connect_host(net, n, hosts[n].pid))
            return false;
    return true;
}

static void end_hosts(struct host *hosts, bool is_made)
{
    bool is_done[NET_HOSTS] = {false};
    char byte;

    for (int n = 0; is_made && n < NET_HOSTS; n++)
        is_done[n] = read(hosts[n].hears, &byte, 1) == 1;
    for (int n = 0; n < NET_HOSTS; n++)
        if (is_done[n])
            (void)!write(hosts[n].says, "e", 1);
    for (int n = 0; n < NET_HOSTS; n++) {
        if (hosts[n].pid <= 0)
            continue;
        if (!is_made)
            (void)kill(hosts[n].pid, SIGKILL);
        (void)waitpid(hosts[n].pid, NULL, 0);
        close(hosts[n].says);
        close(hosts[n].hears);
    }
    /* The system takes its time to end a network, and an old one would answer for its successor. */
    for (unsigned k = 0; k < NET_HOSTS && cables > k; k++)
        (void)ip(0, "link del a%u\nlink del b%u\n", cables - k, cables - k);
}

bool net_hosts_run(const struct net_case *net, struct net_outcome *outcome)
{
    struct host hosts[NET_HOSTS] = {{.pid = 0}};
    int outs[NET_RANKS], logs[NET_RANKS];
    bool is_made;

    memset(outcome, 0, sizeof(*outcome));
    for (int r = 0; r < NET_RANKS; r++) {
        /* Files without a name: no rank waits for this process to read. */
        outs[r] = memfd_create("says", MFD_CLOEXEC);
        logs[r] = memfd_create("log", MFD_CLOEXEC);
    }
    is_made = make_hosts(net, hosts, outs, logs);
    for (int n = 0; is_made && n < NET_HOSTS; n++)
        is_made = write(hosts[n].says, "g", 1) == 1;
    end_hosts(hosts, is_made);
    for (int r = 0; r < NET_RANKS; r++) {
        (void)lseek(outs[r], 0, SEEK_SET);
        (void)lseek(logs[r], 0, SEEK_SET);
        if (r < net->ranks && read(outs[r], outcome->says[r], 512) != 512)
            (void)snprintf(outcome->says[r], 512, "ended without a word");
        read_all(logs[r], outcome->log[r], sizeof(outcome->log[r]));
        close(outs[r]);
        close(logs[r]);
    }
    if (!is_made)
        (void)snprintf(outcome->says[0], 512, "the hosts of the test could not be made");
    return is_made;
}
