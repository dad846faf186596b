/* guard.h - the process between tcrun and one rank: nothing that the rank starts outlives it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_GUARD_H
#define TCRUN_GUARD_H

#include <stdint.h>

/* tcrun and a guard share a SOCK_SEQPACKET pair.  tcrun sends signal numbers as ints, the guard
 * sends these.  The end of tcrun's side, by will or by death, means: kill everything and end. */
enum guard_event {
    GUARD_STARTED,     /* value: the rank's process id */
    GUARD_FORK_FAILED, /* value: errno; nothing was started */
    GUARD_EXEC_FAILED, /* value: errno; sent by the rank itself, GUARD_ENDED follows */
    GUARD_ENDED,       /* value: the rank's wait status; its descendants may live on */
    GUARD_LOST         /* said in place of a guard whose host is out of reach */
};

struct guard_message {
    enum guard_event event;
    int value;
    int64_t when_ns; /* CLOCK_MONOTONIC, to tell the first failure from its consequences */
};

/* Sends one message to tcrun, who may be gone. */
void guard_report(int sock, enum guard_event event, int value);

/* Becomes the guard: calls start(arg) in a new process, which must not return, and watches over it
 * and all its descendants until none is left or the other side of sock ends. */
_Noreturn void guard_run(int sock, void (*start)(void *arg), void *arg);

#endif
