/* layout.c - the setting that says how ranks lie on hosts, read. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   layout   auto | item { , item } | = number { , number }
 *   item     number [ * number ]      ranks on a host, and on how many hosts after each other
 */
#include "layout.h"

#include <stddef.h>
#include <string.h>

#include "core/alloc.h"

/* More ranks than a group can have, but few enough to be added up. */
enum { NUMBER_MAX = 1 << 20 };

/* Where the ranks go as the text is read; labels NULL: they are only counted. */
struct reader {
    const char *at;
    uint64_t *labels;
    uint64_t room, ranks;
    uint64_t host; /* the next one */
};

static bool read_number(struct reader *reader, uint64_t *number_out)
{
    uint64_t number = 0;

    if (*reader->at < '0' || *reader->at > '9')
        return false;
    for (; *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        number = 10 * number + (uint64_t)(*reader->at - '0');
        if (number > NUMBER_MAX)
            return false;
    }
    *number_out = number;
    return true;
}

static bool skip(struct reader *reader, char c)
{
    if (*reader->at != c)
        return false;
    reader->at++;
    return true;
}

static void put(struct reader *reader, uint64_t label, uint64_t ranks)
{
    for (uint64_t k = 0; k < ranks && reader->labels != NULL; k++)
        if (reader->ranks + k < reader->room)
            reader->labels[reader->ranks + k] = label;
    reader->ranks += ranks;
}

/* A host for each rank. */
static bool read_each(struct reader *reader)
{
    uint64_t host;

    do {
        if (!read_number(reader, &host))
            return false;
        put(reader, host, 1);
    } while (skip(reader, ','));
    return *reader->at == '\0';
}

/* Ranks on each host. */
static bool read_counts(struct reader *reader)
{
    do {
        uint64_t ranks, times = 1;

        if (!read_number(reader, &ranks) || ranks == 0)
            return false;
        if (skip(reader, '*') && (!read_number(reader, &times) || times == 0))
            return false;
        if (ranks * times > NUMBER_MAX || reader->ranks > NUMBER_MAX)
            return false;
        for (uint64_t k = 0; k < times; k++)
            put(reader, reader->host++, ranks);
    } while (skip(reader, ','));
    return *reader->at == '\0';
}

static bool is_auto(const char *text)
{
    return strcmp(text, "auto") == 0;
}

static bool read_layout(struct reader *reader)
{
    return skip(reader, '=') ? read_each(reader) : read_counts(reader);
}

bool tci_layout_is_one(const char *text)
{
    struct reader reader = {.at = text};

    return is_auto(text) || read_layout(&reader);
}

tc_status_t tci_layout_labels(const char *text, uint32_t size, uint64_t **labels_out,
                              struct tci_error *error)
{
    struct reader reader = {.at = text, .room = size};

    *labels_out = NULL;
    if (is_auto(text) || size == 1)
        return TC_OK;
    reader.labels = tci_alloc_array(size, sizeof(*reader.labels));
    if (reader.labels == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init", "dist_init: no memory left");
        return TC_ERR_ALLOC;
    }
    if (read_layout(&reader) && reader.ranks == size) {
        *labels_out = reader.labels;
        return TC_OK;
    }
    tci_free(reader.labels);
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                  "dist_init: the hosts \"%.80s\" are for %llu ranks, but the group has %u: change "
                  "TCDIST_HOSTS or the setting `hosts`",
                  text, (unsigned long long)reader.ranks, (unsigned)size);
    return TC_ERR_INVALID_ARG;
}
