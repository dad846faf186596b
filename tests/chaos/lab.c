/* lab.c - hosts of a network of this program's own: namespaces without a name, and a bridge. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "chaos/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIREWALL                                                                                   \
    "add table inet lab; add chain inet lab in { type filter hook input priority 0; }; "           \
    "add chain inet lab out { type filter hook output priority 0; }"

enum { HOSTS_MAX = 16 };

/* Number of the device at the bridge that leads to each host: a new one each time, since an old one
 * goes some time after its host has gone. */
static unsigned plugs[HOSTS_MAX], plugs_made;

/* ---- Programs that do the work -------------------------------------------------------------- */

/* Into the network of a process, for a child that is about to run a program there. */
static bool move_to(pid_t pid)
{
    char path[64];
    int fd;
    bool is_there;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    is_there = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0)
        close(fd);
    return is_there;
}

/* Run a program, in this network or that of a process (not 0), with text to read (not NULL). */
static bool run(pid_t where, const char *const *argv, const char *input)
{
    int pipes[2], status;
    pid_t pid;

    if (pipe2(pipes, O_CLOEXEC) != 0)
        return false;
    pid = fork();
    if (pid == 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

        if ((where != 0 && !move_to(where)) || nowhere < 0)
            _exit(126);
        (void)dup2(pipes[0], STDIN_FILENO);
        (void)dup2(nowhere, STDOUT_FILENO);
        if (getenv("CHAOS_VERBOSE") == NULL)
            (void)dup2(nowhere, STDERR_FILENO);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(pipes[0]);
    if (input != NULL && write(pipes[1], input, strlen(input)) < 0)
        status = errno; /* the program has ended: its status says it */
    close(pipes[1]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static bool ip(pid_t where, const char *commands)
{
    const char *argv[] = {"ip", "-force", "-batch", "-", NULL};

    return run(where, argv, commands);
}

static bool nft(pid_t where, const char *commands)
{
    const char *argv[] = {"nft", "-f", "-", NULL};

    return run(where, argv, commands);
}

/* ---- The network ---------------------------------------------------------------------------- */

const char *lab_open(void)
{
    const char *version[] = {"ip", "-V", NULL};
    const char *rules[] = {"nft", "-v", NULL};

    if (geteuid() != 0)
        return "it needs root, for networks of its own";
    if (!run(0, version, NULL))
        return "there is no ip(8) here (Debian: iproute2)";
    if (!run(0, rules, NULL))
        return "there is no nft(8) here (Debian: nftables)";
    if (unshare(CLONE_NEWNET) != 0)
        return "the system gives no network of its own (unshare)";
    if (!ip(0, "link set lo up\nlink add lab0 type bridge\nlink set lab0 up\n"
               "link add lab1 type bridge\nlink set lab1 up\n"))
        return "the system makes no bridge";
    if (!nft(0, FIREWALL "\n"))
        return "the system has no packet filter (nftables)";
    return NULL;
}

const char *lab_host_address(int n)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "10.77.0.%d", n + 1);
    return text;
}

bool lab_host_enter(void)
{
    return unshare(CLONE_NEWNET) == 0;
}

static bool set_up(int n, pid_t pid)
{
    char text[200];

    (void)snprintf(text, sizeof(text),
                   "link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\n",
                   lab_host_address(n));
    return ip(pid, text) && nft(pid, FIREWALL "\n");
}

bool lab_host_link(int n, pid_t pid)
{
    char text[200];

    plugs[n] = ++plugs_made;
    (void)snprintf(text, sizeof(text),
                   "link add v%u type veth peer name eth0 netns %d\nlink set v%u master lab0 up\n",
                   plugs[n], (int)pid, plugs[n]);
    return ip(0, text) && set_up(n, pid);
}

void lab_clear(void)
{
    char text[HOSTS_MAX * 32] = "";
    size_t len = 0;

    for (int n = 0; n < HOSTS_MAX; n++) {
        if (plugs[n] != 0)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "link del v%u\n", plugs[n]);
        plugs[n] = 0;
    }
    (void)ip(0, text); /* a long line has gone with its process */
}

bool lab_host_unplug(int n)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "link set v%u down\n", plugs[n]);
    return ip(0, text);
}

bool lab_split(int first, int end)
{
    char text[HOSTS_MAX * 40] = "";
    size_t len = 0;

    for (int n = first; n < end; n++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "link set v%u master lab1\n",
                                plugs[n]);
    return ip(0, text);
}

bool lab_host_drop(pid_t pid, bool incoming, int other)
{
    char text[160], whom[64] = "";

    if (other >= 0)
        (void)snprintf(whom, sizeof(whom), "ip %s %s ", incoming ? "saddr" : "daddr",
                       lab_host_address(other));
    (void)snprintf(text, sizeof(text), "add rule inet lab %s %s \"eth0\" %sdrop\n",
                   incoming ? "in" : "out", incoming ? "iifname" : "oifname", whom);
    return nft(pid, text);
}

/* ---- A long line ---------------------------------------------------------------------------- */

/* A device whose packets a program carries. */
static int make_device(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* In the child: devices at both ends, then nothing but packets. */
static void carry(int n, pid_t pid, unsigned delay_us, unsigned loss_ppm, int ready)
{
    int devices[2];
    char name[16];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(name, sizeof(name), "v%u", plugs[n]);
    devices[0] = make_device(name);
    if (devices[0] < 0 || !move_to(pid))
        _exit(1);
    devices[1] = make_device("eth0");
    if (devices[1] < 0 || write(ready, "r", 1) != 1)
        _exit(1);
    close(ready);
    wan_carry(devices, delay_us, loss_ppm);
}

pid_t lab_host_link_far(int n, pid_t pid, unsigned delay_us, unsigned loss_ppm)
{
    int pipes[2];
    char byte, text[64];
    pid_t child;
    bool is_ready;

    if (pipe2(pipes, O_CLOEXEC) != 0)
        return -1;
    plugs[n] = ++plugs_made;
    child = fork();
    if (child == 0)
        carry(n, pid, delay_us, loss_ppm, pipes[1]);
    close(pipes[1]);
    is_ready = child > 0 && read(pipes[0], &byte, 1) == 1;
    close(pipes[0]);
    (void)snprintf(text, sizeof(text), "link set v%u master lab0 up\n", plugs[n]);
    if (is_ready && ip(0, text) && set_up(n, pid))
        return child;
    if (child > 0) {
        kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    return -1;
}
