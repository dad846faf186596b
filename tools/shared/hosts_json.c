/* hosts_json.c - host files in JSON, the forms that mlx.launch reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "hosts.h"

#if defined(__has_include)
#if __has_include(<cjson/cJSON.h>)
#define HAS_CJSON 1
#endif
#endif

#ifdef HAS_CJSON

#include <cjson/cJSON.h>

enum { ENVS_MAX = 1024 };

static bool bad(char why[HOSTS_WHY_ROOM], size_t host, const char *what)
{
    (void)snprintf(why, HOSTS_WHY_ROOM, "hosts[%zu]: %.200s", host, what);
    return false;
}

static bool no_memory(char why[HOSTS_WHY_ROOM])
{
    (void)snprintf(why, HOSTS_WHY_ROOM, "out of memory");
    return false;
}

/* ---- One host -------------------------------------------------------------------------------- */

static bool read_ips(struct hosts *hosts, size_t index, const cJSON *ips, char why[HOSTS_WHY_ROOM])
{
    const cJSON *item;

    if (ips == NULL || cJSON_IsNull(ips))
        return true;
    if (!cJSON_IsArray(ips))
        return bad(why, index, "ips is no list of addresses");
    cJSON_ArrayForEach(item, ips)
    {
        const char *text = cJSON_GetStringValue(item);

        if (text == NULL || strchr(text, ',') != NULL)
            return bad(why, index, "ips is no list of addresses");
        if (!hosts_add_addresses(hosts, &hosts->at[index], text, strlen(text), why))
            return false;
    }
    return true;
}

static bool add_device(struct hosts *hosts, struct host_devices *cell, const cJSON *item)
{
    const char *name = cJSON_GetStringValue(item);

    if (name == NULL || !hosts_is_name(name) || cell->count == HOST_DEVICES_MAX)
        return false;
    if (cell->names == NULL)
        cell->names = hosts_alloc(hosts, HOST_DEVICES_MAX, sizeof *cell->names);
    if (cell->names == NULL)
        return false;
    cell->names[cell->count] = hosts_copy(hosts, name, strlen(name));
    return cell->names[cell->count++] != NULL;
}

/* null, a name, or a list of names. */
static bool read_cell(struct hosts *hosts, struct host_devices *cell, const cJSON *value)
{
    const cJSON *item;

    if (cJSON_IsNull(value))
        return true;
    if (cJSON_IsString(value))
        return add_device(hosts, cell, value);
    if (!cJSON_IsArray(value))
        return false;
    cJSON_ArrayForEach(item, value) if (!add_device(hosts, cell, item)) return false;
    return true;
}

/* One entry for each host, none for itself. */
static bool read_rdma(struct hosts *hosts, size_t index, const cJSON *rdma, size_t count,
                      char why[HOSTS_WHY_ROOM])
{
    struct host *host = &hosts->at[index];
    const cJSON *item;
    size_t at = 0;

    if (rdma == NULL || cJSON_IsNull(rdma) || (cJSON_IsArray(rdma) && rdma->child == NULL))
        return true;
    if (!cJSON_IsArray(rdma) || (size_t)cJSON_GetArraySize(rdma) != count)
        return bad(why, index, "rdma has not one entry for each host");
    host->rdma = hosts_alloc(hosts, count, sizeof *host->rdma);
    if (host->rdma == NULL)
        return no_memory(why);
    cJSON_ArrayForEach(item, rdma)
    {
        if (!read_cell(hosts, &host->rdma[at], item))
            return bad(why, index, "rdma has an entry that is neither null nor names of devices");
        if (at == index && host->rdma[at].count > 0)
            return bad(why, index, "rdma has a device to the host itself");
        at++;
    }
    return true;
}

static bool read_host(struct hosts *hosts, const cJSON *item, size_t count,
                      char why[HOSTS_WHY_ROOM])
{
    const cJSON *slots = cJSON_GetObjectItemCaseSensitive(item, "slots");
    const char *name = cJSON_IsString(item)
                           ? item->valuestring
                           : cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "ssh"));
    size_t index = hosts->count;
    char reason[HOSTS_WHY_ROOM];

    if (name == NULL)
        return bad(why, index, "no \"ssh\" that names the host");
    if (hosts_add(hosts, name, strlen(name), reason) == NULL)
        return bad(why, index, reason);
    if (slots != NULL) {
        if (!cJSON_IsNumber(slots) || !(slots->valuedouble >= 1) ||
            slots->valuedouble > HOSTS_MAX || slots->valuedouble != (double)slots->valueint)
            return bad(why, index, "slots is no number of ranks");
        hosts->at[index].slots = (unsigned)slots->valueint;
    }
    if (!read_ips(hosts, index, cJSON_GetObjectItemCaseSensitive(item, "ips"), reason))
        return bad(why, index, reason);
    if (hosts->at[index].ip_count == 0 && hosts_is_address(name) &&
        !hosts_add_addresses(hosts, &hosts->at[index], name, strlen(name), reason))
        return bad(why, index, reason);
    return read_rdma(hosts, index, cJSON_GetObjectItemCaseSensitive(item, "rdma"), count, why);
}

