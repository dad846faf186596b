/* arguments.c - what the examples' command lines have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_MAX = 100 };

size_t argument_count(const char *arg, size_t max, const char *what, struct argp_state *state)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(arg, &end, 10);
    if (errno != 0 || *end != '\0' || strspn(arg, "0123456789") == 0 || value < 1 || value > max)
        argp_error(state, "'%s' is no %s from 1 to %zu", arg, what, max);
    return value;
}

uint64_t argument_seed(const char *arg, struct argp_state *state)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(arg, &end, 10);
    if (errno != 0 || *end != '\0' || strspn(arg, "0123456789") == 0)
        argp_error(state, "'%s' is no seed from 0 to 2^64 - 1", arg);
    return value;
}

float argument_rate(const char *arg, struct argp_state *state)
{
    char *end;
    double value = strtod(arg, &end);

    if (end == arg || *end != '\0' || !(value > 0 && value <= RATE_MAX))
        argp_error(state, "'%s' is no learning rate above 0 and up to %d", arg, RATE_MAX);
    return (float)value;
}

void argument_hush_others(struct argp_state *state)
{
    const char *rank = getenv("TCDIST_RANK");
    FILE *nowhere = rank != NULL && strcmp(rank, "0") != 0 ? fopen("/dev/null", "we") : NULL;

    if (nowhere != NULL)
        state->out_stream = nowhere;
}
