/* threads.c - counts the threads of this process. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "support/threads.h"

#include <dirent.h>
#include <stddef.h>
#include <time.h>

enum { SAME_MAX = 20, TRIES_MAX = 2000 }; /* a millisecond each */

static unsigned count_now(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned count = 0;

    if (tasks == NULL)
        return 0;
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks))
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

unsigned count_threads(void)
{
    unsigned count = count_now();

    for (int same = 0, tries = 0; same < SAME_MAX && tries < TRIES_MAX; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        unsigned again = count_now();
        same = again == count ? same + 1 : 0;
        count = again;
    }
    return count;
}
