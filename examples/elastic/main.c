/* main.c - elastic: training that goes on while workers are killed and others join. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "replay.h"
#include "supervisor.h"

int main(int argc, char **argv)
{
    struct options options;
    struct outcome outcome;
    bool is_well;

    options_parse(&options, argc, argv);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    is_well = supervise(&options, &outcome);
    if (is_well && !options.is_quiet)
        printf("%zu steps, %zu workers killed, %zu at the end\n", options.steps, outcome.killed,
               outcome.ended);
    is_well = is_well && replay(&options, outcome.history, outcome.hash);
    free(outcome.history);
    return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
}
