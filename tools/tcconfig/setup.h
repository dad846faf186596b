/* setup.h - addresses for links that are wired but have none. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCCONFIG_SETUP_H
#define TCCONFIG_SETUP_H

#include "survey.h"

enum { SETUP_COMMAND = 240 };

struct setup {
    struct setup_command {
        int host;
        char text[SETUP_COMMAND]; /* for sh, as root */
    } * at;                       /* owned */
    size_t count, room;
};

/* Finds the commands: each cable between two hosts gets a /30 of its own, each switch a /24, and
 * Thunderbolt links leave the bridge that they are in.  False: out of memory. */
bool setup_find(struct setup *setup, const struct survey *survey, const struct options *options);
void setup_fini(struct setup *setup);

/* Carries them out; how many failed. */
size_t setup_run(const struct setup *setup, const struct survey *survey,
                 const struct options *options);

#endif
