/* data.c - the handwritten digits: read from a file, checked, and split in two. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "rng.h"

enum {
    FIELDS = DIGIT_PIXELS + 1,
    LINE_ROOM = 1024,        /* 65 numbers take less than 200 */
    DIGITS_MIN = 10,         /* fewer can not be split in a useful way */
    DIGITS_MAX = 1000 * 1000 /* more is another file than meant */
};

/* Where the reader stands, for messages. */
struct place {
    const char *path;
    size_t line;
};

/* A number of decimal digits alone; -1 for anything else. */
static int parse_number(const char *text)
{
    size_t len = strspn(text, "0123456789");

    return len >= 1 && len <= 4 && text[len] == '\0' ? atoi(text) : -1;
}

static bool parse_line(const struct place *place, char *text, struct digit *digit)
{
    char *next = text;
    int count = 0;

    for (char *field; (field = strsep(&next, ",")) != NULL; count++) {
        bool is_label = count == DIGIT_PIXELS;
        int max = is_label ? DIGIT_CLASSES - 1 : DIGIT_PIXEL_MAX;
        int value = parse_number(field);

        if (count >= FIELDS)
            continue;
        if (value < 0 || value > max) {
            fprintf(stderr, "%s: %s:%zu: field %d is '%.20s', not a %s from 0 to %d\n",
                    program_invocation_short_name, place->path, place->line, count + 1, field,
                    is_label ? "class" : "pixel", max);
            return false;
        }
        if (is_label)
            digit->label = (uint8_t)value;
        else
            digit->pixels[count] = (uint8_t)value;
    }
    if (count != FIELDS) {
        fprintf(stderr, "%s: %s:%zu: %d fields instead of %d\n", program_invocation_short_name,
                place->path, place->line, count, FIELDS);
        return false;
    }
    return true;
}

/* Cuts the line's end off; false when the line did not fit. */
static bool trim_line(const struct place *place, char *text)
{
    size_t len = strcspn(text, "\r\n");

    if (len == LINE_ROOM - 1) {
        fprintf(stderr, "%s: %s:%zu: the line is longer than %d characters\n",
                program_invocation_short_name, place->path, place->line, LINE_ROOM - 2);
        return false;
    }
    text[len] = '\0';
    return true;
}

static bool add_digit(struct data *data, size_t *room, const struct digit *digit)
{
    if (data->count == *room) {
        size_t wanted = *room == 0 ? 2048 : 2 * *room;
        struct digit *grown =
            data->count >= DIGITS_MAX ? NULL : realloc(data->digits, wanted * sizeof *grown);

        if (grown == NULL) {
            fprintf(stderr, "%s: no room for more than %zu digits\n", program_invocation_short_name,
                    data->count);
            return false;
        }
        data->digits = grown;
        *room = wanted;
    }
    data->digits[data->count++] = *digit;
    return true;
}

static bool read_lines(gzFile file, struct place *place, struct data *data)
{
    char text[LINE_ROOM];
    size_t room = 0;
    const char *reason;
    int error;

    while (gzgets(file, text, sizeof text) != NULL) {
        struct digit digit;

        place->line++;
        if (!trim_line(place, text) || !parse_line(place, text, &digit) ||
            !add_digit(data, &room, &digit))
            return false;
    }
    reason = gzerror(file, &error);
    if (error != Z_OK && error != Z_STREAM_END) {
        fprintf(stderr, "%s: %s: after line %zu: %s\n", program_invocation_short_name, place->path,
                place->line, error == Z_ERRNO ? strerror(errno) : reason);
        return false;
    }
    if (data->count < DIGITS_MIN) {
        fprintf(stderr, "%s: %s: holds %zu digits, at least %d are needed\n",
                program_invocation_short_name, place->path, data->count, DIGITS_MIN);
        return false;
    }
    return true;
}

bool data_read(const char *path, struct data *data_out)
{
    struct place place = {.path = path};
    struct data data = {0};
    gzFile file = gzopen(path, "rb");
    bool is_read;

    if (file == NULL) {
        fprintf(stderr, "%s: %s: %s%s\n", program_invocation_short_name, path,
                errno != 0 ? strerror(errno) : "no memory",
                errno == ENOENT ? "; name the file of the digits with --data=FILE" : "");
        return false;
    }
    is_read = read_lines(file, &place, &data);
    gzclose(file);
    if (!is_read) {
        data_fini(&data);
        return false;
    }
    *data_out = data;
    return true;
}

void data_split(struct data *data, uint64_t seed, struct digits *train, struct digits *test)
{
    size_t train_count = data->count - data->count / 5;
    struct rng rng;

    rng_init(&rng, seed, 1);
    for (size_t i = data->count; i > 1; i--) {
        size_t other = rng_below(&rng, i);
        struct digit digit = data->digits[i - 1];

        data->digits[i - 1] = data->digits[other];
        data->digits[other] = digit;
    }
    *train = (struct digits){data->digits, train_count};
    *test = (struct digits){data->digits + train_count, data->count - train_count};
}

void digit_load(const struct digit *digit, float *to)
{
    for (size_t i = 0; i < DIGIT_PIXELS; i++)
        to[i] = (float)digit->pixels[i] / DIGIT_PIXEL_MAX;
}

void order_shuffle(size_t *order, size_t count, uint64_t seed, size_t epoch)
{
    struct rng rng;

    rng_init(&rng, seed, 2 + epoch);
    for (size_t i = count; i > 1; i--) {
        size_t other = rng_below(&rng, i);
        size_t kept = order[i - 1];

        order[i - 1] = order[other];
        order[other] = kept;
    }
}

void data_fini(struct data *data)
{
    free(data->digits);
    data->digits = NULL;
    data->count = 0;
}
