/* replay.h - the same training by one process, without a network. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELASTIC_REPLAY_H
#define ELASTIC_REPLAY_H

#include "lesson.h"

/* Whether the weights, trained by these members, have this hash; says how well they do. */
bool replay(const struct options *options, const struct members *history, uint64_t hash);

#endif
