/* ssh_lab.h - hosts in networks of their own that are reached by a real ssh. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SUPPORT_SSH_LAB_H
#define TEST_SUPPORT_SSH_LAB_H

#include <sys/types.h>

/*
 *   this process                 host n: a process with a network, a /run and an sshd of its own
 *     bridge 10.77.0.100 ======= eth0 10.77.0.<n + 1>
 *
 * They share the file system.  Keys and configuration lie in a folder that goes with the lab.
 */
enum { SSH_LAB_HOSTS = 4 };

struct ssh_lab {
    char folder[64];
    char ssh[512]; /* a command for --ssh */
    pid_t hosts[SSH_LAB_HOSTS];
    int fifo; /* readable: what ranks write to */
    char fifo_path[96];
};

/* NULL, or why there can be none here. */
const char *ssh_lab_open(struct ssh_lab *lab);
void ssh_lab_close(struct ssh_lab *lab);

/* Skip the case, where that was not NULL; or where effort is quick, for waits of several seconds
 * that show no other code. */
void ssh_lab_need(const char *why_not);
void ssh_lab_need_time(const char *why_not);

/* Waits until nobody holds the fifo open for writing any more; how many milliseconds that took. */
int ssh_lab_wait_nobody(struct ssh_lab *lab);

/* The process of a name below another one, or -1. */
pid_t ssh_lab_find(pid_t root, const char *name);

#endif
