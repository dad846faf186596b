/* hosts.c - the hosts of a job: what all forms of host files share, and how files are read. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 16 << 20 };

struct hosts_block {
    struct hosts_block *next;
    max_align_t bytes[];
};

void *hosts_alloc(struct hosts *hosts, size_t count, size_t bytes)
{
    struct hosts_block *block;

    if (bytes != 0 && count > (SIZE_MAX - sizeof *block) / bytes)
        return NULL;
    block = calloc(1, sizeof *block + count * bytes);
    if (block == NULL)
        return NULL;
    block->next = hosts->blocks;
    hosts->blocks = block;
    return block->bytes;
}

char *hosts_copy(struct hosts *hosts, const char *text, size_t len)
{
    char *copy = hosts_alloc(hosts, len + 1, 1);

    if (copy != NULL)
        memcpy(copy, text, len);
    return copy;
}

void hosts_fini(struct hosts *hosts)
{
    while (hosts->blocks != NULL) {
        struct hosts_block *block = hosts->blocks;

        hosts->blocks = block->next;
        free(block);
    }
    free(hosts->at);
    *hosts = (struct hosts){.count = 0};
}

/* ---- What is allowed ------------------------------------------------------------------------ */

bool hosts_is_name(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len >= HOST_NAME_ROOM || *name == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("._-:@%+", name[i]) == NULL)
            return false;
    return strstr(name, "@-") == NULL;
}

bool hosts_is_address(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    char text[HOST_NAME_ROOM];

    if (!hosts_is_name(name))
        return false;
    (void)snprintf(text, sizeof text, "%s", name);
    if (strchr(text, ':') != NULL)
        text[strcspn(text, "%")] = '\0';
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

bool hosts_is_setting(const char *setting)
{
    size_t len = strcspn(setting, "=");

    if (len == 0 || setting[len] != '=' || isdigit((unsigned char)*setting))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)setting[i]) && setting[i] != '_')
            return false;
    return true;
}

struct host *hosts_add(struct hosts *hosts, const char *name, size_t len, char why[HOSTS_WHY_ROOM])
{
    struct host *host;
    char *copy;

    if (hosts->count == hosts->room) {
        size_t room = hosts->room == 0 ? 16 : 2 * hosts->room;
        struct host *at = reallocarray(hosts->at, room, sizeof *at);

        if (at == NULL)
            goto no_memory;
        hosts->at = at;
        hosts->room = room;
    }
    if (hosts->count == HOSTS_MAX) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "more than %d hosts", HOSTS_MAX);
        return NULL;
    }
    copy = hosts_copy(hosts, name, len);
    if (copy == NULL)
        goto no_memory;
    if (strlen(copy) != len || !hosts_is_name(copy)) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "'%.60s' is no name of a host", copy);
        return NULL;
    }
    host = &hosts->at[hosts->count++];
    *host = (struct host){.name = copy, .slots = 1};
    return host;

no_memory:
    (void)snprintf(why, HOSTS_WHY_ROOM, "out of memory");
    return NULL;
}

bool hosts_add_addresses(struct hosts *hosts, struct host *host, const char *list, size_t len,
                         char why[HOSTS_WHY_ROOM])
{
    const char *end = list + len;

    if (host->ips == NULL)
        host->ips = hosts_alloc(hosts, HOST_ADDRESSES_MAX, sizeof *host->ips);
    while (host->ips != NULL) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        size_t piece = (size_t)((comma != NULL ? comma : end) - list);
        char *copy = hosts_copy(hosts, list, piece);

        if (copy == NULL)
            break;
        if (strlen(copy) != piece || !hosts_is_name(copy) || strchr(copy, '@') != NULL) {
            (void)snprintf(why, HOSTS_WHY_ROOM, "'%.60s' is no address of %s", copy, host->name);
            return false;
        }
        if (host->ip_count == HOST_ADDRESSES_MAX) {
            (void)snprintf(why, HOSTS_WHY_ROOM, "%s has more than %d addresses", host->name,
                           HOST_ADDRESSES_MAX);
            return false;
        }
        host->ips[host->ip_count++] = copy;
        if (comma == NULL)
            return true;
        list = comma + 1;
    }
    (void)snprintf(why, HOSTS_WHY_ROOM, "out of memory");
    return false;
}

/* ---- Files ----------------------------------------------------------------------------------- */

bool hosts_parse(struct hosts *hosts, const char *text, size_t len, char why[HOSTS_WHY_ROOM])
{
    bool is_good;
    size_t start = 0;

    *hosts = (struct hosts){.count = 0};
    while (start < len && isspace((unsigned char)text[start]))
        start++;
    if (start < len && (text[start] == '[' || text[start] == '{'))
        is_good = hosts_parse_json(hosts, text, len, why);
    else
        is_good = hosts_parse_plain(hosts, text, len, why);
    if (is_good && hosts->count == 0) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "there is no host in it");
        is_good = false;
    }
    if (!is_good)
        hosts_fini(hosts);
    return is_good;
}

/* Reads a file to its end; NULL with errno. */
static char *read_all(const char *path, size_t *len_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t room = 1 << 16, len = 0;
    char *text = fd < 0 ? NULL : malloc(room);
    ssize_t n = 0;

    while (text != NULL && (n = read(fd, text + len, room - len)) > 0) {
        char *more;

        len += (size_t)n;
        if (len < room)
            continue;
        errno = EFBIG;
        more = room < FILE_BYTES_MAX ? realloc(text, 2 * room) : NULL;
        if (more == NULL) {
            n = -1;
            break;
        }
        text = more;
        room *= 2;
    }
    if (text != NULL && n < 0) {
        int error = errno;

        free(text);
        text = NULL;
        errno = error;
    }
    if (fd >= 0) {
        int error = errno;

        close(fd);
        errno = error;
    }
    *len_out = len;
    return text;
}

bool hosts_read(struct hosts *hosts, const char *path, char why[HOSTS_WHY_ROOM])
{
    char inside[HOSTS_WHY_ROOM - 80];
    char reason[HOSTS_WHY_ROOM];
    size_t len;
    char *text = read_all(path, &len);
    bool is_good;

    if (text == NULL) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "the host file '%.100s': %s", path, strerror(errno));
        *hosts = (struct hosts){.count = 0};
        return false;
    }
    is_good = hosts_parse(hosts, text, len, reason);
    free(text);
    if (!is_good) {
        (void)snprintf(inside, sizeof inside, "%.*s", (int)sizeof inside - 1, reason);
        (void)snprintf(why, HOSTS_WHY_ROOM, "the host file '%.60s': %s", path, inside);
    }
    return is_good;
}
