/* lab.h - hosts of a network of this program's own: namespaces without a name, and a bridge. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_CHAOS_LAB_H
#define TEST_CHAOS_LAB_H

#include <stdbool.h>
#include <sys/types.h>

/*
 *   this process                       host n: a process with a network of its own
 *     bridge lab0 -- v<n> ============ eth0 10.77.0.<n + 1>
 *                 -- w<n> == a line == eth0      where packets are to be late, or lost
 *
 * Nothing of it has a name in the file system: it is gone with the processes that live in it,
 * however they end.
 */

/* Move this process to a network of its own, with a bridge in it; NULL, or why not. */
const char *lab_open(void);

/* Called by a process that is to become a host, before it has any socket. */
bool lab_host_enter(void);
/* Link a process that has entered. */
bool lab_host_link(int n, pid_t pid);
/* The same by a line of a process that is started for it: each packet takes so long each way, and
 * of a million so many are lost.  -1: failed. */
pid_t lab_host_link_far(int n, pid_t pid, unsigned delay_us, unsigned loss_ppm);
/* Unlink all hosts.  The system takes its time to end a network whose processes have gone, and one
 * that still hangs at the bridge would answer in the name of its successor. */
void lab_clear(void);
/* "10.77.0.3"; static. */
const char *lab_host_address(int n);

/* The cable of a host is pulled. */
bool lab_host_unplug(int n);
/* The hosts first … end - 1 hear each other, and so do the others. */
bool lab_split(int first, int end);
/* What comes in, or goes out, is dropped: of one other host, or of all (-1). */
bool lab_host_drop(pid_t pid, bool incoming, int other);

/* wan.c: carries packets between two devices until it is killed. */
void wan_carry(const int devices[2], unsigned delay_us, unsigned loss_ppm)
    __attribute__((noreturn));

#endif
