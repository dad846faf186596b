/* lesson.h - one worker's part of one step: the same for who trains and for who simulates. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELASTIC_LESSON_H
#define ELASTIC_LESSON_H

#include "data.h"
#include "net.h"
#include "options.h"

/* Who took part in a step, by rank. */
struct members {
    uint32_t count;
    uint32_t ids[RANKS_MAX];
};

struct lesson {
    const struct options *options; /* borrowed */
    struct data data;
    struct digits train, test;
    struct net net;
    uint8_t *labels; /* owned: of the rows that are in the net */
};

/* False after having said why. */
bool lesson_init(struct lesson *lesson, const struct options *options);
void lesson_fini(struct lesson *lesson);

/* The gradient of the samples that a worker looks at in a step of so many workers; all layers' lie
 * one after the other. */
float *lesson_gradient(struct lesson *lesson, uint32_t id, size_t step, uint32_t workers);

/* One step down the gradient that the net holds. */
void lesson_update(struct lesson *lesson);

/* Parameters and the optimizer's memory, `lesson_state_count` floats: all that a step changes. */
size_t lesson_state_count(const struct lesson *lesson);
void lesson_save(const struct lesson *lesson, float *state);
void lesson_load(struct lesson *lesson, const float *state);

/* Percent of the test digits that are guessed right. */
double lesson_test(struct lesson *lesson);

#endif
