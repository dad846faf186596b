/* jaccl.c - a matrix of RDMA devices, read and looked at as MLX's JACCL does. */
/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the file and about which matrix is a mesh or a ring: MLX, mlx/distributed/jaccl,
 * 2026-08.  Stricter here: a ring has a cable, a device has a name, and there are limits. */
#include "launch/jaccl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

void tci_jaccl_fini(struct tci_jaccl *jaccl)
{
    tci_free(jaccl->cables);
    *jaccl = (struct tci_jaccl){.size = 0};
}

#ifdef HAS_CJSON

#include <cjson/cJSON.h>

enum { FILE_BYTES_MAX = 8 << 20, WHY_ROOM = 200 };

/* Characters of a device's name. */
#define NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

/* What is looked at, and the number of cables in each cell, row after row. */
struct matrix {
    const struct tci_jaccl_asked *asked;
    struct tci_error *error;
    uint32_t size;
    uint8_t *counts; /* owned */
};

/* A cell by its indices. */
struct cell {
    uint32_t from, to;
};

static bool bad(const struct matrix *matrix, const char *why)
{
    tci_error_set(matrix->error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                  "the device file %.120s: %s", matrix->asked->name, why);
    return false;
}

static bool bad_cell(const struct matrix *matrix, struct cell cell, const char *why)
{
    tci_error_set(matrix->error, TC_ERR_INVALID_ARG, -1, 0, "dist_init",
                  "the device file %.120s: cell [%u][%u], from rank %u to rank %u, %s",
                  matrix->asked->name, cell.from, cell.to, cell.from, cell.to, why);
    return false;
}

static uint8_t count_at(const struct matrix *matrix, uint32_t from, uint32_t to)
{
    return matrix->counts[(size_t)from * matrix->size + to];
}

/* ---- The text ---- */

static bool read_name(const struct matrix *matrix, struct cell cell, const cJSON *item,
                      struct tci_cables *cables)
{
    const char *name = cJSON_GetStringValue(item);

    if (name == NULL)
        return bad_cell(matrix, cell, "is none of null, a name and a list of names");
    if (name[0] == '\0')
        return bad_cell(matrix, cell, "names a device without letters: write null where none is");
    if (strlen(name) >= TCI_DEVICE_ROOM || name[strspn(name, NAME)] != '\0')
        return bad_cell(matrix, cell,
                        "has a text that cannot be the name of a device: up to 63 letters, digits "
                        "and - . _");
    if (cables->count == TCI_CABLES_MAX)
        return bad_cell(matrix, cell, "has more than 4 devices: up to 4 cables join two ranks");
    snprintf(cables->device[cables->count], TCI_DEVICE_ROOM, "%s", name);
    cables->count++;
    return true;
}

static bool read_cell(const struct matrix *matrix, struct cell cell, const cJSON *item,
                      struct tci_cables *cables_out)
{
    const cJSON *name;

    *cables_out = (struct tci_cables){.count = 0};
    if (cJSON_IsNull(item))
        return true;
    if (!cJSON_IsArray(item))
        return read_name(matrix, cell, item, cables_out);
    cJSON_ArrayForEach(name, item)
    {
        if (!read_name(matrix, cell, name, cables_out))
            return false;
    }
    return true;
}

static bool read_row(const struct matrix *matrix, uint32_t from, const cJSON *row,
                     struct tci_cables *mine)
{
    char why[WHY_ROOM];
    const cJSON *item;
    uint32_t to = 0;

    if (!cJSON_IsArray(row) || cJSON_GetArraySize(row) != (int)matrix->size) {
        snprintf(why, sizeof(why), "row %u, of rank %u, is no list of %u cells, one for each rank",
                 from, from, matrix->size);
        return bad(matrix, why);
    }
    cJSON_ArrayForEach(item, row)
    {
        struct tci_cables cables;

        if (!read_cell(matrix, (struct cell){from, to}, item, &cables))
            return false;
        matrix->counts[(size_t)from * matrix->size + to] = cables.count;
        if ((int)from == matrix->asked->rank)
            mine[to] = cables;
        to++;
    }
    return true;
}

/* ---- Its shape ---- */

/* Whether each rank has a device to every other and none to itself; else a cell that is unlike. */
static bool is_mesh(const struct matrix *matrix, struct cell *wrong_out)
{
    for (uint32_t from = 0; from < matrix->size; from++)
        for (uint32_t to = 0; to < matrix->size; to++)
            if ((count_at(matrix, from, to) > 0) == (from == to)) {
                *wrong_out = (struct cell){from, to};
                return false;
            }
    return true;
}

/* Whether each rank has as many cables to both neighbours as rank 0 has to rank 1, and one at
 * least; else a cell that is unlike. */
static bool is_ring(const struct matrix *matrix, struct cell *wrong_out)
{
    uint8_t count = count_at(matrix, 0, 1);

    *wrong_out = (struct cell){0, 1};
    for (uint32_t from = 0; from < matrix->size; from++) {
        uint32_t right = (from + 1) % matrix->size;
        uint32_t left = (from + matrix->size - 1) % matrix->size;

        if (count_at(matrix, from, left) != count || count_at(matrix, from, right) != count) {
            *wrong_out = (struct cell){from, count_at(matrix, from, right) != count ? right : left};
            return false;
        }
    }
    return count > 0;
}

