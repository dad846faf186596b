/* verdict.h - what is wrong, in sentences. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCDOCTOR_VERDICT_H
#define TCDOCTOR_VERDICT_H

#include <stdio.h>

#include "facts.h"

/* All that is known of all ranks, one entry a rank. */
struct known {
    int size;
    const struct facts *facts;
    const uint8_t *is_here;
    const int64_t *ahead_ns;   /* clocks, over that of rank 0 */
    const struct tried *tried; /* size times size: what rank a found of rank b is at a * size + b */
    const struct worked *worked;
    const char *url;
    int timeout_ms;
};

/* Writes a sentence a line; how many there are. */
int verdict_write(FILE *file, const struct known *known);

/* Writes what each rank is and what each pair does. */
void report_write(FILE *file, const struct known *known);

#endif
