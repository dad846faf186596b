/* remote.c - the command that runs a tool on another host. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wordexp.h>

#include "quote.h"

/* What a shell there is to run: the program from where it is here, else from its path. */
static char *there(const struct remote *remote)
{
    char path[PATH_MAX] = "", *quoted, *script = NULL, *whole = NULL;
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    int n;

    if (remote->path != NULL)
        (void)snprintf(path, sizeof path, "%s", remote->path);
    else if (len <= 0)
        (void)snprintf(path, sizeof path, "%s", remote->program);
    quoted = quote(path);
    if (quoted == NULL)
        return NULL;
    if (remote->path != NULL)
        n = asprintf(&script, "exec %s %s", quoted, remote->option);
    else
        n = asprintf(&script, "test -x %s && exec %s %s; exec %s %s", quoted, quoted,
                     remote->option, remote->program, remote->option);
    free(quoted);
    if (n < 0)
        return NULL;
    quoted = quote(script);
    free(script);
    if (quoted != NULL && asprintf(&whole, "sh -c %s", quoted) < 0)
        whole = NULL;
    free(quoted);
    return whole;
}

static bool is_openssh(const char *program)
{
    const char *slash = strrchr(program, '/');

    return strcmp(slash != NULL ? slash + 1 : program, "ssh") == 0;
}

/* Options that are given come first, and win. */
char **remote_command(const struct remote *remote)
{
    char **command = NULL, timeout[40];
    wordexp_t words;
    size_t n = 0;

    if (wordexp(remote->ssh, &words, WRDE_NOCMD) != 0)
        return NULL;
    if (words.we_wordc > 0)
        command = calloc(words.we_wordc + 8, sizeof *command);
    if (command != NULL) {
        for (; n < words.we_wordc; n++)
            command[n] = strdup(words.we_wordv[n]);
        if (is_openssh(words.we_wordv[0])) {
            (void)snprintf(timeout, sizeof timeout, "-oConnectTimeout=%u",
                           remote->connect_s > 0 ? remote->connect_s : 1);
            command[n++] = strdup("-T");
            command[n++] = strdup("-oBatchMode=yes");
            command[n++] = strdup(timeout);
        }
        command[n++] = strdup(remote->host);
        command[n++] = there(remote);
    }
    wordfree(&words);
    for (size_t i = 0; i < n; i++) {
        if (command[i] == NULL) {
            remote_free_command(command);
            return NULL;
        }
    }
    return command;
}

void remote_free_command(char **command)
{
    for (char **at = command; at != NULL && *at != NULL; at++)
        free(*at);
    free(command);
}
