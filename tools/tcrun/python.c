/* python.c - scripts of Python, and what runs them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "python.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PYTHON "python3"

/* A file of that name, from where the ranks run, and not executable. */
static bool is_script(const struct options *options)
{
    const char *name = options->command[0], *folder = options->cwd;
    size_t len = strlen(name);
    char path[PATH_MAX];

    if (len < 4 || strcmp(name + len - 3, ".py") != 0)
        return false;
    if (name[0] == '/' || folder == NULL)
        folder = "";
    (void)snprintf(path, sizeof path, "%s%s%s", folder, folder[0] != '\0' ? "/" : "", name);
    return access(path, R_OK) == 0 && access(path, X_OK) != 0;
}

bool python_take(struct options *options)
{
    size_t count = 0;

    if (options->python == NULL && !is_script(options))
        return true;
    while (options->command[count] != NULL)
        count++;
    options->script = calloc(count + 2, sizeof *options->script);
    if (options->script == NULL)
        return false;
    options->script[0] = (char *)(options->python != NULL ? options->python : PYTHON);
    memcpy(options->script + 1, options->command, count * sizeof *options->script);
    options->command = options->script;
    return true;
}

bool python_print(const struct options *options)
{
    const char *name = options->python != NULL ? options->python : PYTHON;
    const char *folders = strchr(name, '/') != NULL ? "" : getenv("PATH");
    char path[PATH_MAX];

    for (const char *at = folders; at != NULL; at = strchr(at, ':')) {
        at += *at == ':';
        (void)snprintf(path, sizeof path, "%.*s%s%s", (int)strcspn(at, ":"), at,
                       strcspn(at, ":") > 0 ? "/" : "", name);
        if (access(path, X_OK) == 0)
            return puts(path) >= 0;
    }
    fprintf(stderr, "tcrun: there is no %s here\n", name);
    return false;
}
