/* processors.c - the processors that this process may use, and equal shares of them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "processors.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Which --------------------------------------------------------------------------------- */

/* A set has room for these at first, and is made larger while the system has more. */
enum { ROOM_FIRST = CPU_SETSIZE, ROOM_MAX = 1 << 20 };

static int read_set(cpu_set_t **set_out, unsigned *room_out)
{
    for (unsigned room = ROOM_FIRST; room <= ROOM_MAX; room *= 2) {
        cpu_set_t *set = CPU_ALLOC(room);
        int error = set == NULL ? ENOMEM : 0;

        if (error == 0 && sched_getaffinity(0, CPU_ALLOC_SIZE(room), set) != 0)
            error = errno;
        if (error == 0) {
            *set_out = set;
            *room_out = room;
            return 0;
        }
        CPU_FREE(set);
        if (error != EINVAL)
            return error;
    }
    return EINVAL;
}

int processors_read(struct processors *processors)
{
    cpu_set_t *set = NULL;
    unsigned room = 0;
    int error = read_set(&set, &room);

    *processors = (struct processors){.count = 0};
    if (error != 0)
        return error;
    processors->at =
        calloc((size_t)CPU_COUNT_S(CPU_ALLOC_SIZE(room), set), sizeof(struct processor));
    for (unsigned i = 0; i < room && processors->at != NULL; i++)
        if (CPU_ISSET_S(i, CPU_ALLOC_SIZE(room), set))
            processors->at[processors->count++].number = i;
    CPU_FREE(set);
    if (processors->at == NULL)
        return ENOMEM;
    processors_order(processors, PROCESSORS_ROOT);
    return 0;
}

void processors_fini(struct processors *processors)
{
    free(processors->at);
    *processors = (struct processors){.count = 0};
}

/* ---- How they lie -------------------------------------------------------------------------- */

/* The number that a file begins with; `none` where there is no such file. */
static unsigned read_number(const char *folder, const char *name, unsigned none)
{
    char path[PATH_MAX];
    unsigned number;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/topology/%s", folder, name);
    file = fopen(path, "re");
    if (file == NULL)
        return none;
    if (fscanf(file, "%u", &number) != 1)
        number = none;
    (void)fclose(file);
    return number;
}

/* The folder of a processor has a link to that of its node, of that name. */
static unsigned read_node(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    unsigned node = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (sscanf(entry->d_name, "node%u", &node) == 1)
            break;
    if (dir != NULL)
        closedir(dir);
    return node;
}

static int compare_numbers(unsigned a, unsigned b)
{
    return (a > b) - (a < b);
}

static int compare(const void *left, const void *right)
{
    const struct processor *a = left, *b = right;

    if (a->node != b->node)
        return compare_numbers(a->node, b->node);
    if (a->package != b->package)
        return compare_numbers(a->package, b->package);
    if (a->core != b->core)
        return compare_numbers(a->core, b->core);
    return compare_numbers(a->number, b->number);
}

static bool begins_core(const struct processors *processors, unsigned i)
{
    return i == 0 || processors->at[i].core != processors->at[i - 1].core;
}

void processors_order(struct processors *processors, const char *root)
{
    char folder[PATH_MAX - 64];

    for (unsigned i = 0; i < processors->count; i++) {
        struct processor *processor = &processors->at[i];

        (void)snprintf(folder, sizeof folder, "%s/cpu%u", root, processor->number);
        processor->node = read_node(folder);
        processor->package = read_number(folder, "physical_package_id", 0);
        processor->core = read_number(folder, "thread_siblings_list", processor->number);
    }
    qsort(processors->at, processors->count, sizeof *processors->at, compare);
    processors->cores = 0;
    for (unsigned i = 0; i < processors->count; i++)
        processors->cores += begins_core(processors, i);
}

/* ---- Shares -------------------------------------------------------------------------------- */

static unsigned part(unsigned whole, unsigned index, unsigned of)
{
    return (unsigned)((unsigned long long)whole * index / of);
}

/* Where core number `core` begins; behind the last one the end. */
static unsigned core_at(const struct processors *processors, unsigned core)
{
    unsigned i = 0;

    for (unsigned seen = 0; i < processors->count; i++) {
        seen += begins_core(processors, i);
        if (seen > core)
            break;
    }
    return i;
}

struct share processors_share(const struct processors *processors, unsigned index, unsigned of)
{
    unsigned count = processors->count, cores = processors->cores;
    struct share share = {part(count, index, of), part(count, index + 1, of)};

    if (of <= cores)
        return (struct share){core_at(processors, part(cores, index, of)),
                              core_at(processors, part(cores, index + 1, of))};
    if (of > count)
        return (struct share){index % count, index % count + 1};
    return share;
}

static int compare_by_number(const void *left, const void *right)
{
    return compare_numbers(*(const unsigned *)left, *(const unsigned *)right);
}

bool processors_are_short(const struct processors *processors, unsigned ranks,
                          char text[PROCESSORS_TEXT])
{
    if (ranks <= processors->count)
        return false;
    snprintf(text, PROCESSORS_TEXT,
             "%u bound ranks share %u processor%s and take turns; start at most %u here to give "
             "each its own",
             ranks, processors->count, processors->count == 1 ? "" : "s", processors->count);
    return true;
}

char *processors_text(const struct processors *processors, struct share share)
{
    unsigned count = share.end - share.first, *numbers = calloc(count, sizeof *numbers);
    char *text = NULL;
    size_t len;
    FILE *file = numbers == NULL ? NULL : open_memstream(&text, &len);

    for (unsigned i = 0; i < count && file != NULL; i++)
        numbers[i] = processors->at[share.first + i].number;
    if (file != NULL)
        qsort(numbers, count, sizeof *numbers, compare_by_number);
    for (unsigned i = 0, last; i < count && file != NULL; i = last + 1) {
        for (last = i; last + 1 < count && numbers[last + 1] == numbers[last] + 1;)
            last++;
        (void)fprintf(file, "%s%u", i > 0 ? "," : "", numbers[i]);
        if (last > i)
            (void)fprintf(file, "-%u", numbers[last]);
    }
    free(numbers);
    if (file != NULL && fclose(file) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

int processors_bind(const struct processors *processors, struct share share)
{
    unsigned room = 0;
    cpu_set_t *set;
    int error;

    for (unsigned i = share.first; i < share.end; i++)
        if (processors->at[i].number >= room)
            room = processors->at[i].number + 1;
    set = CPU_ALLOC(room);
    if (set == NULL)
        return ENOMEM;
    CPU_ZERO_S(CPU_ALLOC_SIZE(room), set);
    for (unsigned i = share.first; i < share.end; i++)
        CPU_SET_S(processors->at[i].number, CPU_ALLOC_SIZE(room), set);
    error = sched_setaffinity(0, CPU_ALLOC_SIZE(room), set) == 0 ? 0 : errno;
    CPU_FREE(set);
    return error;
}
