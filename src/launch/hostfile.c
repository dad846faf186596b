/* hostfile.c - the host files of MLX: which addresses each rank listens at. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hostfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

static tc_status_t bad(struct tci_error *error, const char *path, const char *why)
{
    tci_error_set(error, TC_ERR_INVALID_ARG, -1, 0, "dist_init_env", "the host file %.120s: %s",
                  path, why);
    return TC_ERR_INVALID_ARG;
}

const char *tci_hostfile_at(const struct tci_hostfile *file, size_t rank, size_t k)
{
    return file->addrs[file->ranks[rank].first + k];
}

void tci_hostfile_fini(struct tci_hostfile *file)
{
    for (size_t i = 0; i < file->addr_count; i++)
        tci_free(file->addrs[i]);
    tci_free(file->addrs);
    tci_free(file->ranks);
    *file = (struct tci_hostfile){.size = 0};
}

/* ---- Whole files --------------------------------------------------------------------------- */

enum { FILE_BYTES_MAX = 16 << 20 };

/* Owned by the caller; NULL with the cause in error. */
static char *load(const char *path, struct tci_error *error)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t len = 0;
    long size = -1;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size >= 0 && size <= FILE_BYTES_MAX && fseek(file, 0, SEEK_SET) == 0)
        text = tci_alloc((size_t)size + 1);
    if (text != NULL)
        len = fread(text, 1, (size_t)size, file);
    if (file == NULL || size < 0)
        (void)bad(error, path, strerror(errno));
    else if (size > FILE_BYTES_MAX)
        (void)bad(error, path, "it has more than 16 MiB, and is none");
    else if (text == NULL)
        tci_error_set(error, TC_ERR_ALLOC, -1, 0, "dist_init_env", "no memory for a host file");
    else
        text[len] = '\0';
    if (file != NULL)
        (void)fclose(file);
    return text;
}

tc_status_t tci_hostfile_load(const char *path, struct tci_hostfile *out, struct tci_error *error)
{
    char *text = load(path, error);
    tc_status_t status =
        text == NULL ? error->pub.status : tci_hostfile_parse(path, text, out, error);

    tci_free(text);
    return status;
}

#ifdef HAS_CJSON

#include <cjson/cJSON.h>

/* ---- Entries ------------------------------------------------------------------------------- */

/* The port that mlx.launch gives the first address, where the file has none. */
enum { PORT_FIRST = 32323 };

/* A file being read. */
struct reading {
    const char *path; /* borrowed */
    struct tci_hostfile *file;
    size_t room; /* of addresses */
    size_t rank; /* the entry that is read */
    struct tci_error *error;
};

static tc_status_t bad_entry(struct reading *reading, const char *why)
{
    char text[160];

    (void)snprintf(text, sizeof(text), "entry %zu, of rank %zu, %s", reading->rank, reading->rank,
                   why);
    return bad(reading->error, reading->path, text);
}

static tc_status_t no_memory(struct reading *reading)
{
    tci_error_set(reading->error, TC_ERR_ALLOC, -1, 0, "dist_init_env",
                  "no memory for a host file");
    return TC_ERR_ALLOC;
}

static tc_status_t add(struct reading *reading, const char *text, int port)
{
    struct tci_hostfile *file = reading->file;
    struct tci_hostfile_rank *rank = &file->ranks[reading->rank];
    bool is_bare = port > 0 && strchr(text, ':') != NULL && text[0] != '[';
    char whole[300];
    int len = port > 0 ? snprintf(whole, sizeof(whole), is_bare ? "[%s]:%d" : "%s:%d", text, port)
                       : snprintf(whole, sizeof(whole), "%s", text);

    if (len <= 0 || len >= (int)sizeof(whole))
        return bad_entry(reading, "has an address that is none");
    if (rank->count == TCI_HOSTFILE_ADDRS)
        return bad_entry(reading, "has more than 16 addresses");
    if (file->addr_count == reading->room) {
        size_t room = tci_max(2 * reading->room, 64);
        char **more = tci_alloc_array(room, sizeof(*more));

        if (more == NULL)
            return no_memory(reading);
        if (file->addr_count > 0)
            memcpy(more, file->addrs, file->addr_count * sizeof(*more));
        tci_free(file->addrs);
        file->addrs = more;
        reading->room = room;
    }
    file->addrs[file->addr_count] = tci_strdup(whole);
    if (file->addrs[file->addr_count] == NULL)
        return no_memory(reading);
    file->addr_count++;
    rank->count++;
    return TC_OK;
}

/* ["10.0.0.7:4100", "10.0.1.7:4100"], or one of them alone. */
static tc_status_t read_addresses(struct reading *reading, const cJSON *entry)
{
    const cJSON *item;
    tc_status_t status = TC_OK;

    if (cJSON_IsString(entry))
        return add(reading, entry->valuestring, 0);
    cJSON_ArrayForEach(item, entry)
    {
        if (!cJSON_IsString(item))
            return bad_entry(reading, "is no list of addresses as \"10.0.0.7:4100\"");
        if (status == TC_OK)
            status = add(reading, item->valuestring, 0);
    }
    return status;
}

