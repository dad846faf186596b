/* command_line.h - what the command lines of several tools have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_COMMAND_LINE_H
#define TOOLS_COMMAND_LINE_H

#include <argp.h>
#include <stdbool.h>

#include "tcdist/version.h"

struct hosts;

#define COMMAND_LINE_TEXT_OF(x) #x
#define COMMAND_LINE_TEXT(x)    COMMAND_LINE_TEXT_OF(x)

/* What --version says of a tool, whose name is a literal. */
#define COMMAND_LINE_VERSION(name)                                                                 \
    name " (tcdist) " COMMAND_LINE_TEXT(TC_VERSION_MAJOR) "." COMMAND_LINE_TEXT(                   \
        TC_VERSION_MINOR) "." COMMAND_LINE_TEXT(TC_VERSION_PATCH)

/* These end the program with what is wrong, as argp_error() does. */

/* Reads a command line as argp_parse() does, which has no parents or children; flags: of its
 * ARGP_IN_ORDER alone.  A word that is no option is answered with the one that is meant, and an
 * option whose value has been forgotten is not given the next option, or "--", for one. */
error_t command_line_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
                           void *input);

/* A number from least to most. */
double command_line_number(const char *arg, double least, double most, struct argp_state *state);

/* The hosts of a file, or those that are named; only one of both, and once. */
void command_line_hosts(struct hosts *hosts, const char *arg, bool is_file,
                        struct argp_state *state);

#endif
