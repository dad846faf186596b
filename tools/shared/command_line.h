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

/* A number from least to most. */
double command_line_number(const char *arg, double least, double most, struct argp_state *state);

/* The hosts of a file, or those that are named; only one of both, and once. */
void command_line_hosts(struct hosts *hosts, const char *arg, bool is_file,
                        struct argp_state *state);

#endif
