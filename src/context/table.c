/* table.c - a table of choices that was measured before, read from its file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "core/alloc.h"
#include "core/base.h"
#include "net/boot.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

void tci_table_fini(struct tci_table *table)
{
    tci_free(table->told);
    *table = (struct tci_table){.count = 0};
}

#ifdef HAS_CJSON

#include <cjson/cJSON.h>

enum { FORMAT = 1, FILE_BYTES_MAX = 4 << 20 };

/* Numbers of JSON are doubles: whole ones are exact to here. */
#define WHOLE_MAX 9007199254740992.0

/* A second in picoseconds, and more than any figure. */
#define FIGURE_MAX 1e12

static bool bad(struct tci_error *error, const char *path, const char *why)
{
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "init", "the table of choices %.120s: %s", path,
                  why);
    return false;
}

static bool bad_line(struct tci_error *error, const char *path, int line, const char *why)
{
    char text[120];

    snprintf(text, sizeof(text), "choices[%d]: %s", line, why);
    return bad(error, path, text);
}

/* A whole number from 0 to max. */
static bool read_whole(const cJSON *object, const char *name, double max, uint64_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= max) ||
        item->valuedouble != (double)(uint64_t)item->valuedouble)
        return false;
    *out = (uint64_t)item->valuedouble;
    return true;
}

static const char *read_string(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

    return text != NULL ? text : "";
}

static int find_coll(const char *name)
{
    int coll = 0;

    while (coll < TCI_COLL_COUNT &&
           (coll == TCI_COLL_P2P || strcmp(tci_coll_name((enum tci_coll)coll), name) != 0))
        coll++;
    return coll;
}

static int find_numerics(const char *name)
{
    static const char *const names[] = {"default", "canonical", "fast", "exact"};
    int numerics = TC_NUMERICS_CANONICAL;

    while (numerics < (int)TCI_LEN(names) && strcmp(names[numerics], name) != 0)
        numerics++;
    return numerics < (int)TCI_LEN(names) ? numerics : 0;
}

static bool read_line(const cJSON *item, int line, const char *path, struct tci_told *told_out,
                      struct tci_error *error)
{
    int coll = find_coll(read_string(item, "collective"));
    const char *algorithm = read_string(item, "algorithm");

    if (!cJSON_IsObject(item) || coll == TCI_COLL_COUNT)
        return bad_line(error, path, line, "collective is none, such as \"allreduce\"");
    told_out->coll = tci_coll_base((enum tci_coll)coll);
    told_out->plan = tci_plan_find(told_out->coll, algorithm);
    if (told_out->plan == NULL ? strcmp(algorithm, "model") != 0 : !told_out->plan->is_used)
        return bad_line(error, path, line, "algorithm is none of this collective");
    told_out->numerics = find_numerics(read_string(item, "numerics"));
    if (told_out->numerics == 0)
        return bad_line(error, path, line, "numerics must be canonical, fast or exact");
    if (!read_whole(item, "bytes", WHOLE_MAX, &told_out->bytes))
        return bad_line(error, path, line, "bytes must be a whole number that is not negative");
    return true;
}

/* Lines of one collective and numerics must ascend: each counts from its bytes on. */
static bool ascends(const struct tci_table *table, const struct tci_told *line)
{
    for (uint32_t l = table->count; l-- > 0;)
        if (table->told[l].coll == line->coll && table->told[l].numerics == line->numerics)
            return table->told[l].bytes < line->bytes;
    return true;
}

static bool read_lines(const cJSON *root, const char *path, struct tci_table *table,
                       struct tci_error *error)
{
    const cJSON *choices = cJSON_GetObjectItemCaseSensitive(root, "choices"), *item;
    int count = cJSON_GetArraySize(choices);

