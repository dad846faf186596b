/* ssh_command.c - the command that runs the agent on another host. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wordexp.h>

#include "link.h"
#include "quote.h"

/* What a shell there is to run: tcrun from where it is here, else from its path. */
static char *agent_command(const struct options *options)
{
    char path[PATH_MAX] = "", *quoted, *script = NULL, *whole = NULL;
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    int n;

    if (options->remote_tcrun != NULL)
        (void)snprintf(path, sizeof path, "%s", options->remote_tcrun);
    else if (len <= 0)
        (void)snprintf(path, sizeof path, "tcrun");
    quoted = quote(path);
    if (quoted == NULL)
        return NULL;
    if (options->remote_tcrun != NULL)
        n = asprintf(&script, "exec %s --agent=%u", quoted, options->beat_ms);
    else
        n = asprintf(&script, "test -x %s && exec %s --agent=%u; exec tcrun --agent=%u", quoted,
                     quoted, options->beat_ms, options->beat_ms);
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

/* ssh never asks for anything: nobody would see it.  Options that are given come first, and win. */
char **relay_command(const struct options *options, const char *host)
{
    char **command = NULL, timeout[40];
    wordexp_t words;
    size_t n = 0;

    if (wordexp(options->ssh, &words, WRDE_NOCMD) != 0)
        return NULL;
    if (words.we_wordc > 0)
        command = calloc(words.we_wordc + 8, sizeof *command);
    if (command != NULL) {
        for (; n < words.we_wordc; n++)
            command[n] = strdup(words.we_wordv[n]);
        if (is_openssh(words.we_wordv[0])) {
            (void)snprintf(timeout, sizeof timeout, "-oConnectTimeout=%u",
                           options->connect_ms / 1000 > 0 ? options->connect_ms / 1000 : 1);
            command[n++] = strdup("-T");
            command[n++] = strdup("-oBatchMode=yes");
            command[n++] = strdup(timeout);
        }
        command[n++] = strdup(host);
        command[n++] = agent_command(options);
    }
    wordfree(&words);
    for (size_t i = 0; i < n; i++) {
        if (command[i] == NULL) {
            relay_free_command(command);
            return NULL;
        }
    }
    return command;
}

void relay_free_command(char **command)
{
    for (char **at = command; at != NULL && *at != NULL; at++)
        free(*at);
    free(command);
}
