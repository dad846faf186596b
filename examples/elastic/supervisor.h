/* supervisor.h - starts workers, kills some, and writes down who took part in what. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELASTIC_SUPERVISOR_H
#define ELASTIC_SUPERVISOR_H

#include "lesson.h"

struct outcome {
    struct members *history; /* owned: of each step */
    uint64_t hash;           /* of the weights, of all workers that came to the end */
    size_t killed, ended;
};

/* Until no worker is left; false after having said what went wrong. */
bool supervise(const struct options *options, struct outcome *outcome);

#endif
