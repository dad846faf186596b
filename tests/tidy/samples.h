/* samples.h - small sources that break a rule or keep it: the proof that tidy can fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TIDY_SAMPLES_H
#define TESTS_TIDY_SAMPLES_H

#include <stddef.h>

/* The text is head, then body so many times, then tail. */
struct sample {
    const char *rule;
    int findings; /* that the rule must have in it */
    const char *path;
    const char *head;
    const char *body;
    int times;
    const char *tail;
};

extern const struct sample samples[];
extern const size_t sample_count;

#endif
