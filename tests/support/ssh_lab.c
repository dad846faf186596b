/* ssh_lab.c - hosts in networks of their own that are reached by a real ssh. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/ssh_lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chaos/lab.h"

enum { READY_MS = 60000, PORT = 22 };

static const char *const sshd = "/usr/sbin/sshd";

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool run(const char *const argv[])
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int fd = 0; fd < 3; fd++)
            dup2(nowhere, fd);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static bool make_key(const struct ssh_lab *lab, const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", lab->folder, name);
    return run(
        (const char *const[]){"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path, NULL});
}

static bool write_config(const struct ssh_lab *lab)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/sshd_config", lab->folder);
    file = fopen(path, "w");
    if (file == NULL)
        return false;
    fprintf(file,
            "Port %d\nHostKey %s/host\nAuthorizedKeysFile %s/user.pub\nPermitRootLogin "
            "prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "UsePAM no\nStrictModes no\nPidFile none\nUseDNS no\nMaxStartups 100\n",
            PORT, lab->folder, lab->folder);
    return fclose(file) == 0;
}

/* ---- A host ---------------------------------------------------------------------------------- */

/* Its own /run, for the folder that sshd wants there. */
static bool make_run(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("run", "/run", "tmpfs", 0, NULL) == 0 && mkdir("/run/sshd", 0755) == 0;
}

_Noreturn static void become_host(const struct ssh_lab *lab, int ready, int life, pid_t parent)
{
    char config[128];
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !lab_host_enter() || !make_run() || write(ready, "r", 1) != 1)
        _exit(1);
    if (read(life, config, 1) != 1) /* linked now */
        _exit(1);
    for (int fd = 0; fd < 3; fd++)
        dup2(nowhere, fd);
    snprintf(config, sizeof config, "%s/sshd_config", lab->folder);
    execl(sshd, sshd, "-D", "-f", config, (char *)NULL);
    _exit(1);
}

static bool is_answering(int n)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_there;

    inet_pton(AF_INET, lab_host_address(n), &addr.sin_addr);
    is_there = fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0;
    if (fd >= 0)
        close(fd);
    return is_there;
}

static bool start_host(struct ssh_lab *lab, int n)
{
    int ready[2], life[2];
    int64_t deadline_ms = now_ms() + READY_MS;
    pid_t self = getpid();
    char byte;

    if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(life, O_CLOEXEC) != 0)
        return false;
    lab->hosts[n] = fork();
    if (lab->hosts[n] == 0)
        become_host(lab, ready[1], life[0], self);
    close(ready[1]);
    close(life[0]);
    if (lab->hosts[n] < 0 || read(ready[0], &byte, 1) != 1 || !lab_host_link(n, lab->hosts[n]) ||
        write(life[1], "l", 1) != 1)
        return false;
    close(ready[0]);
    close(life[1]);
    while (!is_answering(n)) {
        if (now_ms() > deadline_ms || waitpid(lab->hosts[n], NULL, WNOHANG) != 0)
            return false;
        poll(NULL, 0, 20);
    }
    return true;
}

/* ---- The lab --------------------------------------------------------------------------------- */

static bool make_files(struct ssh_lab *lab)
{
    snprintf(lab->folder, sizeof lab->folder, "/tmp/ssh-lab-XXXXXX");
    if (mkdtemp(lab->folder) == NULL || !make_key(lab, "host") || !make_key(lab, "user") ||
        !make_key(lab, "other") || !write_config(lab))
        return false;
    snprintf(lab->ssh, sizeof lab->ssh,
             "ssh -F none -p %d -i %s/user -oStrictHostKeyChecking=no "
             "-oUserKnownHostsFile=/dev/null -oLogLevel=ERROR -oIdentitiesOnly=yes",
             PORT, lab->folder);
    snprintf(lab->fifo_path, sizeof lab->fifo_path, "%s/fifo", lab->folder);
    if (mkfifo(lab->fifo_path, 0600) != 0)
        return false;
    lab->fifo = open(lab->fifo_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return lab->fifo >= 0;
}

const char *ssh_lab_open(struct ssh_lab *lab)
{
    const char *why;

    *lab = (struct ssh_lab){.fifo = -1};
    if (access(sshd, X_OK) != 0)
        return "there is no sshd here (Debian: openssh-server)";
    if (!run((const char *const[]){"ssh", "-V", NULL}))
        return "there is no ssh here (Debian: openssh-client)";
    why = lab_open();
    if (why != NULL)
        return why;
    if (!run((const char *const[]){"ip", "addr", "add", "10.77.0.100/24", "dev", "lab0", NULL}))
        return "the bridge takes no address";
    if (!make_files(lab))
        return "no keys, or no configuration, can be made";
    for (int n = 0; n < SSH_LAB_HOSTS; n++)
        if (!start_host(lab, n))
            return "sshd does not run in a network of its own here";
    return NULL;
}

void ssh_lab_close(struct ssh_lab *lab)
{
    static const char *const names[] = {"host", "host.pub", "user",        "user.pub",
                                        "fifo", "other",    "sshd_config", "other.pub"};
    char path[128];

    for (int n = 0; n < SSH_LAB_HOSTS; n++) {
        if (lab->hosts[n] > 0) {
            kill(lab->hosts[n], SIGKILL);
            waitpid(lab->hosts[n], NULL, 0);
        }
    }
    if (lab->fifo >= 0)
        close(lab->fifo);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", lab->folder, names[i]);
        unlink(path);
    }
    rmdir(lab->folder);
}

void ssh_lab_need(const char *why_not)
{
    if (why_not == NULL)
        return;
    printf("skipped: %s\n", why_not);
    skip();
}

void ssh_lab_need_time(const char *why_not)
{
    const char *effort = getenv("TCDIST_TEST_EFFORT");

    ssh_lab_need(why_not);
    if (effort == NULL || strcmp(effort, "quick") != 0)
        return;
    printf("skipped: it takes seconds, and effort is quick\n");
    skip();
}

int ssh_lab_wait_nobody(struct ssh_lab *lab)
{
    int64_t begun_ms = now_ms();
    char buf[256];
    ssize_t n;

    /* With a writer there is EAGAIN, without one an end. */
    while ((n = read(lab->fifo, buf, sizeof buf)) != 0) {
        if (n < 0 && errno != EAGAIN)
            break;
        if (now_ms() - begun_ms > READY_MS)
            return READY_MS;
        poll(NULL, 0, 10);
    }
    return (int)(now_ms() - begun_ms);
}

pid_t ssh_lab_find(pid_t root, const char *name)
{
    char path[64], comm[32] = "";
    pid_t found = -1;
    FILE *file;
    int child;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)root);
    file = fopen(path, "r");
    if (file != NULL && fgets(comm, sizeof comm, file) != NULL)
        comm[strcspn(comm, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    if (strcmp(comm, name) == 0)
        return root;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)root, (int)root);
    file = fopen(path, "r");
    while (file != NULL && found < 0 && fscanf(file, "%d", &child) == 1)
        found = ssh_lab_find(child, name);
    if (file != NULL)
        fclose(file);
    return found;
}