/* {"ssh": "host", "ips": ["10.0.0.7"]} */
static tc_status_t read_host(struct reading *reading, const cJSON *entry)
{
    const cJSON *ips = cJSON_GetObjectItemCaseSensitive(entry, "ips"), *item;
    tc_status_t status = TC_OK;

    if (!cJSON_IsArray(ips))
        return bad_entry(reading, "has no list \"ips\"");
    cJSON_ArrayForEach(item, ips)
    {
        if (!cJSON_IsString(item))
            return bad_entry(reading, "has an address that is no string in \"ips\"");
        if (PORT_FIRST + reading->file->addr_count > 65535)
            return bad_entry(reading, "is beyond the last port: give addresses with ports");
        if (status == TC_OK)
            status = add(reading, item->valuestring, PORT_FIRST + (int)reading->file->addr_count);
    }
    return status;
}

static tc_status_t read_entries(struct reading *reading, const cJSON *list)
{
    struct tci_hostfile *file = reading->file;
    const cJSON *entry;
    int count = cJSON_GetArraySize(list);
    tc_status_t status = TC_OK;

    if (count < 1 || count > TCI_HOSTFILE_RANKS)
        return bad(reading->error, reading->path, "it has no ranks, or more than 65536");
    file->ranks = tci_alloc_array((size_t)count, sizeof(*file->ranks));
    if (file->ranks == NULL)
        return no_memory(reading);
    file->size = (size_t)count;
    cJSON_ArrayForEach(entry, list)
    {
        struct tci_hostfile_rank *rank = &file->ranks[reading->rank];

        rank->first = file->addr_count;
        if (cJSON_IsObject(entry))
            status = read_host(reading, entry);
        else if (cJSON_IsArray(entry) || cJSON_IsString(entry))
            status = read_addresses(reading, entry);
        else
            status = bad_entry(reading, "is no list of addresses, and no object with \"ips\"");
        if (status == TC_OK && rank->count == 0)
            status = bad_entry(reading, "has no address");
        if (status != TC_OK)
            return status;
        reading->rank++;
    }
    return TC_OK;
}

/* MLX makes as many connections a link as a rank has addresses, and so do all. */
static tc_status_t check_counts(struct reading *reading)
{
    const struct tci_hostfile *file = reading->file;

    for (size_t rank = 1; rank < file->size; rank++)
        if (file->ranks[rank].count != file->ranks[0].count) {
            char text[160];

            (void)snprintf(text, sizeof(text),
                           "rank 0 has %zu addresses and rank %zu has %zu: give all ranks as many",
                           file->ranks[0].count, rank, file->ranks[rank].count);
            return bad(reading->error, reading->path, text);
        }
    return TC_OK;
}

static tc_status_t read_root(struct reading *reading, const cJSON *root)
{
    const cJSON *hosts = root, *backend = NULL;
    tc_status_t status;

    if (cJSON_IsObject(root)) {
        hosts = cJSON_GetObjectItemCaseSensitive(root, "hosts");
        backend = cJSON_GetObjectItemCaseSensitive(root, "backend");
    }
    if (!cJSON_IsArray(hosts))
        return bad(reading->error, reading->path,
                   "it is no JSON list with an entry a rank, and no object with \"hosts\"");
    if (cJSON_IsString(backend))
        (void)snprintf(reading->file->backend, sizeof(reading->file->backend), "%.15s",
                       backend->valuestring);
    status = read_entries(reading, hosts);
    return status == TC_OK ? check_counts(reading) : status;
}

tc_status_t tci_hostfile_parse(const char *path, const char *text, struct tci_hostfile *out,
                               struct tci_error *error)
{
    struct tci_hostfile file = {.size = 0};
    struct reading reading = {.path = path, .file = &file, .error = error};
    cJSON *root = cJSON_Parse(text);
    tc_status_t status = root == NULL ? bad(error, path, "it is no JSON") : TC_OK;

    if (status == TC_OK)
        status = read_root(&reading, root);
    cJSON_Delete(root);
    if (status == TC_OK)
        *out = file;
    else
        tci_hostfile_fini(&file);
    return status;
}

#else

tc_status_t tci_hostfile_parse(const char *path, const char *text, struct tci_hostfile *out,
                               struct tci_error *error)
{
    (void)path;
    (void)text;
    (void)out;
    tci_error_set(error, TC_ERR_UNSUPPORTED, -1, 0, "dist_init_env",
                  "host files cannot be read: the library was built without cJSON");
    return TC_ERR_UNSUPPORTED;
}

#endif
