/* order.c - what an agent is told to start: one block of bytes, written here and read there. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <stdlib.h>
#include <string.h>

#include "tunnel.h"

enum {
    FLAG_CWD = 1,
    FLAG_INPUT = 2,
    FLAG_TRACES = 4,
    FLAG_LISTENER = 8,
    FLAG_FIRST = 16,
    FLAG_BINDS = 32,
    FLAG_TELLS = 64,
    FLAGS = 127,
    RANKS_MAX = 65535
};

/* ---- Writing --------------------------------------------------------------------------------- */

struct writer {
    char *data; /* NULL: only counted */
    size_t len;
};

static void put_number(struct writer *writer, size_t value)
{
    if (writer->data != NULL)
        tunnel_put32(writer->data + writer->len, (uint32_t)value);
    writer->len += 4;
}

static void put_text(struct writer *writer, const char *text)
{
    size_t len = strlen(text);

    put_number(writer, len);
    if (writer->data != NULL)
        memcpy(writer->data + writer->len, text, len + 1);
    writer->len += len + 1;
}

static void put_texts(struct writer *writer, char *const *texts)
{
    size_t count = 0;

    while (texts[count] != NULL)
        count++;
    put_number(writer, count);
    for (size_t i = 0; i < count; i++)
        put_text(writer, texts[i]);
}

static void put_order(struct writer *writer, const struct order *order)
{
    put_number(writer, (order->needs_cwd ? FLAG_CWD : 0) | (order->has_input ? FLAG_INPUT : 0) |
                           (order->keeps_traces ? FLAG_TRACES : 0) |
                           (order->has_listener ? FLAG_LISTENER : 0) |
                           (order->first_alone ? FLAG_FIRST : 0) | (order->binds ? FLAG_BINDS : 0) |
                           (order->tells ? FLAG_TELLS : 0));
    put_text(writer, order->cwd);
    put_texts(writer, order->command);
    put_number(writer, order->file_count);
    for (unsigned i = 0; i < order->file_count; i++) {
        put_text(writer, order->files[i].variable);
        put_text(writer, order->files[i].text);
    }
    put_number(writer, order->rank_count);
    for (unsigned i = 0; i < order->rank_count; i++) {
        put_number(writer, order->ranks[i].rank);
        put_texts(writer, order->ranks[i].env);
    }
}

char *order_write(const struct order *order, size_t *len_out)
{
    struct writer writer = {.data = NULL};

    put_order(&writer, order);
    writer.data = malloc(writer.len);
    writer.len = 0;
    if (writer.data != NULL)
        put_order(&writer, order);
    *len_out = writer.len;
    return writer.data;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct reader {
    char *at, *end;
    struct order *order;
    bool is_bad;
};

static uint32_t get_number(struct reader *reader, uint32_t max)
{
    uint32_t value;

    if (reader->is_bad || reader->end - reader->at < 4) {
        reader->is_bad = true;
        return 0;
    }
    value = tunnel_get32(reader->at);
    reader->at += 4;
    reader->is_bad = value > max;
    return reader->is_bad ? 0 : value;
}

static char *get_text(struct reader *reader)
{
    uint32_t len = get_number(reader, TUNNEL_FRAME_MAX);
    char *text = reader->at;

    if (reader->is_bad || (size_t)(reader->end - reader->at) <= len ||
        strnlen(text, len + 1) != len) {
        reader->is_bad = true;
        return NULL;
    }
    reader->at += len + 1;
    return text;
}

/* A list in order->strings, which has room for all that the block can hold. */
static char **get_texts(struct reader *reader)
{
    uint32_t count = get_number(reader, ORDER_STRINGS_MAX);
    struct order *order = reader->order;
    char **list = order->strings + order->string_count;

    for (uint32_t i = 0; i < count && !reader->is_bad; i++)
        order->strings[order->string_count++] = get_text(reader);
    order->strings[order->string_count++] = NULL;
    return list;
}

static bool is_whole(const struct order *order, const struct reader *reader)
{
    return !reader->is_bad && reader->at == reader->end && order->command[0] != NULL &&
           order->rank_count > 0;
}

bool order_read(struct order *order, char *block, size_t len)
{
    struct reader reader = {.at = block, .end = block + len, .order = order};
    uint32_t flags;

    *order = (struct order){.rank_count = 0};
    order->strings = calloc(len / 4 + 2, sizeof *order->strings); /* each takes 4 bytes and more */
    if (order->strings == NULL)
        return false;
    flags = get_number(&reader, FLAGS);
    order->first_alone = (flags & FLAG_FIRST) != 0;
    order->binds = (flags & FLAG_BINDS) != 0;
    order->tells = (flags & FLAG_TELLS) != 0;
    order->needs_cwd = (flags & FLAG_CWD) != 0;
    order->has_input = (flags & FLAG_INPUT) != 0;
    order->keeps_traces = (flags & FLAG_TRACES) != 0;
    order->has_listener = (flags & FLAG_LISTENER) != 0;
    order->cwd = get_text(&reader);
    order->command = get_texts(&reader);
    order->file_count = get_number(&reader, ORDER_FILES_MAX);
    for (unsigned i = 0; i < order->file_count; i++) {
        order->files[i].variable = get_text(&reader);
        order->files[i].text = get_text(&reader);
    }
    order->rank_count = get_number(&reader, RANKS_MAX);
    order->ranks = calloc(order->rank_count + 1U, sizeof *order->ranks);
    if (order->ranks == NULL)
        return false;
    for (unsigned i = 0; i < order->rank_count && !reader.is_bad; i++) {
        order->ranks[i].rank = get_number(&reader, RANKS_MAX);
        order->ranks[i].env = get_texts(&reader);
    }
    return is_whole(order, &reader);
}

void order_fini(struct order *order)
{
    free(order->ranks);
    free(order->strings);
    *order = (struct order){.rank_count = 0};
}
