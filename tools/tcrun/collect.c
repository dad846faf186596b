/* collect.c - the traces of all ranks come together, and become a timeline. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

char *collect_open(void)
{
    const char *dir = getenv("TMPDIR");
    char *folder = NULL;

    if (asprintf(&folder, "%s/tcrun-traces-XXXXXX", dir != NULL && *dir == '/' ? dir : "/tmp") < 0)
        return NULL;
    if (mkdtemp(folder) != NULL)
        return folder;
    free(folder);
    return NULL;
}

bool collect_is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    bool empty = true;

    if (dir == NULL)
        return true;
    while (empty && (entry = readdir(dir)) != NULL)
        empty = entry->d_name[0] == '.';
    closedir(dir);
    return empty;
}

void collect_remove(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    rmdir(folder);
}

bool collect_append(const char *folder, unsigned machine, const char *bytes, size_t len)
{
    size_t name_len = strnlen(bytes, len);
    char path[PATH_MAX];
    int fd;

    if (folder == NULL || name_len == len || name_len == 0 || name_len > NAME_MAX ||
        bytes[0] == '.' || memchr(bytes, '/', name_len) != NULL)
        return false;
    (void)snprintf(path, sizeof path, "%s/%u-%s", folder, machine, bytes);
    bytes += name_len + 1;
    len -= name_len + 1;
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    while (fd >= 0 && len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n <= 0) /* tcdump says what is missing */
            break;
        bytes += n;
        len -= (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    return true;
}

/* ---- The timeline ---------------------------------------------------------------------------- */

bool collect_can_write(const char *timeline)
{
    bool is_new = false;
    struct stat st;
    int fd;

    /* What is no file, such as a pipe, is not opened twice. */
    if (strcmp(timeline, "-") == 0 ||
        (stat(timeline, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return true;
    fd = open(timeline, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        fd = open(timeline, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        is_new = fd >= 0;
    }
    if (fd < 0)
        return false;
    close(fd);
    if (is_new)
        unlink(timeline);
    return true;
}

/* tcdump, where tcrun is or on the path. */
_Noreturn static void become_tcdump(const char *folder, const char *timeline)
{
    const char *end = strrchr(timeline, '.');
    const char *option = end != NULL && strcmp(end, ".html") == 0 ? "--html" : "--chrome";
    char path[PATH_MAX + 16] = "";
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);
    char *slash = len > 0 ? strrchr(path, '/') : NULL;

    if (slash != NULL) {
        (void)snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "tcdump");
        execl(path, "tcdump", "--quiet", option, timeline, "--", folder, (char *)NULL);
    }
    execlp("tcdump", "tcdump", "--quiet", option, timeline, "--", folder, (char *)NULL);
    _exit(127);
}

const char *collect_write(const char *folder, const char *timeline, char *why, size_t room)
{
    sigset_t none;
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        become_tcdump(folder, timeline);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        (void)snprintf(why, room, "%s", strerror(errno));
        return why;
    }
    /* 1: it has found something to say about the job, which is not what is asked for. */
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
        return NULL;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        (void)snprintf(why, room, "tcdump is neither beside tcrun nor on the path");
    else
        (void)snprintf(why, room,
                       collect_is_empty(folder)
                           ? "no rank has left a trace (have they formed a group?)"
                           : "tcdump could not make it");
    return why;
}
