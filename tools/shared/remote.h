/* remote.h - the command that runs a tool on another host. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_REMOTE_H
#define TOOLS_REMOTE_H

struct remote {
    const char *ssh;     /* in words, "ssh -p 2222" */
    const char *host;    /* as ssh knows it */
    const char *program; /* "tcrun": this very file where it is there too, else on the path there */
    const char *path;    /* where it is there; NULL: see program */
    const char *option;  /* that it is given, "--agent=3000" */
    unsigned connect_s;  /* for ssh to reach the host */
};

/* The words for execvp(), NULL at their end; NULL: out of memory, or ssh is no list of words.
 * ssh never asks for anything: nobody would see it. */
char **remote_command(const struct remote *remote);
void remote_free_command(char **command);

#endif
