/* survey.h - every host tells what it has and tries every other one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCCONFIG_SURVEY_H
#define TCCONFIG_SURVEY_H

#include "facts.h"
#include "hosts.h"
#include "options.h"

enum { WHY_ROOM = 240 };

struct survey {
    int size;
    const struct hosts *hosts; /* borrowed; size of them */
    uint8_t *is_here;          /* owned, as those below: a host each */
    char (*why)[WHY_ROOM];     /* a host is not there */
    struct facts *facts;
    struct tried *tried; /* what host a found of host b is at a * size + b */
};

/* False: out of memory. */
bool survey_init(struct survey *survey, const struct hosts *hosts);
/* Starts an agent on each host and asks them all; hosts that can't be reached are not there. */
void survey_run(struct survey *survey, const struct options *options);
void survey_fini(struct survey *survey);

/* Runs a command for sh on a host, as root; true: it succeeded. */
bool survey_command(const struct options *options, const char *host, const char *command);

const struct tried *survey_tried(const struct survey *survey, int from, int to);

/* ---- agent.c: the same from the side of a host ----------------------------------------------- */

/* What an agent says first, so that both know they are of one kind. */
#define AGENT_START "\ntcconfig-agent "
const char *agent_version(void);

/* "--agent=RANK/SIZE/TRY_MS/BYTES": answers over standard input and output; gives an exit code. */
int agent_run(const char *place);

#endif
