/* still_time.c - time stands still but when a loop would sleep: then it jumps, and nobody waits. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a program of one thread, in which nothing comes while the loop sleeps.  Takes the place of
 * two functions of the C library.
 */
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

static struct timespec still = {.tv_sec = 1000};

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, now);
    *now = still;
    if (++still.tv_nsec >= NS_PER_S) {
        still.tv_sec++;
        still.tv_nsec = 0;
    }
    return 0;
}

int epoll_pwait2(int fd, struct epoll_event *events, int room, const struct timespec *timeout,
                 const sigset_t *mask)
{
    int ready = epoll_wait(fd, events, room, 0);

    (void)mask;
    if (ready != 0 || timeout == NULL)
        return ready;
    still.tv_sec += timeout->tv_sec;
    still.tv_nsec += timeout->tv_nsec;
    if (still.tv_nsec >= NS_PER_S) {
        still.tv_sec++;
        still.tv_nsec -= NS_PER_S;
    }
    return 0;
}
