/* nodelist.c - lists of nodes as Slurm writes them, expanded without asking anybody. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/nodelist.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"

#define DIGITS "0123456789"

/* More digits are no number of a node; more nodes no list of a job. */
enum { DIGITS_MAX = 9, BRACKETS_MAX = 8, NODES_MAX = 1 << 20 };

/* A bracket, "[1-3,07]": what it holds is counted, or one of them taken. */
struct bracket {
    const char *begin, *end; /* inside; end points at ']' */
    size_t count;
};

/* "7" or "01-04" at *at, which is moved behind it. */
static bool read_range(const char **at, const char *end, unsigned long *low, unsigned long *high)
{
    size_t digits = strspn(*at, DIGITS);

    if (digits == 0 || digits > DIGITS_MAX || *at + digits > end)
        return false;
    *low = *high = strtoul(*at, NULL, 10);
    *at += digits;
    if (**at != '-')
        return true;
    digits = strspn(++*at, DIGITS);
    if (digits == 0 || digits > DIGITS_MAX || *at + digits > end)
        return false;
    *high = strtoul(*at, NULL, 10);
    *at += digits;
    return *high >= *low;
}

/* Count what a bracket holds; with pick < count also write that number, with its zeros in front. */
static bool walk_bracket(struct bracket *bracket, size_t pick, char text[16])
{
    const char *at = bracket->begin;

    bracket->count = 0;
    while (at < bracket->end) {
        size_t width = strspn(at, DIGITS);
        unsigned long low, high;

        if (!read_range(&at, bracket->end, &low, &high))
            return false;
        if (text != NULL && pick >= bracket->count && pick - bracket->count <= high - low)
            (void)snprintf(text, 16, "%0*lu", (int)width, low + (pick - bracket->count));
        bracket->count += high - low + 1;
        if (bracket->count > NODES_MAX || (at < bracket->end && *at++ != ','))
            return false;
    }
    return bracket->count > 0 && bracket->end[-1] != ',';
}

/* One item of the list, up to a comma outside of brackets. */
struct item {
    const char *begin, *end;
    struct bracket brackets[BRACKETS_MAX];
    size_t bracket_count;
    size_t count; /* of names */
};

static bool read_item(const char *list, struct item *item)
{
    const char *at = list;

    *item = (struct item){.begin = list, .count = 1};
    while (*at != '\0' && *at != ',') {
        struct bracket *bracket;

        if (*at == ']' || *at == ' ')
            return false;
        if (*at++ != '[')
            continue;
        if (item->bracket_count == BRACKETS_MAX)
            return false;
        bracket = &item->brackets[item->bracket_count];
        bracket->begin = at;
        bracket->end = strchr(at, ']');
        if (bracket->end == NULL || !walk_bracket(bracket, 0, NULL))
            return false;
        item->bracket_count++;
        item->count *= bracket->count;
        if (item->count > NODES_MAX)
            return false;
        at = bracket->end + 1;
    }
    item->end = at;
    return at > list;
}

/* The last bracket counts fastest. */
static bool write_name(struct item *item, size_t index, char name[TCI_NODE_NAME])
{
    const char *at = item->begin;
    size_t len = 0, below = item->count;

    for (size_t k = 0; k <= item->bracket_count; k++) {
        bool is_last = k == item->bracket_count;
        struct bracket *bracket = &item->brackets[k];
        const char *end = is_last ? item->end : bracket->begin - 1;
        char number[16] = "";
        int wrote;

        if (!is_last) {
            below /= bracket->count;
            if (!walk_bracket(bracket, index / below % bracket->count, number))
                return false;
        }
        wrote = snprintf(name + len, TCI_NODE_NAME - len, "%.*s%s", (int)(end - at), at, number);
        if (wrote < 0 || (size_t)wrote >= TCI_NODE_NAME - len)
            return false;
        len += (size_t)wrote;
        at = is_last ? end : bracket->end + 1;
    }
    return true;
}

bool tci_nodelist_at(const char *list, size_t index, char name[TCI_NODE_NAME])
{
    struct item item;
    char found[TCI_NODE_NAME];

    for (;; list = item.end + 1) {
        if (!read_item(list, &item))
            return false;
        if (index < item.count)
            break;
        index -= item.count;
        if (*item.end == '\0')
            return false;
    }
    if (!write_name(&item, index, found))
        return false;
    memcpy(name, found, sizeof(found));
    return true;
}

bool tci_nodelist_find(const char *list, const char *name, size_t *index_out)
{
    size_t before = 0;
    struct item item;

    for (;; list = item.end + 1) {
        char found[TCI_NODE_NAME];

        if (!read_item(list, &item) || before > NODES_MAX)
            return false;
        for (size_t k = 0; k < item.count; k++) {
            if (!write_name(&item, k, found))
                return false;
            if (strcmp(found, name) == 0) {
                *index_out = before + k;
                return true;
            }
        }
        before += item.count;
        if (*item.end == '\0')
            return false;
    }
}

int tci_nodecounts_at(const char *counts, size_t index)
{
    for (;;) {
        size_t digits = strspn(counts, DIGITS);
        unsigned long count, times = 1;

        if (digits == 0 || digits > DIGITS_MAX)
            return -1;
        count = strtoul(counts, NULL, 10);
        counts += digits;
        if (strncmp(counts, "(x", 2) == 0) {
            digits = strspn(counts + 2, DIGITS);
            if (digits == 0 || digits > DIGITS_MAX || counts[2 + digits] != ')')
                return -1;
            times = strtoul(counts + 2, NULL, 10);
            counts += digits + 3;
        }
        if (index < times)
            return count <= INT32_MAX ? (int)count : -1;
        index -= times;
        if (*counts++ != ',')
            return -1;
    }
}