/* Neither: the error says what keeps it from being each. */
static bool bad_shape(const struct matrix *matrix, struct cell mesh, struct cell ring)
{
    char why[WHY_ROOM], other[WHY_ROOM];
    uint8_t cables = count_at(matrix, 0, 1);

    snprintf(why, sizeof(why),
             mesh.from == mesh.to ? "has a device, but leads from a rank to itself: write null"
                                  : "has no device: that is no mesh");
    if (cables == 0)
        snprintf(other, sizeof(other), "; nor is it a ring: cell [0][1] has no device");
    else
        snprintf(other, sizeof(other),
                 "; nor is it a ring: cell [%u][%u] has %u cables to a neighbour, and cell [0][1] "
                 "has %u",
                 ring.from, ring.to, count_at(matrix, ring.from, ring.to), cables);
    strncat(why, other, sizeof(why) - strlen(why) - 1);
    return bad_cell(matrix, mesh, why);
}

static bool find_shape(const struct matrix *matrix, bool *is_ring_out)
{
    struct cell no_mesh, no_ring;
    bool mesh = is_mesh(matrix, &no_mesh), ring = is_ring(matrix, &no_ring);
    char why[WHY_ROOM];

    *is_ring_out = ring && (matrix->asked->prefers_ring || !mesh);
    if (!mesh && !ring)
        return bad_shape(matrix, no_mesh, no_ring);
    if (!*is_ring_out && matrix->size > TCI_MESH_MAX) {
        snprintf(why, sizeof(why), "a mesh has up to %d ranks, and it has %u: %s", TCI_MESH_MAX,
                 matrix->size, ring ? "set MLX_JACCL_RING for a ring" : "link them as a ring");
        return bad(matrix, why);
    }
    return true;
}

static bool read_matrix(struct matrix *matrix, const cJSON *root, struct tci_jaccl *jaccl)
{
    int count = cJSON_GetArraySize(root), rank = matrix->asked->rank;
    char why[WHY_ROOM];
    const cJSON *row;
    uint32_t from = 0;

    if (!cJSON_IsArray(root))
        return bad(matrix, "is no JSON list of rows, such as [[null, \"rdma_en5\"], "
                           "[\"rdma_en5\", null]]");
    snprintf(why, sizeof(why), "has %d rows: 2 … %d ranks can be linked", count, TCI_RING_MAX);
    if (count < 2 || count > TCI_RING_MAX)
        return bad(matrix, why);
    snprintf(why, sizeof(why), "has %d rows, one a rank, and this is rank %d", count, rank);
    if (rank < 0 || rank >= count)
        return bad(matrix, why);
    matrix->size = jaccl->size = (uint32_t)count;
    matrix->counts = tci_alloc_array((size_t)count * (size_t)count, sizeof(*matrix->counts));
    jaccl->cables = tci_alloc_array((size_t)count, sizeof(*jaccl->cables));
    if (matrix->counts == NULL || jaccl->cables == NULL) {
        tci_error_set(matrix->error, TC_ERR_ALLOC, -1, 0, "dist_init",
                      "no memory left for the device file %.120s", matrix->asked->name);
        return false;
    }
    cJSON_ArrayForEach(row, root)
    {
        if (!read_row(matrix, from++, row, jaccl->cables))
            return false;
    }
    return find_shape(matrix, &jaccl->is_ring);
}

tc_status_t tci_jaccl_parse(const char *text, size_t len, const struct tci_jaccl_asked *asked,
                            struct tci_jaccl *jaccl_out, struct tci_error *error)
{
    struct matrix matrix = {.asked = asked, .error = error};
    struct tci_jaccl jaccl = {.size = 0};
    cJSON *root = cJSON_ParseWithLength(text, len);

    if (read_matrix(&matrix, root, &jaccl))
        *jaccl_out = jaccl;
    else
        tci_jaccl_fini(&jaccl);
    tci_free(matrix.counts);
    cJSON_Delete(root);
    return error->pub.status;
}

/* The whole file; NULL on failure. */
static char *read_file(const struct tci_jaccl_asked *asked, size_t *len_out,
                       struct tci_error *error)
{
    struct matrix matrix = {.asked = asked, .error = error};
    FILE *file = fopen(asked->name, "re");
    char *text = file != NULL ? tci_alloc(FILE_BYTES_MAX + 1) : NULL;

    if (file == NULL) {
        bad(&matrix, strerror(errno));
        return NULL;
    }
    if (text == NULL) {
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init",
                      "no memory left to read the device file %.120s", asked->name);
    } else {
        *len_out = fread(text, 1, FILE_BYTES_MAX + 1, file);
        if (ferror(file) || *len_out > FILE_BYTES_MAX) {
            bad(&matrix, ferror(file) ? "cannot be read" : "is longer than any matrix");
            tci_free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

tc_status_t tci_jaccl_load(const struct tci_jaccl_asked *asked, struct tci_jaccl *jaccl_out,
                           struct tci_error *error)
{
    size_t len = 0;
    char *text = read_file(asked, &len, error);

    if (text != NULL)
        (void)tci_jaccl_parse(text, len, asked, jaccl_out, error);
    tci_free(text);
    return error->pub.status;
}

#else

static tc_status_t refuse(const char *name, struct tci_error *error)
{
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init",
                  "%.120s: the library was built without cJSON, and cannot read device files",
                  name);
    return TC_ERR_UNSUPPORTED;
}

tc_status_t tci_jaccl_parse(const char *text, size_t len, const struct tci_jaccl_asked *asked,
                            struct tci_jaccl *jaccl_out, struct tci_error *error)
{
    (void)text, (void)len, (void)jaccl_out;
    return refuse(asked->name, error);
}

tc_status_t tci_jaccl_load(const struct tci_jaccl_asked *asked, struct tci_jaccl *jaccl_out,
                           struct tci_error *error)
{
    (void)jaccl_out;
    return refuse(asked->name, error);
}

#endif
