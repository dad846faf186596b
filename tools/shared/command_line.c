/* command_line.c - what the command lines of several tools have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "command_line.h"

#include <errno.h>
#include <stdlib.h>

#include "hosts.h"

double command_line_number(const char *arg, double least, double most, struct argp_state *state)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(arg, &end);
    if (errno != 0 || end == arg || *end != '\0' || !(value >= least && value <= most))
        argp_error(state, "'%s' is not a number from %g to %g", arg, least, most);
    return value;
}

void command_line_hosts(struct hosts *hosts, const char *arg, bool is_file,
                        struct argp_state *state)
{
    char why[HOSTS_WHY_ROOM];

    if (hosts->count > 0)
        argp_error(state, "give --hosts or --hostfile once");
    if (!(is_file ? hosts_read(hosts, arg, why) : hosts_parse_names(hosts, arg, why)))
        argp_error(state, "%s", why);
}
