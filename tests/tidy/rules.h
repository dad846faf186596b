/* rules.h - the rules of the house that a program can check, as one table. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TIDY_RULES_H
#define TESTS_TIDY_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "tidy/source.h"

struct findings {
    int count;
    bool is_quiet; /* counts only */
};

struct rule {
    const char *name;
    void (*check)(const struct source *source, struct findings *findings);
};

extern const struct rule rules[];
extern const size_t rule_count;

#endif
