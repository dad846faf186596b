/* hosts_plain.c - hosts as lines of a file and as names on a command line. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "hosts.h"

static const char blanks[] = " \t\r\v\f";

/* The number of slots in len characters; 0: it is none. */
static unsigned read_slots(const char *text, size_t len)
{
    unsigned value = 0;

    if (len == 0 || len > 4)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        value = 10 * value + (unsigned)(text[i] - '0');
    }
    return value <= HOSTS_MAX ? value : 0;
}

/* "name", "name:2", "[fd00::7]", "[fd00::7]:2", "fd00::7". */
static struct host *add_host(struct hosts *hosts, const char *word, size_t len,
                             char why[HOSTS_WHY_ROOM])
{
    const char *name = word, *colon = memrchr(word, ':', len);
    size_t name_len = len;
    unsigned slots = 1;
    struct host *host;

    if (*word == '[') {
        const char *bracket = memchr(word, ']', len);

        if (bracket == NULL || (bracket + 1 < word + len && bracket[1] != ':')) {
            (void)snprintf(why, HOSTS_WHY_ROOM, "'%.*s' has no end", (int)(len < 60 ? len : 60),
                           word);
            return NULL;
        }
        name = word + 1;
        name_len = (size_t)(bracket - name);
        colon = bracket + 1 < word + len ? bracket + 1 : NULL;
    } else if (colon != NULL && memchr(word, ':', len) == colon) {
        name_len = (size_t)(colon - word);
    } else {
        colon = NULL; /* none, or several, as addresses have them */
    }
    if (colon != NULL)
        slots = read_slots(colon + 1, len - (size_t)(colon + 1 - word));
    if (slots == 0) {
        (void)snprintf(why, HOSTS_WHY_ROOM, "'%.*s' has no number of ranks from 1 to %d",
                       (int)(len < 60 ? len : 60), word, HOSTS_MAX);
        return NULL;
    }
    host = hosts_add(hosts, name, name_len, why);
    if (host == NULL)
        return NULL;
    host->slots = slots;
    if (hosts_is_address(host->name) &&
        !hosts_add_addresses(hosts, host, host->name, strlen(host->name), why))
        return NULL;
    return host;
}

bool hosts_parse_names(struct hosts *hosts, const char *names, char why[HOSTS_WHY_ROOM])
{
    *hosts = (struct hosts){.count = 0};
    for (;;) {
        size_t len = strcspn(names, ",");

        if (add_host(hosts, names, len, why) == NULL) {
            hosts_fini(hosts);
            return false;
        }
        if (names[len] == '\0')
            return true;
        names += len + 1;
    }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool has_prefix(const char *word, size_t len, const char *prefix)
{
    return len > strlen(prefix) && strncmp(word, prefix, strlen(prefix)) == 0;
}

/* "slots=2" and the like. */
static bool read_setting(struct hosts *hosts, struct host *host, const char *word, size_t len,
                         char why[HOSTS_WHY_ROOM])
{
    const char *value = memchr(word, '=', len);
    size_t value_len = value != NULL ? len - (size_t)(++value - word) : 0;

    if (has_prefix(word, len, "slots=")) {
        host->slots = read_slots(value, value_len);
        if (host->slots > 0)
            return true;
    } else if (has_prefix(word, len, "max_slots=") || has_prefix(word, len, "max-slots=")) {
        if (read_slots(value, value_len) > 0)
            return true; /* what Open MPI may overload it to; ranks here go by slots alone */
    } else if (has_prefix(word, len, "ip=") || has_prefix(word, len, "ips=")) {
        return hosts_add_addresses(hosts, host, value, value_len, why);
    }
    (void)snprintf(why, HOSTS_WHY_ROOM, "'%.*s' is neither slots=N nor ip=ADDRESS,...",
                   (int)(len < 60 ? len : 60), word);
    return false;
}

static bool read_line(struct hosts *hosts, const char *line, const char *end,
                      char why[HOSTS_WHY_ROOM])
{
    struct host *host = NULL;

    while (line < end) {
        size_t len = 0;

        while (line + len < end && strchr(blanks, line[len]) == NULL && line[len] != '\0')
            len++;
        if (len == 0) {
            if (*line == '\0') {
                (void)snprintf(why, HOSTS_WHY_ROOM, "a zero byte");
                return false;
            }
            line++;
            continue;
        }
        if (host == NULL)
            host = add_host(hosts, line, len, why);
        else if (!read_setting(hosts, host, line, len, why))
            host = NULL;
        if (host == NULL)
            return false;
        line += len;
    }
    return true;
}

bool hosts_parse_plain(struct hosts *hosts, const char *text, size_t len, char why[HOSTS_WHY_ROOM])
{
    const char *end = text + len;
    char reason[HOSTS_WHY_ROOM];

    for (unsigned number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline != NULL ? newline : end;
        const char *comment = memchr(text, '#', (size_t)(stop - text));

        if (!read_line(hosts, text, comment != NULL ? comment : stop, reason)) {
            (void)snprintf(why, HOSTS_WHY_ROOM, "line %u: %.250s", number, reason);
            return false;
        }
        text = stop + 1;
    }
    return true;
}
