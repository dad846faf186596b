/* data.h - the handwritten digits: read from a file, checked, and split in two. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_DATA_H
#define SHARED_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGIT_PIXELS = 64, DIGIT_PIXEL_MAX = 16, DIGIT_CLASSES = 10 };

/* Bytes only: an array of these is broadcast as it is. */
struct digit {
    uint8_t pixels[DIGIT_PIXELS]; /* 8 rows of 8, each 0 to DIGIT_PIXEL_MAX */
    uint8_t label;                /* 0 to 9 */
};

struct data {
    struct digit *digits; /* owned */
    size_t count;
};

/* Part of the digits; borrowed from the data. */
struct digits {
    const struct digit *items;
    size_t count;
};

/* Reads a file of lines "pixel,…,pixel,label", compressed by gzip or not.  False after having said
 * on standard error what is wrong and in which line. */
bool data_read(const char *path, struct data *data_out);

/* Shuffles by the seed; four fifths become `train`, the rest `test`. */
void data_split(struct data *data, uint64_t seed, struct digits *train, struct digits *test);

/* Pixels as numbers from 0 to 1; `to` has DIGIT_PIXELS. */
void digit_load(const struct digit *digit, float *to);

/* Shuffles the order in which an epoch (from 1) goes through `count` digits. */
void order_shuffle(size_t *order, size_t count, uint64_t seed, size_t epoch);

void data_fini(struct data *data);

#endif
