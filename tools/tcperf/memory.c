/* memory.c - how much memory there is for buffers: of the host, and of the control group. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The number in a file of one number; SIZE_MAX for "max", or no such file. */
static size_t read_number(const char *path)
{
    FILE *file = fopen(path, "r");
    uint64_t value = SIZE_MAX;

    if (file == NULL)
        return SIZE_MAX;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = SIZE_MAX;
    fclose(file);
    return value > SIZE_MAX ? SIZE_MAX : (size_t)value;
}

static size_t of_host(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    uint64_t kib = 0;
    char line[128];
    bool is_found = false;

    while (file != NULL && !is_found && fgets(line, sizeof line, file) != NULL)
        is_found = sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1;
    if (file != NULL)
        fclose(file);
    return is_found ? (size_t)kib * 1024 : SIZE_MAX;
}

size_t memory_available(void)
{
    size_t least = of_host();
    /* Of both kinds of control groups the limit alone: what they count as used is mostly files that
     * were read, and is given back. */
    size_t limits[] = {read_number("/sys/fs/cgroup/memory.max"),
                       read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes")};

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i] < least)
            least = limits[i];
    return least;
}