    if (!cJSON_IsArray(choices) || count > TCI_TOLD_MAX)
        return bad(error, path, "choices must be a list of at most 4096 lines");
    table->told = tci_alloc_array((size_t)count + 1, sizeof(*table->told));
    if (table->told == NULL)
        return bad(error, path, "no memory left for it");
    cJSON_ArrayForEach(item, choices)
    {
        struct tci_told *told = &table->told[table->count];

        if (!read_line(item, (int)table->count, path, told, error))
            return false;
        if (!ascends(table, told))
            return bad_line(error, path, (int)table->count,
                            "bytes must ascend among the lines of a collective and its numerics");
        table->count++;
    }
    return true;
}

static bool read_link(const cJSON *figures, const char *name, struct tci_link_figures *link_out)
{
    const cJSON *link = cJSON_GetObjectItemCaseSensitive(figures, name);

    return link == NULL || (read_whole(link, "latency_ps", FIGURE_MAX, &link_out->latency_ps) &&
                            read_whole(link, "overhead_ps", FIGURE_MAX, &link_out->overhead_ps) &&
                            read_whole(link, "byte_fs", FIGURE_MAX, &link_out->byte_fs));
}

/* A person may fix what is measured else. */
static bool read_figures(const cJSON *root, const char *path, struct tci_figures *out,
                         struct tci_error *error)
{
    const cJSON *figures = cJSON_GetObjectItemCaseSensitive(root, "figures");

    if (figures == NULL ||
        (cJSON_IsObject(figures) && read_link(figures, "local", &out->link[TCI_REACH_LOCAL]) &&
         read_link(figures, "remote", &out->link[TCI_REACH_REMOTE])))
        return true;
    return bad(error, path,
               "figures must hold local or remote, with latency_ps, overhead_ps and byte_fs");
}

static bool read_root(const cJSON *root, const char *path, struct tci_table *table,
                      struct tci_error *error)
{
    uint64_t number;

    if (!cJSON_IsObject(root))
        return bad(error, path, "is no JSON object, as tcperf --tune writes it");
    if (!read_whole(root, "tcdist_choices", FORMAT, &number) || number != FORMAT)
        return bad(error, path, "tcdist_choices must be 1: is it a table of tcperf --tune?");
    if (!read_whole(root, "ranks", TCI_BOOT_SIZE_MAX, &number) || number == 0)
        return bad(error, path, "ranks must be the number of ranks that it was measured with");
    table->ranks = (uint32_t)number;
    return read_figures(root, path, &table->figures, error) && read_lines(root, path, table, error);
}

/* The whole file, terminated; NULL on failure. */
static char *read_file(const char *path, size_t *len_out, struct tci_error *error)
{
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? tci_alloc(FILE_BYTES_MAX + 1) : NULL;

    if (file == NULL) {
        tci_error_set(
            error, TC_ERR_INVALID_ARG, -1, 0, "init",
            "the table of choices %.120s: %s; TCDIST_TUNE, or tc_config.tune, is off, auto, "
            "measure or the file of a table",
            path, strerror(errno));
        return NULL;
    }
    if (text == NULL) {
        bad(error, path, "no memory left to read it");
    } else {
        *len_out = fread(text, 1, FILE_BYTES_MAX + 1, file);
        if (ferror(file) || *len_out > FILE_BYTES_MAX) {
            bad(error, path, ferror(file) ? "cannot be read" : "is longer than any table");
            tci_free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

tc_status_t tci_table_load(const char *path, struct tci_table *table_out, struct tci_error *error)
{
    struct tci_table table = {.count = 0};
    size_t len = 0;
    char *text = read_file(path, &len, error);
    cJSON *root;

    if (text == NULL)
        return error->pub.status;
    root = cJSON_ParseWithLength(text, len);
    tci_free(text);
    if (read_root(root, path, &table, error))
        *table_out = table;
    else
        tci_table_fini(&table);
    cJSON_Delete(root);
    return error->pub.status;
}

#else

tc_status_t tci_table_load(const char *path, struct tci_table *table_out, struct tci_error *error)
{
    (void)table_out;
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "init",
                  "%.120s: the library was built without cJSON, and cannot read tables", path);
    return TC_ERR_UNSUPPORTED;
}

#endif