static bool read_list(struct hosts *hosts, const cJSON *list, char why[HOSTS_WHY_ROOM])
{
    size_t count = (size_t)cJSON_GetArraySize(list);
    const cJSON *item;

    if (count > HOSTS_MAX) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "more than %d hosts", HOSTS_MAX);
        return false;
    }
    cJSON_ArrayForEach(item, list)
    {
        if (cJSON_IsArray(item)) {
            (void)snprintf(why, HOSTS_WHY_ROOM,
                           "it lists addresses of ranks, as MLX_HOSTFILE does, and no hosts");
            return false;
        }
        if (!read_host(hosts, item, count, why))
            return false;
    }
    return true;
}

/* ---- Around the hosts ------------------------------------------------------------------------ */

static bool add_env(struct hosts *hosts, const char *name, const char *value,
                    char why[HOSTS_WHY_ROOM])
{
    size_t len = strlen(name) + (value != NULL ? 1 + strlen(value) : 0);
    char *copy = hosts_alloc(hosts, len + 1, 1);

    if (copy == NULL)
        return no_memory(why);
    (void)snprintf(copy, len + 1, "%s%s%s", name, value != NULL ? "=" : "",
                   value != NULL ? value : "");
    if (!hosts_is_setting(copy)) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "envs has '%.60s', which is not NAME=VALUE", copy);
        return false;
    }
    hosts->envs[hosts->env_count++] = copy;
    return true;
}

/* ["NAME=VALUE", ...] or {"NAME": "VALUE", ...} */
static bool read_envs(struct hosts *hosts, const cJSON *envs, char why[HOSTS_WHY_ROOM])
{
    const cJSON *item;

    if (envs == NULL || cJSON_IsNull(envs))
        return true;
    if ((!cJSON_IsArray(envs) && !cJSON_IsObject(envs)) || cJSON_GetArraySize(envs) > ENVS_MAX) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "envs is no list of NAME=VALUE");
        return false;
    }
    hosts->envs = hosts_alloc(hosts, ENVS_MAX, sizeof *hosts->envs);
    if (hosts->envs == NULL)
        return no_memory(why);
    cJSON_ArrayForEach(item, envs)
    {
        const char *text = cJSON_GetStringValue(item);

        if (text == NULL) {
            (void)snprintf(why, HOSTS_WHY_ROOM, "envs has an entry that is no text");
            return false;
        }
        if (cJSON_IsArray(envs) ? !add_env(hosts, text, NULL, why)
                                : !add_env(hosts, item->string, text, why))
            return false;
    }
    return true;
}

static bool read_root(struct hosts *hosts, const cJSON *root, char why[HOSTS_WHY_ROOM])
{
    const cJSON *backend, *list;

    if (cJSON_IsArray(root))
        return read_list(hosts, root, why);
    list = cJSON_GetObjectItemCaseSensitive(root, "hosts");
    if (!cJSON_IsObject(root) || !cJSON_IsArray(list)) {
        (void)snprintf(why, HOSTS_WHY_ROOM,
                       "it is neither a list of hosts nor has one in \"hosts\"");
        return false;
    }
    backend = cJSON_GetObjectItemCaseSensitive(root, "backend");
    if (cJSON_IsString(backend)) {
        if (!hosts_is_name(backend->valuestring)) {
            (void)snprintf(why, HOSTS_WHY_ROOM, "backend is no name");
            return false;
        }
        hosts->backend = hosts_copy(hosts, backend->valuestring, strlen(backend->valuestring));
        if (hosts->backend == NULL)
            return no_memory(why);
    } else if (backend != NULL && !cJSON_IsNull(backend)) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "backend is no name");
        return false;
    }
    return read_envs(hosts, cJSON_GetObjectItemCaseSensitive(root, "envs"), why) &&
           read_list(hosts, list, why);
}

bool hosts_parse_json(struct hosts *hosts, const char *text, size_t len, char why[HOSTS_WHY_ROOM])
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    bool is_good;

    while (root != NULL && end < text + len && strchr(" \t\r\n", *end) != NULL && *end != '\0')
        end++;
    if (root == NULL || end < text + len) {
        size_t line = 1;

        for (const char *at = text; end != NULL && at < end && at < text + len; at++)
            line += *at == '\n';
        (void)snprintf(why, HOSTS_WHY_ROOM, "line %zu: that is no JSON", line);
        cJSON_Delete(root);
        return false;
    }
    is_good = read_root(hosts, root, why);
    cJSON_Delete(root);
    return is_good;
}

#else

bool hosts_parse_json(struct hosts *hosts, const char *text, size_t len, char why[HOSTS_WHY_ROOM])
{
    (void)hosts;
    (void)text;
    (void)len;
    (void)snprintf(why, HOSTS_WHY_ROOM, "this was built without cJSON and reads plain ones alone");
    return false;
}

#endif
